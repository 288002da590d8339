"""Kill and stop everything in a running `train`: it goes on, and no game is lost, doubled or numbered twice."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
import signal
import threading
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
import redis

from zerofleet.cluster.embedded_redis import EmbeddedRedis
from zerofleet.cluster.upkeep import CEILING_STEP
from zerofleet.streams.codec import decode_episode

if TYPE_CHECKING:
    from tests.integration.conftest import TrainProcess

pytestmark = [pytest.mark.serial, pytest.mark.slow, pytest.mark.timeout(420)]


class Observer(threading.Thread):
    """Notes the number of every game that it sees published, from outside."""

    def __init__(self, folder: Path, run: str) -> None:
        super().__init__(daemon=True)
        self._embedded = EmbeddedRedis(folder / "redis")
        self._key = f"zerofleet:{run}:episodes"
        self.done = threading.Event()
        self.numbers: set[int] = set()
        self.waiting: set[int] = set()  # published and not acknowledged, at the last look

    def run(self) -> None:
        while not self.done.wait(0.05):
            url = self._embedded.url()
            try:
                with redis.Redis.from_url(url, socket_timeout=1.0) as client:
                    entries: Any = client.xrange(self._key)
            except redis.RedisError:
                continue
            self.waiting = {decode_episode(fields[b"e"]).game_number for _id, fields in entries}
            self.numbers |= self.waiting


def kill(pid: int, number: int = signal.SIGKILL) -> None:
    os.kill(pid, number)


def asleep(pids: list[int], seconds: float = 7.0) -> None:
    """Stop processes for a while, by default for longer than a lease."""
    for pid in pids:
        kill(pid, signal.SIGSTOP)
    time.sleep(seconds)
    for pid in pids:
        kill(pid, signal.SIGCONT)


def pid_of_redis(train: TrainProcess) -> int:
    return int(json.loads((train.folder / "redis" / "address.json").read_text())["pid"])


def succeeded(train: TrainProcess, role: str, index: int, old: dict[str, Any]) -> None:
    """Wait until another start of the role is at work, and games go on."""
    train.wait_until(
        lambda status: any(
            (found["role"], found["index"]) == (role, index) and found["incarnation"] != old["incarnation"]
            for found in status["roles"]
        ),
        f"a successor of {role}-{index}",
    )
    games = train.status()["games"]
    train.wait_until(lambda status: status["games"] > games + 5, f"more games after the death of {role}-{index}")


def stop_until_it_is_succeeded(train: TrainProcess, role: str) -> None:
    """Stop a role until another has its place, and wake it again."""
    old = train.role(role)
    kill(old["pid"], signal.SIGSTOP)
    succeeded(train, role, 0, old)
    with contextlib.suppress(ProcessLookupError):  # the controller may have ended even the stopped process
        kill(old["pid"], signal.SIGCONT)
    games = train.status()["games"]
    train.wait_until(lambda status: status["games"] > games + 20, f"games beside the {role} of the past")


def incarnations(status: dict[str, Any]) -> dict[str, str]:
    return {
        f"{role['role']}-{role['index']}": role["incarnation"]
        for role in status["roles"]
        if role["role"] != "controller"
    }


def test_a_run_survives_the_death_of_every_part_and_loses_no_game(train_process: TrainProcess) -> None:
    """Faults 69, 75, 76, 80, 114."""
    train = train_process
    train.start()
    train.wait_until(lambda status: status["weights_version"] >= 2 and status["games"] > 20, "new weights")
    observer = Observer(train.folder, train.run)
    observer.start()

    for role in ("actor", "inference", "learner"):
        old = train.role(role)
        kill(old["pid"])
        succeeded(train, role, 0, old)

    # The controller: Ray brings it back, and it adopts what runs.
    before = train.wait_until(lambda status: len(status["roles"]) == 6, "all roles")
    old = train.role("controller")
    kill(old["pid"])
    succeeded(train, "controller", 0, old)
    assert incarnations(train.status()) == incarnations(before)

    # Redis, with its data on disk.
    kill(pid_of_redis(train))
    games = before["games"]
    train.wait_until(
        lambda status: status["games"] > games + 20 and len(status["roles"]) == 6, "games after Redis died"
    )

    # Redis, stopped for longer than a lease: nobody can renew one, and nobody dies of it.
    before = train.wait_until(lambda status: len(status["roles"]) == 6, "all roles")
    asleep([pid_of_redis(train)])
    train.wait_until(lambda status: status["games"] > before["games"] + 20, "games after Redis slept")
    assert incarnations(train.status()) == incarnations(before)

    for role in ("actor", "inference", "learner"):
        stop_until_it_is_succeeded(train, role)

    # All of them at once, for longer than a lease, as when the machine sleeps.
    before = train.wait_until(lambda status: len(status["roles"]) == 6, "all roles")
    asleep([pid_of_redis(train), *(role["pid"] for role in before["roles"])])
    train.wait_until(lambda status: status["games"] > before["games"] + 20, "games after a sleep")
    assert incarnations(train.status()) == incarnations(before)

    # A controller that is stopped for longer than a lease: it must judge nobody when it wakes.
    before = train.wait_until(lambda status: len(status["roles"]) == 6, "all roles")
    old = train.role("controller")
    asleep([old["pid"]])
    train.wait_until(
        lambda status: len(status["roles"]) == 6 and status["games"] > before["games"] + 20, "the controller"
    )
    time.sleep(3.0)
    assert incarnations(train.status()) == incarnations(before)

    # Redis again, and now its data is gone: numbers go on above all that were ever given out.
    observer.done.set()
    observer.join()
    kill(pid_of_redis(train))
    shutil.rmtree(train.folder / "redis" / "appendonlydir")
    # The actors first finish the blocks of numbers that they hold; what they take then is above the ceiling.
    train.wait_until(
        lambda status: (
            len(status["roles"]) == 6 and any(episode["game_number"] >= CEILING_STEP for episode in train.episodes())
        ),
        "games after the loss",
    )
    assert "lost its data" in (train.folder / "logs" / "controller-0.log").read_text()

    assert train.command("stop").returncode == 0
    assert train.wait() == 0
    episodes = train.episodes()
    numbers = [episode["game_number"] for episode in episodes]
    assert len(numbers) == len(set(numbers)) == len({episode["id"] for episode in episodes})
    assert len(observer.numbers) > 100
    assert observer.numbers <= set(numbers) | observer.waiting, "a published game is lost"
    assert max(numbers) >= CEILING_STEP > max(observer.numbers)
    assert train.lines()[-1]["games"] == len(numbers)
    assert train.lines()[-1]["exit_reason"] == "stopped"
