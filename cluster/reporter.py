"""What the controller tells the world: the run's state in the store, its metrics, and the summary that outlives it."""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Collection, Iterable

from zerofleet.cluster.limits import ExitReason
from zerofleet.cluster.run_config import RunConfig
from zerofleet.cluster.run_state import Phase, RunState, describe_waiting
from zerofleet.cluster.slot import Slot
from zerofleet.cluster.tally import Tally
from zerofleet.cluster.view import View
from zerofleet.streams.records import RoleRecord
from zerofleet.telemetry import Metrics

_log = logging.getLogger(__name__)

_WAITS = ("start", "store", "learner", "actors")

_LOG_WAIT_EVERY_S = 60.0


class Reporter:
    """Turns looks at the store into a `RunState`; remembers what a role said before it died."""

    def __init__(self, config: RunConfig, metrics: Metrics, *, wall_clock: Callable[[], float] = time.time) -> None:
        self._config = config
        self._metrics = metrics
        self._wall_clock = wall_clock
        self._tally = Tally()
        self._started = wall_clock()
        self.first_new_weights: float | None = None
        self._first_version = 1  # of the weights that the launch began with
        self._learner: dict[str, float] = {}
        self._num_dead_letters = 0
        self.waiting_for = ""
        self._wait = ("", 0.0)  # the kind of wait, and when it began or was logged last
        self.metrics_url = ""
        self.most_actors = 0

    def state(
        self,
        view: View,
        slots: Collection[Slot],
        now: float,
        *,
        exit_reason: ExitReason | None,
        error: str,
        is_over: bool,
    ) -> RunState:
        """Return the run's state as of `view`, and set the metrics."""
        self.hear((leased.record for leased in view.roles.values()), now)
        if self.first_new_weights is None and any(
            record.numbers.get("weights_version", 0.0) > self._first_version for record in view.alive("actor")
        ):
            self.first_new_weights = self._wall_clock()
        wished = view.wish.actors if view.wish is not None else 0
        self._explain(describe_waiting(slots, view.alive(), now, wished), _category(view, slots, wished))
        self._count(view, wished)
        return RunState(
            state=_phase(view, slots, exit_reason, is_over),
            waiting_for=self.waiting_for,
            exit_reason=exit_reason,
            error=error,
            started=self._started,
            first_new_weights=self.first_new_weights,
            weights_version=view.weights.version if view.weights is not None else 0,
            step=int(self._learner.get("step", 0.0)),
            games=int(self._learner.get("games", 0.0)),
            replay_positions=int(self._learner.get("replay_positions", 0.0)),
            loss=self._learner.get("loss_total"),
            errors={
                player: self._learner[f"error_rate_{player}"]
                for player in ("policy", "search")
                if f"error_rate_{player}" in self._learner
            },
            games_per_s=round(self._tally.rate("actor", "games"), 2),
            positions_per_s=round(self._tally.rate("actor", "positions"), 1),
            samples_per_insert={
                "wanted": self._config.learner.samples_per_insert,
                "actual": self._learner.get("samples_per_insert"),
            },
            actors={"wished": wished, "alive": len(view.alive("actor")), "most": self.most_actors},
            restarts={slot.name: slot.restarts for slot in slots},
            metrics_url=self.metrics_url,
        )

    def hear(self, records: Iterable[RoleRecord], now: float) -> None:
        """Take what roles say of themselves; a role's last words too, before its place is emptied."""
        heard = list(records)
        self._tally.update(heard, now)
        for record in heard:
            if record.role == "learner" and record.numbers.get("weights_version"):  # else it is still reading its files
                self._learner = record.numbers

    def remember(self, before: RunState) -> None:
        """Take over what was known of the run before: it holds until the learner says more."""
        self.first_new_weights = before.first_new_weights
        self._first_version = max(1, before.weights_version)
        self._learner = {"step": float(before.step), "games": float(before.games)}

    def store_is_silent(self, text: str) -> None:
        """Say that the run waits for the store."""
        self._metrics.controller_store_errors.inc()
        self._explain(f"the store to answer ({text})", "store")

    def _explain(self, text: str, category: str) -> None:
        self.waiting_for = text
        self._log_wait(text, category)
        for reason in _WAITS:
            self._metrics.controller_waiting.labels(reason).set(1 if text and reason == category else 0)

    def _log_wait(self, text: str, category: str) -> None:
        """Log what the run has waited for during a whole minute, and again each minute that it goes on."""
        now = self._wall_clock()
        if not text or category != self._wait[0]:
            self._wait = (category if text else "", now)
        elif now - self._wait[1] >= _LOG_WAIT_EVERY_S:
            _log.warning("the run has been waiting for %s", text)
            self._wait = (category, now)

    def _count(self, view: View, wished: int) -> None:
        metrics = self._metrics
        metrics.controller_actors.labels("wished").set(wished)
        metrics.controller_actors.labels("alive").set(len(view.alive("actor")))
        metrics.stream_backlog_episodes.set(view.counts.backlog)
        metrics.stream_pending_episodes.set(view.counts.pending)
        metrics.stream_dead_letters.inc(max(0, view.counts.dead_letters - self._num_dead_letters))
        self._num_dead_letters = max(self._num_dead_letters, view.counts.dead_letters)


def _phase(view: View, slots: Collection[Slot], exit_reason: str | None, is_over: bool) -> Phase:
    if is_over:
        return "failed" if exit_reason == "failed" else "stopped"
    if exit_reason is not None:
        return "draining"
    if view.is_paused:
        return "paused"
    return "starting" if view.weights is None or not all(slot.registered for slot in slots) else "running"


def _category(view: View, slots: Collection[Slot], actors_wished: int) -> str:
    if any(slot.handle is None or not slot.registered for slot in slots if slot.role != "actor"):
        return "start"
    if actors_wished == 0:
        return "actors"
    return "learner" if any(record.waiting_for for record in view.alive("learner")) else "actors"
