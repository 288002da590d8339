"""Bare backend against the same backend behind a socket, in positions/s by batch size.

    python benchmarks/inference.py [--nets 32x3,64x5] [--batches 16,64,128,256] [--seconds 1.5] [--output FILE]

`torch`, `onednn` and `onnxruntime` call the backend in this process, in each of its forms (`inference.form`); `bare` is
the one that it chooses.  `socket` asks a server in another process over a Unix socket, with two requests in flight as
an actor has.  They run in turns, so that a busy neighbour slows all; the best turn counts.  Beside positions/s stands
the CPU time per position, which a neighbour disturbs less: `server` and `client` together against `bare` is what the
socket costs.
"""

from __future__ import annotations

import argparse
import os
import platform
import resource
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnxruntime
import torch

from zerofleet.games import load_game
from zerofleet.games.positions import random_positions
from zerofleet.inference.client import InferenceClient
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.link import Ticket
from zerofleet.inference.server import InferenceServer
from zerofleet.inference.torch_backend import TorchBackend
from zerofleet.inference.wire import Dimensions
from zerofleet.network.config import NetworkConfig
from zerofleet.network.net import build_network
from zerofleet.network.weights import WeightsMeta, encode_weights
from zerofleet.search.base import LeafBatch

GAME = load_game("connect4")
TOKEN = "benchmark"
MAX_BATCH = 512
FORMS = ("torch", "onednn", "onnxruntime", "auto")


def weights_of(config: NetworkConfig) -> bytes:
    """The bytes of an untrained network, as a server loads them."""
    net = build_network(GAME.observation_shape, GAME.num_actions, config, seed=1)
    meta = WeightsMeta(
        run="benchmark",
        version=1,
        step=0,
        game=GAME.spec,
        rules_version=GAME.rules_version,
        observation_shape=GAME.observation_shape,
        num_actions=GAME.num_actions,
        network=config,
    )
    return encode_weights(net, meta)[0]


def backend_for(config: NetworkConfig, form: str = "auto") -> TorchBackend:
    """A backend with one version loaded."""
    backend = TorchBackend(GAME, InferenceConfig(max_batch_size=MAX_BATCH, form=form))  # type: ignore[arg-type]
    backend.load(1, weights_of(config))
    return backend


def positions(num_rows: int) -> LeafBatch:
    """Unfinished positions of random games."""
    states = random_positions(GAME, num_rows, seed=0)
    legal = [GAME.legal_actions(state) for state in states]
    return LeafBatch(
        planes=GAME.pack(states),
        legal_offsets=np.concatenate([[0], np.cumsum([len(row) for row in legal])]).astype(np.int32),
        legal_actions=np.concatenate(legal).astype(np.uint16),
        source=None,  # type: ignore[arg-type]
    )


def serve(address: str, config: NetworkConfig) -> None:
    """Be the server process, until killed."""
    server = InferenceServer(backend_for(config), InferenceConfig(max_batch_size=MAX_BATCH), address, TOKEN)
    print("ready", flush=True)
    server.run(threading.Event())


