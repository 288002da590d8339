"""How long `train` believes in a controller that it does not see at work."""

from __future__ import annotations

import time
from collections.abc import Callable

LONGEST_SILENCE_S = 60.0
"""A controller that was silent for so long will not come back."""

HURRIED_SILENCE_S = 15.0
"""The same once somebody has asked for the end: then it may have got the same signal, and Ray with it."""

MOST_STARTS = 10
"""So many starts of a controller without a game or a step in between are enough: it dies of something that stays."""


class Patience:
    """Hears of a controller's signs of life, and says when to give it up."""

    def __init__(self, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._heard_at = clock()
        self._starts: set[str] = set()
        self._progress: tuple[int, int] | None = None

    def excuse(self) -> None:
        """Do not count the silence until now: the store was away, and nobody could be heard."""
        self._heard_at = self._clock()

    def heard(self, incarnation: str, games: int, steps: int) -> None:
        """Take note that this start of the controller lives, and how far the run is."""
        self._heard_at = self._clock()
        if (games, steps) != self._progress:
            self._progress = (games, steps)
            self._starts.clear()
        self._starts.add(incarnation)

    def verdict(self, *, is_hurried: bool = False) -> str:
        """Return why the controller is given up, "" while it is not; `is_hurried`: somebody waits for the end."""
        if len(self._starts) > MOST_STARTS:
            return f"the controller was started {len(self._starts)} times without progress"
        longest = HURRIED_SILENCE_S if is_hurried else LONGEST_SILENCE_S
        return "the controller is silent" if self._clock() - self._heard_at > longest else ""
