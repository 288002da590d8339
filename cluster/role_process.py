"""A role in a process of its own: its thread, its heartbeats, its metrics endpoint and its log.

Knows no Ray: whoever has the process calls `outcome`, `stop` and `load_weights`, from any thread.
"""

from __future__ import annotations

import logging
import os
import resource
import sys
import threading
import time
from collections.abc import Callable
from pathlib import Path

from zerofleet.cluster.game_source import where_it_failed
from zerofleet.cluster.role_spec import RoleOutcome, RoleSpec
from zerofleet.cluster.roles import Role, build_role, open_store
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.errors import FatalRoleError, GameError, StaleEpochError, StreamUnavailableError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import RunStore
from zerofleet.telemetry import Metrics, serve

_log = logging.getLogger(__name__)

_REGISTER_AGAIN_S = 0.5

_MAX_TEXT = 500
"""Characters of what is told of a role: a record with a longer text is refused, and the role held dead for it."""


class RoleProcess:
    """Builds the role, runs it on a thread of its own, and keeps its lease while it runs."""

    def __init__(
        self,
        spec: RoleSpec,
        *,
        build: Callable[[RoleSpec, Metrics], Role] = build_role,
        store: RunStore | None = None,
    ) -> None:
        self._spec = spec
        self._build = build
        self._store = store if store is not None else open_store(spec)
        self._metrics = Metrics()
        self._metrics_url = ""
        self._started = time.time()
        self._stop = threading.Event()
        self._ended = threading.Event()
        self._built = threading.Event()
        self._role: Role | None = None
        self._outcome: RoleOutcome | None = None
        threading.Thread(target=self._run, name=spec.slot, daemon=True).start()

    def outcome(self, timeout_s: float) -> RoleOutcome | None:
        """Wait for the role's end; None if it still runs after `timeout_s`."""
        self._ended.wait(timeout_s)
        return self._outcome

    def stop(self) -> None:
        """Ask the role to end in order."""
        self._stop.set()

    def load_weights(self, version: int, weights: bytes) -> None:
        """Hand weights to the role, as soon as it stands."""
        if self._built.wait(self._spec.run.config.cluster.start_timeout_s) and self._role is not None:
            try:
                self._role.load_weights(version, weights)
            except Exception:
                _log.exception("weights version %d cannot be used", version)  # nobody waits for this call's answer
                raise

    def _run(self) -> None:
        try:
            self._outcome = self._live()
        except FatalRoleError as error:
            _log.exception("fatal")
            self._outcome = RoleOutcome(kind="fatal", text=str(error)[:_MAX_TEXT])
        except StaleEpochError as error:
            _log.warning("%s", error)
            self._outcome = RoleOutcome(kind="superseded", text=str(error))
        except BaseException as error:  # the outermost loop: whatever it is, the controller must hear of it
            _log.exception("failed")
            self._outcome = self._outcome_of(error)
        finally:
            self._built.set()
            self._ended.set()
        _log.info("ended: %s %s", self._outcome.kind, self._outcome.text)

    def _outcome_of(self, error: BaseException) -> RoleOutcome:
        said = f"{type(error).__name__}: {error}"
        place = where_it_failed(error, self._spec.run.game.filename)
        if place is None and not isinstance(error, GameError):
            return RoleOutcome(kind="failed", text=said[:_MAX_TEXT])
        # A game fails again wherever its rules are played: no start of another role mends it.
        raised = said if place is None else f"{place} raised {said}"
        return RoleOutcome(kind="fatal", text=f"{raised}; `zerofleet check-game` finds the position"[:_MAX_TEXT])

    def _live(self) -> RoleOutcome:
        log_to_file(self._spec)
        host = self._spec.host if self._spec.run.spans_nodes else "127.0.0.1"
        self._metrics_url = f"http://{host}:{serve(self._metrics, host)}/metrics"
        self._role = role = self._build(self._spec, self._metrics)
        self._register(role)
        self._built.set()
        _log.info("pid %d, metrics at %s", os.getpid(), self._metrics_url)
        rest = threading.Event()
        heart = threading.Thread(target=self._beat, args=(role, rest), name="heartbeat", daemon=True)
        heart.start()
        try:
            role.run(self._stop)
        finally:
            rest.set()
            heart.join()
        self._say_goodbye(role)
        return self._outcome or RoleOutcome(kind="stopped")

    def _register(self, role: Role) -> None:
        while not self._stop.is_set():
            try:
                role.tick()
                self._store.register(self._record(role), self._spec.run.config.stream.lease_s)
                return
            except StreamUnavailableError as error:
                _log.warning("cannot register: %s", error)
                self._stop.wait(_REGISTER_AGAIN_S)

    def _beat(self, role: Role, rest: threading.Event) -> None:
        config = self._spec.run.config
        interval_s = config.cluster.heartbeat_s
        while not rest.wait(interval_s):
            self._metrics.process_resident_bytes.labels(self._spec.role).set(resident_bytes())
            try:
                role.tick()
                held = self._store.heartbeat(self._record(role), config.stream.lease_s)
            except StreamUnavailableError as error:
                _log.warning("no heartbeat: %s", error)
                continue
            if not held:
                self._outcome = RoleOutcome(kind="superseded", text=f"another {self._spec.slot} holds the place")
                self._stop.set()
                return

    def _say_goodbye(self, role: Role) -> None:
        """Leave the last numbers behind: what was done until the end counts."""
        if self._outcome is not None:
            return
        try:
            self._store.heartbeat(self._record(role), self._spec.run.config.stream.lease_s)
        except StreamUnavailableError as error:
            _log.warning("no last heartbeat: %s", error)

    def _record(self, role: Role) -> RoleRecord:
        return RoleRecord(
            role=self._spec.role,
            index=self._spec.index,
            node=self._spec.node,
            pid=os.getpid(),
            incarnation=self._spec.incarnation,
            address=role.address,
            metrics_url=self._metrics_url,
            started=self._started,
            waiting_for=role.waiting_for[:_MAX_TEXT],
            numbers={**role.numbers(), "resident_bytes": float(resident_bytes())},
        )


def log_to_file(spec: RoleSpec) -> None:
    """Send this process's log to the run folder, or where that is not visible, to its standard error."""
    folder = RunFolder(Path(spec.run.storage), spec.run.run).logs
    handler: logging.Handler
    if folder.is_dir():
        handler = logging.FileHandler(folder / f"{spec.slot}.log")
    else:
        handler = logging.StreamHandler(sys.stderr)
    text = f"%(asctime)s {spec.slot} {spec.incarnation} %(levelname)s %(name)s: %(message)s"
    handler.setFormatter(logging.Formatter(text))
    logger = logging.getLogger("zerofleet")
    logger.handlers[:] = [handler]
    logger.setLevel(logging.INFO)
    logger.propagate = False


def resident_bytes() -> int:
    """Return how much memory this process has in RAM."""
    try:
        pages = int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1])
    except OSError:
        peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        return peak if sys.platform == "darwin" else peak * 1024
    return pages * resource.getpagesize()
