"""Episodes and role records to bytes and back."""

from __future__ import annotations

import contextlib
import dataclasses
from typing import Any

import msgpack
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from zerofleet.errors import DecodeError, StreamError
from zerofleet.streams.codec import decode_episode, decode_role, encode_episode, encode_role
from zerofleet.streams.records import Episode, MoveRecord, RoleRecord


def move(**changes: Any) -> MoveRecord:
    fields: dict[str, Any] = {
        "ordinal": 2,
        "visited": np.array([0, 2, 6], np.uint16),
        "visit_counts": np.array([1, 90, 9], np.uint32),
        "root_value": 0.1,
        "weights_version": 3,
        "full_search": True,
    }
    return MoveRecord(**(fields | changes))


def episode(*moves: MoveRecord, **changes: Any) -> Episode:
    fields: dict[str, Any] = {
        "id": "blue-fox-17",
        "game": "go(size=9,komi=7)",
        "rules_version": 1,
        "actor": "actor-3",
        "game_number": 17,
        "purpose": "self-play",
        "moves": moves or (move(), move(visited=np.array([], np.uint16), visit_counts=np.array([], np.uint32))),
        "outcome": -1,
        "termination": "line",
        "final_crc": 0xFFFFFFFF,
    }
    return Episode(**(fields | changes))


ROLE = RoleRecord(
    role="inference",
    index=1,
    node="nöde",
    pid=4711,
    incarnation="1f",
    address="unix:/tmp/x",
    metrics_url="http://127.0.0.1:1/metrics",
    started=1.5,
    waiting_for="weights",
    numbers={"positions": 12.0, "loss": float("inf")},
)


def assert_same(a: Episode, b: Episode) -> None:
    assert dataclasses.replace(a, moves=()) == dataclasses.replace(b, moves=())
    assert len(a.moves) == len(b.moves)
    for left, right in zip(a.moves, b.moves, strict=True):
        for name in ("visited", "visit_counts"):
            x, y = getattr(left, name), getattr(right, name)
            assert x.dtype == y.dtype
            assert x.tolist() == y.tolist()
        for name in ("ordinal", "root_value", "weights_version", "full_search"):
            assert getattr(left, name) == getattr(right, name)
            assert type(getattr(left, name)) is type(getattr(right, name))


def test_an_episode_survives_exactly() -> None:
    """Fault 121: values, types and lengths of arrays."""
    original = episode(
        move(root_value=1 / 3), move(full_search=False, weights_version=2**32 - 1), move(root_value=-1.0)
    )
    assert_same(decode_episode(encode_episode(original)), original)
    assert_same(decode_episode(encode_episode(episode())), episode())


def test_an_episode_of_the_first_schema_is_read_as_one_without_an_opening() -> None:
    """A log that an earlier version wrote trains on."""
    body = msgpack.unpackb(encode_episode(episode()))
    assert body.pop() == 0
    body[0] = 1
    assert_same(decode_episode(msgpack.packb(body)), episode())
    with pytest.raises(DecodeError, match="episode: expected 12 fields, got 11"):
        decode_episode(msgpack.packb(body[:-1]))


def test_a_random_opening_survives() -> None:
    opening = episode(move(), move(), opening_plies=1)
    assert_same(decode_episode(encode_episode(opening)), opening)
    with pytest.raises(StreamError, match=r"episode.opening_plies: expected 0..2, got 3"):
        encode_episode(dataclasses.replace(opening, opening_plies=3))


def test_a_game_without_moves_survives() -> None:
    empty = dataclasses.replace(episode(), moves=())
    assert_same(decode_episode(encode_episode(empty)), empty)


rows = st.lists(
    st.tuples(
        st.dictionaries(st.integers(0, 2**16 - 1), st.integers(1, 2**32 - 1), max_size=5),
        st.floats(-1, 1),
        st.integers(0, 2**16 - 1),
        st.booleans(),
    ),
    max_size=5,
)


