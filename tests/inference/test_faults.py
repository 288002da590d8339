"""Servers that die, hang or never were; connections that are cut, flooded, or full of garbage."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest

from zerofleet.errors import InferenceError, InferenceUnavailableError
from zerofleet.inference import wire
from zerofleet.inference.endpoint import parse
from zerofleet.inference.wire import Dimensions, Kind
from zerofleet.search.base import Evaluation, LeafBatch

BatchOf = Callable[..., LeafBatch]
Expected = Callable[[LeafBatch, int], Evaluation]
Same = Callable[[Evaluation, Evaluation], None]
Until = Callable[[Callable[[], bool]], None]


def dial(address: str) -> socket.socket:
    family, target = parse(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    sock.settimeout(10.0)
    sock.connect(target)
    return sock


def read_to_end(sock: socket.socket) -> bytes:
    got = b""
    with contextlib.suppress(ConnectionError):
        while piece := sock.recv(65536):
            got += piece
    return got


def test_no_server_at_all_is_an_error_in_bounded_time(fleet: Any, batch_of: BatchOf) -> None:
    """Fault 79: it fails soon, with the reason for each address."""
    client = fleet.client([f"unix:{fleet.folder}/nobody", "tcp:127.0.0.1:1"], total_deadline_s=0.3)
    with pytest.raises(InferenceUnavailableError, match=r"nobody: No such file.*127\.0\.0\.1:1: Connection refused"):
        client.evaluate(batch_of(1))


def test_an_empty_list_of_servers_is_an_error_that_says_so(fleet: Any, batch_of: BatchOf) -> None:
    with pytest.raises(InferenceUnavailableError, match="no server is registered"):
        fleet.client([], total_deadline_s=0.1).evaluate(batch_of(1))


def test_a_server_without_weights_is_named_as_such(fleet: Any, batch_of: BatchOf, make_backend: Any) -> None:
    fleet.start(make_backend(versions=()))
    client = fleet.client(deadline_s=0.3, total_deadline_s=0.5)
    with pytest.raises(InferenceUnavailableError, match="alive, it has no weights yet"):
        client.evaluate(batch_of(1))


def test_a_registry_that_is_away_changes_nothing(fleet: Any, batch_of: BatchOf) -> None:
    fleet.start()
    answers: list[Any] = [list(fleet.servers), InferenceError("redis is away")]

    def servers() -> list[str]:
        answer = answers.pop(0) if len(answers) > 1 else answers[0]
        if isinstance(answer, Exception):
            raise answer
        return list(answer)

    client = fleet.client(servers)
    client.evaluate(batch_of(1))
    client._next_refresh = 0.0
    client.evaluate(batch_of(1))


def test_what_a_dead_server_owed_is_asked_of_another(
    fleet: Any, batch_of: BatchOf, make_backend: Any, until: Until, expected: Expected, same: Same
) -> None:
    """The server ends during a forward pass; its two open requests are answered by one that starts later."""
    dying, addresses = make_backend(), []
    addresses.append(fleet.start(dying))
    client, batches = fleet.client(lambda: addresses), [batch_of(4, seed) for seed in range(2)]
    client.evaluate(batches[0])
    dying.gate.clear()
    dying.is_in_forward.clear()
    tickets = [client.submit(batch) for batch in batches]
    until(dying.is_in_forward.is_set)
    dying.forward = None  # the next pass would raise, were there one
    fleet._stops[addresses[0]].set()
    dying.gate.set()
    fleet.stop(addresses[0])
    addresses.append(fleet.start())
    for ticket, batch in zip(tickets, batches, strict=True):
        same(client.collect(ticket), expected(batch, 1))


SERVER = """
import sys, threading
sys.path.insert(0, {folder!r})
from conftest import ByteBackend, TOKEN
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.server import InferenceServer
server = InferenceServer(ByteBackend(), InferenceConfig(max_batch_size=64), sys.argv[1], TOKEN)
print(server.address, flush=True)
server.run(threading.Event())
"""


@pytest.fixture
def start_process() -> Iterator[Callable[[str], tuple[subprocess.Popen[str], str]]]:
    """Start a server as a process of its own and return it with its address."""
    started: list[subprocess.Popen[str]] = []

    def start(address: str) -> tuple[subprocess.Popen[str], str]:
        source = SERVER.format(folder=str(Path(__file__).parent))
        process = subprocess.Popen([sys.executable, "-c", source, address], stdout=subprocess.PIPE, text=True)
        started.append(process)
        assert process.stdout is not None
        return process, process.stdout.readline().strip()

    yield start
    for process in started:
        process.kill()
        process.wait()
        assert process.stdout is not None
        process.stdout.close()


@pytest.mark.serial
@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_kill_nine_of_a_server_loses_no_request(
    kind: str, fleet: Any, batch_of: BatchOf, start_process: Any, expected: Expected, same: Same
) -> None:
    first = start_process(f"unix:{fleet.folder}/a" if kind == "unix" else "tcp:127.0.0.1:0")
    second = start_process(f"unix:{fleet.folder}/b" if kind == "unix" else "tcp:127.0.0.1:0")
    client = fleet.client([first[1], second[1]])
    for index in range(90):
        batches = [batch_of(16, 2 * index), batch_of(8, 2 * index + 1)]
        tickets = [client.submit(batch) for batch in batches]
        if index == 30:
            first[0].kill()
        if index == 60:  # the same address, a new process
            first = start_process(first[1])
        for ticket, batch in zip(tickets, batches, strict=True):
            same(client.collect(ticket), expected(batch, 1))


@pytest.mark.serial
def test_a_frozen_server_is_given_up_after_the_deadline(
    fleet: Any, batch_of: BatchOf, start_process: Any, expected: Expected, same: Same
) -> None:
    """Fault 80: SIGSTOP; the wait is bounded, the request goes elsewhere, and the late reply is dropped."""
    frozen, address = start_process(f"unix:{fleet.folder}/frozen")
    addresses = [address]
    client, batch = fleet.client(lambda: addresses, deadline_s=0.5), batch_of(4)
    client.evaluate(batch)
    os.kill(frozen.pid, signal.SIGSTOP)
    began = time.monotonic()
    ticket = client.submit(batch)
    addresses.append(fleet.start())
    same(client.collect(ticket), expected(batch, 1))
    assert 0.4 < time.monotonic() - began < 5.0  # deadline 0.5 s, and a second until the list is read again
    assert client.num_resends == 1
    os.kill(frozen.pid, signal.SIGCONT)
    for seed in range(50):
        batch = batch_of(4, seed)
        same(client.evaluate(batch), expected(batch, 1))


def test_a_busy_server_is_not_given_up(fleet: Any, batch_of: BatchOf, make_backend: Any) -> None:
    """Passes of other clients take longer than the deadline in sum; the server answers in between that it lives."""
    backend = make_backend(max_batch_size=64)
    forward = backend.forward

    def slowly(*args: Any) -> Evaluation:
        time.sleep(0.1)
        return cast(Evaluation, forward(*args))

    backend.forward = slowly
    fleet.start(backend)
    busy, client = fleet.client(), fleet.client(deadline_s=0.4)
    tickets = [busy.submit(batch_of(64)) for _ in range(9)]
    busy._pump()
    busy._pump()
    client.evaluate(batch_of(64))
    assert client.num_resends == 0
    for ticket in tickets:
        busy.collect(ticket)


@pytest.mark.parametrize(
    "garbage",
    [
        b"GET / HTTP/1.1\r\nHost: x\r\n\r\n",
        b"\x00" * 64,
        os.urandom(4096),
        wire.frame(Kind.PING),
        wire.frame(Kind.REQUEST, bytes(40)),
        wire.frame(Kind.HELLO, bytes(3000)),
        b"\xff\xff\xff\x7f\x01\x00\x00\x00",
    ],
)
def test_garbage_on_the_port_harms_nobody_else(
    garbage: bytes, fleet: Any, batch_of: BatchOf, expected: Expected, same: Same
) -> None:
    address = fleet.start(address="tcp:127.0.0.1:0")
    client, batch = fleet.client(), batch_of(4)
    client.evaluate(batch)
    with dial(address) as sock:
        sock.sendall(garbage)
        said = read_to_end(sock)
        assert said == b"" or said[4] == Kind.REFUSED
        assert b"secret" not in said
    same(client.evaluate(batch), expected(batch, 1))


def test_a_malformed_request_of_a_known_client_ends_its_connection_alone(
    fleet: Any, batch_of: BatchOf, dimensions: Dimensions, token: str
) -> None:
    address = fleet.start()
    client = fleet.client()
    client.evaluate(batch_of(1))
    with dial(address) as sock:
        sock.sendall(wire.hello(dimensions, token) + wire.frame(Kind.REQUEST, bytes(24)))
        said = read_to_end(sock)
    assert b"request 0: 0 positions" in said
    client.evaluate(batch_of(1))
    assert client.num_resends == 0


def test_a_connection_cut_in_mid_frame_leaves_nothing_behind(
    fleet: Any, batch_of: BatchOf, dimensions: Dimensions, token: str, until: Until
) -> None:
    address = fleet.start()
    server = fleet.servers[address]
    request = b"".join(wire.request_parts(1, 0, batch_of(50)))
    with dial(address) as sock:
        sock.sendall(wire.hello(dimensions, token) + request[: len(request) // 2])
        sock.recv(100)
    until(lambda: not server._connections)
    assert server._batcher.num_positions == 0
    fleet.client().evaluate(batch_of(1))


def test_requests_of_a_client_that_left_are_not_computed(
    fleet: Any, batch_of: BatchOf, dimensions: Dimensions, token: str, until: Until, make_backend: Any
) -> None:
    backend = make_backend(versions=())
    address = fleet.start(backend)
    server = fleet.servers[address]
    with dial(address) as sock:
        sock.sendall(wire.hello(dimensions, token) + b"".join(wire.request_parts(1, 0, batch_of(50))))
        until(lambda: server._batcher.num_positions == 50)
    until(lambda: server._batcher.num_positions == 0)
    server.load(1, b"weights")
    fleet.client().evaluate(batch_of(3))
    assert backend.batches == [3]


def test_a_server_that_is_cut_off_in_mid_reply_is_replaced(
    fleet: Any, batch_of: BatchOf, expected: Expected, same: Same
) -> None:
    """A man in the middle passes the welcome and half a reply, then hangs up."""
    batch, path = batch_of(40), f"{fleet.folder}/middle"
    listener = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    listener.bind(path)
    listener.listen()

    def answer_half() -> None:
        sock, _ = listener.accept()
        with sock:
            sock.recv(65536)
            sock.sendall(wire.welcome(1, 64))
            sock.recv(65536)
            answer = expected(batch, 1)
            sock.sendall(b"".join(wire.reply_parts(1, 1, answer.values, answer.priors))[:100])
        listener.close()

    thread = threading.Thread(target=answer_half)
    thread.start()
    addresses = [f"unix:{path}"]
    client = fleet.client(lambda: addresses)
    ticket = client.submit(batch)
    client._pump()
    addresses.append(fleet.start())
    same(client.collect(ticket), expected(batch, 1))
    thread.join()
    assert client.num_resends == 1


def test_a_flood_of_small_requests_neither_grows_the_server_nor_starves_others(
    fleet: Any, batch_of: BatchOf, dimensions: Dimensions, token: str
) -> None:
    address = fleet.start(max_queued_positions=128)
    server, client = fleet.servers[address], fleet.client()
    request, stop = b"".join(wire.request_parts(1, 0, batch_of(1))), threading.Event()

    def flood() -> None:
        with dial(address) as sock:
            sock.settimeout(0.2)
            sock.sendall(wire.hello(dimensions, token))
            while not stop.is_set():  # and never reads a reply
                with contextlib.suppress(TimeoutError):
                    sock.sendall(request * 1000)

    threads = [threading.Thread(target=flood) for _ in range(2)]
    for thread in threads:
        thread.start()
    try:
        for seed in range(20):
            client.evaluate(batch_of(8, seed))
            assert server._batcher.num_positions <= 128  # the bound: every request of the flood is one position

        assert client.num_resends == 0
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def test_a_client_that_never_says_hello_is_sent_away(
    fleet: Any, batch_of: BatchOf, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("zerofleet.inference.server._HELLO_S", 0.1)
    address = fleet.start()
    with dial(address) as sock:
        assert read_to_end(sock) == b""


def test_a_backend_that_fails_ends_its_server(
    fleet: Any, batch_of: BatchOf, make_backend: Any, short_tmp: Path
) -> None:
    """The server does not hide it: `run` raises, the connection is closed, and a supervisor can start another."""
    from zerofleet.inference.config import InferenceConfig
    from zerofleet.inference.server import InferenceServer

    backend, failures = make_backend(), []

    def fail(*_: Any) -> Any:
        raise RuntimeError("the device is gone")

    backend.forward = fail
    address = f"unix:{short_tmp}/f"
    server = InferenceServer(backend, InferenceConfig(max_batch_size=64), address, "a secret of this run")

    def run() -> None:
        try:
            server.run(threading.Event())
        except RuntimeError as error:
            failures.append(str(error))

    thread = threading.Thread(target=run)
    thread.start()
    with pytest.raises(InferenceUnavailableError):
        fleet.client([address], total_deadline_s=0.5).evaluate(batch_of(1))
    thread.join(5.0)
    assert failures == ["the device is gone"]
    assert not Path(address.removeprefix("unix:")).exists()
