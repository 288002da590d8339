"""How far value targets of Connect Four lie from the truth: outcomes, and traces of some λ, of a run's newest games.

    python benchmarks/value_targets.py RUN_FOLDER [--rows 3000] [--newest 150000] [--lambdas 0,0.5,0.8,0.9,0.95,1]

`--rows` positions with 12 to 30 stones, one of each game, are drawn from the run's `--newest` positions and solved.
The table has the mean squared difference between target and true value (a win for a draw costs 1, for a loss 4), by how
far the end is under best play, and for those farther off by whether moves were still drawn there (stones below the
run's `self_play.temperature_plies`) or not.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from zerofleet.cluster.run_config import load_run_config
from zerofleet.games import load_game
from zerofleet.games.base import Game, State
from zerofleet.games.positions import plies_to_end
from zerofleet.games.solvers import Connect4Solver
from zerofleet.learner.log import EpisodeLog
from zerofleet.learner.targets import rows_from_episode
from zerofleet.streams.codec import decode_episode
from zerofleet.streams.records import Episode

STONES = (12, 30)
FAR_PLIES = 14


def state_after(game: Game, episode: Episode, ply: int) -> State:
    """The position in which move `ply` was made."""
    state = game.initial_state()
    for move in episode.moves[:ply]:
        state = game.next_state(state, game.legal_moves(state)[move.ordinal])
    return state


def main() -> None:
    """Draw, solve, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("run", type=Path)
    parser.add_argument("--rows", type=int, default=3000)
    parser.add_argument("--newest", type=int, default=150_000)
    parser.add_argument("--lambdas", default="0,0.5,0.8,0.9,0.95,1")
    options = parser.parse_args()
    began = time.monotonic()
    game, solver, rng = load_game("connect4"), Connect4Solver(), np.random.default_rng(0)
    lambdas = [None, *(float(word) for word in options.lambdas.split(","))]
    log = EpisodeLog.read_only(options.run / "log")
    episodes = [decode_episode(one.payload) for one in log.episodes(max(0, log.num_rows - options.newest))]
    rng.shuffle(episodes)
    found: list[tuple[float, ...]] = []  # stones, plies to the end, the truth, then each target
    for episode in episodes:
        row = int(rng.integers(len(episode.moves) - episode.opening_plies))
        stones = episode.opening_plies + row
        if not STONES[0] <= stones <= STONES[1]:
            continue
        score = int(solver.scores([state_after(game, episode, stones)])[0])
        targets = [float(rows_from_episode(game, episode, trace_lambda).values[row]) for trace_lambda in lambdas]
        found.append((stones, plies_to_end(stones, score), float(np.sign(score)), *targets))
        if len(found) == options.rows:
            break
    table = np.array(found)
    drawn_below = load_run_config(options.run / "config.toml").self_play.temperature_plies
    far, drawn = table[:, 1] > FAR_PLIES, table[:, 0] < drawn_below
    groups = {
        "all": np.ones(len(table), np.bool_),
        f"end within {FAR_PLIES} plies": ~far,
        "end farther off": far,
        f"... below {drawn_below} stones, where moves are drawn": far & drawn,
        f"... from {drawn_below} stones on": far & ~drawn,
    }
    print("# Value targets against the truth, mean squared difference\n")
    print("| positions | number | outcome |", " | ".join(f"trace, λ {it:g}" for it in lambdas if it is not None), "|")
    print("|---|--:|--:|" + "--:|" * (len(lambdas) - 1))
    for name, group in groups.items():
        if not group.any():
            continue
        off = ((table[group, 3:] - table[group, 2:3]) ** 2).mean(0)
        print(f"| {name} | {group.sum():,} |", " | ".join(f"{it:.3f}" for it in off), "|")
    print(f"\n- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {time.monotonic() - began:.0f} s, {os.cpu_count()} cores")
    print(f"- Python {platform.python_version()}, `python {' '.join(sys.argv)}`")


if __name__ == "__main__":
    main()
