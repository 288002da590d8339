"""What the controller says of the run: the state that `status` and the live progress read from the store."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Literal, TypeAlias

from zerofleet.cluster.limits import ExitReason
from zerofleet.cluster.slot import Slot
from zerofleet.streams.records import RoleRecord

Phase: TypeAlias = Literal["starting", "running", "paused", "draining", "stopped", "failed", "interrupted"]
"""`interrupted`: nobody runs it any more, and it was not ended in order."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunState:
    """One look at a run; JSON values only."""

    state: Phase = "starting"
    waiting_for: str = ""  # "" while everything works
    exit_reason: ExitReason | None = None
    error: str = ""
    started: float = 0.0  # of this controller, seconds since 1970
    first_new_weights: float | None = None  # when actors first had newer ones than at the launch, seconds since 1970
    weights_version: int = 0
    step: int = 0
    games: int = 0  # logged, of the whole run
    replay_positions: int = 0
    loss: float | None = None
    errors: dict[str, float] = field(default_factory=dict)  # error rates by player, "policy" and "search"
    games_per_s: float = 0.0
    positions_per_s: float = 0.0
    samples_per_insert: dict[str, float | None] = field(default_factory=dict)  # wanted, actual
    actors: dict[str, int] = field(default_factory=dict)  # wished, alive, and the most that the cores take
    restarts: dict[str, int] = field(default_factory=dict)  # by role and index
    metrics_url: str = ""

    def to_record(self) -> dict[str, Any]:
        """Return the state as it is stored."""
        return asdict(self)

    def begun_anew(self) -> RunState:
        """Return the state of a run that is launched again: its totals stay, what was of the last launch goes."""
        return RunState(
            waiting_for="the controller to start",
            weights_version=self.weights_version,
            step=self.step,
            games=self.games,
        )

    @classmethod
    def from_record(cls, record: dict[str, Any] | None) -> RunState:
        """Read a stored state; fields that it does not have are as in a run that has not begun."""
        known = cls.__dataclass_fields__
        return cls(**{key: value for key, value in (record or {}).items() if key in known})


def describe_waiting(slots: Iterable[Slot], alive: Sequence[RoleRecord], now: float, actors_wished: int) -> str:
    """Return what the run waits for, in words; "" while it works.

    A role that is not there comes first, then an actor where none is wished for, then what the learner waits for, then
    what every actor waits for.
    """
    missing = [slot for slot in slots if not slot.registered or slot.handle is None]
    for slot in missing:
        if slot.role != "actor" or all(other.role == "actor" for other in missing):
            again = f", after {slot.last_error}" if slot.last_error else ""
            wait_s = max(0.0, slot.not_before - now) if slot.handle is None else now - slot.started_at
            verb = "starts in" if slot.handle is None else "has been starting for"
            return f"{slot.name} {verb} {wait_s:.0f} s{again}"
    if actors_wished == 0:
        return "actors: none is wished for"
    for record in alive:
        if record.role == "learner" and record.waiting_for:
            return f"the learner {record.waiting_for}" if record.waiting_for.startswith("has ") else record.waiting_for
    waits = {record.waiting_for for record in alive if record.role == "actor"}
    return sorted(waits)[0] if waits and "" not in waits else ""
