"""The truth while it trains: how often the newest weights give game value away, on a fixed set of solved positions.

A thread beside the learner; it works a small share of the time and rests for the remainder.  Games without a solver
have no probe.
"""

from __future__ import annotations

import logging
import os
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass, field

from zerofleet.actors.evaluation import Errors, count_errors
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.trained import TrainedNet, load_trained
from zerofleet.errors import GameError, ZerofleetError
from zerofleet.games.positions import QUICK_STAGES, SolvedPosition, solved_positions
from zerofleet.games.solvers import Solver, solver_for
from zerofleet.telemetry import Metrics

NUM_SIMULATIONS = 100
_POSITIONS_SEED = 2**31
"""Of the positions: the same in every run, so that runs can be compared."""

_LOOK_S = 2.0

_log = logging.getLogger(__name__)


@dataclass(slots=True)
class ErrorProbe:
    """Measures and remembers; `run` belongs to one thread, `numbers` may be read by any."""

    folder: RunFolder
    metrics: Metrics
    share: float  # of all cores
    num_each: int
    cores: int = field(default_factory=lambda: os.cpu_count() or 1)
    clock: Callable[[], float] = time.monotonic
    cpu_clock: Callable[[], float] = time.thread_time
    load: Callable[[RunFolder, TrainedNet | None], TrainedNet] = load_trained
    _net: TrainedNet | None = None  # measured last; its backend serves the next one too
    _version: int = 0
    _numbers: dict[str, float] = field(default_factory=dict)

    def numbers(self) -> dict[str, float]:
        """Return the newest error rates, by player, and the version that they belong to."""
        return dict(self._numbers)

    def run(self, stop: threading.Event) -> None:
        """Measure every new version that there is time for, until told to stop."""
        try:
            solver, positions = self._positions()
        except GameError as error:
            _log.info("error rates are not measured: %s", error)
            return
        began = self.cpu_clock()
        while not stop.wait(_LOOK_S):
            try:
                measured = self._measure(solver, positions)
            except ZerofleetError as error:  # nothing is published yet, or the file has just been replaced
                _log.info("error rates are not measured now: %s", error)
                continue
            spent = self.cpu_clock() - began
            if measured and stop.wait(rest_s(spent, self.share, self.cores)):
                return
            began = self.cpu_clock()

    def _positions(self) -> tuple[Solver, list[SolvedPosition]]:
        """Return the solver, whose table is kept for all measurements, and the positions."""
        game = self.folder.game_source(self.folder.config().game).load()
        solver = solver_for(game)
        most = self.num_each * len(QUICK_STAGES)
        return solver, solved_positions(
            game, solver, seed=_POSITIONS_SEED, num_each=self.num_each, stages=QUICK_STAGES, most=most
        )

    def _measure(self, solver: Solver, positions: list[SolvedPosition]) -> bool:
        """Measure the newest weights if they are new; return whether they were."""
        published = self.folder.published()
        if published is None or published.version == self._version:
            return False
        self._net = net = self.load(self.folder, self._net)
        for player, num_simulations in (("policy", 0), ("search", NUM_SIMULATIONS)):
            errors = count_errors(net.game, solver, net.player(num_simulations), positions, seed=0)
            self._show(player, errors)
        self._numbers["error_rate_version"] = float(net.version)
        self._version = net.version
        return True

    def _show(self, player: str, errors: Errors) -> None:
        gauge = self.metrics.learner_error_rate
        for stage, count in errors.stages.items():
            gauge.labels(stage, player).set(count.rate)
        gauge.labels("all", player).set(errors.total.rate)
        self._numbers[f"error_rate_{player}"] = errors.total.rate


def rest_s(spent_s: float, share: float, cores: int) -> float:
    """Return how long to rest after so many CPU seconds, so that they are `share` of what all cores can do."""
    return max(0.0, spent_s / (share * cores) - spent_s)


def start_probe(folder: RunFolder, metrics: Metrics, *, share: float, num_each: int) -> ErrorProbe | None:
    """Start a probe on a daemon thread that ends with the process; None where it is turned off."""
    if share <= 0.0:
        return None
    probe = ErrorProbe(folder, metrics, share, num_each)
    threading.Thread(target=_run_quietly, args=(probe,), name="error-probe", daemon=True).start()
    return probe


def _run_quietly(probe: ErrorProbe) -> None:
    """The learner matters more than its probe: whatever goes wrong here is only logged."""
    try:
        probe.run(threading.Event())
    except Exception:
        _log.exception("error rates are not measured any more")