def cpu_seconds_of(pid: int) -> float:
    """CPU time of another process, user and system."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Tally:
    """Positions, seconds and CPU seconds of one way to evaluate, over all its turns."""

    def __init__(self) -> None:
        self.best_rate = 0.0
        self.positions = 0
        self.cpu_s = 0.0

    def turn(
        self,
        step: Callable[[], int],
        seconds: float,
        cpu: Callable[[], float],
        finish: Callable[[], int] = lambda: 0,
    ) -> None:
        """Repeat `step` for a while, then `finish`; both return how many positions they dealt with."""
        cpu_before, began, done = cpu(), time.perf_counter(), 0
        while time.perf_counter() - began < seconds:
            done += step()
        done += finish()
        self.best_rate = max(self.best_rate, done / (time.perf_counter() - began))
        self.positions += done
        self.cpu_s += cpu() - cpu_before

    @property
    def cpu_us(self) -> float:
        """CPU microseconds per position."""
        return 1e6 * self.cpu_s / max(1, self.positions)


def own_cpu() -> float:
    """CPU time of this process."""
    usage = resource.getrusage(resource.RUSAGE_SELF)
    return usage.ru_utime + usage.ru_stime


def measure(config: NetworkConfig, num_rows: int, client: InferenceClient, pid: int, seconds: float) -> str:
    """Measure one net and batch size, and return its row of the table."""
    batch = positions(num_rows)
    backends = {form: backend_for(config, form) for form in FORMS}
    waiting: list[Ticket] = []

    def bare(form: str) -> Callable[[], int]:
        def step() -> int:
            backends[form].forward(batch.planes, batch.legal_offsets, batch.legal_actions)
            return num_rows

        return step

    def socket() -> int:
        while len(waiting) < 2:
            waiting.append(client.submit(batch))
        client.collect(waiting.pop(0))
        return num_rows

    def drain() -> int:
        """Leave nothing that the server would work on in the next turn, which is not its own."""
        done = num_rows * len(waiting)
        while waiting:
            client.collect(waiting.pop())
        return done

    tallies = {name: Tally() for name in (*FORMS, "socket")}
    client_before = 0.0
    for _ in range(4):
        for form in FORMS:
            tallies[form].turn(bare(form), seconds / 4, own_cpu)
        before = own_cpu()
        tallies["socket"].turn(socket, seconds / 4, lambda: cpu_seconds_of(pid), drain)
        client_before += own_cpu() - before
    rates = {name: tally.best_rate for name, tally in tallies.items()}
    client_us = 1e6 * client_before / tallies["socket"].positions
    bare_us, server_us = tallies["auto"].cpu_us, tallies["socket"].cpu_us
    return (
        f"| {config.channels}x{config.blocks} | {num_rows} | {rates['torch']:,.0f} | {rates['onednn']:,.0f} "
        f"| {rates['onnxruntime']:,.0f} | {rates['auto']:,.0f} | {rates['socket']:,.0f} "
        f"| {rates['socket'] / rates['auto']:.2f} | {bare_us:.1f} | {server_us:.1f} "
        f"| {client_us:.2f} | {bare_us / (server_us + client_us):.2f} "
        f"| {(server_us + client_us - bare_us) * num_rows:.0f} |"
    )


_COLUMNS = (
    *("net", "batch", "torch/s", "onednn/s", "onnxruntime/s", "bare/s", "socket/s", "socket/bare"),
    *("bare us", "server us", "client us", "CPU ratio", "extra us/batch"),
)
HEAD = f"| {' | '.join(_COLUMNS)} |\n|---|{'--:|' * (len(_COLUMNS) - 1)}"


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Bare backend against socket, by batch size.")
    parser.add_argument("--nets", default="32x3,64x5", help="channels x blocks, several by comma")
    parser.add_argument("--batches", default="16,64,128,256")
    parser.add_argument("--seconds", type=float, default=1.5, help="for each way, in each row")
    parser.add_argument("--output", type=Path, help="also write the table there")
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    options = parser.parse_args()
    configs = [
        NetworkConfig(channels=int(c), blocks=int(b)) for c, b in (net.split("x") for net in options.nets.split(","))
    ]
    if options.serve:
        serve(options.serve, configs[0])
        return
    lines = [
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores, torch {torch.__version__}, "
        f"onnxruntime {onnxruntime.__version__}",
        "",
        HEAD,
    ]
    print("\n".join(lines), flush=True)
    for config in configs:
        with tempfile.TemporaryDirectory() as folder:
            address = f"unix:{folder}/s"
            command = [sys.executable, __file__, "--serve", address, "--nets", f"{config.channels}x{config.blocks}"]
            process = subprocess.Popen(command, stdout=subprocess.PIPE, text=True)
            try:
                assert process.stdout is not None
                process.stdout.readline()
                client = InferenceClient([address], TOKEN, Dimensions.of(GAME))
                for num_rows in (int(size) for size in options.batches.split(",")):
                    lines.append(measure(config, num_rows, client, process.pid, options.seconds))
                    print(lines[-1], flush=True)
                client.close()
            finally:
                process.kill()
                process.wait()
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
