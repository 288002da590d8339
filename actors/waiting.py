"""What an actor does while somebody else is away: try again ever more rarely, and say what it waits for.

This module knows no store and no server; only clocks, and the metric that adds up the seconds.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Literal, TypeAlias

from zerofleet.telemetry import Metrics

Reason: TypeAlias = Literal["inference", "store", "stream_full"]
Clock: TypeAlias = Callable[[], float]

_SHORTEST_NAMED_WAIT_S = 1.0


class Backoff:
    """When to try again: soon after the first failure, then twice as late each time, up to `longest_s`.

    Each delay is drawn from its upper half, so that many actors do not come back in step.
    """

    def __init__(self, *, first_s: float = 0.05, longest_s: float = 2.0, clock: Clock = time.monotonic) -> None:
        self._first_s = first_s
        self._longest_s = longest_s
        self._clock = clock
        self._delay_s = first_s
        self._not_before = -float("inf")

    def failed(self) -> None:
        """Note a failure: the next try comes a delay later."""
        self._not_before = self._clock() + self._delay_s * random.uniform(0.5, 1.0)
        self._delay_s = min(2.0 * self._delay_s, self._longest_s)

    def succeeded(self) -> None:
        """Forget all failures."""
        self._delay_s = self._first_s
        self._not_before = -float("inf")

    @property
    def remaining_s(self) -> float:
        """Seconds until the next try; 0 when it is due."""
        return max(0.0, self._not_before - self._clock())


class Waits:
    """Adds up the time an actor cannot search, by reason, and tells in words what it waits for now.

    Written by the actor's thread, read by any.
    """

    def __init__(self, metrics: Metrics, clock: Clock = time.monotonic) -> None:
        self._clock = clock
        self._now: tuple[str, float] | None = None
        self.seconds: dict[Reason, float] = {"inference": 0.0, "store": 0.0, "stream_full": 0.0}
        self._counters = {reason: metrics.actor_waiting_seconds.labels(reason) for reason in self.seconds}

    @contextmanager
    def on(self, reason: Reason, text: str) -> Iterator[None]:
        """Time a wait for `reason`, told as `text`, such as "an inference server"."""
        start = self._clock()
        self._now = (text, start)
        try:
            yield
        finally:
            self._now = None
            elapsed = self._clock() - start
            self.seconds[reason] += elapsed
            self._counters[reason].inc(elapsed)

    @property
    def text(self) -> str:
        """What the actor has been waiting for, if for a second or more; else ""."""
        now = self._now
        if now is None or self._clock() - now[1] < _SHORTEST_NAMED_WAIT_S:
            return ""
        return now[0]
