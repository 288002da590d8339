"""How well the network alone plays tic-tac-toe after a few minutes of training, against perfect play.

    python benchmarks/tictactoe.py [--minutes 3] [--set KEY=VALUE ...] [--output FILE]

`zerofleet train tictactoe` runs for so long; then the move with the largest prior of the newest weights, without any
search, is compared with minimax in each of the 4,520 reachable unfinished positions (symmetric ones not merged).  A
move errs when it gives game value away: a win for a draw or a loss, a draw for a loss.  The untrained network, version
1 of the same run, stands beside it.
"""

from __future__ import annotations

import argparse
import os
import platform
import subprocess
import sys
import tempfile
from pathlib import Path

from zerofleet.actors.evaluation import count_errors
from zerofleet.actors.players import SearchPlayer
from zerofleet.games import load_game
from zerofleet.games.positions import SolvedPosition, solved_positions
from zerofleet.games.solvers import Minimax
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.local import BackendEvaluator
from zerofleet.inference.torch_backend import TorchBackend
from zerofleet.network.config import NetworkConfig
from zerofleet.network.net import build_network
from zerofleet.network.weights import WeightsMeta, encode_weights, network_from_weights
from zerofleet.search.base import SearchConfig

GAME = load_game("tictactoe")
SOLVER = Minimax(GAME)
RUN = "tictactoe"


def num_errors(weights: bytes, version: int, positions: list[SolvedPosition]) -> int:
    """Count the positions in which the network's first choice gives game value away."""
    backend = TorchBackend(GAME, InferenceConfig())
    backend.load(version, weights)
    policy = SearchPlayer(GAME, BackendEvaluator(backend), SearchConfig(num_simulations=0))
    return count_errors(GAME, SOLVER, policy, positions, seed=0).total.errors


def untrained(like: WeightsMeta) -> bytes:
    """The network that the run began with."""
    config: NetworkConfig = like.network
    return encode_weights(build_network(GAME.observation_shape, GAME.num_actions, config, seed=1), like)[0]


def main() -> None:
    """Train, compare and print."""
    parser = argparse.ArgumentParser(description="Tic-tac-toe's network against perfect play.")
    parser.add_argument("--minutes", type=float, default=3.0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--output", type=Path, help="also write the result there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as storage:
        command = [
            sys.executable,
            "-m",
            "zerofleet",
            "train",
            "tictactoe",
            "--run",
            RUN,
            "--storage",
            storage,
            "--json",
        ]
        command += ["--minutes", str(options.minutes)]
        for setting in options.set:
            command += ["--set", setting]
        last = subprocess.run(command, check=True, stdout=subprocess.PIPE, text=True).stdout.splitlines()[-1]
        weights = sorted((Path(storage) / RUN / "weights").glob("*.safetensors"))[-1].read_bytes()
    positions = solved_positions(GAME, SOLVER, seed=0, num_each=0)
    meta = network_from_weights(weights)[1]
    before = num_errors(untrained(meta), meta.version, positions)
    after = num_errors(weights, meta.version, positions)
    lines = [
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores; {options.minutes:g} minutes",
        f"the run's last line: {last}",
        "",
        f"| network alone | errors in {len(positions):,} positions | share |",
        "|---|--:|--:|",
        f"| untrained | {before} | {before / len(positions):.3f} |",
        f"| version {meta.version} | {after} | {after / len(positions):.3f} |",
    ]
    print("\n".join(lines))
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
