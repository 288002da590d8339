"""`zerofleet train` from outside: limits, resume, Ctrl-C, kill -9 of the command itself, and the other commands."""

from __future__ import annotations

import contextlib
import json
import os
import signal
import time
import urllib.request
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zerofleet.cluster.embedded_redis import EmbeddedRedis

if TYPE_CHECKING:
    from tests.integration.conftest import TrainProcess

pytestmark = [pytest.mark.serial, pytest.mark.slow, pytest.mark.timeout(400)]


LOOPBACK = ("0100007F", "00000000000000000000000001000000")
"""127.0.0.1, mapped into IPv6 too, and ::1, as the kernel writes them."""


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        return str(answer.read().decode())


def missing_on(page: str, names: set[str], timeout_s: float = 30.0) -> set[str]:
    """Return which metrics a page does not show; on a busy machine a process may be too late for it once."""
    deadline = time.monotonic() + timeout_s
    missing = set(names)
    while missing and time.monotonic() < deadline:
        metrics = get(page)
        missing = {name for name in missing if f"zerofleet_{name}{{" not in metrics}
    return missing


def processes_of(train: TrainProcess) -> tuple[set[int], list[Path]]:
    """Return the processes of a `train` that runs (its roles, its Redis, its Ray), and its folders outside storage."""
    scratch = Path(json.loads((train.folder / "scratch.json").read_text())["folder"])
    address = json.loads((train.folder / "redis" / "address.json").read_text())
    found = {int(address["pid"]), *(int(role["pid"]) for role in train.status()["roles"])}
    for process in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):  # it has ended; by its command line Ray's agents would not be found
            if any(opened.readlink().is_relative_to(scratch) for opened in (process / "fd").iterdir()):
                found.add(int(process.name))
    return found, [scratch, Path(address["socket"]).parent]


def ray_agents(pids: set[int]) -> set[int]:
    """Return those processes that call themselves Ray's, of which none may be a role."""
    return {pid for pid in pids if Path(f"/proc/{pid}/cmdline").read_bytes().startswith(b"ray::")}


def listening_for_others(pids: set[int]) -> dict[int, list[str]]:
    """Return, by process, the addresses on which it listens and that are not this machine's alone."""
    listening: dict[str, str] = {}
    for table in ("tcp", "tcp6"):
        for row in Path(f"/proc/net/{table}").read_text().splitlines()[1:]:
            fields = row.split()
            if fields[3] == "0A":  # TCP_LISTEN
                listening[fields[9]] = fields[1]
    found: dict[int, list[str]] = {}
    for pid in pids:
        for inode in sockets_of(pid) & listening.keys():
            host = listening[inode].partition(":")[0]
            if not host.endswith(LOOPBACK):
                found.setdefault(pid, []).append(listening[inode])
    return found


def sockets_of(pid: int) -> set[str]:
    """Return the inodes of a process's sockets."""
    inodes = set()
    for descriptor in Path(f"/proc/{pid}/fd").glob("*"):
        try:
            target = str(descriptor.readlink())
        except OSError:  # it has just been closed, or the process has ended
            continue
        if target.startswith("socket:["):
            inodes.add(target[8:-1])
    return inodes


def left_of(pids: set[int], timeout_s: float = 10.0) -> set[int]:
    """Return which of these processes still live; those that are just ending are waited for."""
    deadline = time.monotonic() + timeout_s
    while (left := {pid for pid in pids if is_alive(pid)}) and time.monotonic() < deadline:
        time.sleep(0.05)
    return left


def is_alive(pid: int) -> bool:
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] not in "ZX"
    except OSError:
        return False