@given(rows, st.integers(0, 2**53), st.text(max_size=20))
@settings(max_examples=40, deadline=None)
def test_any_episode_survives_exactly(given_rows: list[Any], game_number: int, termination: str) -> None:
    moves = tuple(
        move(
            visited=np.array(sorted(visits), np.uint16),
            visit_counts=np.array([visits[ordinal] for ordinal in sorted(visits)], np.uint32),
            root_value=root_value,
            ordinal=ordinal,
            full_search=full,
        )
        for visits, root_value, ordinal, full in given_rows
    )
    original = dataclasses.replace(
        episode(), moves=moves, game_number=game_number, id=f"r-{game_number}", termination=termination
    )
    assert_same(decode_episode(encode_episode(original)), original)


def test_other_memory_layouts_and_number_types_come_out_as_the_record_says() -> None:
    """Fault 121: big-endian, strided and wider arrays, and NumPy's own scalars."""
    odd = move(
        ordinal=np.int64(2),
        weights_version=np.array(3),
        visited=np.array([0, 9, 2, 9, 6, 9], ">u2")[::2],
        visit_counts=np.array([1, 90, 9], np.int64),
        root_value=np.float32(0.5),
        full_search=np.bool_(True),
    )
    assert_same(decode_episode(encode_episode(episode(odd))), episode(move(root_value=0.5)))


@pytest.mark.parametrize(
    ("changed", "path"),
    [
        (move(visited=np.array([0, 6, 2], np.uint16)), r"episode.moves\[1\].visited: expected increasing"),
        (move(visited=np.array([0, 2, 2], np.uint16)), r"episode.moves\[1\].visited: expected increasing"),
        (move(visit_counts=np.array([1, 0, 9], np.uint32)), r"episode.moves\[1\].visit_counts: expected at least 1"),
        (move(visit_counts=np.array([1, 9], np.uint32)), r"episode.moves\[1\].visit_counts: .* \(3,\) ordinals"),
        (move(visited=np.array([0, 2, -1])), "episode.moves.visited: a value lies outside"),
        (move(visit_counts=np.array([1, 2, 2**32])), "episode.moves.visit_counts: a value lies outside"),
        (move(visit_counts=np.array([1.0, 2.5, 3.0])), "episode.moves.visit_counts: expected integers"),
        (move(root_value=float("nan")), r"episode.moves\[1\].root_value: expected a value in \[-1, 1\]"),
        (move(root_value=1.001), r"episode.moves\[1\].root_value"),
        (move(ordinal=2**16), "episode.moves.ordinal: a value lies outside"),
        (move(ordinal=2.0), "episode.moves.ordinal: expected integers, got float64"),
        (move(weights_version=-1), "episode.moves.weights_version: a value lies outside"),
        (move(weights_version=2**32), "episode.moves.weights_version: a value lies outside"),
        (move(weights_version=None), "episode.moves.weights_version: expected integers, got object"),
        (
            move(visited=np.array([[0, 2, 6]]), visit_counts=np.array([[1, 90, 9]])),
            r"episode.moves\[1\].visit_counts: expected one dimension .* \(1, 3\) counts",
        ),
    ],
)
def test_a_bad_move_is_refused_where_it_was_made(changed: MoveRecord, path: str) -> None:
    """Fault 120: the encoder rejects, not the reader."""
    with pytest.raises(StreamError, match=f"cannot be encoded: {path}"):
        encode_episode(episode(move(), changed))


def test_a_bad_visit_is_named_by_its_move_among_moves_without_visits() -> None:
    bare = move(visited=np.array([], np.uint16), visit_counts=np.array([], np.uint32))
    bad = move(visited=np.array([6, 2, 2], np.uint16))
    with pytest.raises(StreamError, match=r"episode.moves\[3\].visited: expected increasing"):
        encode_episode(episode(bare, move(), bare, bad, bare))
    unvisited = move(visit_counts=np.array([0, 1, 1], np.uint32))
    with pytest.raises(StreamError, match=r"episode.moves\[3\].visit_counts: expected at least 1"):
        encode_episode(episode(bare, move(), bare, unvisited, bare))
    good = episode(bare, move(), move(), bare, bare)
    assert_same(decode_episode(encode_episode(good)), good)


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"id": "blue-fox-18"}, "episode.id: expected '<run>-17'"),
        ({"outcome": 2}, "episode.outcome: expected -1..1, got 2"),
        ({"purpose": "fun"}, "episode.purpose: expected one of self-play, match, got 'fun'"),
        ({"final_crc": 2**32}, "episode.final_crc"),
        ({"game": 3}, "episode.game: expected text, got int"),
        ({"termination": "x" * 1001}, "episode.termination: expected at most 1000 characters"),
    ],
)
def test_a_bad_episode_is_refused_where_it_was_made(change: dict[str, Any], path: str) -> None:
    with pytest.raises(StreamError, match=f"cannot be encoded: {path}"):
        encode_episode(episode(**change))


