from __future__ import annotations

import json
import os
import signal
import stat
import threading
import time
from collections.abc import Iterator
from pathlib import Path

import pytest
import redis

from zerofleet.cluster.embedded_redis import EmbeddedRedis, find_server
from zerofleet.errors import StorageError


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    folder = tmp_path / "a run with blanks" / "redis"
    yield folder
    EmbeddedRedis(folder).stop()


def pid_of(folder: Path) -> int:
    return int(json.loads((folder / "address.json").read_text())["pid"])


def test_a_write_that_was_answered_survives_kill_9(folder: Path) -> None:
    embedded = EmbeddedRedis(folder)
    with redis.Redis.from_url(embedded.ensure()) as client:
        client.set("key", "value")
        os.kill(pid_of(folder), signal.SIGKILL)
    deadline = time.monotonic() + 5.0
    while embedded.is_alive() and time.monotonic() < deadline:
        time.sleep(0.01)
    assert embedded.revive()
    with redis.Redis.from_url(str(embedded.url())) as client:
        assert client.get("key") == b"value"


def test_a_server_that_is_there_is_adopted_at_the_same_address(folder: Path) -> None:
    url, pid = EmbeddedRedis(folder).ensure(), pid_of(folder)
    assert EmbeddedRedis(folder).ensure() == url
    assert pid_of(folder) == pid
    assert not EmbeddedRedis(folder).revive()


def kill_the_starter(folder: Path, monkeypatch: pytest.MonkeyPatch) -> int:
    """Start a server whose starter dies before it has noted the process; return the server's id."""

    def killed(path: Path, _deadline: float) -> int:
        while not path.exists():
            time.sleep(0.005)
        raise KeyboardInterrupt

    with monkeypatch.context() as patched, pytest.raises(KeyboardInterrupt):
        patched.setattr("zerofleet.cluster.embedded_redis._read_pid", killed)
        EmbeddedRedis(folder).ensure()
    embedded = EmbeddedRedis(folder)
    assert not embedded.is_alive()
    socket = Path(json.loads((folder / "address.json").read_text())["socket"])
    while not socket.exists():
        time.sleep(0.005)
    return int((folder / "server.pid").read_text())


def test_a_server_whose_starter_was_killed_is_adopted(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a second one would write to the same files, and the first would never end."""
    pid = kill_the_starter(folder, monkeypatch)
    embedded = EmbeddedRedis(folder)
    with redis.Redis.from_url(embedded.ensure()) as client:
        assert client.info("server")["process_id"] == pid
    assert pid_of(folder) == pid
    assert embedded.is_alive()


def test_a_server_whose_starter_was_killed_is_ended_with_its_folder(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    kill_the_starter(folder, monkeypatch)
    embedded = EmbeddedRedis(folder)
    socket = Path(json.loads((folder / "address.json").read_text())["socket"])
    assert embedded.stop()
    assert not embedded.is_alive()
    assert not socket.parent.exists()


def test_a_stop_keeps_the_data_for_the_next_start(folder: Path) -> None:
    embedded = EmbeddedRedis(folder)
    with redis.Redis.from_url(embedded.ensure()) as client:
        client.set("key", "value")
    assert embedded.stop()
    assert not embedded.is_alive()
    assert not embedded.stop()
    with redis.Redis.from_url(embedded.ensure()) as client:
        assert client.get("key") == b"value"


def test_a_stopped_server_is_not_mistaken_for_a_dead_one(folder: Path) -> None:
    """Fault 80: frozen by SIGSTOP, it is waited for, not replaced."""
    embedded = EmbeddedRedis(folder)
    embedded.ensure()
    pid = pid_of(folder)
    os.kill(pid, signal.SIGSTOP)
    try:
        assert not embedded.revive()
    finally:
        os.kill(pid, signal.SIGCONT)
    assert pid_of(folder) == pid


def test_it_is_private(folder: Path) -> None:
    embedded = EmbeddedRedis(folder)
    embedded.ensure()
    address = json.loads((folder / "address.json").read_text())
    socket = Path(address["socket"])
    assert len(str(socket).encode()) < 107
    assert stat.S_IMODE(socket.parent.stat().st_mode) == 0o700
    for name in ("address.json", "server.conf"):
        assert stat.S_IMODE((folder / name).stat().st_mode) == 0o600
    with redis.Redis(unix_socket_path=str(socket)) as stranger, pytest.raises(redis.AuthenticationError):
        stranger.ping()
    assert address["password"].encode() not in Path(f"/proc/{address['pid']}/cmdline").read_bytes()


def test_two_that_start_it_at_once_get_the_same_server(folder: Path) -> None:
    urls: list[str] = []
    threads = [threading.Thread(target=lambda: urls.append(EmbeddedRedis(folder).ensure())) for _ in range(3)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(urls) == 3
    assert len(set(urls)) == 1


def test_a_process_that_got_the_old_number_is_left_alone(folder: Path) -> None:
    embedded = EmbeddedRedis(folder)
    embedded.ensure()
    embedded.stop()
    address = json.loads((folder / "address.json").read_text())
    address["pid"] = os.getpid()
    (folder / "address.json").write_text(json.dumps(address))
    assert not embedded.is_alive()
    assert not embedded.stop()


def test_a_server_is_found() -> None:
    assert os.access(find_server(), os.X_OK)


def test_without_any_server_the_remedy_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    monkeypatch.setenv("PATH", "")
    with pytest.raises(StorageError, match="--redis-url"):
        find_server()


def test_no_snapshot_ever_blocks_it(folder: Path) -> None:
    """Fault 119: every write goes to the append-only file, whose rewrites are a child's work; nobody asks for SAVE."""
    with redis.Redis.from_url(EmbeddedRedis(folder).ensure()) as client:
        settings = client.config_get("save", "appendonly", "appendfsync", "maxmemory-policy")
        assert settings == {
            "save": "",
            "appendonly": "yes",
            "appendfsync": "always",
            "maxmemory-policy": "noeviction",
        }
        client.set("key", "value" * 1000)
        assert client.info("persistence")["rdb_saves"] == 0
