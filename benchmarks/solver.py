"""How long the Connect Four solver takes on one core, for positions of a file and a table of bounds that starts empty.

    python benchmarks/solver.py FILE ... [--repetitions 5]

A file has `moves score` lines.  Each position gets its exact score, by one solver for the whole file, and then, by a
fresh one, its sign alone (who wins).  All must be those of the file.  The clock is `time.thread_time`; making the table
counts.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import sys
import time
from collections.abc import Callable
from datetime import UTC, datetime
from functools import partial
from pathlib import Path

import numpy as np

from zerofleet.games import load_game
from zerofleet.games.base import State
from zerofleet.games.solvers import Connect4Solver

GAME = load_game("connect4")


def read(path: Path) -> tuple[list[State], list[int]]:
    """Return the positions of a file and their scores."""
    states, scores = [], []
    for line in path.read_text(encoding="ascii").splitlines():
        moves, score = line.split()
        state = GAME.initial_state()
        for digit in moves:
            state = GAME.next_state(state, int(digit) - 1)
        states.append(state)
        scores.append(int(score))
    return states, scores


def who_wins(scores: list[int]) -> list[int]:
    """Return the scores' signs."""
    return [(score > 0) - (score < 0) for score in scores]


def seconds(solve: Callable[[Connect4Solver], object], expected: list[int], repetitions: int) -> list[float]:
    """Return the CPU seconds of each repetition; stop where an answer is wrong."""
    found = []
    for _ in range(repetitions):
        start = time.thread_time()
        answers = solve(Connect4Solver())
        found.append(time.thread_time() - start)
        if np.asarray(answers).tolist() != expected:
            sys.exit("an answer is wrong")
    return found


def main() -> None:
    """Solve, compare and print."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", type=Path, nargs="+")
    parser.add_argument("--repetitions", type=int, default=5)
    options = parser.parse_args()
    print("| file | positions | scores: median (range) | signs: median (range) |\n|---|--:|--:|--:|")
    for path in options.files:
        states, scores = read(path)
        exact = seconds(partial(Connect4Solver.scores, states=states), scores, options.repetitions)
        signs = seconds(partial(Connect4Solver.values, states=states), who_wins(scores), options.repetitions)
        columns = [f"{statistics.median(s):.3f} s ({min(s):.3f} to {max(s):.3f})" for s in (exact, signs)]
        print(f"| {path.name} | {len(states)} | {' | '.join(columns)} |")
    print(f"\n- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, {os.cpu_count()} cores, one used")
    print(f"- Python {platform.python_version()}, `python {' '.join(sys.argv)}`")


if __name__ == "__main__":
    main()
