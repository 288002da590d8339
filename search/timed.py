"""Searching by the clock: how much time a move may take, and a search that ends when it is over."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass

from zerofleet.errors import ConfigError
from zerofleet.search.base import Evaluator
from zerofleet.search.search import AnyPool


def run_until(pool: AnyPool, evaluator: Evaluator, is_over: Callable[[], bool]) -> None:
    """Search until `is_over` or every tree is complete; at least one batch is evaluated, so a root has its priors."""
    while len(batch := pool.collect()) > 0:
        pool.expand(evaluator.evaluate(batch))
        if is_over():
            return


@dataclass(frozen=True, slots=True, kw_only=True)
class TimeControl:
    """A clock for a whole game, shared out move by move."""

    total_s: float
    """Seconds for all moves of one player."""

    moves_to_go: int = 20
    """Moves that the time that is left is thought to be for, whatever was played already."""

    greatest_share: float = 0.2
    """No move takes more than this share of what is left, so the clock never runs out."""

    def __post_init__(self) -> None:
        if not self.total_s > 0.0:
            raise ConfigError(f"a clock needs more than 0 seconds, got {self.total_s}")
        if self.moves_to_go < 1 or not 0.0 < self.greatest_share < 1.0:
            raise ConfigError(
                f"expected moves_to_go of 1 or more and greatest_share in (0, 1), got {self.moves_to_go} and "
                f"{self.greatest_share}"
            )

    def for_move(self, left_s: float) -> float:
        """Return the seconds that the next move may take, of `left_s`."""
        return max(0.0, left_s) * min(1.0 / self.moves_to_go, self.greatest_share)


class Clock:
    """What one player has left of a game's time."""

    def __init__(self, control: TimeControl, *, now: Callable[[], float] = time.monotonic) -> None:
        self._control = control
        self._now = now
        self.left_s = control.total_s

    def think(self) -> Callable[[], bool]:
        """Begin a move; what is returned says whether its time is over, and takes what has passed off the clock."""
        allowed, seen = self._control.for_move(self.left_s), self._now()
        end = seen + allowed

        def is_over() -> bool:
            nonlocal seen
            now = self._now()
            self.left_s = max(0.0, self.left_s - (now - seen))
            seen = now
            return now >= end

        return is_over


__all__ = ["Clock", "TimeControl", "run_until"]
