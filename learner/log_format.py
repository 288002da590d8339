"""The episode log on disk: the bytes of a segment, and which bytes of which segments count.

    segment  <number>-<epoch>.log = magic, then frames
    frame    header (payload length, CRC of all that follows it, rows, episodes), payload
    first frame   JSON: kind, schema, run, game, rules version, epoch, number, first row, seals
    other frames  episodes: (game number, rows, length) and the episode's bytes, each; one append is one frame

One append is one frame under one checksum, and is fsynced before the next is written: a crash can tear the last frame
of a segment and no other.  A whole frame *after* a broken one is therefore damage, and an error.

Seals: the first segment of an epoch names every older segment and the length at which that epoch found it.  The newest
epoch whose first frame is whole decides: of an older segment, the bytes up to its seal count; an older segment that it
does not name does not count.  So a stopped process that wakes after its successor started may write what it likes.
"""

from __future__ import annotations

import json
import re
import struct
import zlib
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from zerofleet.errors import DamagedRunError, StorageError

MAGIC = b"ZFEPLOG1"
KIND = "episode log"
SCHEMA = 1
_FRAME = struct.Struct("<IIII")  # payload length, CRC, rows, episodes
_EPISODE = struct.Struct("<QII")  # game number, rows, length
_NAME = re.compile(r"(\d{8})-(\d{6})\.log")
_MAX_PAYLOAD = 1 << 30


@dataclass(frozen=True, slots=True, kw_only=True)
class LoggedEpisode:
    """An episode as it lies in the log."""

    game_number: int
    first_row: int  # the number of its first row, counted over the whole log
    num_rows: int
    payload: bytes


@dataclass(frozen=True, slots=True, kw_only=True)
class Frame:
    """A whole frame."""

    payload: bytes
    num_rows: int
    num_episodes: int
    end: int  # offset of the byte behind it


@dataclass(slots=True, kw_only=True)
class Segment:
    """A segment that counts, up to `limit`."""

    path: Path
    number: int
    epoch: int
    limit: int | None  # bytes that count; None: all whole frames
    first_row: int
    num_rows: int = 0  # filled in by whoever reads through it


def segment_path(folder: Path, number: int, epoch: int) -> Path:
    """Return the path of a segment."""
    return folder / f"{number:08d}-{epoch:06d}.log"


def encode_frame(payload: bytes, num_rows: int = 0, num_episodes: int = 0) -> bytes:
    """Return the bytes of a frame."""
    rest = struct.pack("<II", num_rows, num_episodes) + payload
    return struct.pack("<II", len(payload), zlib.crc32(rest)) + rest


def encode_episodes(episodes: Iterable[tuple[int, int, bytes]]) -> bytes:
    """Return a frame's payload from (game number, rows, bytes) of each episode."""
    return b"".join(_EPISODE.pack(number, rows, len(payload)) + payload for number, rows, payload in episodes)


def decode_episodes(frame: Frame, first_row: int) -> Iterator[LoggedEpisode]:
    """Yield the episodes of a frame whose first row has the number `first_row`."""
    offset = 0
    for _ in range(frame.num_episodes):
        number, rows, length = _EPISODE.unpack_from(frame.payload, offset)
        offset += _EPISODE.size + length
        payload = frame.payload[offset - length : offset]
        yield LoggedEpisode(game_number=number, first_row=first_row, num_rows=rows, payload=payload)
        first_row += rows


def read_frames(path: Path, limit: int | None) -> Iterator[Frame]:
    """Yield the whole frames of a segment that lie below `limit`, the header's first.

    A torn last frame ends the segment.

    Raises:
        DamagedRunError: bytes that must be there are broken: a frame below `limit`, or one that a whole frame follows.
    """
    data = _read(path) if limit is None else _read(path)[:limit]
    if limit is not None and len(data) < limit:
        raise DamagedRunError(
            f"{path}: expected at least {limit} bytes, got {len(data)}: acknowledged games are missing"
        )
    offset = len(MAGIC)
    if data[:offset] != MAGIC:
        torn = MAGIC.startswith(data[:offset].rstrip(b"\0"))  # a crash may leave zeros that were never written
        if limit or not torn:
            raise DamagedRunError(f"{path}: expected an {KIND}, got a file that starts with {data[:offset]!r}")
        return
    while (frame := _frame_at(data, offset)) is not None:
        yield frame
        offset = frame.end
    if offset < len(data) and (limit is not None or _whole_frame_follows(data, offset)):
        raise DamagedRunError(f"{path}: broken at byte {offset}, before games that were acknowledged; restore the file")


