"""`status` for people."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.table import Table


def print_status(found: dict[str, Any]) -> None:
    """Print what `status --json` holds, for people."""
    console = Console(highlight=False, soft_wrap=True)
    ratio, stream, actors = found["samples_per_insert"], found["stream"], found["actors"]
    actual = f"{ratio['actual']:.2f}" if ratio["actual"] is not None else "-"
    error = f": {found['error']}" if found["error"] else ""
    rows = {
        "run": found["run"],
        "state": f"{found['state']}{error}",
        "waits for": found["waiting_for"] or "nothing",
        "weights": f"version {found['weights_version']}, step {found['learner_step']:,}",
        "games": f"{found['games']:,}, {found['positions_per_s']:,.0f} positions/s",
        "samples per position": f"{actual} of {ratio['wanted']} wanted",
        "actors": f"{actors['alive']} of {actors['wished']} wished for",
        "stream": _stream(stream),
        "metrics": found["metrics_url"] or "-",
    }
    for name, text in rows.items():
        console.print(f"{name:<21} {text}", markup=False)
    if found["roles"]:
        console.print(_roles(found["roles"]))


def _stream(counts: dict[str, int | None]) -> str:
    if counts["backlog"] is None:
        return "- (its Redis is not running)"
    return f"{counts['backlog']} unread, {counts['pending']} pending, {counts['dead_letters']} dead letters"


def _roles(roles: list[dict[str, Any]]) -> Table:
    table = Table(box=None, pad_edge=False)
    for column in ("role", "pid", "node", "restarts", "memory", "waits for", "metrics"):
        table.add_column(column)
    for role in roles:
        table.add_row(
            f"{role['role']}-{role['index']}",
            str(role["pid"]),
            role["node"][:12],
            str(role["restarts"]),
            f"{role['resident_bytes'] / 2**20:.0f} MiB",
            role["waiting_for"],
            role["metrics_url"],
        )
    return table
