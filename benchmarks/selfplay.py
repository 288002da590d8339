"""Self-play with everything running, the learner paused, against the bare backend on the same cores.

    python benchmarks/selfplay.py [--net 32x3] [--rounds 20] [--seconds 2.4] [--set KEY=VALUE ...] [--output FILE]

A real run is started (`zerofleet train connect4`: Ray, Redis, actors, servers, learner) and its learner is paused.  In
each round the positions/s of all servers are read off their metrics while the actors play; then the run's processes are
stopped, and as many bare backends as there are servers, one thread each, evaluate the same weights at the batch size
that the servers had on average: once in the form that serves best here (`inference.form`), once in torch, by oneDNN.
Rounds are short, so that a machine whose speed changes from minute to minute slows all sides; the result is the median
of their ratios.  Two more columns tell where the rest goes: the share of all cores that the servers had, and what a
position cost a server beside what it cost the first bare backend, in CPU time.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import signal
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zerofleet.errors import ZerofleetError

RUN = "bench"
GAME = "connect4"


@dataclass(frozen=True, slots=True)
class Reading:
    """What all servers have done so far."""

    at: float
    positions: float
    batches: float
    busy_s: float
    cpu_s: float


class Run:
    """A run that was started for the benchmark."""

    def __init__(self, storage: Path, settings: list[str]) -> None:
        self.storage = storage
        self._log = (storage / "train.log").open("w")
        command = [sys.executable, "-m", "zerofleet", "train", GAME, "--run", RUN, "--storage", str(storage), "--json"]
        for setting in settings:
            command += ["--set", setting]
        self._process = subprocess.Popen(command, stdout=self._log, stderr=subprocess.STDOUT)

    def status(self) -> dict[str, object]:
        """Return what `zerofleet status --json` says."""
        from zerofleet.cluster.run_folder import RunFolder
        from zerofleet.cluster.status import RunView

        return RunView(RunFolder(self.storage, RUN), None).status()

    def wait_for_actors(self, seconds: float) -> dict[str, object]:
        """Wait until the actors play, and return the status."""
        deadline, problem = time.monotonic() + seconds, "they do not play"
        while time.monotonic() < deadline:
            if self._process.poll() is not None:
                sys.exit(f"the run ended by itself; see {self._log.name}")
            try:
                status = self.status()
                if status["actors"]["alive"] > 0 and status["weights_version"]:  # type: ignore[index]
                    return status
            except (ZerofleetError, OSError, KeyError) as error:  # it is only being started
                problem = str(error)
            time.sleep(0.5)
        sys.exit(f"no actors within {seconds:g} s ({problem}); see {self._log.name}")

    def pause_learner(self) -> None:
        """Let the learner read and log, and take no step."""
        from zerofleet.cluster.embedded_redis import EmbeddedRedis
        from zerofleet.cluster.run_folder import RunFolder
        from zerofleet.streams.redis_store import RedisRunStore

        url = EmbeddedRedis(RunFolder(self.storage, RUN).redis).url()
        assert url is not None
        RedisRunStore(url, RUN).set_paused(True)

    def end(self) -> None:
        """Stop the run in order."""
        if self._process.poll() is None:
            self._process.terminate()
            self._process.wait(timeout=120)


def cpu_seconds(pid: int) -> float:
    """Return the CPU time that a process has used."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def read(servers: list[dict[str, object]]) -> Reading:
    """Add up the servers' metrics and CPU time."""
    totals = {"positions_total": 0.0, "batch_size_count": 0.0, "busy_seconds_total": 0.0}
    at = time.perf_counter()
    cpu_s = sum(cpu_seconds(int(str(server["pid"]))) for server in servers)
    for server in servers:
        text = urllib.request.urlopen(str(server["metrics_url"]), timeout=10).read().decode()
        for line in text.splitlines():
            for name in totals:
                if line.startswith(f"zerofleet_inference_{name} "):
                    totals[name] += float(line.split()[-1])
    return Reading(at, totals["positions_total"], totals["batch_size_count"], totals["busy_seconds_total"], cpu_s)


def bare_process(weights: Path, num_rows: int, form: str) -> None:
    """Be one bare backend: for each line with a number of seconds evaluate for so long and print positions/s."""
    os.environ["OMP_NUM_THREADS"] = "1"
    import torch

    from zerofleet.games import load_game
    from zerofleet.games.positions import random_positions
    from zerofleet.inference.config import InferenceConfig
    from zerofleet.inference.torch_backend import TorchBackend

    torch.set_num_threads(1)
    game = load_game(GAME)
    backend = TorchBackend(game, InferenceConfig(form=form))  # type: ignore[arg-type]
    backend.load(1, weights.read_bytes())
    states = random_positions(game, num_rows, seed=0)
    legal = [game.legal_actions(state) for state in states]
    planes = game.pack(states)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in legal])]).astype(np.int32)
    actions = np.concatenate(legal).astype(np.uint16)
    for _ in range(5):
        backend.forward(planes, offsets, actions)
    print("ready", flush=True)
    for line in sys.stdin:
        done, seconds, began, cpu_began = 0, float(line), time.perf_counter(), time.process_time()
        while (elapsed := time.perf_counter() - began) < seconds:
            backend.forward(planes, offsets, actions)
            done += num_rows
        print(done / elapsed, (time.process_time() - cpu_began) / done, flush=True)


