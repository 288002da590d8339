"""The probe: rates by stage and player, no more than its share of the cores, and silence where nothing can be known."""

from __future__ import annotations

import threading
from pathlib import Path

import pytest

from zerofleet.actors.players import Player, RandomPlayer, SolverPlayer
from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.probe import ErrorProbe, rest_s, start_probe
from zerofleet.cluster.run_config import resolve_config
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.errors import StorageError
from zerofleet.games import load_game
from zerofleet.games.solvers import Minimax
from zerofleet.streams.store import WeightsRecord
from zerofleet.telemetry import Metrics

GAME = load_game("tictactoe")


class FakeNet:
    """Perfect with a search, random without."""

    game = GAME

    def __init__(self, version: int) -> None:
        self.version = version

    def player(self, num_simulations: int) -> Player:
        return SolverPlayer(GAME, Minimax(GAME)) if num_simulations else RandomPlayer(GAME)


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path, "run")
    folder.create(resolve_config("tictactoe", []), GameSource(spec="tictactoe"))
    return folder


class StopAfter(threading.Event):
    """Is set after so many waits; remembers how long they were to be."""

    def __init__(self, num_waits: int) -> None:
        super().__init__()
        self.left = num_waits
        self.waits: list[float] = []

    def wait(self, timeout: float | None = None) -> bool:
        self.waits.append(timeout or 0.0)
        self.left -= 1
        return self.left < 0


def make_probe(folder: RunFolder, **changes: object) -> ErrorProbe:
    ticks = iter(range(1000))
    arguments: dict[str, object] = {
        "share": 0.05,
        "num_each": 50,
        "cores": 2,
        "cpu_clock": lambda: float(next(ticks)),
        "load": lambda folder, _previous: FakeNet(folder.published().version),  # type: ignore[union-attr]
    }
    return ErrorProbe(folder, Metrics(), **(arguments | changes))  # type: ignore[arg-type]


def test_rates_are_shown_by_stage_and_player(folder: RunFolder) -> None:
    folder.persist_published(WeightsRecord(3, 70, "x"))
    probe = make_probe(folder)
    probe.run(StopAfter(2))
    numbers = probe.numbers()
    assert numbers["error_rate_search"] == 0.0
    assert 0.1 < numbers["error_rate_policy"] < 0.9
    assert numbers["error_rate_version"] == 3.0
    value = probe.metrics.registry.get_sample_value
    shown = value("zerofleet_learner_error_rate", {"stage": "all", "player": "policy"})
    assert shown == numbers["error_rate_policy"]


def test_a_version_is_measured_once(folder: RunFolder) -> None:
    folder.persist_published(WeightsRecord(3, 70, "x"))
    loaded: list[int] = []
    before: list[FakeNet | None] = []

    def load(folder: RunFolder, previous: FakeNet | None) -> FakeNet:
        loaded.append(folder.published().version)  # type: ignore[union-attr]
        before.append(previous)
        return FakeNet(loaded[-1])

    probe = make_probe(folder, load=load)
    probe.run(StopAfter(9))
    folder.persist_published(WeightsRecord(4, 80, "y"))
    probe.run(StopAfter(3))
    assert loaded == [3, 4]
    assert before[0] is None
    assert before[1] is not None  # which lends its backend


def test_it_rests_in_proportion_to_what_it_spent(folder: RunFolder) -> None:
    """Of two cores, 5 % is a tenth of a core: after 1 s of work 9 s of rest."""
    assert rest_s(1.0, 0.05, 2) == pytest.approx(9.0)
    folder.persist_published(WeightsRecord(3, 70, "x"))
    stop = StopAfter(3)
    make_probe(folder).run(stop)
    assert stop.waits[1] == pytest.approx(9.0)  # the clock of the test says 1 s for the first measurement


def test_before_anything_is_published_it_waits(folder: RunFolder) -> None:
    probe = make_probe(folder)
    probe.run(StopAfter(3))
    assert probe.numbers() == {}

    def gone(_folder: RunFolder, _previous: FakeNet | None) -> FakeNet:
        raise StorageError("the file has gone")

    folder.persist_published(WeightsRecord(3, 70, "x"))
    probe = make_probe(folder, load=gone)
    probe.run(StopAfter(3))
    assert probe.numbers() == {}


def test_a_game_without_a_solver_is_not_measured(tmp_path: Path) -> None:
    path = Path(__file__).resolve().parents[2] / "examples" / "domineering.py"
    source = GameSource.given(f"{path}:Domineering")
    folder = RunFolder(tmp_path, "run")
    folder.create(resolve_config(source.spec, []), source)
    folder.persist_published(WeightsRecord(3, 70, "x"))
    stop = StopAfter(3)
    make_probe(folder).run(stop)
    assert stop.waits == []


def test_it_can_be_turned_off(folder: RunFolder) -> None:
    assert start_probe(folder, Metrics(), share=0.0, num_each=1) is None