def live_segments(folder: Path, identity: Mapping[str, object]) -> list[Segment]:
    """Return the segments that count, oldest first; each header must hold what `identity` says."""
    headers = {}
    for path in sorted(folder.glob("*.log")):
        if (name := _NAME.fullmatch(path.name)) and (header := read_header(path)) is not None:
            _check_header(path, header, identity)
            headers[int(name[2]), int(name[1])] = (path, header)
    if not headers:
        return []
    newest = max(epoch for epoch, _number in headers)
    seals = next(header["seals"] for (epoch, _number), (_path, header) in sorted(headers.items()) if epoch == newest)
    found = []
    for (epoch, number), (path, header) in sorted(headers.items()):
        if epoch == newest or path.name in seals:
            limit = None if epoch == newest else seals[path.name]
            first_row = header["first_row"]
            found.append(Segment(path=path, number=number, epoch=epoch, limit=limit, first_row=first_row))
    _check_none_missing(folder, seals, found)
    return found


def highest_number(folder: Path) -> int:
    """Return the greatest number of any segment in the folder, whether it counts or not; -1 without any."""
    names = (_NAME.fullmatch(path.name) for path in folder.glob("*.log"))
    return max((int(name[1]) for name in names if name), default=-1)


def read_header(path: Path) -> dict[str, Any] | None:
    """Return a segment's first frame, or None where it is torn: then the segment holds nothing that counts."""
    frame = next(read_frames(path, None), None)
    if frame is None:
        return None
    try:
        header = json.loads(frame.payload)
        assert header["kind"] == KIND
    except (ValueError, KeyError, TypeError, AssertionError) as error:
        raise DamagedRunError(f"{path}: expected the header of an {KIND}, got {frame.payload[:60]!r}") from error
    return dict(header)


def _check_header(path: Path, header: dict[str, Any], identity: Mapping[str, object]) -> None:
    for field, expected in {"schema": SCHEMA, **identity}.items():
        if header.get(field) != expected:
            raise DamagedRunError(f"{path}: expected an {KIND} with {field} {expected!r}, got {header.get(field)!r}")


def _check_none_missing(folder: Path, seals: dict[str, int], found: list[Segment]) -> None:
    missing = set(seals) - {segment.path.name for segment in found}
    if missing:
        raise DamagedRunError(f"{folder}: segments of the log are missing or torn: {', '.join(sorted(missing))}")


def _read(path: Path) -> bytes:
    try:
        return path.read_bytes()
    except OSError as error:
        raise StorageError(f"{path}: cannot be read: {error.strerror}") from error


def _frame_at(data: bytes, offset: int) -> Frame | None:
    """Return the frame at `offset`, or None where there is no whole one."""
    start = offset + _FRAME.size
    if start > len(data):
        return None
    length, crc, rows, episodes = _FRAME.unpack_from(data, offset)
    if length > _MAX_PAYLOAD or start + length > len(data):
        return None
    view = memoryview(data)[offset + 8 : start + length]
    if length == 0 or zlib.crc32(view) != crc:
        return None
    return Frame(payload=data[start : start + length], num_rows=rows, num_episodes=episodes, end=start + length)


def _whole_frame_follows(data: bytes, offset: int) -> bool:
    """Tell whether a whole frame lies where the broken one at `offset` says that it ends."""
    if offset + _FRAME.size > len(data):
        return False
    (length,) = struct.unpack_from("<I", data, offset)
    return _frame_at(data, offset + _FRAME.size + length) is not None
