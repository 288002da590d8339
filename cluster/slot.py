"""One place for a role, over all its starts: how often it died, and when it may start again."""

from __future__ import annotations

from typing import Protocol

from zerofleet.cluster.role_spec import Role, RoleOutcome
from zerofleet.streams.records import RoleRecord

FIRST_DELAY_S = 0.1
LONGEST_DELAY_S = 5.0
HEALTHY_S = 10.0
"""A role that lived for so long starts again at once when it dies."""

MAX_BARREN_DEATHS = 10
"""So many deaths in a row, none with progress in between, end the run."""

STUCK_DEATHS = 3
"""After so many, a run that ends for another reason has failed all the same."""

_PROGRESS = {"actor": ("games",), "inference": ("positions",), "learner": ("step", "positions")}
"""The numbers in a role's record whose growth is progress.

A learner's go on over its starts: what it reads back from its log and its checkpoint is none.
"""


class RoleHandle(Protocol):
    """A role that was started or adopted.  No call waits."""

    @property
    def incarnation(self) -> str:
        """Which start of the role this is."""

    @property
    def node(self) -> str:
        """The id of the node it lives on."""

    def outcome(self) -> RoleOutcome | None:
        """Return how it ended, None while it lives."""

    def stop(self) -> None:
        """Ask it to end in order."""

    def kill(self) -> None:
        """End its process."""

    def load_weights(self, version: int, weights: object) -> None:
        """Hand weights that the launcher shares to an inference server."""


class Slot:
    """A role by name and index: "actor-3"."""

    def __init__(self, role: Role, index: int) -> None:
        self.role = role
        self.index = index
        self.handle: RoleHandle | None = None
        self.started_at = 0.0
        self.registered = False
        self.heard_at = 0.0
        self.restarts = 0
        self.barren_deaths = 0
        self.last_error = ""
        self.not_before = 0.0
        self.leave_by: float | None = None
        self.pushed: tuple[int, float] = (0, 0.0)  # weights version last pushed to this incarnation, and when
        self._delay_s = FIRST_DELAY_S
        self._reached: float | None = None

    @property
    def name(self) -> str:
        """The name that stays over restarts."""
        return f"{self.role}-{self.index}"

    @property
    def is_starting(self) -> bool:
        """Whether it was started, and has not said a word yet."""
        return self.handle is not None and not self.registered

    @property
    def is_leaving(self) -> bool:
        """Whether it was asked to end for good."""
        return self.leave_by is not None

    def begin(self, handle: RoleHandle, now: float) -> None:
        """Hold a role that was started, or adopted, now."""
        self.handle = handle
        self.started_at = now
        self.registered = False
        self.pushed = (0, 0.0)
        if self.role != "learner":
            self._reached = None

    def heard(self, record: RoleRecord, now: float) -> None:
        """Take note of what the role says of itself, as of `now`."""
        self.registered = True
        self.heard_at = now
        progress = sum(record.numbers.get(name, 0.0) for name in _PROGRESS[self.role])
        if self._reached is not None and progress > self._reached:
            self.barren_deaths = 0
        self._reached = max(progress, self._reached or 0.0)

    def leave(self, deadline: float) -> None:
        """Ask the role to end for good, in order, until `deadline`."""
        if self.leave_by is None:
            self.leave_by = deadline
            if self.handle is not None:
                self.handle.stop()

    def died(self, now: float, text: str) -> None:
        """Bury the role and set the time of its next start."""
        if now - self.started_at >= HEALTHY_S:
            self._delay_s = FIRST_DELAY_S
        self.handle = None
        self.last_error = text
        self.restarts += 1
        self.barren_deaths += 1
        self.not_before = now + self._delay_s
        self._delay_s = min(LONGEST_DELAY_S, 2.0 * self._delay_s)
