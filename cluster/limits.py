"""When a run ends by itself."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal, TypeAlias

ExitReason: TypeAlias = Literal["minutes", "games", "steps", "stopped", "interrupted", "failed"]


@dataclass(frozen=True, slots=True, kw_only=True)
class Limits:
    """Bounds of one invocation of `train`; None: no bound."""

    deadline: float | None = None  # seconds since 1970: `--minutes` count from the invocation
    games: int | None = None  # logged games of the run in total
    steps: int | None = None  # learner steps of the run in total

    def reached(self, *, now: float, games: int, steps: int) -> ExitReason | None:
        """Return which bound is reached, the first one named if several are."""
        if self.games is not None and games >= self.games:
            return "games"
        if self.steps is not None and steps >= self.steps:
            return "steps"
        if self.deadline is not None and now >= self.deadline:
            return "minutes"
        return None

    def to_record(self) -> dict[str, Any]:
        """Return the limits as they are stored with the run."""
        return asdict(self)

    @classmethod
    def from_record(cls, record: dict[str, Any]) -> Limits:
        """Read stored limits; a record of nothing sets no bound."""
        return cls(**{key: record.get(key) for key in ("deadline", "games", "steps")})
