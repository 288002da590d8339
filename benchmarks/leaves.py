"""What leaves in flight cost in strength and save in batches: the same search, many leaves at once against one.

    python benchmarks/leaves.py [--game connect4] [--simulations 256] [--leaves 4,8,16] [--games 200] [--write]

Both players search with the same simulations and random rollouts; one of them takes its leaves one at a time, which is
the sequential search.  Openings are paired and colours swapped.  Beside the score stands how many batches a move takes:
with a network, each is a forward pass to wait for.  A tree takes at most simulations // 16 leaves at once, so a larger
number asks for more simulations too.  The strength of a trained network may depend on leaves otherwise than that of
rollouts does.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from zerofleet.actors.arena import play_match
from zerofleet.actors.players import SearchPlayer
from zerofleet.games import load_game
from zerofleet.games.base import Game
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig
from zerofleet.search.evaluators import RolloutEvaluator, UniformEvaluator
from zerofleet.search.search import search

RESULTS = Path(__file__).parent / "results"
OPENING_PLIES = 4


class Counting(UniformEvaluator):
    """Counts the batches it is asked."""

    num_batches = 0

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Answer, and count."""
        self.num_batches += 1
        return super().evaluate(batch)


def batches_per_move(game: Game, config: SearchConfig) -> int:
    """Return how many batches the search of the first position takes."""
    counting = Counting()
    search(game, game.initial_state(), counting, config)
    return counting.num_batches


def elo(score: float) -> str:
    """Return a score as a difference in Elo, where it has one."""
    return f"{400 * math.log10(score / (1 - score)):+.0f}" if 0.0 < score < 1.0 else "unbounded"


def measure(args: argparse.Namespace, leaves: int) -> str:
    """Return one line of the table."""
    game = load_game(args.game)
    configs = [SearchConfig(num_simulations=args.simulations, leaves_per_tree=count) for count in (leaves, 1)]
    players = [
        SearchPlayer(game, RolloutEvaluator(game, seed), config, name=f"{config.leaves_per_tree} leaves")
        for seed, config in enumerate(configs)
    ]
    result = play_match(game, *players, args.games, seed=args.seed, opening_plies=OPENING_PLIES)
    low, high = result.interval()
    many, one = (batches_per_move(game, config) for config in configs)
    return (
        f"| {leaves} | {many} | {one} | {result.score:.1%} | {low:.1%} to {high:.1%} "
        f"| {elo(result.score)} ({elo(low)} to {elo(high)}) | {result.total} |"
    )


def circumstances() -> list[str]:
    """Return what the figures were measured on; games and scores depend on the seed alone, not on the machine."""
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return [
        f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit.stdout.strip() or 'unknown'}",
        f"- {os.cpu_count()} cores of {platform.machine()}; Python {platform.python_version()}, numpy {np.__version__}",
        f"- `python {' '.join(sys.argv)}`",
    ]


def main() -> None:
    """Play, print, and with --write keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect4")
    parser.add_argument("--simulations", type=int, default=256)
    parser.add_argument("--leaves", type=lambda text: [int(part) for part in text.split(",")], default=[4, 8, 16])
    parser.add_argument("--games", type=int, default=200)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--write", action="store_true", help="write a new file in benchmarks/results/")
    args = parser.parse_args()
    limit = max(1, args.simulations // 16)
    if max(args.leaves) > limit:
        parser.error(f"{args.simulations} simulations take at most {limit} leaves at once, got {max(args.leaves)}")
    lines = [
        f"# Leaves in flight against one at a time: {args.game}, {args.simulations} simulations a move",
        "",
        "| leaves | batches a move | with one leaf | score | 95 % interval | Elo | games |",
        "|---|---|---|---|---|---|---|",
        *(measure(args, leaves) for leaves in args.leaves),
        "",
        *circumstances(),
        "",
    ]
    text = "\n".join(lines)
    print(text)
    if args.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"leaves-{datetime.now(UTC):%Y%m%d-%H%M%S}.md").write_text(text)


if __name__ == "__main__":
    main()
