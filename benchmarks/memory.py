"""Resident memory of every role of a run at load, against what it was at 8 minutes.

    python benchmarks/memory.py [--minutes 30] [--baseline 8] [--output FILE]

A real run plays and learns Connect Four; each role's resident bytes are read off its metrics once every 5 seconds.  A
figure is the median of the 30 seconds before its time, so that one moment's peak decides nothing.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from collections import defaultdict
from pathlib import Path

from zerofleet.errors import ZerofleetError

RUN = "memory"
_EVERY_S = 5.0
_WINDOW_S = 30.0


def resident_bytes(storage: Path) -> dict[str, int]:
    """Return the resident bytes of each live role."""
    from zerofleet.cluster.run_folder import RunFolder
    from zerofleet.cluster.status import RunView

    roles = RunView(RunFolder(storage, RUN), None).status()["roles"]
    return {f"{role['role']}-{role['index']} ({role['incarnation'][:8]})": role["resident_bytes"] for role in roles}


def watch(storage: Path, minutes: float, settings: list[str]) -> dict[str, list[tuple[float, int]]]:
    """Run for `minutes` and return each role's (seconds, bytes)."""
    command = [sys.executable, "-m", "zerofleet", "train", "connect4", "--run", RUN, "--storage", str(storage)]
    for setting in settings:
        command += ["--set", setting]
    seen: dict[str, list[tuple[float, int]]] = defaultdict(list)
    with (storage / "train.log").open("w") as log:
        process = subprocess.Popen([*command, "--json"], stdout=log, stderr=subprocess.STDOUT)
        began = time.monotonic()
        try:
            while (elapsed := time.monotonic() - began) < 60 * minutes:
                time.sleep(_EVERY_S)
                if process.poll() is not None:
                    sys.exit(f"the run ended by itself:\n{(storage / 'train.log').read_text()[-2000:]}")
                try:
                    for role, size in resident_bytes(storage).items():
                        seen[role].append((elapsed, size))
                except (ZerofleetError, OSError, KeyError) as error:  # it is only being started
                    print(f"not yet: {error}", file=sys.stderr)
        finally:
            process.terminate()
            process.wait(timeout=120)
    return seen


def at(samples: list[tuple[float, int]], seconds: float) -> float | None:
    """Return the median of the samples shortly before `seconds`."""
    window = [size for when, size in samples if seconds - _WINDOW_S <= when <= seconds]
    return statistics.median(window) if window else None


def main() -> None:
    """Measure and print the table."""
    parser = argparse.ArgumentParser(description="Memory of a run at load.")
    parser.add_argument("--minutes", type=float, default=30.0)
    parser.add_argument("--baseline", type=float, default=8.0)
    parser.add_argument("--set", action="append", default=[], metavar="KEY=VALUE")
    parser.add_argument("--output", type=Path, help="also write the result there")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as storage:
        seen = watch(Path(storage), options.minutes, options.set)
    lines = [
        f"{platform.processor() or platform.machine()}, {os.cpu_count()} cores",
        "",
        f"| role | MiB at {options.baseline:g} min | MiB at {options.minutes:g} min | ratio |",
        "|---|--:|--:|--:|",
    ]
    for role, samples in sorted(seen.items()):
        before, after = at(samples, 60 * options.baseline), at(samples, 60 * options.minutes)
        if before is None or after is None:
            lines.append(f"| {role} | not alive at both times | | |")
        else:
            lines.append(f"| {role} | {before / 2**20:.1f} | {after / 2**20:.1f} | {after / before:.3f} |")
    print("\n".join(lines))
    if options.output:
        options.output.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
