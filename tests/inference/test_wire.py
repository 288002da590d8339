from __future__ import annotations

import socket
import struct
from collections.abc import Callable, Iterator

import numpy as np
import pytest

from zerofleet.errors import WireError
from zerofleet.inference import wire
from zerofleet.inference.wire import Dimensions, FrameReader, Kind
from zerofleet.search.base import Evaluation, LeafBatch

HEADER_BYTES = 8


@pytest.fixture
def pair() -> Iterator[tuple[socket.socket, socket.socket]]:
    ours, theirs = socket.socketpair()
    yield ours, theirs
    ours.close()
    theirs.close()


def payload_of(parts: list[wire.Buffer]) -> bytes:
    return b"".join(parts)[HEADER_BYTES:]


def test_a_request_comes_back_as_it_was(batch_of: Callable[..., LeafBatch], dimensions: Dimensions) -> None:
    batch = batch_of(33)
    request = wire.read_request(payload_of(wire.request_parts(7, 3, batch)), dimensions)
    assert (request.id, request.version, len(request)) == (7, 3, 33)
    np.testing.assert_array_equal(request.planes, batch.planes)
    np.testing.assert_array_equal(request.actions, batch.legal_actions)
    np.testing.assert_array_equal(np.cumsum(request.counts), batch.legal_offsets[1:])


def test_the_layout_of_a_request_is_what_the_table_says(dimensions: Dimensions) -> None:
    """Two positions with 1 and 2 moves: the bytes are written out by hand."""
    batch = LeafBatch(
        planes=np.array([[1, 2, 3, 4], [5, 6, 7, 8]], dtype=np.uint8),
        legal_offsets=np.array([0, 1, 3], dtype=np.int32),
        legal_actions=np.array([9, 0, 4], dtype=np.uint16),
        source=None,  # type: ignore[arg-type]
    )
    body = (
        struct.pack("<QIIII", 5, 1, 2, 3, 0)
        + struct.pack("<HH", 1, 2)
        + struct.pack("<HHH", 9, 0, 4)
        + bytes(range(1, 9))
    )
    assert b"".join(wire.request_parts(5, 1, batch)) == struct.pack("<IBBBB", len(body), 4, 0, 0, 0) + body


def test_a_reply_comes_back_as_it_was() -> None:
    values, priors = np.array([0.5, -1.0], dtype=np.float32), np.array([1.0, 0.25, 0.75], dtype=np.float32)
    request_id, evaluation = wire.read_reply(payload_of(wire.reply_parts(9, 4, values, priors)))
    assert (request_id, evaluation.weights_version) == (9, 4)
    np.testing.assert_array_equal(evaluation.values, values)
    np.testing.assert_array_equal(evaluation.priors, priors)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        (lambda body: body[:-1], "bytes"),
        (lambda body: body + b"x", "bytes"),
        (lambda body: body[:10], "fewer than its head"),
        (lambda body: body[:12] + struct.pack("<I", 0) + body[16:], "bytes"),
        (lambda body: body[:12] + struct.pack("<I", 2**32 - 1) + body[16:], "bytes"),
        (lambda body: body[:24] + struct.pack("<H", 0) + body[26:], "no legal move"),
        (lambda body: body[:24] + struct.pack("<H", 2) + body[26:], "add up"),
        (lambda body: body[:28] + struct.pack("<H", 10) + body[30:], "action 10 in a game of 10"),
    ],
)
def test_a_malformed_request_is_refused(change: Callable[[bytes], bytes], reason: str, dimensions: Dimensions) -> None:
    body = struct.pack("<QIIII", 5, 1, 2, 2, 0) + struct.pack("<HHHH", 1, 1, 9, 0) + bytes(8)
    wire.read_request(body, dimensions)
    with pytest.raises(WireError, match=reason):
        wire.read_request(change(body), dimensions)


