"""The settings of the stream and the store."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class StreamConfig:
    """How much may wait in the stream, and how long anybody waits for the store."""

    max_backlog: int = 2000  # episodes published and not yet acknowledged; at this many, actors wait
    timeout_s: float = 5.0  # no call to the store takes longer than this and the connection before it
    lease_s: float = 5.0  # a role that says nothing for so long is held to be dead

    def __post_init__(self) -> None:
        """Refuse settings that cannot work."""
        if self.max_backlog < 1:
            raise ConfigError(f"stream.max_backlog is {self.max_backlog}, but must be at least 1")
        for name, value in (("timeout_s", self.timeout_s), ("lease_s", self.lease_s)):
            if not 0.01 <= value <= 3600:
                raise ConfigError(f"stream.{name} is {value}, but must lie between 0.01 and 3600 seconds")
