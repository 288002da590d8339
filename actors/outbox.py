"""Finished games on their way out, and game numbers on their way in: an actor's two dealings with the store.

Both try once per call and never block beyond that: waiting is the actor's business.  A publish whose answer was lost is
tried again, so a game may arrive twice; the learner counts it once.
"""

from __future__ import annotations

import logging
from collections import deque
from typing import Literal, Protocol, TypeAlias

from zerofleet.actors.waiting import Backoff
from zerofleet.errors import StreamUnavailableError

Hindrance: TypeAlias = Literal["", "store", "stream_full"]

_log = logging.getLogger(__name__)


class EpisodeSink(Protocol):
    """The side of an `EpisodeStream` that actors see."""

    def publish(self, payload: bytes) -> bool:
        """Append an encoded episode; False where the backlog is at its bound and nothing was written."""


class NumberSource(Protocol):
    """The side of a `RunStore` that gives out game numbers."""

    def take_game_numbers(self, count: int) -> range:
        """Return `count` numbers that were never given out before."""


class Outbox:
    """Finished games not published yet, oldest first."""

    def __init__(self, stream: EpisodeSink, capacity: int, store_backoff: Backoff, full_backoff: Backoff) -> None:
        self._stream = stream
        self._capacity = capacity
        self._backoffs: dict[Hindrance, Backoff] = {"store": store_backoff, "stream_full": full_backoff}
        self._payloads: deque[bytes] = deque()
        self._hindrance: Hindrance = ""
        self.num_published = 0

    def __len__(self) -> int:
        return len(self._payloads)

    @property
    def is_full(self) -> bool:
        """Whether no further game may be finished before one is published."""
        return len(self._payloads) >= self._capacity

    @property
    def retry_in_s(self) -> float:
        """Seconds until the next try is due."""
        return self._backoffs[self._hindrance].remaining_s if self._hindrance else 0.0

    def put(self, payload: bytes) -> None:
        """Keep an encoded episode until it is published."""
        self._payloads.append(payload)

    def flush(self) -> Hindrance:
        """Publish what can be published now, and return what keeps the rest back."""
        if not self._payloads or self.retry_in_s > 0.0:
            return self._hindrance
        while self._payloads:
            self._note(self._publish_first())
            if self._hindrance:
                break
        return self._hindrance

    def _publish_first(self) -> Hindrance:
        try:
            accepted = self._stream.publish(self._payloads[0])
        except StreamUnavailableError as error:
            if self._hindrance != "store":
                _log.warning("%d finished games wait for the store: %s", len(self._payloads), error)
            return "store"
        if not accepted:
            return "stream_full"
        self._payloads.popleft()
        self.num_published += 1
        return ""

    def _note(self, hindrance: Hindrance) -> None:
        if hindrance:
            self._backoffs[hindrance].failed()
        elif self._hindrance:
            self._backoffs[self._hindrance].succeeded()
        self._hindrance = hindrance


class GameNumbers:
    """Fresh game numbers, fetched in blocks.  What is left of a block when the actor ends is never used."""

    def __init__(self, source: NumberSource, block: int, backoff: Backoff) -> None:
        self._source = source
        self._block = block
        self._backoff = backoff
        self._numbers: deque[int] = deque()
        self._away = False

    @property
    def retry_in_s(self) -> float:
        """Seconds until the store is asked again."""
        return self._backoff.remaining_s

    def take(self) -> int | None:
        """Return a number that no other game has, or None while the store gives none."""
        if not self._numbers and self._backoff.remaining_s <= 0.0:
            self._fetch()
        return self._numbers.popleft() if self._numbers else None

    def _fetch(self) -> None:
        try:
            self._numbers.extend(self._source.take_game_numbers(self._block))
        except StreamUnavailableError as error:
            if not self._away:
                _log.warning("no game numbers yet: %s", error)
            self._away = True
            self._backoff.failed()
            return
        if self._away:
            self._away = False
            self._backoff.succeeded()