def test_a_run_is_watched_scaled_ended_at_its_limit_and_resumed(train_process: TrainProcess) -> None:
    """Faults 69, 71, 72, 110, 112, 127."""
    train = train_process
    train.start("tictactoe", "--steps", "150", "--actors", "2")
    status = train.wait_until(lambda status: status["state"] == "running" and status["learner_step"] > 20, "steps")
    pids, folders = processes_of(train)
    assert train.process is not None
    assert len(pids) >= 8  # six roles, Redis, and Ray's own
    assert set(status) >= {
        "run", "state", "waiting_for", "weights_version", "learner_step", "games", "positions_per_s",
        "samples_per_insert", "actors", "stream", "roles",
    }  # fmt: skip
    assert not (far := listening_for_others(pids | {train.process.pid})), f"open to other machines: {far}"
    assert status["actors"] == {"wished": 2, "alive": 2}
    assert set(status["roles"][0]) >= {"role", "index", "node", "pid", "incarnation", "restarts", "metrics_url"}

    page = status["metrics_url"].removesuffix("/metrics")
    assert len(json.loads(get(f"{page}/sd"))) == len(status["roles"]) == 6
    wanted = {"actor_games_total", "inference_positions_total", "learner_steps_total", "controller_actors"}
    assert missing_on(status["metrics_url"], wanted) == set()

    assert train.command("scale", "1").returncode == 0
    train.wait_until(lambda status: status["actors"] == {"wished": 1, "alive": 1}, "one actor")

    assert train.wait(150.0) == 0
    first = train.lines()[-1]
    assert first["exit_reason"] == "steps"
    assert first["steps"] >= 150
    assert first["seconds_to_first_weights"] > 0.0
    assert left_of(pids) == set()
    assert [folder for folder in folders if folder.exists()] == []
    after = train.status()
    assert (after["state"], after["learner_step"], after["games"]) == ("stopped", first["steps"], first["games"])
    before = [episode["id"] for episode in train.episodes()]
    assert len(before) == first["games"]

    # Resume: it goes on where it was, and says what was changed.
    train.start("tictactoe", "--games", str(first["games"] + 60), settings={"learner.learning_rate": "0.01"})
    assert train.wait(150.0) == 0
    second = train.lines()[-1]
    assert second["exit_reason"] == "games"
    assert second["games"] >= first["games"] + 60
    assert second["steps"] >= first["steps"]
    assert second["weights_version"] >= first["weights_version"]
    assert any(line.get("changes") == ["learner.learning_rate: 0.02 -> 0.01"] for line in train.lines())
    episodes = train.episodes()
    assert [episode["id"] for episode in episodes[: len(before)]] == before
    assert len({episode["game_number"] for episode in episodes}) == len(episodes) == second["games"]

    # A bit of the log flips: the next one ends as soon as its learner has read it, whatever time it was given.
    damaged = min((train.folder / "log").glob("*.log"))
    content = bytearray(damaged.read_bytes())
    content[len(content) // 2] ^= 1
    damaged.write_bytes(content)
    train.start("tictactoe", "--minutes", "60")
    assert train.wait(100.0) == 1
    third = train.lines()[-1]
    assert third["exit_reason"] == "failed"
    assert f"{damaged}: broken at byte" in third["error"]
    assert third["games"] == second["games"]


def test_ctrl_c_drains_and_kill_9_of_the_command_leaves_nothing_that_the_next_one_cannot_use(
    train_process: TrainProcess,
) -> None:
    """Fault 112."""
    train = train_process
    train.start()
    train.wait_until(lambda status: status["games"] > 20, "games")
    pids, folders = processes_of(train)
    assert train.process is not None
    os.killpg(train.process.pid, signal.SIGINT)  # as a terminal does: to Ray's processes too
    assert train.wait(90.0) == 130
    assert train.lines()[-1]["exit_reason"] == "interrupted"
    assert "Traceback" not in train.output.read_text()
    games = len(train.episodes())
    assert games == train.lines()[-1]["games"]
    assert left_of(pids) == set()
    assert [folder for folder in folders if folder.exists()] == []

    # kill -9: Ray goes with it but for its agents, Redis stays; the next train adopts it and ends the agents.
    train.start()
    train.wait_until(lambda status: status["games"] > games + 20, "more games")
    redis_pid = json.loads((train.folder / "redis" / "address.json").read_text())["pid"]
    pids, _folders = processes_of(train)
    agents = ray_agents(pids - {int(role["pid"]) for role in train.status()["roles"]})
    os.kill(train.process.pid, signal.SIGKILL)
    train.wait()
    assert left_of(pids - agents - {redis_pid}, 30.0) == set()
    assert EmbeddedRedis(train.folder / "redis").is_alive()
    assert train.status()["games"] > games
    train.start()
    train.wait_until(lambda status: status["games"] > games + 60 and len(status["roles"]) == 6, "games after kill -9")
    assert json.loads((train.folder / "redis" / "address.json").read_text())["pid"] == redis_pid
    assert left_of(pids - {redis_pid}) == set()

    # kill -9 again, and `stop` ends what is left.
    pids, folders = processes_of(train)
    os.kill(train.process.pid, signal.SIGKILL)
    train.wait()
    train.process = None
    train.wait_until(lambda status: status["state"] == "interrupted", "the end of the leases")
    stopped = train.command("stop")
    assert stopped.returncode == 0
    assert "nobody ran it any more" in stopped.stdout
    assert left_of(pids) == set()
    assert [folder for folder in folders if folder.exists()] == []
    assert not EmbeddedRedis(train.folder / "redis").is_alive()
    numbers = [episode["game_number"] for episode in train.episodes()]
    assert len(numbers) == len(set(numbers)) > games + 60
