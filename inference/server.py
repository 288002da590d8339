"""The inference server: one thread that reads requests, runs them through the network, and writes the answers.

    loop:  read what every socket holds -> take a batch -> one forward pass -> write the replies

While requests wait the sockets are only polled; else the thread sleeps in them.  Everything that could grow is bounded:
a client with too many positions in the queue, or too many unread replies, is not read until it has fewer, so it waits
in its own send.  A connection that breaks the protocol is closed, alone.  The server knows positions only as bytes; the
network is the backend's, and its failure ends the server, whose supervisor starts another.
"""

from __future__ import annotations

import logging
import selectors
import socket
import threading
import time
from collections.abc import Callable, Sequence
from pathlib import Path

from zerofleet.errors import InferenceError, WireError
from zerofleet.inference import wire
from zerofleet.inference.backend import Backend
from zerofleet.inference.batching import Batcher, Waiting, join
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.connection import Connection
from zerofleet.inference.endpoint import listen, tune
from zerofleet.inference.wire import Kind
from zerofleet.search.base import Evaluation
from zerofleet.telemetry import Metrics

_READ, _WRITE = selectors.EVENT_READ, selectors.EVENT_WRITE
_IDLE_S = 0.1  # the longest sleep, after which the stop event and new weights are looked at
_HELLO_S = 5.0  # for a new connection to show its token, and for a refused one to hang up
_SIGN_OF_LIFE_S = 0.5  # between two to a client whose questions are not read, because it must wait
_MAX_OUTBOX_BYTES = 4 << 20
_BATCHES_PER_CLIENT = 4  # of positions that one client may have in the queue, so that it cannot starve the others

_log = logging.getLogger(__name__)


