"""The settings of the stream and the store."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.config import check_values


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """How much may wait in the stream, and how long anybody waits for the store."""

    max_backlog: int = 2000  # episodes published and not yet acknowledged; at this many, actors wait
    timeout_s: float = 5.0  # no call to the store takes longer than this and the connection before it
    lease_s: float = 5.0  # a role that says nothing for so long is held to be dead

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        laws = (
            (self.max_backlog >= 1, "max_backlog", "must be at least 1"),
            (0.01 <= self.timeout_s <= 3600.0, "timeout_s", "must lie between 0.01 and 3600 seconds"),
            (0.01 <= self.lease_s <= 3600.0, "lease_s", "must lie between 0.01 and 3600 seconds"),
        )
        check_values("stream", self, laws)
