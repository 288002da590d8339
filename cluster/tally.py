"""Totals and rates over roles that come and go: what a role had counted before it died still counts."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable

from zerofleet.streams.records import RoleRecord


class Tally:
    """Adds up the `numbers` of role records over all their incarnations."""

    def __init__(self, *, window_s: float = 10.0) -> None:
        self._window_s = window_s
        self._last: dict[tuple[str, int], tuple[str, dict[str, float]]] = {}
        self._retired: dict[tuple[str, str], float] = {}
        self._history: deque[tuple[float, dict[tuple[str, str], float]]] = deque()

    def update(self, records: Iterable[RoleRecord], now: float) -> None:
        """Take the newest records; `now` is in seconds, for the rates."""
        for record in records:
            key = (record.role, record.index)
            incarnation, numbers = self._last.get(key, ("", {}))
            if incarnation not in ("", record.incarnation):
                for name, value in numbers.items():
                    self._retired[record.role, name] = self._retired.get((record.role, name), 0.0) + value
            self._last[key] = (record.incarnation, dict(record.numbers))
        self._history.append((now, self._totals()))
        while now - self._history[0][0] > self._window_s and len(self._history) > 2:
            self._history.popleft()

    def total(self, role: str, name: str) -> float:
        """Return the sum of a counter over all roles, dead ones included."""
        return self._history[-1][1].get((role, name), 0.0) if self._history else 0.0

    def rate(self, role: str, name: str) -> float:
        """Return how fast a counter grows now, per second."""
        if len(self._history) < 2:
            return 0.0
        (then, before), (now, after) = self._history[0], self._history[-1]
        grown = after.get((role, name), 0.0) - before.get((role, name), 0.0)
        return max(0.0, grown / (now - then)) if now > then else 0.0

    def _totals(self) -> dict[tuple[str, str], float]:
        totals = dict(self._retired)
        for (role, _index), (_incarnation, numbers) in self._last.items():
            for name, value in numbers.items():
                totals[role, name] = totals.get((role, name), 0.0) + value
        return totals
