"""Search speed: simulations per CPU second of one thread, with an evaluator that costs next to nothing.

    python benchmarks/search.py [--game connect4] [--trees 64] [--leaves 8] [--simulations 800] [--write]

The clock is `time.thread_time`, around the whole Python loop: collect, evaluate, expand.  Collisions are not counted.
A search with a real network waits for that network instead.

CPU time is not the same everywhere: where the core's other hardware thread is busy, perhaps with a neighbour's work on
a virtual machine, a CPU second holds fewer instructions.  So a probe whose speed hangs on nothing else, table lookups
in a few kilobytes, runs before and after each repetition; the core counts as undisturbed where both took at most 1.15
of the fastest probe, this run's or the one that `--fastest-probe` tells.  All repetitions are reported, and those on
an undisturbed core beside them.
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
from itertools import pairwise
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


TEXT = bytes(range(256)) * 32
TABLE = bytes(reversed(range(256)))


def probe_seconds() -> float:
    """Return the CPU seconds of 160,000 table lookups, the median of three tries."""
    seconds = []
    for _ in range(3):
        start = time.thread_time()
        for _ in range(20):
            TEXT.translate(TABLE)
        seconds.append(time.thread_time() - start)
    return statistics.median(seconds)


def summary(name: str, rates: list[float]) -> str:
    """Return one row of the table."""
    if not rates:
        return f"| {name} | 0 | | | |"
    best, median, worst = (f"{rate / 1e6:.2f} M" for rate in (max(rates), statistics.median(rates), min(rates)))
    return f"| {name} | {len(rates)} | {best} | {median} | {worst} |"


def measure(args: argparse.Namespace) -> list[str]:
    """Return the lines of the table."""
    config = SearchConfig(num_simulations=args.simulations, leaves_per_tree=args.leaves)
    pool = SearchPool(load_game(args.game), args.trees, config)
    search_once(pool, args.trees)  # grows the arrays
    rates, probes = [], [probe_seconds()]
    for _ in range(args.repetitions):
        rates.append(search_once(pool, args.trees))
        probes.append(probe_seconds())
    fastest = min(probes)
    bound = 1.15 * (args.fastest_probe * 1e-6 or fastest)
    slowest_beside = [max(before, after) for before, after in pairwise(probes)]
    undisturbed = [rate for rate, probe in zip(rates, slowest_beside, strict=True) if probe <= bound]
    nodes = sum(pool.num_nodes(tree) for tree in range(args.trees))
    return [
        f"{args.game}: {args.trees} trees, {args.leaves} leaves each, {args.simulations} simulations a tree; "
        "simulations per CPU second of one thread:",
        "",
        "| repetitions | number | best | median | worst |",
        "|---|--:|--:|--:|--:|",
        summary("all", rates),
        summary("on an undisturbed core", undisturbed),
        "",
        f"- probe: fastest {fastest * 1e6:.0f} µs, median {statistics.median(probes) * 1e6:.0f} µs; "
        f"undisturbed up to {bound * 1e6:.0f} µs",
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
    parser.add_argument(
        "--fastest-probe", type=float, default=0.0, metavar="US", help="this machine's, from other runs"
    )
    parser.add_argument("--write", action="store_true", help="write a new file in benchmarks/results/")
    args = parser.parse_args()
    text = "\n".join(["# Search with a uniform evaluator", "", *measure(args), *circumstances(), ""])
    print(text)
    if args.write:
        RESULTS.mkdir(exist_ok=True)
        (RESULTS / f"search-{datetime.now(UTC):%Y%m%d-%H%M%S}.md").write_text(text)


if __name__ == "__main__":
    main()
