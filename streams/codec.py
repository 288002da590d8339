"""Records to bytes and back: msgpack arrays, schema version first, checked field by field on the way in and out.

An encoder refuses a record that breaks a rule (StreamError), so that a bad one is found where it was made; a decoder
refuses bytes that are no such record (DecodeError), and says at which path.  Arrays travel as little-endian bytes of a
fixed type, floats as float64: a round trip is exact.  Nothing is ever unpickled, and no map has keys but text.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Literal, TypeVar, cast

import msgpack
import numpy as np
import numpy.typing as npt

from zerofleet.errors import DecodeError, StreamError
from zerofleet.streams.records import Episode, MoveRecord, RoleRecord

EPISODE_SCHEMA = 1
ROLE_SCHEMA = 1

_T = TypeVar("_T")
_ROLES = ("actor", "inference", "learner", "controller")
_PURPOSES = ("self-play", "match")
_MAX_TEXT = 1000
_EPISODE_FIELDS = (
    *("schema", "id", "game", "rules_version", "actor", "game_number"),
    *("purpose", "outcome", "termination", "final_crc", "moves"),
)
_COLUMNS = {
    "ordinal": "<u2",  # [num_moves]
    "num_visited": "<u2",  # [num_moves] length of each move's part of the next two
    "visited": "<u2",  # [sum of num_visited]
    "visit_counts": "<u4",  # [sum of num_visited]
    "root_value": "<f8",  # [num_moves]
    "weights_version": "<u4",  # [num_moves]
    "full_search": "|u1",  # [num_moves]
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
        _read_episode(body)
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
    ]  # fmt: skip


def _pack_moves(moves: tuple[MoveRecord, ...]) -> list[bytes]:
    """Return the moves as columns, in the order of `_COLUMNS`; a row each would cost ten times the time."""
    for ply, move in enumerate(moves):
        if np.ndim(move.visited) != 1 or np.shape(move.visited) != np.shape(move.visit_counts):
            raise _BadFieldError(
                f"episode.moves[{ply}].visit_counts: expected one dimension and a visit count for each ordinal, "
                f"got {np.shape(move.visited)} ordinals and {np.shape(move.visit_counts)} counts"
            )
    columns: tuple[npt.ArrayLike, ...] = (
        [move.ordinal for move in moves],
        [len(move.visited) for move in moves],
        np.concatenate([move.visited for move in moves]) if moves else [],
        np.concatenate([move.visit_counts for move in moves]) if moves else [],
        np.array([move.root_value for move in moves], dtype=np.float64),
        [move.weights_version for move in moves],
        [bool(move.full_search) for move in moves],
    )
    return [_column(column, name) for name, column in zip(_COLUMNS, columns, strict=True)]


def _column(values: npt.ArrayLike, name: str) -> bytes:
    """Return the bytes of one column, refusing values that its type cannot hold."""
    given = np.asarray(values)
    dtype = np.dtype(_COLUMNS[name])
    if given.size == 0 or dtype.kind == "f":
        return given.astype(dtype).tobytes()
    if given.dtype.kind not in "iub":
        raise _BadFieldError(f"episode.moves.{name}: expected integers, got {given.dtype}")
    if int(given.min()) < 0 or int(given.max()) > np.iinfo(dtype).max:
        raise _BadFieldError(f"episode.moves.{name}: a value lies outside 0..{np.iinfo(dtype).max}")
    return given.astype(dtype).tobytes()


def _read_episode(body: object) -> Episode:
    fields = _fields(body, _EPISODE_FIELDS, "episode", EPISODE_SCHEMA)
    game_number = _integer(fields, "game_number", "episode", 0, 2**53)
    id_ = _text(fields, "id", "episode")
    if not id_.endswith(f"-{game_number}"):
        raise _BadFieldError(f"episode.id: expected '<run>-{game_number}', got {id_[:100]!r}")
    return Episode(
        id=id_,
        game=_text(fields, "game", "episode"),
        rules_version=_integer(fields, "rules_version", "episode", 0, 2**31),
        actor=_text(fields, "actor", "episode"),
        game_number=game_number,
        purpose=cast(Literal["self-play", "match"], _one_of(fields, "purpose", "episode", _PURPOSES)),
        moves=_read_moves(fields["moves"]),
        outcome=_integer(fields, "outcome", "episode", -1, 1),
        termination=_text(fields, "termination", "episode"),
        final_crc=_integer(fields, "final_crc", "episode", 0, 2**32 - 1),
    )


def _read_moves(body: object) -> tuple[MoveRecord, ...]:
    columns = _fields(body, tuple(_COLUMNS), "episode.moves")
    arrays = {name: _array(columns, name, "episode.moves", np.dtype(dtype)) for name, dtype in _COLUMNS.items()}
    _check_moves(arrays)
    ends = np.cumsum(arrays["num_visited"], dtype=np.int64).tolist()
    visited = arrays["visited"].astype(np.uint16)
    visit_counts = arrays["visit_counts"].astype(np.uint32)
    rows = zip(
        arrays["ordinal"].tolist(),
        [0, *ends],
        ends,
        arrays["root_value"].tolist(),
        arrays["weights_version"].tolist(),
        arrays["full_search"].tolist(),
        strict=False,
    )
    return tuple(
        MoveRecord(
            ordinal=ordinal,
            visited=visited[start:end],
            visit_counts=visit_counts[start:end],
            root_value=root_value,
            weights_version=weights_version,
            full_search=bool(full_search),
        )
        for ordinal, start, end, root_value, weights_version, full_search in rows
    )


def _check_moves(arrays: dict[str, npt.NDArray[Any]]) -> None:
    """Raise unless the columns fit together and hold what MoveRecord allows."""
    num_moves, num_visited = len(arrays["ordinal"]), int(arrays["num_visited"].sum(dtype=np.int64))
    for name, array in arrays.items():
        expected = num_visited if name in ("visited", "visit_counts") else num_moves
        if len(array) != expected:
            raise _BadFieldError(f"episode.moves.{name}: expected {expected} values, got {len(array)}")
    visited = arrays["visited"].astype(np.int64)
    owner = np.repeat(np.arange(num_moves), arrays["num_visited"])
    _check_all((np.diff(visited) > 0) | (np.diff(owner) > 0), owner[1:], "visited", "increasing ordinals")
    _check_all(arrays["visit_counts"] >= 1, owner, "visit_counts", "at least 1 each")
    _check_all(np.abs(arrays["root_value"]) <= 1.0, np.arange(num_moves), "root_value", "a value in [-1, 1]")
    _check_all(arrays["full_search"] <= 1, np.arange(num_moves), "full_search", "0 or 1")


def _check_all(good: npt.NDArray[np.bool_], plies: npt.NDArray[np.int64], name: str, expected: str) -> None:
    if not good.all():
        raise _BadFieldError(f"episode.moves[{plies[int(good.argmin())]}].{name}: expected {expected}")


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
