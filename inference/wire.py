"""The frames between inference client and server: how they are laid out, written, and read back.

A frame is an 8-byte header (`u32` payload length, `u8` kind, three zero bytes) and its payload.  All numbers are
little-endian.  Letters: `B` positions, `L` legal moves of all of them, `K` bytes of one packed position.

    HELLO    client  magic "ZFIS", u16 protocol, u16 token length, u32 K, u32 num_actions, token
    WELCOME  server  u32 newest weights version (0: none yet), u32 largest batch
    REFUSED  server  text; the server hangs up
    REQUEST  client  u64 id, u32 version (0: newest), u32 B, u32 L, u32 0,
                     u16 counts[B], u16 actions[L], u8 planes[B, K]
    REPLY    server  u64 id, u32 version, u32 0, u32 B, u32 L, f32 values[B], f32 priors[L]
    FAILED   server  u64 id, text
    PING     client  nothing
    PONG     server  u32 newest weights version, u32 positions that wait

`counts` are the numbers of legal moves, `actions` and `priors` follow `legal_moves` of each position in turn.  Payloads
are read as numpy views, so nothing here costs time per position.  A request is pure: sending it twice changes nothing.
This module does no socket calls but one `recv_into`.
"""

from __future__ import annotations

import hmac
import socket
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from enum import IntEnum
from typing import TypeAlias

import numpy as np

from zerofleet.errors import WireError
from zerofleet.games.base import Game, PackedPlanes
from zerofleet.search.base import ActionArray, Evaluation, FloatArray, LeafBatch

PROTOCOL = 1
MAGIC = b"ZFIS"
MAX_FRAME_BYTES = 64 << 20  # larger frames are refused unread
MAX_HELLO_BYTES = 4096  # until a connection has shown its token
MAX_TOKEN_BYTES = 1024

Buffer: TypeAlias = bytes | bytearray | memoryview

_HEADER = struct.Struct("<IB3x")
_HELLO = struct.Struct("<4sHHII")
_WELCOME = struct.Struct("<II")
_REQUEST = struct.Struct("<QIII4x")
_REPLY = struct.Struct("<QI4xII")
_FAILED = struct.Struct("<Q")


class Kind(IntEnum):
    """What a frame is."""

    HELLO = 1
    WELCOME = 2
    REFUSED = 3
    REQUEST = 4
    REPLY = 5
    FAILED = 6
    PING = 7
    PONG = 8


@dataclass(frozen=True, slots=True, kw_only=True)
class Dimensions:
    """What client and server must agree on before they exchange positions."""

    packed_size: int  # K
    num_actions: int

    @classmethod
    def of(cls, game: Game) -> Dimensions:
        """Return the dimensions of a game's positions."""
        return cls(packed_size=game.packed_size, num_actions=game.num_actions)


@dataclass(frozen=True, slots=True, kw_only=True)
class Request:
    """Positions that a client asks about."""

    id: int
    version: int  # of the weights; 0 means the newest
    counts: ActionArray  # [B] legal moves of each position
    actions: ActionArray  # [L]
    planes: PackedPlanes  # [B, K]

    def __len__(self) -> int:
        return len(self.counts)


def frame(kind: Kind, *parts: Buffer) -> bytes:
    """Return a whole frame; for the small ones."""
    payload = b"".join(parts)
    return _HEADER.pack(len(payload), kind) + payload


def hello(dimensions: Dimensions, token: str) -> bytes:
    """Return the frame that opens a connection."""
    secret = token.encode()
    if len(secret) > MAX_TOKEN_BYTES:
        raise WireError(f"the token is {len(secret)} bytes long; at most {MAX_TOKEN_BYTES} are allowed")
    head = _HELLO.pack(MAGIC, PROTOCOL, len(secret), dimensions.packed_size, dimensions.num_actions)
    return frame(Kind.HELLO, head, secret)


