from __future__ import annotations

import logging
import threading
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from zerofleet.cluster.game_source import GameSource, where_it_failed
from zerofleet.cluster.role_process import RoleProcess, resident_bytes
from zerofleet.cluster.role_spec import RoleOutcome, RoleSpec, RunSpec, new_incarnation, parse_name
from zerofleet.cluster.run_config import resolve_config
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.errors import (
    DamagedRunError,
    FatalRoleError,
    GameError,
    StaleEpochError,
    StorageError,
    StreamUnavailableError,
)
from zerofleet.games.python_game import name_in_tracebacks
from zerofleet.streams.codec import encode_role
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import MemoryRunStore
from zerofleet.telemetry import Metrics


class Worker:
    """A role that works until it is told to stop, or until it fails as a test says."""

    address = "unix:/nowhere"
    waiting_for = "has 1 of 2 positions"

    def __init__(self, failure: Exception | None = None) -> None:
        self.failure = failure
        self.works = threading.Event()
        self.ticked = threading.Event()
        self.loaded: list[int] = []

    def numbers(self) -> dict[str, float]:
        return {"games": 3.0}

    def run(self, stop: threading.Event) -> None:
        self.works.set()
        if self.failure is not None:
            raise self.failure
        stop.wait(30.0)

    def tick(self) -> None:
        self.ticked.set()

    def load_weights(self, version: int, weights: bytes) -> None:
        self.loaded.append(version)


@pytest.fixture
def store() -> MemoryRunStore:
    return MemoryRunStore()


@pytest.fixture
def spec(tmp_path: Path) -> RoleSpec:
    config = resolve_config("tictactoe", ["cluster.heartbeat_s=0.05"])
    folder = RunFolder(tmp_path, "run")
    folder.create(config, GameSource(spec="tictactoe"))
    run = RunSpec(
        run="run",
        storage=str(tmp_path),
        config=config,
        game=GameSource(spec="tictactoe"),
        redis_url="",
        redis_is_embedded=False,
        token="t",
        session="s",
        storage_nodes=("n",),
        scratch="",
        spans_nodes=False,
    )
    return RoleSpec(run=run, role="actor", index=3, incarnation="abc", node="n")


def test_a_spec_shows_no_secret(spec: RoleSpec) -> None:
    run = replace(spec.run, redis_url="redis://:pass-word@store:6379/0", token="the-token")
    shown = repr(replace(spec, run=run))
    assert "tictactoe" in shown
    assert "pass-word" not in shown
    assert "the-token" not in shown


@pytest.fixture(autouse=True)
def quiet_log() -> Iterator[None]:
    """Give the log back to whoever had it: a role process takes it over."""
    logger = logging.getLogger("zerofleet")
    handlers, propagate, level = list(logger.handlers), logger.propagate, logger.level
    yield
    for handler in logger.handlers:
        handler.close()
    logger.handlers[:], logger.propagate = handlers, propagate
    logger.setLevel(level)


def start(spec: RoleSpec, store: MemoryRunStore, worker: Worker) -> RoleProcess:
    return RoleProcess(spec, build=lambda _spec, _metrics: worker, store=store)


def test_a_role_registers_works_and_ends_in_order(spec: RoleSpec, store: MemoryRunStore) -> None:
    worker = Worker()
    process = start(spec, store, worker)
    assert worker.works.wait(10.0)
    assert process.outcome(0.0) is None
    (leased,) = store.roles()
    record = leased.record
    assert (record.role, record.index, record.incarnation, record.node) == ("actor", 3, "abc", "n")
    assert (record.address, record.waiting_for) == ("unix:/nowhere", "has 1 of 2 positions")
    assert record.numbers["games"] == 3.0
    assert record.numbers["resident_bytes"] > 1e6
    assert record.metrics_url.startswith("http://127.0.0.1:")
    process.load_weights(7, b"")
    assert worker.loaded == [7]
    process.stop()
    assert process.outcome(10.0) == RoleOutcome(kind="stopped")
    assert "pid" in (RunFolder(Path(spec.run.storage), "run").logs / "actor-3.log").read_text()


@pytest.mark.parametrize(
    ("failure", "kind"),
    [
        (FatalRoleError("loss is not finite at step 7"), "fatal"),
        (StaleEpochError("epoch 2 is in charge"), "superseded"),
        (RuntimeError("a bug"), "failed"),
    ],
)
def test_how_a_role_ends_is_told(spec: RoleSpec, store: MemoryRunStore, failure: Exception, kind: str) -> None:
    outcome = start(spec, store, Worker(failure)).outcome(10.0)
    assert outcome is not None
    assert outcome.kind == kind
    assert str(failure) in outcome.text


def test_an_error_of_the_users_game_is_fatal_and_names_its_line(spec: RoleSpec, store: MemoryRunStore) -> None:
    """No other start of the role would mend the game."""
    source = b"def play():\n    return next_state()\ndef next_state():\n    return sorted([1, 'a'])\n"
    rules: dict[str, Any] = {}
    exec(compile(source, name_in_tracebacks("mine.py"), "exec"), rules)

    class Plays(Worker):
        def run(self, stop: threading.Event) -> None:
            rules["play"]()

    mine = replace(spec, run=replace(spec.run, game=GameSource(spec="mine.py:M", filename="mine.py", source=source)))
    outcome = start(mine, store, Plays()).outcome(10.0)
    assert outcome is not None
    assert outcome.kind == "fatal"
    assert outcome.text.startswith("mine.py, line 4, in next_state raised TypeError: '<' not supported")
    assert "check-game" in outcome.text