class InferenceServer:
    """Serves one backend at one address or several; listens from the moment it is made."""

    def __init__(
        self,
        backend: Backend,
        config: InferenceConfig,
        address: str | Sequence[str],
        token: str,
        metrics: Metrics | None = None,
        *,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._backend = backend
        self._config = config
        self._token = token
        self._metrics = metrics if metrics is not None else Metrics()
        self._clock = clock
        self._batcher: Batcher[Connection] = Batcher(config.max_batch_size)
        self._connections: set[Connection] = set()
        self._paused: dict[Connection, None] = {}  # in the order in which they will be read again
        self._next_sweep = self._next_sign = 0.0
        self._num_non_finite = 0
        self._is_deaf = False  # does not accept connections for a moment
        bound = [listen(one) for one in ([address] if isinstance(address, str) else address)]
        self._listeners = [listener for listener, _ in bound]
        self.addresses = tuple(real for _, real in bound)
        self._selector = selectors.DefaultSelector()
        self._listen()

    @property
    def address(self) -> str:
        """Where the server listens, the first place if there are several."""
        return self.addresses[0]

    @property
    def waiting_for(self) -> str:
        """What the server cannot work without, in words; "" where it has all."""
        return "" if self._backend.versions() else "the first weights"

    def load(self, version: int, weights: bytes) -> None:
        """Make `version` resident; may be called from any thread, and a batch that runs is not disturbed.

        Raises:
            StorageError: the weights are not usable; those that were resident still are.
        """
        self._backend.load(version, weights)
        versions = self._backend.versions()
        self._metrics.inference_weights_version.set(versions[-1])
        self._metrics.inference_resident_versions.set(len(versions))

    def run(self, stop: threading.Event) -> None:
        """Serve until `stop` is set, then hang up on everyone: clients send open requests to another server."""
        try:
            while not stop.is_set():
                self.turn()
        finally:
            self.close()

    def turn(self) -> None:
        """Read what is there, sleeping a moment at most if nothing is to do, and serve one batch."""
        can_work = self._batcher.num_positions > 0 and bool(self._backend.versions())
        for key, events in self._selector.select(0 if can_work else _IDLE_S):
            if isinstance(key.data, socket.socket):
                if not self._is_deaf:
                    self._accept(key.data)
                continue
            if events & _WRITE:
                self._flush(key.data)
            if events & _READ and key.data.is_open:
                self._read(key.data)
        if self._backend.versions() and (batch := self._batcher.take()):
            self._serve(batch)
        if self._clock() >= self._next_sweep:
            self._sweep()

    def close(self) -> None:
        """Hang up and stop listening; a second call does nothing."""
        for connection in list(self._connections):
            self._drop(connection)
        if self._listeners:
            self._selector.close()
        for listener, address in zip(self._listeners, self.addresses, strict=False):
            listener.close()
            if address.startswith("unix:"):
                Path(address.removeprefix("unix:")).unlink(missing_ok=True)
        self._listeners = []

    def _listen(self) -> None:
        for listener in self._listeners:
            self._selector.register(listener, _READ, listener)

    def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                sock, _ = listener.accept()
            except BlockingIOError:
                return
            except ConnectionError:  # the client is gone again
                continue
            except OSError as error:  # such as no free file descriptor: the next sweep listens again
                _log.warning("cannot accept a connection: %s", error)
                for each in self._listeners:
                    self._selector.unregister(each)
                self._is_deaf = True
                return
            tune(sock)
            connection = Connection(sock, self._clock() + _HELLO_S)
            self._connections.add(connection)
            self._selector.register(sock, _READ, connection)
            connection.interest = _READ
            self._metrics.inference_connections.set(len(self._connections))

    def _read(self, connection: Connection) -> None:
        if connection.is_refused:
            if connection.discard():
                self._drop(connection)
            return
        try:
            if connection.reader.fill(connection.sock) == 0:
                self._drop(connection)
                return
        except BlockingIOError:
            return
        except OSError:
            self._drop(connection)
            return
        self._parse(connection)

    def _parse(self, connection: Connection) -> None:
        """Do what the frames that were read ask, until the client must wait."""
        try:
            for kind, payload in connection.reader.frames():
                if not self._handle(connection, kind, payload):
                    return
                if self._must_wait(connection):
                    break
        except WireError as error:
            self._refuse(connection, str(error))
        except OSError:
            self._drop(connection)
        else:
            self._watch(connection)

    def _must_wait(self, connection: Connection) -> bool:
        is_full = self._batcher.num_positions >= self._config.max_queued_positions
        is_greedy = connection.num_waiting >= _BATCHES_PER_CLIENT * self._config.max_batch_size
        return is_full or is_greedy or len(connection.outbox) >= _MAX_OUTBOX_BYTES

    def _resume(self, connection: Connection) -> None:
        """Go on with a client that had to wait, if it has not to any more: first with what was read of it."""
        if connection.is_open and not self._must_wait(connection):
            self._parse(connection)

    def _handle(self, connection: Connection, kind: int, payload: memoryview) -> bool:
        """Do what a frame asks; return False if the client was sent away."""
        if not connection.is_greeted:
            if kind != Kind.HELLO:
                raise WireError("hello: expected before anything else")
            reason = wire.check_hello(payload, self._backend.dimensions, self._token)
            if reason is not None:
                self._refuse(connection, reason)
                return False
            connection.greet(wire.welcome(self._newest(), self._config.max_batch_size))
        elif kind == Kind.REQUEST:
            request = wire.read_request(bytes(payload), self._backend.dimensions)
            self._batcher.add(Waiting(client=connection, request=request, arrived=self._clock()))
            connection.num_waiting += len(request)
        elif kind == Kind.PING:
            connection.outbox.send(connection.sock, [wire.pong(self._newest(), self._batcher.num_positions)])
        else:
            raise WireError(f"frame: kind {kind} is not a client's to send")
        return True

    def _newest(self) -> int:
        return max(self._backend.versions(), default=0)

    def _serve(self, batch: list[Waiting[Connection]]) -> None:
        requests = [waiting.request for waiting in batch]
        began = self._clock()
        planes, offsets, actions = join(requests)
        forward_began = self._clock()
        try:
            evaluation = self._backend.forward(planes, offsets, actions, requests[0].version)
        except InferenceError as error:  # the version asked for is not resident
            for waiting in batch:
                self._send(waiting.client, [wire.failed(waiting.request.id, str(error))])
        else:
            self._count(batch, began, self._clock() - forward_began)
            self._reply(batch, evaluation)
        for waiting in batch:
            waiting.client.num_waiting -= len(waiting.request)
        for connection in list(self._paused):
            self._resume(connection)

    def _reply(self, batch: list[Waiting[Connection]], evaluation: Evaluation) -> None:
        values, priors, version = evaluation.values, evaluation.priors, evaluation.weights_version
        row = legal = 0
        for waiting in batch:
            request = waiting.request
            row_end, legal_end = row + len(request.counts), legal + len(request.actions)
            parts = wire.reply_parts(request.id, version, values[row:row_end], priors[legal:legal_end])
            self._send(waiting.client, parts)
            row, legal = row_end, legal_end

    def _count(self, batch: list[Waiting[Connection]], began: float, forward_s: float) -> None:
        metrics = self._metrics
        num_positions = sum(len(waiting.request.counts) for waiting in batch)
        metrics.inference_positions.inc(num_positions)
        metrics.inference_requests.inc(len(batch))
        metrics.inference_batch_size.observe(num_positions)
        metrics.inference_forward_seconds.observe(forward_s)
        metrics.inference_busy_seconds.inc(forward_s)
        for waiting in batch:
            metrics.inference_queue_seconds.observe(began - waiting.arrived)
        if self._backend.num_non_finite_rows > self._num_non_finite:
            metrics.inference_non_finite_rows.inc(self._backend.num_non_finite_rows - self._num_non_finite)
            self._num_non_finite = self._backend.num_non_finite_rows

    def _send(self, connection: Connection, parts: list[wire.Buffer]) -> None:
        if not connection.is_open or connection.is_refused:
            return
        try:
            connection.outbox.send(connection.sock, parts)
        except OSError:
            self._drop(connection)
        else:
            if connection.outbox:
                self._watch(connection)

    def _flush(self, connection: Connection) -> None:
        try:
            connection.outbox.flush(connection.sock)
        except OSError:
            self._drop(connection)
        else:
            self._watch(connection)
            if connection in self._paused:
                self._resume(connection)

    def _watch(self, connection: Connection) -> None:
        """Watch for what the connection may do now: write where something waits, read unless it must wait."""
        if not connection.is_open:
            return
        must_wait = not connection.is_refused and self._must_wait(connection)
        self._paused.pop(connection, None)
        if must_wait:
            self._paused[connection] = None
        interest = (0 if must_wait else _READ) | (_WRITE if connection.outbox else 0)
        if interest == connection.interest:
            return
        if connection.interest == 0:
            self._selector.register(connection.sock, interest, connection)
        elif interest == 0:
            self._selector.unregister(connection.sock)
        else:
            self._selector.modify(connection.sock, interest, connection)
        connection.interest = interest

    def _refuse(self, connection: Connection, reason: str) -> None:
        """Send a client away, saying why; reasons begin with one of a few words, which label the metric."""
        label = reason.partition(":")[0].partition(" ")[0]
        self._metrics.inference_refused.labels(reason=label).inc()
        _log.info("refused a connection: %s", reason)
        self._forget_requests(connection)
        connection.refuse(reason, self._clock() + _HELLO_S)
        self._watch(connection)

    def _drop(self, connection: Connection) -> None:
        if not connection.is_open:
            return
        connection.is_open = False
        if connection.interest:
            self._selector.unregister(connection.sock)
        connection.sock.close()
        self._connections.discard(connection)
        self._paused.pop(connection, None)
        self._forget_requests(connection)
        self._metrics.inference_connections.set(len(self._connections))

    def _forget_requests(self, connection: Connection) -> None:
        if connection.num_waiting:
            self._batcher.remove(lambda client: client is connection)
            connection.num_waiting = 0

    def _sweep(self) -> None:
        """Do what is due a few times per second: close what is silent, tell who must wait that the server lives."""
        now = self._clock()
        self._next_sweep = now + _IDLE_S
        if self._is_deaf:
            self._listen()
            self._is_deaf = False
        for connection in [connection for connection in self._connections if connection.deadline <= now]:
            if not connection.is_refused:
                self._metrics.inference_refused.labels(reason="silent").inc()
            self._drop(connection)
        if now >= self._next_sign:
            self._next_sign = now + _SIGN_OF_LIFE_S
            for connection in [connection for connection in self._paused if not connection.outbox]:
                self._send(connection, [wire.pong(self._newest(), self._batcher.num_positions)])