def check_hello(payload: Buffer, dimensions: Dimensions, token: str) -> str | None:
    """Return why this hello is refused, or None; what it says never holds a token."""
    if len(payload) < _HELLO.size:
        return "hello: too short"
    magic, protocol, token_size, packed_size, num_actions = _HELLO.unpack_from(payload)
    if magic != MAGIC:
        return "hello: this is a Zerofleet inference server, and the greeting is not of its protocol"
    if protocol != PROTOCOL:
        return f"hello: protocol {protocol}, the server speaks {PROTOCOL}: run the same Zerofleet on both sides"
    secret = bytes(payload[_HELLO.size :])
    if len(secret) != token_size or not hmac.compare_digest(secret, token.encode()):
        return "token: not this run's"
    if (packed_size, num_actions) != (dimensions.packed_size, dimensions.num_actions):
        return (
            f"game: the client's positions have {packed_size} bytes and {num_actions} actions, "
            f"the server's {dimensions.packed_size} and {dimensions.num_actions}"
        )
    return None


def welcome(newest: int, max_batch_size: int) -> bytes:
    """Return the frame that accepts a client."""
    return frame(Kind.WELCOME, _WELCOME.pack(newest, max_batch_size))


def read_pair(payload: Buffer) -> tuple[int, int]:
    """Return the two numbers of a WELCOME or PONG."""
    if len(payload) != _WELCOME.size:
        raise WireError(f"a welcome or pong holds {_WELCOME.size} bytes, got {len(payload)}")
    first, second = _WELCOME.unpack(payload)
    return first, second


def pong(newest: int, num_queued: int) -> bytes:
    """Return the frame that says: alive, and this busy."""
    return frame(Kind.PONG, _WELCOME.pack(newest, num_queued))


def request_parts(request_id: int, version: int, batch: LeafBatch) -> list[Buffer]:
    """Return a REQUEST frame in parts that share the batch's memory, for one `sendmsg`."""
    counts = (batch.legal_offsets[1:] - batch.legal_offsets[:-1]).astype("<u2")
    actions = np.ascontiguousarray(batch.legal_actions, dtype="<u2")
    planes = np.ascontiguousarray(batch.planes)
    num_positions, num_legal = len(counts), len(actions)
    size = _REQUEST.size + counts.nbytes + actions.nbytes + planes.nbytes
    if size > MAX_FRAME_BYTES:
        raise WireError(f"request: {num_positions} positions are {size} bytes, at most {MAX_FRAME_BYTES} are allowed")
    head = _HEADER.pack(size, Kind.REQUEST) + _REQUEST.pack(request_id, version, num_positions, num_legal)
    return [head, counts.data, actions.data, planes.reshape(-1).data]


def read_request(payload: Buffer, dimensions: Dimensions) -> Request:
    """Return the request; its arrays are views of `payload`.

    Raises:
        WireError: it is not whole, or names a position without a legal move or an action that does not exist.
    """
    if len(payload) < _REQUEST.size:
        raise WireError(f"request: {len(payload)} bytes, fewer than its head")
    request_id, version, num_positions, num_legal = _REQUEST.unpack_from(payload)
    planes_at = _REQUEST.size + 2 * (num_positions + num_legal)
    expected = planes_at + num_positions * dimensions.packed_size
    if num_positions == 0 or len(payload) != expected:
        raise WireError(
            f"request {request_id}: {num_positions} positions, {num_legal} moves: {expected} bytes, got {len(payload)}"
        )
    counts = np.frombuffer(payload, dtype="<u2", count=num_positions, offset=_REQUEST.size)
    actions = np.frombuffer(payload, dtype="<u2", count=num_legal, offset=_REQUEST.size + 2 * num_positions)
    planes = np.frombuffer(payload, dtype=np.uint8, offset=planes_at).reshape(num_positions, dimensions.packed_size)
    # Ufuncs are reduced directly: the methods min, max and sum cost more than they compute on arrays of this size.
    if int(np.minimum.reduce(counts)) == 0:
        raise WireError(f"request {request_id}: a position has no legal move; finished positions are not evaluated")
    total = int(np.add.reduce(counts, dtype=np.int64))
    if total != num_legal:
        raise WireError(f"request {request_id}: the counts add up to {total}, not {num_legal}")
    largest = int(np.maximum.reduce(actions))
    if largest >= dimensions.num_actions:
        raise WireError(f"request {request_id}: action {largest} in a game of {dimensions.num_actions} actions")
    return Request(id=request_id, version=version, counts=counts, actions=actions, planes=planes)


