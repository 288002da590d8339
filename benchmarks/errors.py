"""How often trained weights give game value away at Connect Four, beside a search without a network.

    python benchmarks/errors.py WEIGHTS [--begin-easy FILE] [--each 1000] [--simulations 600] [--seeds 5]

WEIGHTS is a weights file, as a run's `weights/` holds them.  The positions are solved: those of a file with
`moves score` lines, and `--each` of middle-easy and middle-medium, drawn by the solver from random games.  A move errs
when it gives game value away; a slower win is no error.  The yardstick is UCB1 with as many rollouts on the same
positions, over several seeds; the last column is the network's share of its mean errors.  The network alone (its first
choice, no search) stands beside them.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

from zerofleet.actors.evaluation import count_errors
from zerofleet.actors.players import Player, UctPlayer
from zerofleet.cluster.trained import TrainedNet, load_weights_file
from zerofleet.games.positions import SolvedPosition, read_positions, solved_positions
from zerofleet.games.solvers import Solver, solver_for

POSITIONS_SEED = 1_000_003


def position_sets(net: TrainedNet, solver: Solver, options: argparse.Namespace) -> dict[str, list[SolvedPosition]]:
    """Return the positions of each row of the table."""
    sets: dict[str, list[SolvedPosition]] = {}
    if options.begin_easy is not None:
        sets["begin-easy, from a file"] = read_positions(net.game, solver, options.begin_easy)
    drawn = solved_positions(
        net.game, solver, seed=POSITIONS_SEED, num_each=options.each, stages=("middle-easy", "middle-medium")
    )
    for stage in ("middle-easy", "middle-medium"):
        sets[stage] = [position for position in drawn if position.stage == stage]
    sets["middle, both"] = drawn
    return sets


def table(options: argparse.Namespace) -> list[str]:
    """Return the lines of the table."""
    net = load_weights_file(options.weights)
    solver = solver_for(net.game)

    def errors(player: Player, positions: list[SolvedPosition], seed: int) -> int:
        return count_errors(net.game, solver, player, positions, seed=seed).total.errors

    search, uct = net.player(options.simulations), UctPlayer(net.game, options.simulations)
    lines = [
        f"| positions | number | network alone | {options.simulations} simulations "
        f"| UCB1, {options.simulations} rollouts, {options.seeds} seeds | share |",
        "|---|--:|--:|--:|---|--:|",
    ]
    for name, positions in position_sets(net, solver, options).items():
        alone, searched = errors(net.player(0), positions, 0), errors(search, positions, 0)
        baseline = [errors(uct, positions, seed) for seed in range(options.seeds)]
        share = searched / statistics.mean(baseline)
        number = len(positions)
        lines.append(
            f"| {name} | {number:,} | {alone} ({alone / number:.1%}) | {searched} ({searched / number:.1%}) | "
            f"{', '.join(map(str, baseline))} | {share:.2f} |"
        )
    return lines


def main() -> None:
    """Count and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("weights", type=Path)
    parser.add_argument("--begin-easy", type=Path)
    parser.add_argument("--each", type=int, default=1000)
    parser.add_argument("--simulations", type=int, default=600)
    parser.add_argument("--seeds", type=int, default=5)
    options = parser.parse_args()
    began = time.monotonic()
    print("\n".join(["# Errors at Connect Four", "", *table(options), ""]))
    print(f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {time.monotonic() - began:.0f} s, {os.cpu_count()} cores")
    print(f"- Python {platform.python_version()}, `python {' '.join(sys.argv)}`")


if __name__ == "__main__":
    main()