@pytest.mark.parametrize(
    ("error", "words"),
    [
        (GameError("mine.py:Mine: move_index must return a number in [0, 16), got 100"), "check-game"),
        (DamagedRunError("the log is broken at byte 7; restore the file"), "restore the file"),
    ],
)
def test_what_no_restart_mends_is_fatal(spec: RoleSpec, store: MemoryRunStore, error: Exception, words: str) -> None:
    """A rule that the tree found broken raises outside of the user's file; a damaged log is read in vain each time."""
    outcome = start(spec, store, Worker(error)).outcome(10.0)
    assert outcome is not None
    assert outcome.kind == "fatal"
    assert words in outcome.text
    assert str(error) in outcome.text


def test_a_lack_of_memory_is_no_error_of_the_game() -> None:
    """It may pass."""
    for error, where in ((MemoryError(), None), (ValueError(), "mine.py, line 1, in <module>")):
        try:
            exec(compile("raise error", name_in_tracebacks("mine.py"), "exec"), {"error": error})
        except (MemoryError, ValueError) as raised:
            assert where_it_failed(raised, "mine.py") == where
            assert where_it_failed(raised, "") is None


def test_a_role_whose_place_was_given_away_ends(spec: RoleSpec, store: MemoryRunStore) -> None:
    worker = Worker()
    process = start(spec, store, worker)
    assert worker.works.wait(10.0)
    store.register(RoleRecord(role="actor", index=3, node="m", pid=2, incarnation="successor"), 60.0)
    outcome = process.outcome(10.0)
    assert outcome is not None
    assert outcome.kind == "superseded"
    (leased,) = store.roles()
    assert leased.record.incarnation == "successor"


def test_a_role_waits_for_a_store_that_does_not_answer_yet(spec: RoleSpec) -> None:
    class LateStore(MemoryRunStore):
        refusals = 1

        def register(self, record: RoleRecord, lease_s: float) -> None:
            if self.refusals > 0:
                self.refusals -= 1
                raise StreamUnavailableError("not yet")
            super().register(record, lease_s)

    store, worker = LateStore(), Worker()
    process = start(spec, store, worker)
    assert worker.works.wait(10.0)
    assert len(store.roles()) == 1
    process.stop()
    assert process.outcome(10.0) == RoleOutcome(kind="stopped")


def test_a_role_that_cannot_be_built_says_why(spec: RoleSpec, store: MemoryRunStore) -> None:
    def build(_spec: RoleSpec, _metrics: Metrics) -> Worker:
        raise OSError("no space left on device")

    outcome = RoleProcess(spec, build=build, store=store).outcome(10.0)
    assert outcome == RoleOutcome(kind="failed", text="OSError: no space left on device")


def test_a_long_text_does_not_cost_a_role_its_lease(spec: RoleSpec) -> None:
    """A store refuses records with texts of any length; an error of torch has hundreds of lines."""

    class Talkative(Worker):
        waiting_for = "learner-0 starts in 1 s, after " + "x" * 5000

    class StrictStore(MemoryRunStore):
        heartbeats = threading.Semaphore(0)

        def heartbeat(self, record: RoleRecord, lease_s: float) -> bool:
            encode_role(record)
            self.heartbeats.release()
            return super().heartbeat(record, lease_s)

    store = StrictStore()
    process = start(spec, store, Talkative())
    assert store.heartbeats.acquire(timeout=10.0)
    assert store.heartbeats.acquire(timeout=10.0)
    process.stop()
    assert process.outcome(10.0) == RoleOutcome(kind="stopped")


def test_a_long_error_is_told_in_short(spec: RoleSpec, store: MemoryRunStore) -> None:
    outcome = start(spec, store, Worker(RuntimeError("y" * 5000))).outcome(10.0)
    assert outcome is not None
    assert len(outcome.text) == 500


def test_weights_that_cannot_be_used_are_told_in_the_log(spec: RoleSpec, store: MemoryRunStore) -> None:
    class Picky(Worker):
        def load_weights(self, version: int, weights: bytes) -> None:
            raise StorageError("a byte was flipped")

    worker = Picky()
    process = start(spec, store, worker)
    assert worker.works.wait(10.0)
    with pytest.raises(StorageError):
        process.load_weights(7, b"")
    process.stop()
    assert process.outcome(10.0) == RoleOutcome(kind="stopped")
    text = (RunFolder(Path(spec.run.storage), "run").logs / "actor-3.log").read_text()
    assert "weights version 7 cannot be used" in text
    assert "a byte was flipped" in text


def test_a_name_leads_back_to_its_role(spec: RoleSpec) -> None:
    assert parse_name("run", spec.name) == ("actor", 3, "abc")
    assert parse_name("a-run", "a-run-learner-0-12ab34cd") == ("learner", 0, "12ab34cd")
    assert parse_name("run", "run-controller") is None
    assert parse_name("run", "run-2-learner-0-12ab34cd") is None
    assert new_incarnation() != new_incarnation()
    assert "-" not in new_incarnation()


def test_resident_memory_is_known() -> None:
    assert 1e6 < resident_bytes() < 1e12