def reply_parts(request_id: int, version: int, values: FloatArray, priors: FloatArray) -> list[Buffer]:
    """Return a REPLY frame in parts that share the arrays' memory; both must be contiguous float32."""
    size = _REPLY.size + values.nbytes + priors.nbytes
    head = _HEADER.pack(size, Kind.REPLY) + _REPLY.pack(request_id, version, len(values), len(priors))
    return [head, values.data, priors.data]


def read_reply(payload: Buffer) -> tuple[int, Evaluation]:
    """Return a reply's request id and its evaluation, whose arrays are copies."""
    if len(payload) < _REPLY.size:
        raise WireError(f"reply: {len(payload)} bytes, fewer than its head")
    request_id, version, num_positions, num_legal = _REPLY.unpack_from(payload)
    expected = _REPLY.size + 4 * (num_positions + num_legal)
    if len(payload) != expected:
        raise WireError(f"reply {request_id}: {num_positions} values and {num_legal} priors need {expected} bytes")
    numbers = np.frombuffer(payload, dtype="<f4", offset=_REPLY.size).copy()
    values, priors = numbers[:num_positions], numbers[num_positions:]
    return request_id, Evaluation(priors=priors, values=values, weights_version=version)


def failed(request_id: int, text: str) -> bytes:
    """Return the frame that says why a request has no answer."""
    return frame(Kind.FAILED, _FAILED.pack(request_id), text.encode()[:4096])


def read_failed(payload: Buffer) -> tuple[int, str]:
    """Return a failed request's id and the reason."""
    if len(payload) < _FAILED.size:
        raise WireError("failure: shorter than its head")
    (request_id,) = _FAILED.unpack_from(payload)
    return request_id, text_of(payload[_FAILED.size :])


def text_of(payload: Buffer) -> str:
    """Return text that a peer sent; bytes that are no text show as question marks."""
    return bytes(payload).decode(errors="replace")


class FrameReader:
    """Collects a stream's bytes in one buffer and cuts them into frames."""

    def __init__(self, max_frame_bytes: int = MAX_FRAME_BYTES, initial_bytes: int = 1 << 17) -> None:
        self.max_frame_bytes = max_frame_bytes
        self._buffer = bytearray(initial_bytes)
        self._view = memoryview(self._buffer)
        self._start = 0
        self._end = 0

    def fill(self, sock: socket.socket) -> int:
        """Read once from `sock` and return the bytes got; 0 is the end of the stream.

        Raises:
            BlockingIOError: there is nothing to read now.
        """
        size = sock.recv_into(self._view[self._end :])
        self._end += size
        return size

    def frames(self) -> Iterator[tuple[int, memoryview]]:
        """Yield (kind, payload) of each whole frame; a payload is valid until the next one is asked for.

        Raises:
            WireError: the stream holds no frame of ours here, or one over the limit; the connection is lost.
        """
        while self._end - self._start >= _HEADER.size:
            length, kind = _HEADER.unpack_from(self._buffer, self._start)
            if length > self.max_frame_bytes:
                raise WireError(f"frame: {length} bytes announced, at most {self.max_frame_bytes} are allowed")
            begin = self._start + _HEADER.size
            if self._end - begin < length:
                self._make_room(_HEADER.size + length)
                return
            self._start = begin + length
            yield kind, self._view[begin : self._start]
        self._make_room(_HEADER.size)

    @property
    def is_empty(self) -> bool:
        """Whether no byte of an unfinished frame is held."""
        return self._start == self._end

    def _make_room(self, frame_bytes: int) -> None:
        """Move what is left to the front, in a larger buffer where the frame that began needs one."""
        rest = self._view[self._start : self._end]
        if frame_bytes > len(self._buffer):
            self._buffer = bytearray(frame_bytes)
            self._buffer[: len(rest)] = rest
            self._view = memoryview(self._buffer)
        elif self._start > 0:
            self._view[: len(rest)] = bytes(rest)
        self._start, self._end = 0, len(rest)
