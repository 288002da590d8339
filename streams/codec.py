"""Records to bytes and back: msgpack arrays, schema version first, checked field by field on the way in and out.

An encoder refuses a record that breaks a rule (StreamError), so that a bad one is found where it was made; a decoder
refuses bytes that are no such record (DecodeError), and says at which path.  Arrays travel as little-endian bytes of a
fixed type, floats as float64: a round trip is exact.  Nothing is ever unpickled, and no map has keys but text.
"""

from __future__ import annotations

import math
import struct
from bisect import bisect_right
from collections.abc import Callable, Sequence
from itertools import accumulate
from typing import Any, Literal, TypeVar, cast

import msgpack
import numpy as np
import numpy.typing as npt

from zerofleet.errors import DecodeError, StreamError
from zerofleet.streams.records import Episode, MoveRecord, RoleRecord

EPISODE_SCHEMA = 2  # 1 is read too
ROLE_SCHEMA = 1

_T = TypeVar("_T")
_ROLES = ("actor", "inference", "learner", "controller")
_PURPOSES = ("self-play", "match")
_MAX_TEXT = 1000
_EPISODE_FIELDS = (
    *("schema", "id", "game", "rules_version", "actor", "game_number"),
    *("purpose", "outcome", "termination", "final_crc", "moves", "opening_plies"),
)
_COLUMNS: dict[str, np.dtype[Any]] = {
    "ordinal": np.dtype("<u2"),  # [num_moves]
    "num_visited": np.dtype("<u2"),  # [num_moves] length of each move's part of the next two
    "visited": np.dtype("<u2"),  # [sum of num_visited]
    "visit_counts": np.dtype("<u4"),  # [sum of num_visited]
    "root_value": np.dtype("<f8"),  # [num_moves]
    "weights_version": np.dtype("<u4"),  # [num_moves]
    "full_search": np.dtype("|u1"),  # [num_moves]
}
_ROLE_FIELDS = (
    *("schema", "role", "index", "node", "pid", "incarnation"),
    *("address", "metrics_url", "started", "waiting_for", "numbers"),
)


class _BadFieldError(Exception):
    """A value that the record may not hold; the message starts with its path."""


def encode_episode(episode: Episode) -> bytes:
    """Return the episode's bytes; StreamError names the field that is not as records.py says."""
    try:
        body = _pack_episode(episode)
        _check_episode(body)
    except (_BadFieldError, TypeError, ValueError, OverflowError) as error:
        raise StreamError(f"an episode cannot be encoded: {error}") from error
    return cast(bytes, msgpack.packb(body, use_bin_type=True))


def decode_episode(payload: bytes) -> Episode:
    """Return the episode that `payload` holds; DecodeError names the path of what is wrong with it."""
    return _decode(payload, "episode", _read_episode)


def encode_role(record: RoleRecord) -> bytes:
    """Return the role record's bytes; StreamError names the field that is not as records.py says."""
    try:
        numbers = {str(name): float(value) for name, value in record.numbers.items()}
        body = [
            ROLE_SCHEMA, record.role, int(record.index), record.node, int(record.pid), record.incarnation,
            record.address, record.metrics_url, float(record.started), record.waiting_for, numbers,
        ]  # fmt: skip
        _read_role(body)
    except (_BadFieldError, TypeError, ValueError, OverflowError) as error:
        raise StreamError(f"a role record cannot be encoded: {error}") from error
    return cast(bytes, msgpack.packb(body, use_bin_type=True))


def decode_role(payload: bytes) -> RoleRecord:
    """Return the role record that `payload` holds; DecodeError names the path of what is wrong with it."""
    return _decode(payload, "role", _read_role)


def _decode(payload: bytes, kind: str, read: Callable[[object], _T]) -> _T:
    try:
        body = msgpack.unpackb(payload, raw=False, strict_map_key=True, use_list=True)
    except (ValueError, TypeError, msgpack.UnpackException, RecursionError) as error:
        raise DecodeError(f"{kind}: {len(payload)} bytes are no msgpack: {error or type(error).__name__}") from error
    try:
        return read(body)
    except _BadFieldError as error:
        raise DecodeError(str(error)) from None


def _pack_episode(episode: Episode) -> list[Any]:
    return [
        EPISODE_SCHEMA, episode.id, episode.game, int(episode.rules_version), episode.actor, int(episode.game_number),
        episode.purpose, int(episode.outcome), episode.termination, int(episode.final_crc), _pack_moves(episode.moves),
        int(episode.opening_plies),
    ]  # fmt: skip