def test_a_malformed_reply_is_refused() -> None:
    body = payload_of(wire.reply_parts(1, 1, np.zeros(2, np.float32), np.zeros(3, np.float32)))
    for torn in (body[:5], body[:-4], body + b"1234"):
        with pytest.raises(WireError):
            wire.read_reply(torn)


def test_a_hello_with_the_right_token_and_game_is_accepted(dimensions: Dimensions) -> None:
    assert wire.check_hello(wire.hello(dimensions, "secret")[HEADER_BYTES:], dimensions, "secret") is None


@pytest.mark.parametrize(
    ("hello", "word"),
    [
        (lambda dims: wire.hello(dims, "secreT"), "token"),
        (lambda dims: wire.hello(dims, ""), "token"),
        (lambda dims: wire.hello(dims, "secret")[:-1], "token"),
        (lambda dims: wire.hello(Dimensions(packed_size=5, num_actions=10), "secret"), "game"),
        (lambda dims: wire.hello(Dimensions(packed_size=4, num_actions=11), "secret"), "game"),
        (lambda dims: wire.frame(Kind.HELLO, b"ZFIS"), "hello"),
        (lambda dims: wire.frame(Kind.HELLO, b"GET / HTTP/1.1\r\n\r\n"), "hello"),
        (lambda dims: wire.frame(Kind.HELLO, struct.pack("<4sHHII", b"ZFIS", 99, 0, 4, 10)), "protocol 99"),
    ],
)
def test_any_other_hello_is_refused_without_showing_a_token(
    hello: Callable[[Dimensions], bytes], word: str, dimensions: Dimensions
) -> None:
    reason = wire.check_hello(hello(dimensions)[HEADER_BYTES:], dimensions, "secret")
    assert reason is not None
    assert word in reason
    assert "secre" not in reason


def read_all(reader: FrameReader, sock: socket.socket) -> list[tuple[int, bytes]]:
    reader.fill(sock)
    return [(kind, bytes(payload)) for kind, payload in reader.frames()]


@pytest.mark.parametrize("piece", [1, 3, 8, 9, 50])
def test_frames_come_out_whole_however_the_stream_is_cut(piece: int, pair: tuple[socket.socket, socket.socket]) -> None:
    sent = [(Kind.PING, b""), (Kind.FAILED, b"a" * 20), (Kind.PONG, b"b" * 300), (Kind.PING, b"")]
    stream = b"".join(wire.frame(kind, payload) for kind, payload in sent)
    reader, got = FrameReader(initial_bytes=16), []
    for start in range(0, len(stream), piece):
        pair[0].sendall(stream[start : start + piece])
        got += read_all(reader, pair[1])
    pair[1].setblocking(False)
    with pytest.raises(BlockingIOError):
        while True:
            got += read_all(reader, pair[1])
    assert got == sent
    assert reader.is_empty


def test_a_frame_over_the_limit_is_refused_before_it_is_read(pair: tuple[socket.socket, socket.socket]) -> None:
    reader = FrameReader(max_frame_bytes=100)
    pair[0].sendall(b"GET / HTTP/1.1\r\n\r\n")
    reader.fill(pair[1])
    with pytest.raises(WireError, match="at most 100"):
        list(reader.frames())


def test_text_of_a_failure_comes_back() -> None:
    assert wire.read_failed(wire.failed(3, "no such version")[HEADER_BYTES:]) == (3, "no such version")


def test_replies_are_copies(batch_of: Callable[..., LeafBatch], expected: Callable[..., Evaluation]) -> None:
    """A payload is gone at the next frame; an evaluation is not."""
    evaluation = expected(batch_of(3), 1)
    payload = bytearray(payload_of(wire.reply_parts(1, 1, evaluation.values, evaluation.priors)))
    _, got = wire.read_reply(memoryview(payload))
    payload[:] = bytes(len(payload))
    np.testing.assert_array_equal(got.values, evaluation.values)
