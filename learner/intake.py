"""From the stream to the log: read, check, log, acknowledge, in that order.

Nothing is acknowledged before it is on disk.  A game that comes twice is logged once; an entry that cannot be used goes
to the dead letters with the reason, and never stops the others.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable

from zerofleet.errors import DecodeError
from zerofleet.learner.log import EpisodeLog
from zerofleet.learner.targets import RowMaker, Rows
from zerofleet.streams.codec import decode_episode
from zerofleet.streams.records import Episode
from zerofleet.streams.stream import Entry, EpisodeStream
from zerofleet.telemetry import Metrics

CLAIM_INTERVAL_S = 30.0
CLAIM_IDLE_S = 60.0
_log = logging.getLogger(__name__)


class Intake:
    """The learner's end of the stream."""

    def __init__(
        self,
        rows_of: RowMaker,
        run: str,
        stream: EpisodeStream,
        log: EpisodeLog,
        epoch: int,
        metrics: Metrics,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._rows_of, self._run, self._stream, self._log, self._epoch = rows_of, run, stream, log, epoch
        self._consumer = f"learner-{epoch}"  # an epoch is one process's, and so is the name
        self._metrics = metrics
        self._clock = clock
        self._claim_at = clock()
        self._inherited = True  # whether a predecessor may have left entries pending that nobody has claimed yet
        self._done: list[str] = []  # entries that are on disk, or were before; to be acknowledged
        self._unusable: list[tuple[Entry, str]] = []
        self.num_duplicates = 0
        self.num_dead_letters = 0

    def take_in(self, count: int, block_s: float) -> list[tuple[Rows, int]]:
        """Log and acknowledge up to `count` entries; return their rows, each with the number of its first row.

        Raises:
            StreamUnavailableError: the store does not answer; what was logged stays logged, so call again.
            StaleEpochError: a successor reads the stream now.
            StorageError: the log cannot be written; nothing of this read was acknowledged.
        """
        self._settle()
        fresh = self._check(self._next_entries(count, block_s))
        self._log.append([(episode.game_number, len(rows), entry.payload) for entry, episode, rows in fresh])
        first_row = self._log.num_rows - sum(len(rows) for _entry, _episode, rows in fresh)
        logged = []
        for entry, _episode, rows in fresh:
            self._done.append(entry.id)
            logged.append((rows, first_row))
            first_row += len(rows)
        self._metrics.learner_episodes.inc(len(logged))
        self._metrics.learner_positions.inc(sum(len(rows) for rows, _first in logged))
        self._metrics.learner_log_bytes.set(self._log.num_bytes)
        self._settle()
        return logged

    def _next_entries(self, count: int, block_s: float) -> list[Entry]:
        """Return what others left pending, at the start and now and then, else what nobody has read."""
        if self._inherited:
            entries = self._stream.claim(self._consumer, 0.0, count)
            self._inherited = bool(entries)
            if entries:
                return entries
        if self._clock() >= self._claim_at:
            self._claim_at = self._clock() + CLAIM_INTERVAL_S
            if entries := self._stream.claim(self._consumer, CLAIM_IDLE_S, count):
                return entries
        return self._stream.read(self._consumer, count, block_s)

    def _check(self, entries: list[Entry]) -> list[tuple[Entry, Episode, Rows]]:
        """Return the entries to log; note which are there already, and which cannot be used."""
        fresh: dict[int, tuple[Entry, Episode, Rows]] = {}
        for entry in entries:
            try:
                episode = decode_episode(entry.payload)
                if episode.id != f"{self._run}-{episode.game_number}":
                    raise DecodeError(f"expected an episode of run {self._run}, got {episode.id!r}")
                if episode.game_number in fresh or episode.game_number in self._log.game_numbers:
                    self._note_duplicate(entry)
                    continue
                fresh[episode.game_number] = (entry, episode, self._rows_of(episode))
            except DecodeError as error:
                _log.warning("entry %s goes to the dead letters: %s", entry.id, error)
                self._unusable.append((entry, str(error)))
        return list(fresh.values())

    def _note_duplicate(self, entry: Entry) -> None:
        self.num_duplicates += 1
        self._metrics.learner_duplicates.inc()
        self._done.append(entry.id)

    def _settle(self) -> None:
        """Acknowledge what is done and put aside what is unusable; after an error, what is left stays for next time."""
        while self._unusable:
            entry, reason = self._unusable[0]
            self._stream.dead_letter(entry, reason, self._epoch)
            self._unusable.pop(0)
            self.num_dead_letters += 1
            self._metrics.stream_dead_letters.inc()
        if self._done:
            self._stream.ack(self._done, self._epoch)
            self._done = []
