"""The controller: makes the cluster match the wish, again and again.

Each `step` looks at the store once, buries what has ended, starts what is missing, hands new weights to the servers and
says how the run is.  It holds an epoch: one that was stopped and wakes after its successor started changes nothing.
While the store is silent it judges nobody dead.  A plain class: it knows roles as handles, and nothing of Ray.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Protocol

from zerofleet.cluster.limits import ExitReason, Limits
from zerofleet.cluster.reporter import Reporter
from zerofleet.cluster.role_spec import ROLES, Role, RoleOutcome, RoleSpec, RunSpec, new_incarnation
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.run_state import RunState
from zerofleet.cluster.slot import MAX_BARREN_DEATHS, STUCK_DEATHS, RoleHandle, Slot
from zerofleet.cluster.topology import Node, most_actors, most_starting, place, shares
from zerofleet.cluster.upkeep import Upkeep
from zerofleet.cluster.view import View, look
from zerofleet.errors import StaleEpochError, StorageError, StreamUnavailableError
from zerofleet.streams.store import LeasedRole, RunStore, WeightsRecord, WishRecord
from zerofleet.streams.stream import EpisodeStream
from zerofleet.telemetry import Metrics

_log = logging.getLogger(__name__)

_PUSH_AGAIN_S = 5.0
_STATE_EVERY_S = 0.5


class Launcher(Protocol):
    """Starts roles somewhere."""

    def nodes(self) -> Sequence[Node]:
        """Return the nodes that are alive now, at least one."""

    def start(self, spec: RoleSpec) -> RoleHandle:
        """Start a role without waiting for it."""

    def adopt(self) -> Sequence[tuple[Role, int, RoleHandle]]:
        """Return the roles of this run that live already."""

    def share(self, data: bytes) -> object:
        """Put bytes where every node can have them."""


class Controller:
    """One run's controller.  `run` belongs to one thread; `numbers` and `waiting_for` may be read by any."""

    def __init__(
        self,
        spec: RunSpec,
        folder: RunFolder,
        store: RunStore,
        stream: EpisodeStream,
        launcher: Launcher,
        metrics: Metrics,
        *,
        revive_store: Callable[[], bool] | None = None,
        clock: Callable[[], float] = time.monotonic,
        wall_clock: Callable[[], float] = time.time,
    ) -> None:
        self._spec = spec
        self._config = spec.config.cluster
        self._folder = folder
        self._store = store
        self._upkeep = Upkeep(spec, folder, store)
        self._stream = stream
        self._launcher = launcher
        self._metrics = metrics
        self._revive_store = revive_store
        self._clock = clock
        self._wall_clock = wall_clock
        self._slots: dict[tuple[Role, int], Slot] = {}
        self._untold = list(spec.changes)
        self._restarts: dict[str, int] = {}  # of places that a controller before this one had
        self._epoch = 0
        self._judge_after = 0.0
        self._last_step = clock()
        self._shared: tuple[int, object] | None = None
        self._state_due = 0.0
        self._actors_gone_at: float | None = None
        self._told_wish = -1  # the wish that was said to be too large
        self.exit_reason: ExitReason | None = None
        self.error = ""
        self.is_over = False
        self.reporter = Reporter(spec.config, metrics, wall_clock=wall_clock)

    @property
    def waiting_for(self) -> str:
        """What the run waits for, in words; "" while it works."""
        return self.reporter.waiting_for

    def numbers(self) -> dict[str, float]:
        """Return the counters that `status` shows."""
        return {"restarts": float(sum(slot.restarts for slot in self._slots.values())), "epoch": float(self._epoch)}

    def run(self, stop: threading.Event) -> None:
        """Watch the run until it is over or `stop` is set.

        Raises:
            StaleEpochError: a successor has taken over.
        """
        while not stop.is_set() and not self.is_over:
            try:
                if self._epoch == 0:
                    self.take_over()
                self.step()
            except StreamUnavailableError as error:
                self._store_is_silent(error)
            stop.wait(self._config.reconcile_s)

    def take_over(self) -> None:
        """Become the run's controller: take an epoch, bring the store up to the run folder, adopt what lives.

        Raises:
            StaleEpochError: the run was launched anew since; this is a controller of an older launch.
        """
        if self._folder.session() != self._spec.session:
            raise StaleEpochError("the run was launched anew since; this controller belongs to an older launch")
        epoch = self._upkeep.take_epoch()
        self._upkeep.begin()
        self._remember()
        now = self._clock()
        for role, index, handle in self._launcher.adopt():
            slot = self._slot(role, index)
            slot.begin(handle, now)
            _log.info("adopted %s (%s)", slot.name, handle.incarnation)
        self._judge_after = now + self._spec.config.stream.lease_s
        self._epoch = epoch

    def step(self) -> None:
        """Look once, and do what has to be done.

        Raises:
            StreamUnavailableError: the store does not answer; nothing was judged.
            StaleEpochError: a successor has taken over.
        """
        view = look(self._store, self._stream)
        now = self._clock()
        was_stopped = now - self._last_step > self._spec.config.stream.lease_s / 2
        if was_stopped:  # and the others may have been, too
            self._judge_after = now + self._spec.config.stream.lease_s
        self._last_step = now
        games, epoch = view.games, view.epoch
        if games is None or epoch is None or epoch < self._epoch or self._upkeep.may_have_gone_back(view.server_id):
            self._upkeep.restore(view.server_id)
            self._judge_after = now + self._spec.config.stream.lease_s
            return
        if epoch != self._epoch:
            raise StaleEpochError(f"a controller of epoch {epoch} has taken over from epoch {self._epoch}")
        self._upkeep.look_at_server(view.server_id)
        self._upkeep.raise_ceiling(games, self._epoch)
        self._upkeep.note_published(view.weights)
        self._bury(view, now)
        self._tell_changes(view)
        self._check_limits(view)
        if self.exit_reason is None:
            self._fill(self._wished(view), now)
        else:
            self._drain(view, now)
        self._push_weights(view, now)
        self._report(view, now)

    def _store_is_silent(self, error: StreamUnavailableError) -> None:
        self.reporter.store_is_silent(str(error))
        _log.warning("%s", error)
        self._judge_after = self._clock() + self._spec.config.stream.lease_s
        if self._revive_store is not None:
            try:
                if self._revive_store():
                    _log.warning("the embedded Redis had died; it runs again")
            except StorageError as problem:
                _log.error("the embedded Redis does not come back: %s", problem)

    def _remember(self) -> None:
        """Take over what is known of the run, and what a killed controller of the same launch had said."""
        before = RunState.from_record(self._store.state())
        self.reporter.remember(before)
        self._restarts = dict(before.restarts)
        if before.state == "draining" and before.exit_reason is not None:
            self.exit_reason, self.error = before.exit_reason, before.error

    def _slot(self, role: Role, index: int) -> Slot:
        """Return a place for a role, made where there is none yet."""
        if (role, index) not in self._slots:
            self._slots[role, index] = slot = Slot(role, index)
            slot.restarts = self._restarts.pop(slot.name, 0)
        return self._slots[role, index]

    def _tell_changes(self, view: View) -> None:
        """Log what a resume changed, as soon as a learner says at which step."""
        if self._untold and any(record.numbers.get("weights_version") for record in view.alive("learner")):
            for change in self._untold:
                _log.warning("from step %d on, %s", int(view.learner_number("step")) + 1, change)
            self._untold.clear()

    def _wished(self, view: View) -> dict[Role, int]:
        nodes = self._launcher.nodes()
        wish = view.wish
        if wish is None:
            actors = self._config.num_actors or sum(shares("actor", nodes).values())
            wish = WishRecord(actors, self._store.set_wish(actors, self._epoch))
        self._upkeep.note_wish(wish)
        servers = self._config.num_inference_servers or sum(shares("inference", nodes).values())
        self.reporter.most_actors = most = most_actors(nodes)
        if wish.actors > most and wish.sequence != self._told_wish:
            _log.warning("%d actors are wished for; the cores of this run take %d at most", wish.actors, most)
            self._told_wish = wish.sequence
        return {"inference": servers, "learner": 1, "actor": min(wish.actors, most)}

    def _bury(self, view: View, now: float) -> None:
        for slot in list(self._slots.values()):
            handle = slot.handle
            if handle is None:
                continue
            leased = view.roles.get((slot.role, slot.index))
            if leased is not None and leased.record.incarnation == handle.incarnation:
                slot.heard(leased.record, now)
            else:
                leased = None
            outcome = handle.outcome()
            if outcome is None and now >= self._judge_after:
                outcome = self._judge(slot, leased, now)
            if outcome is not None:
                self._end(slot, handle, outcome, now)

    def _judge(self, slot: Slot, leased: LeasedRole | None, now: float) -> RoleOutcome | None:
        """Return an outcome for a role that says nothing, None for one that may live."""
        if slot.leave_by is not None and now > slot.leave_by:
            return RoleOutcome(kind="died", text=f"did not end within {self._config.drain_s:g} s")
        if leased is not None and leased.lease_left_s <= 0.0:
            return RoleOutcome(kind="died", text=f"said nothing for {self._spec.config.stream.lease_s:g} s")
        if slot.registered and leased is None and now - slot.heard_at > self._spec.config.stream.lease_s:
            return RoleOutcome(kind="died", text="has no place in the store any more")  # it lost its data meanwhile
        if not slot.registered and now - slot.started_at > self._config.start_timeout_s:
            return RoleOutcome(kind="died", text=f"did not register within {self._config.start_timeout_s:g} s")
        return None

    def _end(self, slot: Slot, handle: RoleHandle, outcome: RoleOutcome, now: float) -> None:
        handle.kill()
        records = [leased.record for leased in self._store.roles()]
        self.reporter.hear([record for record in records if record.incarnation == handle.incarnation], now)
        self._store.unregister(slot.role, slot.index, handle.incarnation)
        if slot.is_leaving:
            del self._slots[slot.role, slot.index]
            _log.info("%s has left: %s", slot.name, outcome.text or outcome.kind)
            return
        slot.died(now, outcome.text or outcome.kind)
        _log.warning("%s (%s) %s: %s", slot.name, handle.incarnation, outcome.kind, outcome.text)
        if outcome.kind == "fatal":
            self._fail(f"{slot.name}: {outcome.text}")
        elif slot.barren_deaths >= MAX_BARREN_DEATHS:
            self._fail_for(slot)

    def _fail_for(self, slot: Slot) -> None:
        self._fail(f"{slot.name} ended {slot.barren_deaths} times without progress, last: {slot.last_error}")

    def _fail(self, error: str) -> None:
        if self.exit_reason != "failed":
            _log.error("the run has failed: %s", error)
            self.exit_reason, self.error = "failed", error

    def _check_limits(self, view: View) -> None:
        if self.exit_reason is not None:
            return
        limits = Limits.from_record(self._folder.record("limits"))
        if view.must_stop:
            self.exit_reason = "stopped"
        else:
            reached = limits.reached(
                now=self._wall_clock(),
                games=int(view.learner_number("games")),
                steps=int(view.learner_number("step")),
            )
            stuck = next((slot for slot in self._slots.values() if slot.barren_deaths >= STUCK_DEATHS), None)
            if reached is not None and stuck is not None:
                self._fail_for(stuck)
            else:
                self.exit_reason = reached
        if self.exit_reason is not None:
            _log.info("the run ends: %s", self.exit_reason)

    def _fill(self, wished: dict[Role, int], now: float) -> None:
        for (role, index), slot in list(self._slots.items()):
            if index >= wished[role]:
                slot.leave(now + self._config.drain_s)
                if slot.handle is None:
                    del self._slots[role, index]
        starting = sum(slot.role == "actor" and slot.is_starting for slot in self._slots.values())
        for role in ROLES:
            for index in range(wished[role]):
                slot = self._slot(role, index)
                if slot.handle is not None or now < slot.not_before:
                    continue
                if role == "actor":
                    if starting >= most_starting(self._launcher.nodes()):
                        break
                    starting += 1
                self._start(slot, wished, now)

    def _start(self, slot: Slot, wished: dict[Role, int], now: float) -> None:
        taken = Counter(other.handle.node for other in self._slots.values() if other.handle and other.role == slot.role)
        node = place(slot.role, self._launcher.nodes(), taken)
        spec = RoleSpec(
            run=self._spec,
            role=slot.role,
            index=slot.index,
            incarnation=new_incarnation(),
            node=node.id,
            host=node.address if self._spec.spans_nodes else "127.0.0.1",
            num_servers=wished["inference"],
            num_actors=wished["actor"],
        )
        slot.begin(self._launcher.start(spec), now)
        if slot.restarts > 0:
            self._metrics.controller_restarts.labels(slot.role).inc()
        _log.info("started %s (%s) on %s", slot.name, spec.incarnation, node.id)

    def _drain(self, view: View, now: float) -> None:
        """End the run in order: actors, then the learner when it has logged what they published, then the servers."""
        for slot in [slot for slot in self._slots.values() if slot.handle is None]:
            del self._slots[slot.role, slot.index]
        left = Counter(slot.role for slot in self._slots.values())
        if left["actor"] == 0 and self._actors_gone_at is None:
            self._actors_gone_at = now
        all_logged = view.counts.backlog + view.counts.pending == 0
        patience_over = self._actors_gone_at is not None and now - self._actors_gone_at > self._config.drain_s / 3
        may_leave: set[Role] = {"actor"}
        if left["actor"] == 0 and (all_logged or patience_over or self.exit_reason == "failed"):
            may_leave.add("learner")
        if left["actor"] + left["learner"] == 0:
            may_leave.add("inference")
        for slot in self._slots.values():
            if slot.role in may_leave:
                slot.leave(now + self._config.drain_s)
        self.is_over = not self._slots

    def _push_weights(self, view: View, now: float) -> None:
        if view.weights is None:
            return
        version = view.weights.version
        for slot in self._slots.values():
            if slot.role != "inference" or slot.handle is None or not slot.registered:
                continue
            leased = view.roles.get(("inference", slot.index))
            held = 0.0 if leased is None else leased.record.numbers.get("weights_version", 0.0)
            pushed, at = slot.pushed
            if held < version and (pushed < version or now - at > _PUSH_AGAIN_S):
                slot.handle.load_weights(version, self._shared_weights(view.weights))
                slot.pushed = (version, now)

    def _shared_weights(self, weights: WeightsRecord) -> object:
        """Return the bytes of published weights, shared once per version."""
        if self._shared is None or self._shared[0] != weights.version:
            self._shared = (weights.version, self._launcher.share(self._folder.read_weights(weights)))
        return self._shared[1]

    def _report(self, view: View, now: float) -> None:
        if now < self._state_due and not self.is_over:
            return
        self._state_due = now + _STATE_EVERY_S
        state = self.reporter.state(
            view,
            self._slots.values(),
            now,
            exit_reason=self.exit_reason,
            error=self.error,
            is_over=self.is_over,
        ).to_record()
        self._store.set_state(state, self._epoch)
        if self.is_over:
            self._folder.write_record("summary", state)