def test_a_truncated_or_longer_payload_is_no_episode() -> None:
    payload = encode_episode(episode())
    for bad in [b"", *(payload[:length] for length in range(1, len(payload), 7)), payload + b"\x00", b"\xc1"]:
        with pytest.raises(DecodeError):
            decode_episode(bad)


def test_flipped_bytes_never_raise_anything_but_a_decode_error() -> None:
    payload = encode_episode(episode())
    for position in range(len(payload)):
        for flip in (0x01, 0x80, 0xFF):
            bad = bytearray(payload)
            bad[position] ^= flip
            with contextlib.suppress(DecodeError):
                decode_episode(bytes(bad))


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (lambda body: body.__setitem__(0, 3), "episode.schema: this version reads 2, got 3"),
        (lambda body: body.__setitem__(0, True), "episode.schema: this version reads 2, got True"),
        (lambda body: body.pop(), "episode: expected 12 fields, got 11"),
        (lambda body: body.__setitem__(11, 3), r"episode.opening_plies: expected 0..2, got 3"),
        (lambda body: body.__setitem__(5, 17.0), "episode.game_number: expected an integer, got float"),
        (lambda body: body.__setitem__(7, True), "episode.outcome: expected an integer, got bool"),
        (lambda body: body.__setitem__(10, {}), "episode.moves: expected an array, got dict"),
        (lambda body: body[10].__setitem__(2, b"x"), "episode.moves.visited: 1 bytes are no whole number"),
        (lambda body: body[10].__setitem__(4, b""), "episode.moves.root_value: expected 2 values, got 0"),
        (lambda body: body[10].__setitem__(1, b"\x03\x00\x01\x00"), "episode.moves.visited: expected 4 values, got 3"),
        (lambda body: body[10].__setitem__(6, b"\x01\x02"), r"episode.moves\[1\].full_search: expected 0 or 1"),
    ],
)
def test_a_decoder_says_where_it_stopped(change: Any, message: str) -> None:
    """Fault 124: another schema is refused with both versions named."""
    body = msgpack.unpackb(encode_episode(episode()))
    change(body)
    with pytest.raises(DecodeError, match=message):
        decode_episode(msgpack.packb(body))


def test_no_map_with_other_keys_than_text_is_read() -> None:
    """Fault 120: integer keys."""
    body = msgpack.unpackb(encode_role(ROLE))
    body[-1] = {3: 1.0}
    with pytest.raises(DecodeError, match="role"):
        decode_role(msgpack.packb(body))


def test_deep_nesting_is_refused() -> None:
    with pytest.raises(DecodeError):
        decode_episode(b"\x91" * 100_000 + b"\x00")


def test_a_role_survives_exactly() -> None:
    assert decode_role(encode_role(ROLE)) == ROLE
    plain = RoleRecord(role="actor", index=0, node="n", pid=1, incarnation="a")
    assert decode_role(encode_role(plain)) == plain


@pytest.mark.parametrize(
    ("change", "path"),
    [
        ({"role": "cook"}, "role.role: expected one of actor"),
        ({"index": -1}, "role.index"),
        ({"numbers": {"x": "three"}}, "could not convert"),
        ({"started": float("nan")}, "role.started: expected a number, got nan"),
    ],
)
def test_a_bad_role_is_refused_where_it_was_made(change: dict[str, Any], path: str) -> None:
    with pytest.raises(StreamError, match=path):
        encode_role(dataclasses.replace(ROLE, **change))
