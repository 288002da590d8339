"""What feeds the replay buffer: the rows of the log, in order, each exactly once.

Rows that were just logged are handed over as they are; rows that found no room (the learner was paused), and those of a
resumed run, are read back from the log.  Either way the buffer holds the same rows under the same numbers, and a row
that the next step may still sample is never overwritten.
"""

from __future__ import annotations

from zerofleet.learner.log import EpisodeLog
from zerofleet.learner.replay import ReplayBuffer
from zerofleet.learner.targets import RowMaker, Rows
from zerofleet.streams.codec import decode_episode


class ReplayFeed:
    """Keeps `buffer` filled from `log`."""

    def __init__(self, rows_of: RowMaker, log: EpisodeLog, buffer: ReplayBuffer) -> None:
        self._rows_of = rows_of
        self._log = log
        self._buffer = buffer

    def start_at(self, row: int) -> None:
        """Begin with row `row`, the first that the next step may sample."""
        self._buffer.start_at(row)

    def offer(self, rows: Rows, first_row: int, keep_from: int) -> None:
        """Take rows that were just logged, as far as they follow on what is held and there is room.

        `keep_from` is the first row that the next step may sample.
        """
        skip = self._buffer.next_row - first_row
        if 0 <= skip < len(rows):
            count = min(len(rows) - skip, self._room(keep_from))
            if count > 0:
                self._buffer.append(rows.slice(skip, skip + count))

    def fill(self, needed: int, keep_from: int) -> None:
        """See to it that the buffer holds the rows below `needed`, all of which are logged; then fill it up."""
        if self._buffer.next_row >= needed:
            return
        for logged in self._log.episodes(self._buffer.next_row):
            rows = self._rows_of(decode_episode(logged.payload))
            self.offer(rows, logged.first_row, keep_from)
            if self._room(keep_from) <= 0:
                break
        if self._buffer.next_row < needed:
            raise AssertionError(f"the buffer ends at row {self._buffer.next_row:,}, but {needed:,} are logged")

    def _room(self, keep_from: int) -> int:
        return keep_from + self._buffer.capacity - self._buffer.next_row
