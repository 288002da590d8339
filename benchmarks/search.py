"""Search speed: simulations per CPU second of one thread, with an evaluator that costs next to nothing.

    python benchmarks/search.py [--game connect4] [--trees 64] [--leaves 8] [--simulations 800] [--write]

The clock is `time.thread_time`, around the whole Python loop: collect, evaluate, expand.  Collisions are not counted.
It is CPU time, yet neighbours on the machine still slow it, through shared caches and cores: the range of the
repetitions and the load beside it say how much.  A search with a real network waits for that network instead.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path

import numpy as np

from zerofleet.games import load_game
from zerofleet.search.base import SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.search.pool import SearchPool

RESULTS = Path(__file__).parent / "results"


def search_once(pool: SearchPool, num_trees: int) -> float:
    """Search the first position in every tree; return simulations per CPU second."""
    evaluator = UniformEvaluator()
    state = pool.game.initial_state()
    for tree in range(num_trees):
        pool.reset(tree, state)
    before = pool.num_simulations_total
    start = time.thread_time()
    while len(batch := pool.collect()):
        pool.expand(evaluator.evaluate(batch))
    return (pool.num_simulations_total - before) / (time.thread_time() - start)


def measure(args: argparse.Namespace) -> list[str]:
    """Return the lines of the table."""
    config = SearchConfig(num_simulations=args.simulations, leaves_per_tree=args.leaves)
    pool = SearchPool(load_game(args.game), args.trees, config)
    search_once(pool, args.trees)  # grows the arrays
    rates = sorted(search_once(pool, args.trees) for _ in range(args.repetitions))
    nodes = sum(pool.num_nodes(tree) for tree in range(args.trees))
    return [
        f"- {args.game}: {args.trees} trees, {args.leaves} leaves each, {args.simulations} simulations a tree",
        f"- simulations per CPU second: best {rates[-1] / 1e6:.2f} M, median {statistics.median(rates) / 1e6:.2f} M, "
        f"worst {rates[0] / 1e6:.2f} M of {len(rates)} repetitions",
        f"- memory: {pool.num_bytes / nodes:.0f} bytes per node",
    ]


def circumstances() -> list[str]:
    """Return what the figures were measured on."""
    model = platform.machine()
    if Path("/proc/cpuinfo").is_file():
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        model = next((line.split(":", 1)[1].strip() for line in lines if line.startswith("model name")), model)
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return [
        f"- {datetime.now(UTC):%Y-%m-%d %H:%M} UTC, commit {commit.stdout.strip() or 'unknown'}",
        f"- {os.cpu_count()} cores of {model}; Python {platform.python_version()}, numpy {np.__version__}",
        f"- load average of the last minute, this benchmark included: {os.getloadavg()[0]:.1f}",
        f"- `python {' '.join(sys.argv)}`",
    ]


def main() -> None:
    """Measure, print, and with --write keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect4")
    parser.add_argument("--trees", type=int, default=64)
    parser.add_argument("--leaves", type=int, default=8)
    parser.add_argument("--simulations", type=int, default=800)
    parser.add_argument("--repetitions", type=int, default=40)
    parser.add_argument("--write", action="store_true", help="write a new file in benchmarks/results/")
    args = parser.parse_args()
    text = "\n".join(["# Search with a uniform evaluator", "", *measure(args), *circumstances(), ""])
    print(text)
    if args.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"search-{datetime.now(UTC):%Y%m%d-%H%M%S}.md").write_text(text)


if __name__ == "__main__":
    main()
