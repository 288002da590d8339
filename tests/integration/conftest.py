"""A run of `zerofleet train` in a process of its own, and what a test does to it."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.status import RunView
from zerofleet.errors import RunError, StreamUnavailableError
from zerofleet.streams.redis_store import RedisRunStore

SMALL = {
    "network.channels": "8",
    "network.blocks": "1",
    "search.num_simulations": "16",
    "self_play.games_per_actor": "16",
    "learner.batch_size": "32",
    "learner.min_rows": "200",
    "learner.publish_interval_steps": "20",
    "learner.replay_rows": "5000",
    "cluster.metrics_port": "0",
    "cluster.heartbeat_s": "0.5",
}
"""Settings with which a run does everything, soon and on little."""


class TrainProcess:
    """A `zerofleet train` that was started, and the commands that look at its run."""

    def __init__(self, storage: Path, run: str) -> None:
        self.storage = storage
        self.run = run
        self.folder = storage / run
        self.output = storage / f"{run}.out"
        self.redis_url: str | None = None  # where the run does not bring its own
        self.process: subprocess.Popen[bytes] | None = None

    def start(self, game: str = "tictactoe", *arguments: str, settings: dict[str, str] | None = None) -> None:
        command = [sys.executable, "-m", "zerofleet", "train", game, "--run", self.run, "--storage", str(self.storage)]
        for key, value in {**SMALL, **(settings or {})}.items():
            command += ["--set", f"{key}={value}"]
        with self.output.open("ab") as output:
            self.process = subprocess.Popen(
                [*command, "--json", *arguments], stdout=output, stderr=output, start_new_session=True
            )

    def command(self, name: str, *arguments: str) -> subprocess.CompletedProcess[str]:
        command = [sys.executable, "-m", "zerofleet", name, self.run, *arguments, "--storage", str(self.storage)]
        return subprocess.run(command, capture_output=True, text=True, timeout=100, check=False)

    def status(self) -> dict[str, Any]:
        return RunView(RunFolder(self.storage, self.run), self.redis_url).status()

    def role(self, role: str, index: int = 0) -> dict[str, Any]:
        roles: list[dict[str, Any]] = self.status()["roles"]
        return next((found for found in roles if (found["role"], found["index"]) == (role, index)), {})

    def wait_until(
        self, holds: Callable[[dict[str, Any]], bool], what: str, timeout_s: float = 150.0
    ) -> dict[str, Any]:
        """Poll `status` until `holds` of it."""
        deadline = time.monotonic() + timeout_s
        status: dict[str, Any] = {}
        while time.monotonic() < deadline:
            if self.process is not None and self.process.poll() is not None:
                pytest.fail(f"train ended with {self.process.returncode} before {what}:\n{self.tail()}")
            try:
                status = self.status()
            except (RunError, StreamUnavailableError):  # not there yet, or Redis is away just now
                status = {}
            if status and holds(status):
                return status
            time.sleep(0.3)
        pytest.fail(f"waited {timeout_s:g} s for {what}; status {status}\n{self.tail()}")

    def addresses(self) -> list[str]:
        """Return where the inference servers listen."""
        assert self.redis_url is not None
        leased = RedisRunStore(self.redis_url, self.run).roles()
        return [role.record.address for role in leased if role.record.role == "inference"]

    def lines(self) -> list[dict[str, Any]]:
        """Return the JSON lines that `train` has printed."""
        return [json.loads(line) for line in self.output.read_text().splitlines() if line.startswith("{")]

    def episodes(self) -> list[dict[str, Any]]:
        listed = self.command("episodes", "--json")
        assert listed.returncode == 0, listed.stderr
        return [json.loads(line) for line in listed.stdout.splitlines()]

    def wait(self, timeout_s: float = 60.0) -> int:
        assert self.process is not None
        return self.process.wait(timeout_s)

    def tail(self) -> str:
        """Return the ends of what was printed and logged."""
        logs = sorted((self.folder / "logs").glob("*.log")) if self.folder.exists() else []
        return "\n".join(
            f"--- {path.name}\n{path.read_text(errors='replace')[-1500:]}" for path in [self.output, *logs]
        )

    def clean_up(self) -> None:
        """End whatever is left."""
        if self.process is not None and self.process.poll() is None:
            self.process.send_signal(signal.SIGTERM)
            try:
                self.process.wait(30)
            except subprocess.TimeoutExpired:
                self.process.kill()
                self.process.wait()
        self.command("stop")


@pytest.fixture
def train_process(tmp_path: Path) -> Iterator[TrainProcess]:
    """A run that has not been started yet; whatever is left of it is ended after the test."""
    running = TrainProcess(tmp_path, f"test-{os.getpid()}-{time.monotonic_ns() % 10**9}")
    yield running
    running.clean_up()
