"""The episode stream: finished games on their way from many actors to one learner.

Delivery is at least once.  `publish` has succeeded when it returns True; an entry stays until the learner acknowledges
it or moves it to the dead letters; what a consumer read and never acknowledged, another claims.  A producer that
publishes again because the reply was lost may publish twice: that is fine, the learner knows a game by its number.

Nothing is dropped: at `max_backlog` unacknowledged episodes `publish` returns False, and the producer waits.  The bound
is on what is unacknowledged, read or not, because that is what takes memory.

A consumer's name belongs to one process and is never used again (put the incarnation in it): entries pending under a
name are held to be in that process's hands, and `claim` leaves them there.

This module knows neither records nor Redis.  `MemoryEpisodeStream` is the whole contract within one process.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Protocol

from zerofleet.errors import StaleEpochError, StreamUnavailableError
from zerofleet.streams.keys import DEAD_LETTERS_KEPT


@dataclass(frozen=True, slots=True)
class Entry:
    """One published payload, as a consumer gets it."""

    id: str
    payload: bytes


@dataclass(frozen=True, slots=True)
class DeadLetter:
    """An entry that could not be used, and why."""

    entry: Entry
    reason: str


@dataclass(frozen=True, slots=True)
class StreamCounts:
    """What is in the stream now; each entry is in exactly one of the first two."""

    backlog: int  # entries nobody has read yet: all entries less the pending ones, never the server's "lag"
    pending: int  # entries read and not acknowledged
    dead_letters: int  # entries ever moved to the dead letters


class EpisodeStream(Protocol):
    """What actors and the learner share.  Every call may raise StreamUnavailableError; each one is bounded in time."""

    def publish(self, payload: bytes) -> bool:
        """Add one episode; return False, having written nothing, when `max_backlog` are unacknowledged."""

    def read(self, consumer: str, count: int, block_s: float) -> list[Entry]:
        """Take up to `count` entries that nobody has read, oldest first; with none there, wait up to `block_s`.

        May return earlier than `block_s` with nothing; 0 does not wait at all.
        """

    def claim(self, consumer: str, min_idle_s: float, count: int) -> list[Entry]:
        """Take over up to `count` entries that other consumers read at least `min_idle_s` ago, oldest first.

        A learner claims with 0 when it starts, until nothing comes, and now and then with a minute or so: a
        predecessor that was stopped and woke again may have read entries in between.
        """

    def ack(self, ids: Iterable[str], epoch: int) -> int:
        """Remove pending entries for good, all or none; return how many were pending.

        Only the learner of the present epoch may: StaleEpochError for any other, StreamUnavailableError while the
        store holds no epoch.
        """

    def dead_letter(self, entry: Entry, reason: str, epoch: int) -> None:
        """Move a pending entry to the dead letters with the reason, and count it; guarded like `ack`.

        Does nothing when the entry is not pending (a repeated call after a lost reply counts once).
        """

    def dead_letters(self) -> list[DeadLetter]:
        """Return the newest dead letters, newest first."""

    def counts(self) -> StreamCounts:
        """Return how many entries are where, exactly, as of one moment."""

    def close(self) -> None:
        """Let go of connections; the stream can be used again afterwards."""


def check_epoch(held: int | None, claimed: int, role: str) -> None:
    """Raise unless `claimed` is the epoch that the store holds for `role`."""
    if held is None:
        raise StreamUnavailableError(f"the store holds no epoch of the {role} yet: the controller has to restore it")
    if held != claimed:
        raise StaleEpochError(f"the {role} of epoch {claimed} is not in charge any more: epoch {held} is")


@dataclass(slots=True)
class _Pending:
    payload: bytes
    consumer: str
    since: float


class MemoryEpisodeStream:
    """The episode stream within one process; any thread may call it."""

    def __init__(
        self,
        epoch: Callable[[str], int | None],
        *,
        max_backlog: int = 2000,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Make an empty stream; `epoch` tells the present epoch of a role (a store's `epoch`)."""
        self._epoch = epoch
        self._max_backlog = max_backlog
        self._clock = clock
        self._changed = threading.Condition()
        self._next_id = 1
        self._unread: dict[str, bytes] = {}
        self._pending: dict[str, _Pending] = {}
        self._dead: list[DeadLetter] = []
        self._num_dead = 0

    def publish(self, payload: bytes) -> bool:
        """Add one episode; see `EpisodeStream.publish`."""
        with self._changed:
            if len(self._unread) + len(self._pending) >= self._max_backlog:
                return False
            self._unread[f"{self._next_id}-0"] = bytes(payload)
            self._next_id += 1
            self._changed.notify_all()
            return True

    def read(self, consumer: str, count: int, block_s: float) -> list[Entry]:
        """Take unread entries; see `EpisodeStream.read`."""
        with self._changed:
            if not self._unread and block_s > 0:
                self._changed.wait_for(lambda: bool(self._unread), block_s)
            entries = [Entry(id_, payload) for id_, payload in list(self._unread.items())[:count]]
            for entry in entries:
                del self._unread[entry.id]
                self._pending[entry.id] = _Pending(entry.payload, consumer, self._clock())
            return entries

    def claim(self, consumer: str, min_idle_s: float, count: int) -> list[Entry]:
        """Take over what others left pending; see `EpisodeStream.claim`."""
        with self._changed:
            now = self._clock()
            entries: list[Entry] = []
            for id_ in sorted(self._pending, key=_order):
                held = self._pending[id_]
                if len(entries) < count and held.consumer != consumer and now - held.since >= min_idle_s:
                    self._pending[id_] = _Pending(held.payload, consumer, now)
                    entries.append(Entry(id_, held.payload))
            return entries

    def ack(self, ids: Iterable[str], epoch: int) -> int:
        """Remove pending entries; see `EpisodeStream.ack`."""
        with self._changed:
            check_epoch(self._epoch("learner"), epoch, "learner")
            return sum(self._pending.pop(id_, None) is not None for id_ in ids)

    def dead_letter(self, entry: Entry, reason: str, epoch: int) -> None:
        """Put a pending entry aside; see `EpisodeStream.dead_letter`."""
        with self._changed:
            check_epoch(self._epoch("learner"), epoch, "learner")
            if self._pending.pop(entry.id, None) is not None:
                self._dead = [DeadLetter(entry, reason), *self._dead][:DEAD_LETTERS_KEPT]
                self._num_dead += 1

    def dead_letters(self) -> list[DeadLetter]:
        """Return the newest dead letters, newest first."""
        with self._changed:
            return list(self._dead)

    def counts(self) -> StreamCounts:
        """Return how many entries are where."""
        with self._changed:
            return StreamCounts(len(self._unread), len(self._pending), self._num_dead)

    def close(self) -> None:
        """Do nothing: there is no connection."""


def _order(id_: str) -> int:
    return int(id_.partition("-")[0])
