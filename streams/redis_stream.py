"""The episode stream over Redis: a stream with one consumer group.

An entry leaves the stream when it is acknowledged (XACK and XDEL in one script) and at no other time; nothing is ever
trimmed by length or age.  So another group on the stream, made by somebody for a look, holds nothing up.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable
from typing import Any, TypeVar

from zerofleet.errors import StreamError, StreamUnavailableError
from zerofleet.streams import redis_scripts as scripts
from zerofleet.streams.keys import DEAD_LETTERS_KEPT, GROUP, PAYLOAD_FIELD, Keys
from zerofleet.streams.redis_connection import RedisConnection
from zerofleet.streams.stream import DeadLetter, Entry, StreamCounts

_T = TypeVar("_T")
_MAX_CLAIM = 1000  # Lua cannot unpack arbitrarily many ids into one command
_MAX_REASON = 500
_NO_GROUP = ("NOGROUP", "UNBLOCKED")  # the second where the stream went away under a reader that was waiting


class RedisEpisodeStream:
    """`EpisodeStream` over Redis; any thread may call it, with one consumer name for an instance that reads.

    A reply can be lost after the server did its part.  A publish that is tried again then writes the game twice (the
    learner drops one by its number).  Entries that a lost reply carried are pending under our name and in nobody's
    hands: the next `read` fetches them first.
    """

    def __init__(self, url: str, run: str, *, max_backlog: int = 2000, timeout_s: float = 5.0) -> None:
        self._keys = Keys(run)
        self._redis = RedisConnection(url, timeout_s)
        self._max_backlog = max_backlog
        self._lock = threading.Lock()
        self._in_hand: set[str] = set()  # ids returned to the caller and not settled yet
        self._lost_reply = False

    def publish(self, payload: bytes) -> bool:
        """Add one episode; see `EpisodeStream.publish`.  A lost reply leaves open whether it was written."""
        return bool(self._redis.script(scripts.PUBLISH, [self._keys.episodes], self._max_backlog, payload) == 1)

    def read(self, consumer: str, count: int, block_s: float) -> list[Entry]:
        """Take unread entries; see `EpisodeStream.read`.  Waits half the store's timeout at most."""
        if self._lost_reply:
            entries = self._recover(consumer, count)
            if entries:
                return entries
        block_ms = int(1000 * min(block_s, self._redis.timeout_s / 2))
        block = ("BLOCK", max(1, block_ms)) if block_s > 0 else ()
        return self._receive(lambda: _entries(self._read_group(consumer, count, ">", *block)))

    def claim(self, consumer: str, min_idle_s: float, count: int) -> list[Entry]:
        """Take over what others left pending; see `EpisodeStream.claim`."""
        arguments = (GROUP, consumer, int(1000 * min_idle_s), min(count, _MAX_CLAIM))

        def fetch() -> list[Entry]:
            return _entries(self._redis.script(scripts.CLAIM, [self._keys.episodes], *arguments))

        return self._receive(lambda: self._with_group(fetch))

    def ack(self, ids: Iterable[str], epoch: int) -> int:
        """Remove pending entries; see `EpisodeStream.ack`."""
        ids = list(ids)
        keys = [self._keys.episodes, self._keys.epochs]
        acknowledged = int(self._redis.script(scripts.ACK, keys, GROUP, epoch, *ids))
        with self._lock:
            self._in_hand.difference_update(ids)
        return acknowledged

    def dead_letter(self, entry: Entry, reason: str, epoch: int) -> None:
        """Put a pending entry aside; see `EpisodeStream.dead_letter`."""
        keys = [self._keys.episodes, self._keys.epochs, self._keys.dead_letters, self._keys.counters]
        arguments = (entry.id, entry.payload, reason[:_MAX_REASON], DEAD_LETTERS_KEPT)
        self._redis.script(scripts.DEAD_LETTER, keys, GROUP, epoch, *arguments)
        with self._lock:
            self._in_hand.discard(entry.id)

    def dead_letters(self) -> list[DeadLetter]:
        """Return the newest dead letters, newest first."""
        letters = []
        for _id, fields in self._redis.command("XREVRANGE", self._keys.dead_letters, "+", "-"):
            entry = Entry(fields[b"entry"].decode(), fields[PAYLOAD_FIELD])
            letters.append(DeadLetter(entry, fields[b"reason"].decode()))
        return letters

    def counts(self) -> StreamCounts:
        """Return how many entries are where."""
        keys = [self._keys.episodes, self._keys.counters]
        backlog, pending, dead_letters = self._redis.script(scripts.COUNTS, keys, GROUP)
        return StreamCounts(int(backlog), int(pending), int(dead_letters))

    def close(self) -> None:
        """Close all connections; the next call opens a new one."""
        self._redis.close()

    def _receive(self, fetch: Callable[[], list[Entry]]) -> list[Entry]:
        """Fetch entries, and remember which the caller got and whether a reply was lost on the way."""
        try:
            entries = fetch()
        except StreamUnavailableError:
            self._lost_reply = True
            raise
        with self._lock:
            self._in_hand.update(entry.id for entry in entries)
        return entries

    def _recover(self, consumer: str, count: int) -> list[Entry]:
        """Return entries that are pending under our name and that the caller never got."""
        wanted = len(self._in_hand) + count  # among so many, `count` are not in the caller's hands
        rows = self._read_group(consumer, wanted, "0")
        self._lost_reply = len(rows) == wanted
        lost = [entry for entry in _entries(rows) if entry.id not in self._in_hand]
        return self._receive(lambda: lost[:count])

    def _read_group(self, consumer: str, count: int, start: str, *block: str | int) -> list[Any]:
        key = self._keys.episodes
        command = ("XREADGROUP", "GROUP", GROUP, consumer, "COUNT", count, *block, "STREAMS", key, start)
        reply = self._with_group(lambda: self._redis.command(*command))
        return list(reply[0][1]) if reply else []

    def _with_group(self, call: Callable[[], _T]) -> _T:
        """Make the call, and where the group is missing (a new run, or a lost store) make the group and call again."""
        try:
            return call()
        except StreamError as error:
            if not any(word in str(error) for word in _NO_GROUP):
                raise
        try:
            # From the start of the stream: what was published before the first reader came is read too.
            self._redis.command("XGROUP", "CREATE", self._keys.episodes, GROUP, "0", "MKSTREAM")
        except StreamError as error:
            if "BUSYGROUP" not in str(error):
                raise
        return call()


def _entries(rows: Iterable[Any]) -> list[Entry]:
    """Return the entries of a reply, whether redis-py has paired the fields already or not.

    A row without fields is an entry that somebody deleted from outside.  An entry without our field was not written by
    us; its empty payload sends it to the dead letters.
    """
    entries = []
    for id_, fields in rows:
        if fields:
            pairs = fields if isinstance(fields, dict) else dict(zip(fields[::2], fields[1::2], strict=True))
            entries.append(Entry(id_.decode(), pairs.get(PAYLOAD_FIELD, b"")))
    return entries
