"""What all tests share: a quiet environment for Ray, a seeded generator, a fake clock, and a sweep at the end."""

from __future__ import annotations

import os
import shutil
import signal
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

# Set before anything imports Ray or torch.  Loopback only, no usage reports, no dashboard's warnings.
os.environ.update(
    RAY_USAGE_STATS_ENABLED="0",
    RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER="0",
    RAY_ACCEL_ENV_VAR_OVERRIDE_ON_ZERO="0",
    RAY_DEDUP_LOGS="0",
    OMP_NUM_THREADS="1",
)
os.environ.setdefault("RAY_AUTH_MODE", "token")
os.environ.setdefault("ZEROFLEET_TEST_SESSION", uuid.uuid4().hex)


class FakeClock:
    """A clock that moves only when it is told to; `clock()` reads it, `clock.sleep` moves it."""

    def __init__(self) -> None:
        self.now = 1000.0

    def __call__(self) -> float:
        return self.now

    def advance(self, seconds: float) -> None:
        self.now += seconds

    sleep = advance


@pytest.fixture
def fake_clock() -> FakeClock:
    return FakeClock()


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(1)


@pytest.fixture
def short_tmp(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """A folder with a path short enough for a Unix socket, whose limit is 107 bytes."""
    folder = Path(tempfile.mkdtemp(prefix="zf-", dir="/tmp"))
    yield folder
    shutil.rmtree(folder, ignore_errors=True)


def _left_behind() -> list[int]:
    """Ids of processes that this test run started, directly or not, and that still live.

    Daemons leave their parent, so they are known by the environment that they inherited.  A process that pytest itself
    runs in, here or further up, is not among them.
    """
    mark = f"ZEROFLEET_TEST_SESSION={os.environ['ZEROFLEET_TEST_SESSION']}".encode()
    found = []
    for folder in Path("/proc").glob("[0-9]*"):
        try:
            if mark in (folder / "environ").read_bytes().split(b"\0"):
                found.append(int(folder.name))
        except OSError:
            continue
    return [pid for pid in found if pid not in _own_line()]


def _own_line() -> set[int]:
    line, pid = set(), os.getpid()
    while pid > 1:
        line.add(pid)
        status = Path(f"/proc/{pid}/status").read_text()
        pid = next(int(row.split()[1]) for row in status.splitlines() if row.startswith("PPid:"))
    return line


def pytest_unconfigure(config: pytest.Config) -> None:
    """End what the tests left running: only by process id, and only what carries this run's mark."""
    if hasattr(config, "workerinput") or not Path("/proc/self/environ").exists():
        return
    for wanted in (signal.SIGTERM, signal.SIGKILL):
        pids = _left_behind()
        for pid in pids:
            try:
                os.kill(pid, wanted)
            except OSError:
                continue
        deadline = time.monotonic() + 3.0
        while pids and _left_behind() and time.monotonic() < deadline:
            time.sleep(0.05)