def _pack_moves(moves: tuple[MoveRecord, ...]) -> list[bytes]:
    """Return the moves as columns, in the order of `_COLUMNS`; a row each would cost ten times the time."""
    visited = [np.asarray(move.visited) for move in moves]
    visit_counts = [np.asarray(move.visit_counts) for move in moves]
    for ply, (ordinals, counts) in enumerate(zip(visited, visit_counts, strict=True)):
        if ordinals.ndim != 1 or ordinals.shape != counts.shape:
            raise _BadFieldError(
                f"episode.moves[{ply}].visit_counts: expected one dimension and a visit count for each ordinal, "
                f"got {ordinals.shape} ordinals and {counts.shape} counts"
            )
    return [
        _pack_integers([move.ordinal for move in moves], "ordinal"),
        _pack_integers([len(ordinals) for ordinals in visited], "num_visited"),
        _pack_array(np.concatenate(visited) if moves else [], "visited"),
        _pack_array(np.concatenate(visit_counts) if moves else [], "visit_counts"),
        np.array([move.root_value for move in moves], dtype=_COLUMNS["root_value"]).tobytes(),
        _pack_integers([move.weights_version for move in moves], "weights_version"),
        bytes([bool(move.full_search) for move in moves]),
    ]


def _pack_integers(values: list[int], name: str) -> bytes:
    """Return the bytes of a column with one integer a move, which `struct` packs faster than NumPy."""
    try:
        return struct.pack(f"<{len(values)}{_COLUMNS[name].char}", *values)
    except (struct.error, TypeError):
        return _pack_array(values, name)


def _pack_array(values: npt.ArrayLike, name: str) -> bytes:
    """Return the bytes of a column of integers, refusing values that its type cannot hold."""
    given = np.asarray(values)
    dtype = _COLUMNS[name]
    if given.size > 0 and given.dtype != dtype:
        if given.dtype.kind not in "iub":
            raise _BadFieldError(f"episode.moves.{name}: expected integers, got {given.dtype}")
        if int(given.min()) < 0 or int(given.max()) > np.iinfo(dtype).max:
            raise _BadFieldError(f"episode.moves.{name}: a value lies outside 0..{np.iinfo(dtype).max}")
    return given.astype(dtype).tobytes()


def _read_episode(body: object) -> Episode:
    fields = _check_episode(_upgraded(body))
    del fields["schema"]
    return Episode(**(fields | {"moves": _read_moves(fields["moves"])}))


def _upgraded(body: object) -> object:
    """Return what an earlier schema holds as the newest one has it."""
    if type(body) is list and body and type(body[0]) is int and body[0] == 1:
        return [EPISODE_SCHEMA, *body[1:], 0]  # it knew no opening_plies
    return body


def _check_episode(body: object) -> dict[str, Any]:
    """Return the fields by name, the moves as columns, once each is found to hold what Episode allows."""
    fields = _fields(body, _EPISODE_FIELDS, "episode", EPISODE_SCHEMA)
    game_number = _integer(fields, "game_number", "episode", 0, 2**53)
    id_ = _text(fields, "id", "episode")
    if not id_.endswith(f"-{game_number}"):
        raise _BadFieldError(f"episode.id: expected '<run>-{game_number}', got {id_[:100]!r}")
    _text(fields, "game", "episode")
    _integer(fields, "rules_version", "episode", 0, 2**31)
    _text(fields, "actor", "episode")
    _one_of(fields, "purpose", "episode", _PURPOSES)
    fields["moves"] = _check_moves(fields["moves"])
    _integer(fields, "outcome", "episode", -1, 1)
    _text(fields, "termination", "episode")
    _integer(fields, "final_crc", "episode", 0, 2**32 - 1)
    _integer(fields, "opening_plies", "episode", 0, len(fields["moves"]["ordinal"]))
    return fields


def _check_moves(body: object) -> dict[str, npt.NDArray[Any]]:
    """Return the columns by name, once they are found to fit together and to hold what MoveRecord allows."""
    fields = _fields(body, tuple(_COLUMNS), "episode.moves")
    columns = {name: _array(fields, name, "episode.moves", dtype) for name, dtype in _COLUMNS.items()}
    each = range(1, len(columns["ordinal"]) + 1)
    ends = list(accumulate(columns["num_visited"].tolist()))
    num_visited = ends[-1] if ends else 0
    for name, column in columns.items():
        expected = num_visited if name in ("visited", "visit_counts") else len(each)
        if len(column) != expected:
            raise _BadFieldError(f"episode.moves.{name}: expected {expected} values, got {len(column)}")
    follows = np.empty(num_visited + 1, np.bool_)
    np.greater(columns["visited"][1:], columns["visited"][:-1], out=follows[1:-1])
    follows[[0, *ends]] = True  # the first of a move comes after nothing
    _check_all(follows, ends, "visited", "increasing ordinals")
    _check_all(columns["visit_counts"] >= 1, ends, "visit_counts", "at least 1 each")
    _check_all(np.abs(columns["root_value"]) <= 1.0, each, "root_value", "a value in [-1, 1]")
    _check_all(columns["full_search"] <= 1, each, "full_search", "0 or 1")
    return columns


