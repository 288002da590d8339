"""`zerofleet train`: prepare the run's folder, start Redis, Ray and the controller, watch, and end in order.

On one machine this process owns Ray and the embedded Redis and ends both.  On an existing cluster it only watches: the
run goes on without it, and Ctrl-C or SIGTERM drains it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any

from zerofleet.cluster.embedded_redis import EmbeddedRedis
from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.limits import ExitReason, Limits
from zerofleet.cluster.patience import Patience
from zerofleet.cluster.ray_session import RaySession, connect, start_local, storage_nodes
from zerofleet.cluster.role_spec import RunSpec
from zerofleet.cluster.run_config import RunConfig, resolve_config, resume_config
from zerofleet.cluster.run_folder import RunFolder, fresh_run_name
from zerofleet.cluster.run_state import RunState
from zerofleet.cluster.status import REDIS_URL_VARIABLE, RunView, redis_url_given, redis_url_of
from zerofleet.cluster.topology import usable_cores
from zerofleet.config import differences, to_mapping
from zerofleet.errors import ConfigError, RunError, StreamUnavailableError
from zerofleet.streams.redis_store import RedisRunStore
from zerofleet.streams.redis_stream import RedisEpisodeStream
from zerofleet.streams.store import RunStore, WishRecord

_LOOK_S = 0.5
_CHECK_S = 5.0


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainOptions:
    """What the command line asks for."""

    game: str
    storage: Path
    run: str | None = None
    minutes: float | None = None
    games: int | None = None
    steps: int | None = None
    actors: int | None = None
    address: str | None = None
    redis_url: str | None = None
    assignments: tuple[str, ...] = ()
    began: float = field(default_factory=time.time)  # when the command was started, seconds since 1970


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainResult:
    """How a `train` ended."""

    run: str
    folder: RunFolder
    exit_reason: ExitReason
    seconds_to_first_weights: float | None
    games: int
    steps: int
    weights_version: int
    error: str = ""


@dataclass(frozen=True, slots=True, kw_only=True)
class Prepared:
    """A run whose folder is ready."""

    folder: RunFolder
    config: RunConfig
    game: GameSource
    changes: list[str]  # what a resume changed
    is_resumed: bool


class Watcher:
    """What `train` tells while it runs; the command line shows it."""

    def prepared(self, prepared: Prepared) -> None:
        """The folder is ready."""

    def note(self, text: str) -> None:
        """Say something once."""

    def look(self, state: RunState) -> None:
        """Show the run as it is now."""


@contextmanager
def prepared_run(options: TrainOptions) -> Iterator[Prepared]:
    """Check what is asked for, hold the run, and only then write to its folder.

    Raises:
        UsageError: the game, a setting or the run is not what it must be, or another process runs it.
    """
    game = GameSource.given(options.game)
    if redis_url := redis_url_given(options.redis_url):
        check_redis(redis_url)
    folder = RunFolder(options.storage, fresh_run_name(game.spec) if options.run is None else options.run)
    config = _config(options, folder, game)
    with folder.locked():
        is_resumed = folder.exists
        if is_resumed and options.address is not None:
            _refuse_changes_of_a_living_run(options, folder, config)
        changes = folder.resume(config, game) if is_resumed else []
        if not is_resumed:
            folder.create(config, game)
        yield Prepared(folder=folder, config=config, game=game, changes=changes, is_resumed=is_resumed)


def _config(options: TrainOptions, folder: RunFolder, game: GameSource) -> RunConfig:
    if not folder.exists:
        config = resolve_config(game.spec, options.assignments)
        game.load()
        _refuse_another_runs_keys(options, folder)
        return config
    stored = folder.config()
    if stored.game != game.spec:
        raise RunError(f"run {folder.run!r} plays {stored.game}, not {game.spec}; start a run of another name")
    return resume_config(stored, options.assignments, to_mapping(stored))


def _refuse_another_runs_keys(options: TrainOptions, folder: RunFolder) -> None:
    url = redis_url_given(options.redis_url)
    if url and options.run and RedisRunStore(url, folder.run).epoch("controller") is not None:
        raise RunError(
            f"that Redis holds a run {folder.run!r} already, whose folder is not in {folder.storage}; "
            "give its --storage, or another --run"
        )


def _refuse_changes_of_a_living_run(options: TrainOptions, folder: RunFolder, config: RunConfig) -> None:
    changes = differences(folder.config(), config)
    if not changes:
        return
    with suppress(StreamUnavailableError):  # told when it is needed
        if RunView(folder, redis_url_of(folder, options.redis_url)).is_running():
            raise RunError(
                f"run {folder.run!r} is alive, and goes on with the settings that it was started with; leave out "
                f"--set to watch it, or `zerofleet stop {folder.as_arguments}` it first ({'; '.join(changes)})"
            )


def train(options: TrainOptions, watcher: Watcher) -> TrainResult:
    """Run the whole loop until a limit is reached or somebody ends it.

    Raises:
        UsageError: it cannot start as asked for.
    """
    with prepared_run(options) as prepared:
        watcher.prepared(prepared)
        if (ended := _ended_already(options, prepared)) is not None:
            return ended
        redis_url = redis_url_given(options.redis_url)
        own = EmbeddedRedis(prepared.folder.redis)
        embedded = None if redis_url else own
        if embedded is None:
            leave_embedded(own, prepared.folder.run)
        session: RaySession | None = None
        try:
            with ThreadPoolExecutor(max_workers=1) as pool:
                ready = pool.submit(_ready_store, options, prepared.folder, embedded, redis_url)
                session = _start_ray(options, prepared)
                redis_url = ready.result()
            if session.spans_nodes and embedded is not None:
                raise ConfigError(
                    "a cluster of several nodes needs a Redis that all of them reach: "
                    f"give --redis-url or set {REDIS_URL_VARIABLE}"
                )
            return _Driver(options, prepared, session, redis_url, embedded is not None, watcher).run()
        finally:
            if session is not None:
                session.end()
            prepared.folder.remove_scratch()
            if embedded is not None:
                embedded.stop()


def _ended_already(options: TrainOptions, prepared: Prepared) -> TrainResult | None:
    """Return the result of a `train` whose bound the run had reached when it last ended: nothing is started for it."""
    if options.address is not None or not prepared.is_resumed:
        return None
    before = RunState.from_record(prepared.folder.record("summary")).begun_anew()
    bounds = Limits(games=options.games, steps=options.steps)
    reason = bounds.reached(now=options.began, games=before.games, steps=before.step)
    return _result(options, prepared.folder, before, reason) if reason is not None else None


def _result(
    options: TrainOptions, folder: RunFolder, state: RunState, reason: ExitReason, error: str = ""
) -> TrainResult:
    return TrainResult(
        run=folder.run,
        folder=folder,
        exit_reason=reason,
        seconds_to_first_weights=seconds_to_first_weights(state, options.began),
        games=state.games,
        steps=state.step,
        weights_version=state.weights_version,
        error=error,
    )


def check_redis(url: str) -> None:
    """Ask a Redis that was named whether it is there, before anything is made or started.

    Raises:
        ConfigError: the URL is none, or nobody answers there.
    """
    store = RedisRunStore(url, "check", timeout_s=_CHECK_S)
    try:
        store.ping()
    except StreamUnavailableError as error:
        raise ConfigError(f"the Redis that is named does not answer: {error}") from None
    finally:
        store.close()


def _ready_store(options: TrainOptions, folder: RunFolder, embedded: EmbeddedRedis | None, url: str | None) -> str:
    """Bring the store up and return its URL; `--actors` is wished for now, so that any later `scale` counts more."""
    url = embedded.ensure() if embedded is not None else str(url)
    if options.actors is not None:
        wish_for(options.actors, RedisRunStore(url, folder.run), folder)
    return url


def leave_embedded(embedded: EmbeddedRedis, run: str) -> None:
    """Let a run go from its own Redis to another one.

    Raises:
        RunError: finished games wait there that are not logged yet.
    """
    if embedded.url() is None:
        return
    try:
        counts = RedisEpisodeStream(embedded.ensure(), run).counts()
    finally:
        embedded.stop()
    if waiting := counts.backlog + counts.pending:
        raise RunError(
            f"{waiting} finished games of run {run!r} wait in its own Redis and are not logged yet: resume it without "
            "--redis-url first, and end it in order"
        )
    embedded.discard()


def seconds_to_first_weights(state: RunState, began: float) -> float | None:
    """Return how long it took from the start of the command, None where there are no new weights yet."""
    return round(state.first_new_weights - began, 2) if state.first_new_weights is not None else None


def wish_for(actors: int, store: RunStore, folder: RunFolder) -> None:
    """Wish for so many actors, above every wish that the folder knows: the store may have lost its data."""
    sequence, held = store.set_wish(actors), folder.wish()
    if held is not None and held.sequence >= sequence:
        folder.persist_wish(WishRecord(actors, held.sequence + 1))


def _start_ray(options: TrainOptions, prepared: Prepared) -> RaySession:
    if options.address is not None:
        return connect(prepared.folder.run, options.address)
    config = prepared.config.cluster
    servers = config.num_inference_servers or max(2, usable_cores())
    actors = options.actors or config.num_actors or max(2, usable_cores())
    prepared.folder.remove_scratch()
    return start_local(
        prepared.folder.run,
        prepared.folder.make_scratch(),
        num_processes=servers + actors + 2,
        object_store_mb=config.object_store_mb,
    )


class _Driver:
    """Starts the controller and watches the run until it is over."""

    def __init__(
        self,
        options: TrainOptions,
        prepared: Prepared,
        session: RaySession,
        redis_url: str,
        redis_is_embedded: bool,
        watcher: Watcher,
    ) -> None:
        self._options = options
        self._prepared = prepared
        self._folder = prepared.folder
        self._session = session
        self._redis_url = redis_url
        self._redis_is_embedded = redis_is_embedded
        self._watcher = watcher
        self._store = RedisRunStore(redis_url, prepared.folder.run, timeout_s=prepared.config.stream.timeout_s)
        self._interrupted = threading.Event()
        self._patience = Patience()
        self._state = RunState()

    def run(self) -> TrainResult:
        """Start, watch, and say how it ended."""
        with _signals(self._interrupt):
            try:
                self._launch()
                reason, error = self._watch()
            except KeyboardInterrupt:
                if self._session.folder is None:  # on a cluster the roles would outlive this process
                    self._end_at_once()
                raise
        if self._interrupted.is_set() and reason == "stopped":
            reason = "interrupted"
        return _result(self._options, self._folder, self._state, reason, error)

    def _end_at_once(self) -> None:
        from zerofleet.cluster.ray_controller import end_actors

        end_actors(self._folder.run)

    def _launch(self) -> None:
        from zerofleet.cluster.ray_controller import controller_lives, start_controller

        self._write_limits()
        if controller_lives(self._folder.run):
            self._watcher.note(f"run {self._folder.run} is alive on this cluster: watching it")
            return
        self._store.clear_stop()
        before = RunState.from_record({**self._folder.record("summary"), **(self._store.state() or {})})
        self._store.set_state(before.begun_anew().to_record())
        spec = RunSpec(
            run=self._folder.run,
            storage=str(self._folder.storage),
            config=self._prepared.config,
            game=self._prepared.game,
            redis_url=self._redis_url,
            redis_is_embedded=self._redis_is_embedded,
            token=self._folder.token(),
            session=self._folder.begin_session(),
            storage_nodes=storage_nodes(self._session, self._folder.path / "durable" / "session"),
            scratch=str(self._session.folder or ""),
            spans_nodes=self._session.spans_nodes,
            changes=tuple(self._prepared.changes),
        )
        may_move = self._session.spans_nodes and len(spec.storage_nodes) == self._session.num_nodes
        if self._session.spans_nodes and not may_move:
            self._watcher.note(
                f"{self._folder.storage} is not visible on every node: learner and controller stay where it is"
            )
        start_controller(spec, may_move=may_move)

    def _write_limits(self) -> None:
        options = self._options
        deadline = None if options.minutes is None else options.began + 60.0 * options.minutes
        limits = Limits(deadline=deadline, games=options.games, steps=options.steps)
        self._folder.write_record("limits", limits.to_record())

    def _interrupt(self, _signal: int, _frame: FrameType | None) -> None:
        if self._interrupted.is_set():
            raise KeyboardInterrupt
        self._interrupted.set()

    def _watch(self) -> tuple[ExitReason, str]:
        asked = False
        while True:
            try:
                if self._interrupted.is_set() and not asked:
                    self._store.request_stop()
                    asked = True
                    self._watcher.note("ending the run in order; once more ends it at once")
                self._look()
            except StreamUnavailableError as error:
                self._patience.excuse()  # the controller may well live
                self._state = RunState.from_record({**self._state.to_record(), "waiting_for": f"the store ({error})"})
            self._watcher.look(self._state)
            if self._state.state in ("stopped", "failed"):
                reason: Any = self._state.exit_reason or "stopped"
                return reason, self._state.error
            if why := self._patience.verdict(is_hurried=asked):
                why = f"{why}; its log is {self._folder.logs / 'controller-0.log'}"
                reason = "stopped" if asked else "failed"
                ended = {**self._state.to_record(), "state": reason, "exit_reason": reason, "error": why}
                self._folder.write_record("summary", ended)
                return reason, why
            self._interrupted.wait(_LOOK_S) if not asked else time.sleep(_LOOK_S)

    def _look(self) -> None:
        self._state = RunState.from_record(self._store.state())
        for leased in self._store.roles():
            if leased.record.role == "controller" and leased.lease_left_s > 0.0:
                self._patience.heard(leased.record.incarnation, self._state.games, self._state.step)


@contextmanager
def _signals(handler: Callable[[int, FrameType | None], None]) -> Iterator[None]:
    """Let Ctrl-C and SIGTERM call `handler` for a while."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    old = {number: signal.signal(number, handler) for number in (signal.SIGINT, signal.SIGTERM)}
    try:
        yield
    finally:
        for number, previous in old.items():
            signal.signal(number, previous)