class Bare:
    """Several bare backends side by side, in the environment that the servers have; they wait between measurements."""

    def __init__(self, weights: Path, num_processes: int, num_rows: int, form: str) -> None:
        from zerofleet.cluster.ray_session import ROLE_ENVIRONMENT

        command = [sys.executable, __file__, "--bare", str(weights), str(num_rows), form]
        pipes = {"stdin": subprocess.PIPE, "stdout": subprocess.PIPE}
        self._processes = [
            subprocess.Popen(command, text=True, env={**os.environ, **ROLE_ENVIRONMENT}, **pipes)  # type: ignore[call-overload]
            for _ in range(num_processes)
        ]
        for process in self._processes:
            assert process.stdout.readline() == "ready\n"

    def measure(self, seconds: float) -> tuple[float, float]:
        """Return (positions/s of all of them, CPU seconds per position)."""
        for process in self._processes:
            process.stdin.write(f"{seconds}\n")
            process.stdin.flush()
        answers = [tuple(map(float, process.stdout.readline().split())) for process in self._processes]
        return sum(rate for rate, _ in answers), statistics.mean(cost for _, cost in answers)

    def end(self) -> None:
        """End their processes."""
        for process in self._processes:
            process.communicate()


@contextmanager
def asleep(pids: list[int]) -> Iterator[None]:
    """Stop the run's processes for a while, shorter than a lease."""
    for pid in pids:
        os.kill(pid, signal.SIGSTOP)
    try:
        yield
    finally:
        for pid in pids:
            os.kill(pid, signal.SIGCONT)


def measure(options: argparse.Namespace, storage: Path) -> list[str]:
    """Run all rounds and return the lines of the result."""
    channels, blocks = options.net.split("x")
    settings = [f"network.channels={channels}", f"network.blocks={blocks}", *options.set]
    run = Run(storage, settings)
    titles = (
        "round",
        "self-play/s",
        "batch",
        "device busy",
        "servers' cores",
        "cost/bare",
        "bare/s",
        "ratio",
        "torch/s",
        "ratio",
    )
    lines = ["| " + " | ".join(titles) + " |", "|--:" * len(titles) + "|"]
    ratios, torch_ratios, shares, costs = [], [], [], []
    print("\n".join(lines), flush=True)
    bares: list[Bare] = []
    try:
        run.wait_for_actors(180)
        run.pause_learner()
        time.sleep(options.settle)
        status = run.wait_for_actors(120)
        roles: list[dict[str, object]] = status["roles"]  # type: ignore[assignment]
        servers = [role for role in roles if role["role"] == "inference"]
        pids = [int(str(role["pid"])) for role in roles]
        for number in range(1, options.rounds + 1):
            time.sleep(1.0)
            before = read(servers)
            time.sleep(options.seconds)
            after = read(servers)
            seconds = after.at - before.at
            rate = (after.positions - before.positions) / seconds
            batch = (after.positions - before.positions) / (after.batches - before.batches)
            busy = (after.busy_s - before.busy_s) / seconds / len(servers)
            if not bares:
                weights = sorted((storage / RUN / "weights").glob("*.safetensors"))[-1]
                bares = [Bare(weights, len(servers), round(batch), form) for form in ("auto", "onednn")]
            with asleep(pids):
                (bare_rate, bare_cost), (torch_rate, _) = (bare.measure(options.seconds) for bare in bares)
            ratios.append(rate / bare_rate)
            torch_ratios.append(rate / torch_rate)
            shares.append((after.cpu_s - before.cpu_s) / seconds / (os.cpu_count() or 1))
            costs.append((after.cpu_s - before.cpu_s) / (after.positions - before.positions) / bare_cost)
            lines.append(
                f"| {number} | {rate:,.0f} | {batch:.0f} | {busy:.2f} | {shares[-1]:.2f} | {costs[-1]:.2f} "
                f"| {bare_rate:,.0f} | {ratios[-1]:.3f} | {torch_rate:,.0f} | {torch_ratios[-1]:.3f} |"
            )
            print(lines[-1], flush=True)
    finally:
        for bare in bares:
            bare.end()
        run.end()
    return [
        *lines,
        "",
        f"medians: servers' share of the cores {statistics.median(shares):.3f}, "
        f"CPU time of a position beside bare {statistics.median(costs):.3f}",
        "",
        *(
            f"median ratio to {name} {statistics.median(found):.3f} of {len(found)} rounds, "
            f"{min(found):.3f} to {max(found):.3f}"
            for name, found in (("the bare backend", ratios), ("bare torch", torch_ratios))
        ),
    ]


def main() -> None:
    """Measure and print the table."""
    if sys.argv[1:2] == ["--bare"]:
        bare_process(Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4])
        return
    parser = argparse.ArgumentParser(description="Self-play against the bare backend.")
    parser.add_argument("--net", default="32x3", help="channels x blocks")
    parser.add_argument("--rounds", type=int, default=20)
    parser.add_argument("--seconds", type=float, default=2.4, help="of each measurement; two are shorter than a lease")
    parser.add_argument("--settle", type=float, default=15.0, help="from the first game to the first measurement")
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--output", type=Path, help="also write the result there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as storage:
        lines = measure(options, Path(storage))
    summary = lines[-4:]
    head = [f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, network {options.net}", ""]
    print("\n".join(summary))
    if options.output:
        options.output.write_text("\n".join([*head, *lines]) + "\n")
        print(json.dumps({"written": str(options.output)}))


if __name__ == "__main__":
    main()
