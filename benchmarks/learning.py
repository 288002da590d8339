"""What settings of the learner make of the same games of Connect Four: trained offline from a run's log.

    python benchmarks/learning.py RUN_FOLDER [--steps 2000] [--each 1000] [--try "ASSIGNMENT ..."] ...

Each `--try` is the run's own config with assignments as `zerofleet train --set` takes them, such as
"learner.optimizer=adamw learner.learning_rate=0.01"; "" is the run's own.  A learner is a function of its log, so each
makes the steps that it would have made in the run itself, had the actors played these games.  What comes of it is
counted on solved positions from random games, `--each` of middle-easy and middle-medium: moves of the network alone
that give game value away, and the squared error of its value against the true one (0 is perfect).  The training columns
are means over the last tenth of the steps: how far the policy's cross-entropy lies above that of a perfect network, and
the value's squared error, which is comparable between equal value targets alone.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import numpy as np
import torch

from zerofleet.actors.evaluation import count_errors
from zerofleet.actors.players import Player
from zerofleet.cluster.run_config import load_run_config, resume_config
from zerofleet.config import to_mapping
from zerofleet.games import load_game
from zerofleet.games.base import Game, State
from zerofleet.games.packing import unpack_planes
from zerofleet.games.positions import SolvedPosition, solved_positions
from zerofleet.games.solvers import Solver, solver_for
from zerofleet.learner.log import EpisodeLog
from zerofleet.learner.training import Training
from zerofleet.network.net import PolicyValueNet

POSITIONS_SEED = 1_000_003
STAGES = ("middle-easy", "middle-medium")


class NetworkAlone(Player):
    """Plays the network's first choice; `values` are what it said of the positions."""

    name = "network alone"

    def __init__(self, game: Game, net: PolicyValueNet) -> None:
        self._game, self._net = game, net
        self.values = np.zeros(0, np.float32)

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        """Ask the network for all positions at once."""
        planes = unpack_planes(self._game.pack(states), self._game.observation_shape, self._game.plane_type)
        shape = (len(states), *self._game.observation_shape)
        self._net.eval()
        with torch.inference_mode():
            logits, values = self._net(torch.from_numpy(planes.astype(np.float32).reshape(shape)))
        self.values = values.numpy()
        legal = [self._game.legal_actions(state) for state in states]
        return [int(logits[row, actions].argmax()) for row, actions in enumerate(legal)]


def row_of(options: argparse.Namespace, attempt: str, positions: list[SolvedPosition], solver: Solver) -> str:
    """Train as `attempt` says and return its line of the table."""
    stored = load_run_config(options.run / "config.toml")
    config = resume_config(stored, attempt.split(), to_mapping(stored))
    game = load_game(config.game)
    log = EpisodeLog.read_only(options.run / "log")
    training = Training(game, config.learner, config.network, config.seed, log)
    began, policy, value = time.process_time(), [], []
    while training.step < options.steps and training.may_step:
        report, _batch = training.make_step()
        policy.append(report.policy - report.target_entropy)
        value.append(report.value)
    seconds = time.process_time() - began
    player = NetworkAlone(game, training.trainer.published_net)
    errors = count_errors(game, solver, player, positions, seed=0).stages
    truth = np.array([position.value for position in positions])
    off = {
        stage: float(np.mean((player.values - truth)[[position.stage == stage for position in positions]] ** 2))
        for stage in STAGES
    }
    last = max(1, training.step // 10)
    cells = [
        attempt or "as the run",
        f"{training.step:,}",
        f"{seconds:.0f}",
        f"{statistics.mean(policy[-last:]):.3f}",
        f"{statistics.mean(value[-last:]):.3f}",
        *(f"{errors[stage].errors} of {errors[stage].positions:,}" for stage in STAGES),
        *(f"{off[stage]:.3f}" for stage in STAGES),
    ]
    return f"| {' | '.join(cells)} |"


def main() -> None:
    """Train and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--steps", type=int, default=2000)
    parser.add_argument("--each", type=int, default=1000)
    parser.add_argument("--try", dest="attempts", action="append")
    options = parser.parse_args()
    game = load_game("connect4")
    solver = solver_for(game)
    positions = solved_positions(game, solver, seed=POSITIONS_SEED, num_each=options.each, stages=STAGES)
    print("# The same games, learned with other settings\n")
    print("| settings | steps | CPU s | policy, above | value, error² | errors, middle-easy | middle-medium ", end="")
    print("| value off, middle-easy | middle-medium |\n|---|--:|--:|--:|--:|--:|--:|--:|--:|")
    for attempt in options.attempts or [""]:
        print(row_of(options, attempt, positions, solver), flush=True)
    print(f"\n- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, torch {torch.__version__}")
    print(f"- Python {platform.python_version()}, `python {' '.join(sys.argv)}`")


if __name__ == "__main__":
    main()