def _check_all(good: npt.NDArray[np.bool_], ends: Sequence[int], name: str, expected: str) -> None:
    """Raise unless all is good, naming the move of the first that is not; move i's part stops before `ends[i]`."""
    if np.count_nonzero(good) < len(good):
        ply = bisect_right(ends, int(good.argmin()))
        raise _BadFieldError(f"episode.moves[{ply}].{name}: expected {expected}")


def _read_moves(columns: dict[str, npt.NDArray[Any]]) -> tuple[MoveRecord, ...]:
    visited = columns["visited"].astype(np.uint16)
    visit_counts = columns["visit_counts"].astype(np.uint32)
    ends = list(accumulate(columns["num_visited"].tolist()))
    rows = zip(
        columns["ordinal"].tolist(),
        [0, *ends],
        ends,
        columns["root_value"].tolist(),
        columns["weights_version"].tolist(),
        columns["full_search"].tolist(),
        strict=False,
    )
    moves = [
        MoveRecord(
            ordinal=ordinal,
            visited=visited[start:end],
            visit_counts=visit_counts[start:end],
            root_value=root_value,
            weights_version=weights_version,
            full_search=bool(full_search),
        )
        for ordinal, start, end, root_value, weights_version, full_search in rows
    ]
    return tuple(moves)


def _read_role(body: object) -> RoleRecord:
    fields = _fields(body, _ROLE_FIELDS, "role", ROLE_SCHEMA)
    numbers = fields["numbers"]
    if type(numbers) is not dict:
        raise _BadFieldError(f"role.numbers: expected a map, got {_kind(numbers)}")
    return RoleRecord(
        role=cast(Literal["actor", "inference", "learner", "controller"], _one_of(fields, "role", "role", _ROLES)),
        index=_integer(fields, "index", "role", 0, 2**31),
        node=_text(fields, "node", "role"),
        pid=_integer(fields, "pid", "role", 0, 2**31),
        incarnation=_text(fields, "incarnation", "role"),
        address=_text(fields, "address", "role"),
        metrics_url=_text(fields, "metrics_url", "role"),
        started=_number(fields, "started", "role"),
        waiting_for=_text(fields, "waiting_for", "role"),
        numbers={_name(name): _number(numbers, name, "role.numbers") for name in numbers},
    )


def _fields(body: object, names: tuple[str, ...], path: str, schema: int | None = None) -> dict[str, Any]:
    """Return the array's values by field name; a schema version, where there is one, is checked before the length."""
    if type(body) is not list:
        raise _BadFieldError(f"{path}: expected an array, got {_kind(body)}")
    if schema is not None and (not body or type(body[0]) is not int or body[0] != schema):
        found = repr(body[0])[:40] if body else "nothing"
        raise _BadFieldError(f"{path}.schema: this version reads {schema}, got {found}")
    if len(body) != len(names):
        raise _BadFieldError(f"{path}: expected {len(names)} fields, got {len(body)}")
    return dict(zip(names, body, strict=True))


def _integer(fields: dict[str, Any], name: str, path: str, low: int, high: int) -> int:
    value = fields[name]
    if type(value) is not int:
        raise _BadFieldError(f"{path}.{name}: expected an integer, got {_kind(value)}")
    if not low <= value <= high:
        raise _BadFieldError(f"{path}.{name}: expected {low}..{high}, got {value}")
    return value


def _number(fields: dict[str, Any], name: str, path: str) -> float:
    value = fields[name]
    if type(value) is not float:
        raise _BadFieldError(f"{path}.{name}: expected a float, got {_kind(value)}")
    if math.isnan(value) and path != "role.numbers":
        raise _BadFieldError(f"{path}.{name}: expected a number, got nan")
    return value


def _text(fields: dict[str, Any], name: str, path: str) -> str:
    value = fields[name]
    if type(value) is not str:
        raise _BadFieldError(f"{path}.{name}: expected text, got {_kind(value)}")
    if len(value) > _MAX_TEXT:
        raise _BadFieldError(f"{path}.{name}: expected at most {_MAX_TEXT} characters, got {len(value)}")
    return value


def _name(value: object) -> str:
    if type(value) is not str:
        raise _BadFieldError(f"role.numbers: expected text as keys, got {_kind(value)}")
    return value


def _one_of(fields: dict[str, Any], name: str, path: str, allowed: tuple[str, ...]) -> str:
    value = _text(fields, name, path)
    if value not in allowed:
        raise _BadFieldError(f"{path}.{name}: expected one of {', '.join(allowed)}, got {value[:40]!r}")
    return value


def _array(fields: dict[str, Any], name: str, path: str, dtype: np.dtype[Any]) -> npt.NDArray[Any]:
    value = fields[name]
    if type(value) is not bytes:
        raise _BadFieldError(f"{path}.{name}: expected bytes, got {_kind(value)}")
    if len(value) % dtype.itemsize:
        raise _BadFieldError(f"{path}.{name}: {len(value)} bytes are no whole number of {dtype.itemsize}-byte values")
    return np.frombuffer(value, dtype)


def _kind(value: object) -> str:
    return type(value).__name__
