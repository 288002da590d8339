"""The last JSON line of `train`: it comes whatever goes wrong, and never without the numbers that are known."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from zerofleet.cluster import launch, train_command
from zerofleet.cluster.cli import run_command
from zerofleet.cluster.launch import Prepared, TrainOptions, TrainResult, Watcher
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.run_state import RunState
from zerofleet.errors import ConfigError, StorageError

RUN = {"run": "run", "seconds_to_first_weights": 12.5, "games": 99, "steps": 150, "weights_version": 8}


@pytest.fixture
def arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    monkeypatch.delenv("ZEROFLEET_REDIS_URL", raising=False)
    return ["train", "tictactoe", "--run", "run", "--storage", str(tmp_path), "--json"]


def lines(capsys: pytest.CaptureFixture[str]) -> list[dict[str, Any]]:
    return [json.loads(line) for line in capsys.readouterr().out.splitlines()]


@pytest.mark.parametrize(("error", "code"), [(StorageError("no server program"), 1), (ConfigError("no cluster"), 2)])
def test_a_start_that_fails_is_told_last(
    arguments: list[str],
    error: Exception,
    code: int,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def refuse(_options: object, _prepared: Prepared) -> None:
        raise error

    monkeypatch.setattr(launch, "_start_ray", refuse)
    assert run_command(arguments) == code
    first, last = lines(capsys)
    assert first["config"]["learner"]["batch_size"] > 0
    assert (last["run"], last["exit_reason"], last["games"], last["steps"]) == ("run", "failed", 0, 0)
    assert last["seconds_to_first_weights"] is None
    assert str(error) in last["error"]


def test_what_was_seen_of_the_run_is_told_where_watching_it_fails(
    arguments: list[str], monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def watch(_options: TrainOptions, watcher: Watcher) -> TrainResult:
        watcher.look(RunState(games=7, step=3, weights_version=2))
        raise StorageError("the disk is full")

    monkeypatch.setattr(train_command, "train", watch)
    assert run_command(arguments) == 1
    last = lines(capsys)[-1]
    assert (last["games"], last["steps"], last["weights_version"], last["exit_reason"]) == (7, 3, 2, "failed")


def test_who_ends_a_run_at_once_is_told_how_to_resume_it(
    arguments: list[str], tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def interrupt(_options: object, _prepared: Prepared) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(launch, "_start_ray", interrupt)
    assert run_command([argument for argument in arguments if argument != "--json"]) == 130
    said = capsys.readouterr().out
    assert f"run run was ended at once; `zerofleet train tictactoe --run run --storage {tmp_path}` resumes it" in said


def test_a_mistake_before_anything_began_prints_no_line(
    arguments: list[str], capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*arguments, "--set", "seed=-1"]) == 2
    assert lines(capsys) == []


@pytest.mark.parametrize(
    ("error", "code", "reason"), [(StorageError("no weights"), 1, "failed"), (KeyboardInterrupt(), 130, "interrupted")]
)
def test_a_match_that_fails_does_not_hide_how_the_run_ended(
    arguments: list[str],
    tmp_path: Path,
    error: BaseException,
    code: int,
    reason: str,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    def ended(_options: TrainOptions, _watcher: Watcher) -> TrainResult:
        return TrainResult(folder=RunFolder(tmp_path, "run"), exit_reason="minutes", **RUN)  # type: ignore[arg-type]

    def fail(_folder: RunFolder) -> None:
        raise error

    monkeypatch.setattr(train_command, "train", ended)
    monkeypatch.setattr(train_command, "final_match", fail)
    assert run_command([*arguments, "--match"]) == code
    last = lines(capsys)[-1]
    assert {**last, "error": ""} == {**RUN, "exit_reason": reason, "error": ""}
    assert run_command([argument for argument in [*arguments, "--match"] if argument != "--json"]) == code
    assert "99 games, 150 steps" in capsys.readouterr().out
