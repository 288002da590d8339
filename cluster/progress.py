"""How `train` shows a run: a live panel on a terminal, plain lines elsewhere, JSON lines with `--json`."""

from __future__ import annotations

import json
import sys
import time
from typing import Any

from rich.console import Console
from rich.live import Live
from rich.table import Table

from zerofleet.cluster.launch import Prepared, Watcher
from zerofleet.cluster.probe import NUM_SIMULATIONS
from zerofleet.cluster.run_state import RunState
from zerofleet.config import to_mapping, to_toml

_LINE_EVERY_S = 5.0


def make_watcher(*, as_json: bool, began: float) -> ClosingWatcher:
    """Return the watcher that fits where standard output goes."""
    if as_json:
        return JsonWatcher(began)
    if sys.stdout.isatty():
        return LiveWatcher(began)
    return PlainWatcher(began)


class ClosingWatcher(Watcher):
    """A watcher that has to let go of the terminal in the end."""

    def __init__(self, began: float) -> None:
        self._began = began
        self._due = 0.0
        self.prepared_run = ""  # its name, once its folder is ready
        self.last_state = RunState()

    def prepared(self, prepared: Prepared) -> None:
        """Note the run's name."""
        self.prepared_run = prepared.folder.run

    def look(self, state: RunState) -> None:
        """Note the state."""
        self.last_state = state

    def close(self) -> None:
        """Let go of the terminal."""

    def _is_due(self) -> bool:
        now = time.monotonic()
        if now < self._due:
            return False
        self._due = now + _LINE_EVERY_S
        return True

    def _seconds(self) -> float:
        return round(time.time() - self._began, 1)


class JsonWatcher(ClosingWatcher):
    """One JSON object per line."""

    def prepared(self, prepared: Prepared) -> None:
        """Tell the run's name and its settings first."""
        super().prepared(prepared)
        write_json(
            {
                "run": prepared.folder.run,
                "resumed": prepared.is_resumed,
                "changes": prepared.changes,
                "config": to_mapping(prepared.config),
            }
        )

    def look(self, state: RunState) -> None:
        """Tell the state now and then."""
        super().look(state)
        if self._is_due():
            write_json({"seconds": self._seconds(), **state.to_record()})


class PlainWatcher(ClosingWatcher):
    """One line now and then."""

    def prepared(self, prepared: Prepared) -> None:
        """Print the resolved settings, and what a resume changed."""
        super().prepared(prepared)
        write_line(to_toml(prepared.config).rstrip())
        write_line("")
        write_line(headline(prepared))

    def note(self, text: str) -> None:
        """Print it."""
        write_line(text)

    def look(self, state: RunState) -> None:
        """Print a line, every few seconds and at the end."""
        super().look(state)
        if self._is_due() or state.state in ("stopped", "failed"):
            write_line(f"{self._seconds():7.1f} s  {describe(state)}")


class LiveWatcher(ClosingWatcher):
    """A panel that is redrawn in place."""

    def __init__(self, began: float) -> None:
        super().__init__(began)
        self._console = Console()
        self._live = Live(console=self._console, auto_refresh=False)
        self._live.start()

    def prepared(self, prepared: Prepared) -> None:
        """Print the resolved settings above the panel."""
        super().prepared(prepared)
        self._console.print(to_toml(prepared.config).rstrip(), style="dim", markup=False, highlight=False)
        self._console.print(headline(prepared), markup=False, highlight=False)

    def note(self, text: str) -> None:
        """Print above the panel."""
        self._console.print(text, markup=False, highlight=False)

    def look(self, state: RunState) -> None:
        """Redraw the panel."""
        super().look(state)
        table = Table.grid(padding=(0, 2))
        rows = {"time": f"{self._seconds():.0f} s", **fields(state)}
        for name, text in rows.items():
            table.add_row(name, text)
        self._live.update(table, refresh=True)

    def close(self) -> None:
        """Leave the last panel where it is."""
        self._live.stop()


def headline(prepared: Prepared) -> str:
    """Say which run this is and where it lies."""
    verb = "resuming" if prepared.is_resumed else "starting"
    changes = f"; changed: {', '.join(prepared.changes)}" if prepared.changes else ""
    return f"{verb} run {prepared.folder.run} in {prepared.folder.path}{changes}"


def fields(state: RunState) -> dict[str, str]:
    """Return what a person wants to know of a run, by name."""
    actual = state.samples_per_insert.get("actual")
    loss = f"{state.loss:.3f}" if state.loss is not None else "-"
    ratio = f", {actual:.2f} samples per position" if actual is not None else ""
    return {
        "state": state.state + (f": {state.error}" if state.error else ""),
        "games": f"{state.games:,} ({state.games_per_s:.1f}/s)",
        "positions": f"{state.positions_per_s:,.0f}/s",
        "learner": f"step {state.step:,}, loss {loss}{ratio}",
        "weights": f"version {state.weights_version}",
        **({"errors": _errors(state.errors)} if state.errors else {}),
        "replay": f"{state.replay_positions:,} positions",
        "actors": f"{state.actors.get('alive', 0)} of {state.actors.get('wished', 0)}",
        "waits for": state.waiting_for or "nothing",
    }


def _errors(errors: dict[str, float]) -> str:
    names = {"policy": "policy alone", "search": f"{NUM_SIMULATIONS} simulations"}
    return ", ".join(f"{rate:.1%} {names.get(player, player)}" for player, rate in errors.items())


def describe(state: RunState) -> str:
    """Return the same as one line."""
    return "  ".join(f"{name} {text}" for name, text in fields(state).items())


def write_line(text: str) -> None:
    """Print one line now."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def write_json(record: dict[str, Any]) -> None:
    """Print one JSON line now."""
    write_line(json.dumps(record))
