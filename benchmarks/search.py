"""Search speed: simulations per CPU second of one thread, with an evaluator that costs next to nothing.

    python benchmarks/search.py [--game connect4] [--trees 64] [--leaves 8] [--simulations 800] [--write]

The clock is `time.thread_time`, around the whole Python loop: collect, evaluate, expand.  Collisions are not counted.
The best of several repetitions is reported, because whatever else runs on the machine only makes it slower.
"""

from __future__ import annotations

import argparse
import json
import platform
import statistics
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np

from zerofleet.games import load_game
from zerofleet.search.base import SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.search.pool import SearchPool

RESULTS = Path(__file__).parent / "results"


def search_once(pool: SearchPool, num_trees: int) -> tuple[int, float]:
    """Search the first position in every tree; return simulations and CPU seconds."""
    evaluator = UniformEvaluator()
    state = pool.game.initial_state()
    for tree in range(num_trees):
        pool.reset(tree, state)
    simulations = pool.num_simulations_total
    start = time.thread_time()
    while len(batch := pool.collect()):
        pool.expand(evaluator.evaluate(batch))
    return pool.num_simulations_total - simulations, time.thread_time() - start


def measure(args: argparse.Namespace) -> dict[str, Any]:
    """Return the figures of one configuration."""
    game = load_game(args.game)
    config = SearchConfig(num_simulations=args.simulations, leaves_per_tree=args.leaves)
    pool = SearchPool(game, args.trees, config)
    search_once(pool, args.trees)  # grows the arrays
    rates = []
    for _ in range(args.repetitions):
        simulations, seconds = search_once(pool, args.trees)
        rates.append(simulations / seconds)
    nodes = sum(pool.num_nodes(tree) for tree in range(args.trees))
    return {
        "game": game.spec,
        "trees": args.trees,
        "leaves_per_tree": args.leaves,
        "simulations_per_tree": args.simulations,
        "repetitions": args.repetitions,
        "simulations_per_cpu_second_best": round(max(rates)),
        "simulations_per_cpu_second_median": round(statistics.median(rates)),
        "bytes_per_node": round(pool.num_bytes / nodes, 1),
    }


def hardware() -> dict[str, str]:
    """Return what the figures were measured on."""
    model = platform.processor() or platform.machine()
    cpuinfo = Path("/proc/cpuinfo")
    if cpuinfo.is_file():
        names = [
            line.split(":", 1)[1].strip() for line in cpuinfo.read_text().splitlines() if line.startswith("model name")
        ]
        model = f"{len(names)} x {names[0]}" if names else model
    commit = subprocess.run(["git", "rev-parse", "--short", "HEAD"], capture_output=True, text=True, check=False)
    return {
        "cpu": model,
        "python": platform.python_version(),
        "numpy": np.__version__,
        "commit": commit.stdout.strip() or "unknown",
        "command": " ".join(["python", *sys.argv]),
    }


def main() -> None:
    """Measure, print, and with --write keep the result."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--game", default="connect4")
    parser.add_argument("--trees", type=int, default=64)
    parser.add_argument("--leaves", type=int, default=8)
    parser.add_argument("--simulations", type=int, default=800)
    parser.add_argument("--repetitions", type=int, default=20)
    parser.add_argument("--write", action="store_true", help="write benchmarks/results/search-<game>.json")
    args = parser.parse_args()
    result = {**measure(args), **hardware()}
    for name, value in result.items():
        print(f"{name}: {value:,}" if isinstance(value, int) else f"{name}: {value}")
    if args.write:
        RESULTS.mkdir(exist_ok=True)
        name = "".join(c if c.isalnum() else "-" for c in result["game"]).strip("-")
        (RESULTS / f"search-{name}.json").write_text(json.dumps(result, indent=2) + "\n")


if __name__ == "__main__":
    main()
