"""A set of whole numbers, kept as intervals: small where numbers come mostly in order."""

from __future__ import annotations

from bisect import bisect_right


class Intervals:
    """The game numbers that the log holds.  Actors take numbers in blocks, so few intervals stay open."""

    def __init__(self) -> None:
        self._starts: list[int] = []
        self._stops: list[int] = []  # one past the last of each interval
        self._size = 0

    def __contains__(self, number: int) -> bool:
        place = bisect_right(self._starts, number) - 1
        return place >= 0 and number < self._stops[place]

    def __len__(self) -> int:
        """Return how many numbers are in the set."""
        return self._size

    @property
    def num_intervals(self) -> int:
        """How many intervals hold them, which is what memory grows with."""
        return len(self._starts)

    def add(self, number: int) -> bool:
        """Add a number; return False where it was there already."""
        if number in self:
            return False
        place = bisect_right(self._starts, number)
        touches_left = place > 0 and self._stops[place - 1] == number
        touches_right = place < len(self._starts) and self._starts[place] == number + 1
        if touches_left and touches_right:
            self._stops[place - 1] = self._stops.pop(place)
            del self._starts[place]
        elif touches_left:
            self._stops[place - 1] = number + 1
        elif touches_right:
            self._starts[place] = number
        else:
            self._starts.insert(place, number)
            self._stops.insert(place, number + 1)
        self._size += 1
        return True
