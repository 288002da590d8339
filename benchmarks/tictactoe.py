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
from typing import Any

import numpy as np

from zerofleet.games import load_game
from zerofleet.games.solvers import Minimax
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.torch_backend import TorchBackend
from zerofleet.network.config import NetworkConfig
from zerofleet.network.net import build_network
from zerofleet.network.weights import WeightsMeta, encode_weights, network_from_weights

GAME = load_game("tictactoe")
RUN = "tictactoe"


def unfinished_positions() -> list[Any]:
    """Every reachable position in which somebody is to move."""
    found, waiting = set(), [GAME.initial_state()]
    while waiting:
        state = waiting.pop()
        if state not in found and GAME.terminal_value(state) is None:
            found.add(state)
            waiting += [GAME.next_state(state, move) for move in GAME.legal_moves(state)]
    return sorted(found, key=str)


def num_errors(weights: bytes, version: int, states: list[Any]) -> int:
    """Count the positions in which the network's first choice gives game value away."""
    backend = TorchBackend(GAME, InferenceConfig())
    backend.load(version, weights)
    actions = [GAME.legal_actions(state) for state in states]
    offsets = np.cumsum([0, *map(len, actions)]).astype(np.int32)
    priors = backend.forward(GAME.pack(states), offsets, np.concatenate(actions).astype(np.uint16)).priors
    solved = Minimax(GAME)
    errors = 0
    for state, start, end in zip(states, offsets[:-1], offsets[1:], strict=True):
        move = GAME.legal_moves(state)[int(np.argmax(priors[start:end]))]
        errors += solved.move_value(state, move) < solved.value(state)
    return errors


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
    states = unfinished_positions()
    meta = network_from_weights(weights)[1]
    before = num_errors(untrained(meta), meta.version, states)
    after = num_errors(weights, meta.version, states)
    lines = [
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores; {options.minutes:g} minutes",
        f"the run's last line: {last}",
        "",
        f"| network alone | errors in {len(states):,} positions | share |",
        "|---|--:|--:|",
        f"| untrained | {before} | {before / len(states):.3f} |",
        f"| version {meta.version} | {after} | {after / len(states):.3f} |",
    ]
    print("\n".join(lines))
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
