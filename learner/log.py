"""The episode log: every game that was ever acknowledged, in order, exactly once.

`append` returns when its episodes are on disk; only then may they be acknowledged in the stream.  A game is known by
its number, and `game_numbers` holds them all: what is delivered twice is logged once.  Opening the log for an epoch
cuts torn tails and seals what older epochs wrote (see `log_format`).

One process of one epoch writes; anybody may read (`EpisodeLog.read_only`).
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Self

from zerofleet.errors import DamagedRunError, StorageError
from zerofleet.games.base import Game
from zerofleet.learner.intervals import Intervals
from zerofleet.learner.log_format import (
    KIND,
    MAGIC,
    SCHEMA,
    Frame,
    LoggedEpisode,
    Segment,
    decode_episodes,
    encode_episodes,
    encode_frame,
    highest_number,
    live_segments,
    read_frames,
    segment_path,
)
from zerofleet.network.files import sync_folder


class EpisodeLog:
    """The log of one run.  Made by `open_epoch` it can be written to, made by `read_only` it shows what is there."""

    def __init__(self, folder: Path, identity: Mapping[str, object]) -> None:
        self._folder = folder
        self._identity = dict(identity)
        self._descriptor: int | None = None
        self.game_numbers = Intervals()
        self.num_rows = 0
        self.num_bytes = 0
        self._segments = live_segments(folder, identity) if folder.is_dir() else []
        for segment in self._segments:
            self._read_through(segment)

    @classmethod
    def read_only(cls, folder: Path) -> Self:
        """Open the log of any run and game, for `episodes()` and the counts, as it is now."""
        return cls(folder, {})

    @classmethod
    def open_epoch(cls, folder: Path, epoch: int, *, run: str, game: Game, segment_bytes: int = 32 << 20) -> Self:
        """Open the log for writing as `epoch`, sealing what older epochs wrote.

        Raises:
            StorageError: the log is damaged, of another run or game, or cannot be written.
        """
        log = cls(folder, {"run": run, "game": game.spec, "rules_version": game.rules_version})
        log._start_writing(epoch, segment_bytes)
        return log

    @property
    def num_episodes(self) -> int:
        """Games in the log."""
        return len(self.game_numbers)

    def append(self, episodes: Sequence[tuple[int, int, bytes]]) -> None:
        """Make episodes durable: (game number, rows, bytes) of each, none of them in the log yet.

        Raises:
            StorageError: they could not be written, and nothing of them is in the log; the log takes no more.
        """
        if not episodes:
            return
        rows = sum(num_rows for _number, num_rows, _payload in episodes)
        self._write(encode_frame(encode_episodes(episodes), rows, len(episodes)))
        for number, _rows, _payload in episodes:
            if not self.game_numbers.add(number):
                raise AssertionError(f"game {number} is in the log already")
        self.num_rows += rows
        self._segments[-1].num_rows += rows
        if self._written > self._segment_bytes:
            self._open_segment({})

    def episodes(self, from_row: int = 0) -> Iterator[LoggedEpisode]:
        """Yield the episodes in order, beginning with the one that holds row `from_row`."""
        for segment in list(self._segments):
            first_row = segment.first_row
            if first_row + segment.num_rows <= from_row:
                continue
            for frame in self._frames(segment):
                if first_row + frame.num_rows > from_row:
                    for episode in decode_episodes(frame, first_row):
                        if episode.first_row + episode.num_rows > from_row:
                            yield episode
                first_row += frame.num_rows

    def close(self) -> None:
        """Stop writing."""
        if self._descriptor is not None:
            os.close(self._descriptor)
            self._descriptor = None

    def _frames(self, segment: Segment) -> Iterator[Frame]:
        frames = read_frames(segment.path, segment.limit)
        next(frames, None)  # the header
        return frames

    def _read_through(self, segment: Segment) -> None:
        """Check every byte that counts, and learn which games the segment holds."""
        if segment.first_row != self.num_rows:
            raise DamagedRunError(
                f"{segment.path}: begins at position {segment.first_row:,}, but the segments before it end at "
                f"{self.num_rows:,}: acknowledged games are missing; restore the files before it"
            )
        end = 0
        for frame in read_frames(segment.path, segment.limit):
            for episode in decode_episodes(frame, self.num_rows):
                self.game_numbers.add(episode.game_number)
            self.num_rows += frame.num_rows
            end = frame.end
        segment.num_rows = self.num_rows - segment.first_row
        segment.limit = end
        self.num_bytes += end

    def _start_writing(self, epoch: int, segment_bytes: int) -> None:
        newest = max((segment.epoch for segment in self._segments), default=0)
        if newest >= epoch:
            raise StorageError(f"{self._folder}: written by epoch {newest} already; epoch {epoch} must not write to it")
        self._epoch, self._segment_bytes = epoch, segment_bytes
        self._next_number = highest_number(self._folder) + 1
        self._open_segment({segment.path.name: segment.limit or 0 for segment in self._segments})

    def _open_segment(self, seals: dict[str, int]) -> None:
        """Begin a new file; its first frame is on disk when this returns."""
        self.close()
        path = segment_path(self._folder, self._next_number, self._epoch)
        header = {
            **self._identity,
            **{"kind": KIND, "schema": SCHEMA, "epoch": self._epoch, "number": self._next_number},
            **{"first_row": self.num_rows, "seals": seals},
        }
        try:
            self._folder.mkdir(parents=True, exist_ok=True)
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o644)
        except OSError as error:
            raise StorageError(f"{path}: cannot be written: {error.strerror}") from error
        self._written = 0
        segment = Segment(path=path, number=self._next_number, epoch=self._epoch, limit=0, first_row=self.num_rows)
        self._segments.append(segment)
        self._next_number += 1
        self._write(MAGIC + encode_frame(json.dumps(header, sort_keys=True).encode()))
        sync_folder(self._folder)

    def _write(self, data: bytes) -> None:
        """Write and fsync; after a failure cut what was written, if that works, and write no more."""
        segment = self._segments[-1]
        if self._descriptor is None:
            raise StorageError(f"{segment.path}: not open for writing, or closed after a write that failed")
        try:
            left = memoryview(data)
            while left:
                left = left[os.write(self._descriptor, left) :]
            os.fsync(self._descriptor)
        except OSError as error:
            self._cut(segment)
            raise StorageError(f"{segment.path}: cannot be written: {error.strerror}") from error
        self._written += len(data)
        self.num_bytes += len(data)
        segment.limit = self._written

    def _cut(self, segment: Segment) -> None:
        if self._descriptor is not None:
            with contextlib.suppress(OSError):  # what is left then is a torn tail, which the next epoch cuts
                os.ftruncate(self._descriptor, segment.limit or 0)
        self.close()
