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
    "schema, id, game, rules_version, actor, game_number, purpose, outcome, termination, final_crc, moves"
).split(", ")
_MOVE_FIELDS = "ordinal, visited, visit_counts, root_value, weights_version, full_search".split(", ")
_ROLE_FIELDS = (
    "schema, role, index, node, pid, incarnation, address, metrics_url, started, waiting_for, numbers"
).split(", ")


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
        episode.purpose, int(episode.outcome), episode.termination, int(episode.final_crc),
        [_pack_move(move, f"episode.moves[{ply}]") for ply, move in enumerate(episode.moves)],
    ]  # fmt: skip


def _pack_move(move: MoveRecord, path: str) -> list[Any]:
    return [
        int(move.ordinal),
        _array_bytes(move.visited, np.dtype("<u2"), f"{path}.visited"),
        _array_bytes(move.visit_counts, np.dtype("<u4"), f"{path}.visit_counts"),
        float(move.root_value),
        int(move.weights_version),
        bool(move.full_search),
    ]


def _array_bytes(array: npt.NDArray[Any], dtype: np.dtype[Any], path: str) -> bytes:
    """Return a one-dimensional array's bytes in `dtype`, refusing values that it cannot hold."""
    given = np.asarray(array)
    if given.ndim != 1:
        raise _BadFieldError(f"{path}: expected one dimension, got {given.ndim}")
    if given.size and given.dtype.kind not in "iu":
        raise _BadFieldError(f"{path}: expected integers, got {given.dtype}")
    if given.size and (int(given.min()) < 0 or int(given.max()) > np.iinfo(dtype).max):
        raise _BadFieldError(f"{path}: a value lies outside 0..{np.iinfo(dtype).max}")
    return given.astype(dtype).tobytes()


def _read_episode(body: object) -> Episode:
    fields = _fields(body, _EPISODE_FIELDS, "episode", EPISODE_SCHEMA)
    moves = fields["moves"]
    if type(moves) is not list:
        raise _BadFieldError(f"episode.moves: expected an array, got {_kind(moves)}")
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
        moves=tuple(_read_move(move, f"episode.moves[{ply}]") for ply, move in enumerate(moves)),
        outcome=_integer(fields, "outcome", "episode", -1, 1),
        termination=_text(fields, "termination", "episode"),
        final_crc=_integer(fields, "final_crc", "episode", 0, 2**32 - 1),
    )


def _read_move(body: object, path: str) -> MoveRecord:
    fields = _fields(body, _MOVE_FIELDS, path)
    visited = _array(fields, "visited", path, np.dtype("<u2"))
    visit_counts = _array(fields, "visit_counts", path, np.dtype("<u4"))
    if len(visited) != len(visit_counts):
        raise _BadFieldError(f"{path}.visit_counts: expected {len(visited)} values, got {len(visit_counts)}")
    if len(visited) > 1 and not (visited[1:] > visited[:-1]).all():
        raise _BadFieldError(f"{path}.visited: expected increasing ordinals")
    if len(visit_counts) and int(visit_counts.min()) < 1:
        raise _BadFieldError(f"{path}.visit_counts: expected at least 1 each")
    full_search = fields["full_search"]
    if type(full_search) is not bool:
        raise _BadFieldError(f"{path}.full_search: expected true or false, got {_kind(full_search)}")
    root_value = _number(fields, "root_value", path)
    if not -1.0 <= root_value <= 1.0:
        raise _BadFieldError(f"{path}.root_value: expected a value in [-1, 1], got {root_value}")
    return MoveRecord(
        ordinal=_integer(fields, "ordinal", path, 0, 2**16 - 1),
        visited=visited.astype(np.uint16),
        visit_counts=visit_counts.astype(np.uint32),
        root_value=root_value,
        weights_version=_integer(fields, "weights_version", path, 0, 2**53),
        full_search=full_search,
    )


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


def _fields(body: object, names: list[str], path: str, schema: int | None = None) -> dict[str, Any]:
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
