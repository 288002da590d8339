from __future__ import annotations

import json
import threading
from pathlib import Path

import pytest

from zerofleet.cluster import launch
from zerofleet.cluster.cli import run_command
from zerofleet.cluster.embedded_redis import EmbeddedRedis
from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.launch import Prepared
from zerofleet.cluster.run_config import resolve_config
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.run_state import RunState
from zerofleet.cluster.status import RunView
from zerofleet.errors import ConfigError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.redis_store import RedisRunStore


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path, "run")
    folder.create(resolve_config("tictactoe", []), GameSource(spec="tictactoe"))
    return folder


def test_perft_prints_the_count_last(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["perft", "connect4", "4"]) == 0
    assert capsys.readouterr().out.split()[-1] == "2401"


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["perft", "connect5", "4"], "connect4"),
        (["train", "connect5"], "connect4"),
        (["train", "connect4", "--set", "learner.batchsize=3"], "did you mean batch_size"),
        (["train", "connect4", "--steps", "5", "--games", "5"], "one of"),
        (["train", "connect4", "--run", "a/b"], "a run's name"),
        (["train", "nowhere.py:Mine"], "nowhere.py"),
        (["status", "nun"], "no run 'nun'"),
        (["scale", "nun", "3"], "no run 'nun'"),
        (["episodes", "nun"], "no run 'nun'"),
    ],
)
def test_a_users_mistake_is_told_in_a_line_and_exits_with_2(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = [] if arguments[0] == "perft" else ["--storage", str(tmp_path)]
    assert run_command([*arguments, *storage]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error
    assert len(error.strip().splitlines()) <= 2


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["train"], "'GAME'"),
        (["train", "connect4", "--minutes", "x"], "'--minutes'"),
        (["train", "connect4", "--minutes", "-1"], "'--minutes'"),
        (["train", "connect4", "--minutes", "nan"], "'--minutes'"),
        (["train", "connect4", "--games", "0"], "'--games'"),
        (["train", "connect4", "--steps", "-5"], "'--steps'"),
        (["train", "connect4", "--actors", "0"], "'--actors'"),
        (["train", "connect4", "--minuts", "3"], "--minutes"),
        (["train", "connect4", "again"], "again"),
        (["scale", "run"], "'N'"),
        (["arena", "random"], "'B'"),
        (["perft", "connect4", "-1"], "'DEPTH'"),
        (["nonsense"], "nonsense"),
    ],
)
def test_wrong_words_are_told_in_two_lines_and_exit_with_2(
    arguments: list[str], words: str, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command(arguments) == 2
    error, remedy = capsys.readouterr().err.splitlines()
    assert error.startswith("error: ")
    assert words in error
    command = f"zerofleet {arguments[0]}" if arguments[0] != "nonsense" else "zerofleet"
    assert remedy == f"see: {command} --help"


def test_no_words_at_all_show_the_help(capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command([]) == 0
    assert "check-game" in capsys.readouterr().out


def test_ctrl_c_exits_with_130(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(_self: RunFolder) -> RunFolder:
        raise KeyboardInterrupt

    monkeypatch.setattr(RunFolder, "require", interrupt)
    assert run_command(["evaluate", "run"]) == 130


@pytest.mark.parametrize(
    ("words", "completed"),
    [
        ("zerofleet train con", "connect4"),
        ("zerofleet status --storage {} r", "run"),
        ("zerofleet play tictactoe --storage {} --run r", "run"),
        ("zerofleet check-g", "check-game"),
    ],
)
def test_a_shell_completes_commands_games_and_runs(
    words: str, completed: str, folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    words = words.format(folder.storage)
    monkeypatch.setenv("_ZEROFLEET_COMPLETE", "complete_bash")
    monkeypatch.setenv("COMP_WORDS", words)
    monkeypatch.setenv("COMP_CWORD", str(len(words.split()) - 1))
    assert run_command([]) == 0
    assert capsys.readouterr().out.split() == [completed]


def test_a_run_of_another_game_is_not_resumed(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["train", "connect4", "--run", "run", "--storage", str(folder.storage)]) == 2
    assert "plays tictactoe" in capsys.readouterr().err


def test_a_changed_network_is_not_resumed(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    """Fault 71."""
    arguments = ["train", "tictactoe", "--run", "run", "--storage", str(folder.storage), "--set", "network.blocks=9"]
    assert run_command(arguments) == 2
    assert "network.blocks" in capsys.readouterr().err


def test_a_run_that_runs_is_not_started_twice_nor_changed(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    before = folder.config()
    arguments = ["train", "tictactoe", "--run", "run", "--storage", str(folder.storage)]
    with folder.locked():
        assert run_command([*arguments, "--set", "learner.learning_rate=0.5"]) == 2
    assert "running already" in capsys.readouterr().err
    assert folder.config() == before


def test_a_storage_that_cannot_be_written_to_is_told(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "file").touch()
    assert run_command(["train", "tictactoe", "--storage", str(tmp_path / "file")]) == 2
    assert "--storage names another folder" in capsys.readouterr().err


def test_a_refused_setting_leaves_no_folder(tmp_path: Path) -> None:
    assert run_command(["train", "tictactoe", "--storage", str(tmp_path), "--set", "seed=-1"]) == 2
    assert list(tmp_path.iterdir()) == []


def test_a_train_that_cannot_start_leaves_no_redis_and_no_folder_behind(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEROFLEET_REDIS_URL", raising=False)

    def refuse(_options: object, prepared: Prepared) -> None:
        prepared.folder.make_scratch()
        raise ConfigError("no Ray cluster answers there")

    monkeypatch.setattr(launch, "_start_ray", refuse)
    assert run_command(["train", "tictactoe", "--run", "run", "--storage", str(tmp_path)]) == 2
    folder = RunFolder(tmp_path, "run")
    assert EmbeddedRedis(folder.redis).url() is not None
    assert not EmbeddedRedis(folder.redis).is_alive()
    assert folder.record("scratch") == {}


def test_status_of_a_run_that_has_ended_comes_from_its_folder(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    state = RunState(state="stopped", exit_reason="steps", step=150, games=99, weights_version=8)
    folder.write_record("summary", state.to_record())
    assert run_command(["status", "run", "--storage", str(folder.storage), "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["learner_step"], found["games"], found["weights_version"]) == ("stopped", 150, 99, 8)
    assert found["roles"] == []
    assert run_command(["status", "run", "--storage", str(folder.storage)]) == 0
    assert "stopped" in capsys.readouterr().out


def test_a_run_whose_train_was_killed_is_told_and_its_redis_is_ended(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    embedded = EmbeddedRedis(folder.redis)
    store = RedisRunStore(embedded.ensure(), "run")
    store.set_state(RunState(state="running", games=5).to_record())
    store.register(RoleRecord(role="controller", index=0, node="n", pid=1, incarnation="a"), 0.001)
    storage = ["--storage", str(folder.storage)]
    assert run_command(["status", "run", *storage, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["games"], found["roles"]) == ("interrupted", 5, [])
    assert run_command(["stop", "run", *storage]) == 0
    assert not embedded.is_alive()
    assert run_command(["stop", "run", *storage]) == 0
    assert "was not running" in capsys.readouterr().out
    assert run_command(["status", "run", *storage, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["games"]) == ("interrupted", 5)


def test_a_run_whose_train_lives_and_has_no_controller_yet_is_not_told_to_be_resumed(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    embedded = EmbeddedRedis(folder.redis)
    RedisRunStore(embedded.ensure(), "run").set_state(RunState(waiting_for="the controller to start").to_record())
    try:
        with folder.locked():
            assert run_command(["status", "run", "--storage", str(folder.storage), "--json"]) == 0
    finally:
        embedded.stop()
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["waiting_for"]) == ("starting", "the controller to start")


def test_a_stop_while_the_controller_is_away_ends_nothing_under_a_train_that_lives(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 112: it is only being started, or its controller has just died and comes back."""
    embedded = EmbeddedRedis(folder.redis)
    store = RedisRunStore(embedded.ensure(), "run")
    scratch = folder.make_scratch()
    try:
        store.set_state(RunState(state="running").to_record())
        with folder.locked():
            assert run_command(["stop", "run", "--storage", str(folder.storage), "--timeout", "0.3"]) == 1
        assert "has not yet" in capsys.readouterr().err
        assert store.stop_requested()
        assert scratch.is_dir()
    finally:
        folder.remove_scratch()
        embedded.stop()


def test_a_stop_waits_until_the_train_has_ended_itself_and_its_redis(folder: RunFolder) -> None:
    embedded = EmbeddedRedis(folder.redis)
    store = RedisRunStore(embedded.ensure(), "run")
    held, may_end = threading.Event(), threading.Event()

    def train() -> None:
        with folder.locked():
            held.set()
            while not store.stop_requested():
                may_end.wait(0.01)
            embedded.stop()
            may_end.wait(0.5)

    thread = threading.Thread(target=train)
    thread.start()
    try:
        assert held.wait(10.0)
        assert RunView(folder, None).stop(30.0) == "it has ended in order"
        assert not folder.is_held()
    finally:
        thread.join()


def test_a_redis_that_does_not_know_the_run_hides_nothing_of_it(
    folder: RunFolder, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    folder.write_record("summary", RunState(state="stopped", games=99).to_record())
    other = EmbeddedRedis(tmp_path / "other")
    url = other.ensure()
    try:
        arguments = ["status", "run", "--storage", str(folder.storage), "--redis-url", url, "--json"]
        assert run_command(arguments) == 0
    finally:
        other.stop()
    found = json.loads(capsys.readouterr().out)
    assert (found["state"], found["games"]) == ("stopped", 99)


def test_a_run_with_a_redis_elsewhere_is_not_said_to_have_ended(
    folder: RunFolder, capsys: pytest.CaptureFixture[str]
) -> None:
    storage = ["--storage", str(folder.storage)]
    with folder.locked():
        assert run_command(["stop", "run", *storage]) == 2
        assert "--redis-url" in capsys.readouterr().err
        assert run_command(["status", "run", *storage, "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["state"] == "starting"
    assert "--redis-url" in found["waiting_for"]


def test_scale_writes_the_wish(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    embedded = EmbeddedRedis(folder.redis)
    store = RedisRunStore(embedded.ensure(), "run")
    try:
        assert run_command(["scale", "run", "5", "--storage", str(folder.storage)]) == 0
        assert store.wish() == 5
        assert run_command(["scale", "run", "-1", "--storage", str(folder.storage)]) == 2
        store.set_state(RunState(state="running", actors={"wished": 5, "alive": 5, "most": 32}).to_record())
        assert run_command(["scale", "run", "33", "--storage", str(folder.storage)]) == 2
        assert "32 actors at most" in capsys.readouterr().err
        assert store.wish() == 5
    finally:
        embedded.stop()
    assert run_command(["scale", "run", "5", "--storage", str(folder.storage)]) == 2
    assert "not running here" in capsys.readouterr().err


def test_a_run_with_its_own_redis_is_found_whatever_the_environment_names(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """The variable is set for the runs on a cluster; an option on the command line counts more than both."""
    monkeypatch.setenv("ZEROFLEET_REDIS_URL", "redis://127.0.0.1:1/0")
    embedded = EmbeddedRedis(folder.redis)
    store = RedisRunStore(embedded.ensure(), "run")
    storage = ["--storage", str(folder.storage)]
    try:
        store.set_state(RunState(state="running", games=5).to_record())
        assert run_command(["scale", "run", "5", *storage]) == 0
        assert store.wish() == 5
        assert run_command(["status", "run", *storage, "--json"]) == 0
        assert json.loads(capsys.readouterr().out.splitlines()[-1])["games"] == 5
        assert run_command(["status", "run", *storage, "--redis-url", "redis://127.0.0.1:1/0"]) == 1
        assert run_command(["stop", "run", *storage]) == 0
        assert not embedded.is_alive()
        assert run_command(["status", "run", *storage]) == 1  # now the environment is all that is known
    finally:
        embedded.stop()


def test_episodes_of_a_fresh_run_are_none(folder: RunFolder, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["episodes", "run", "--storage", str(folder.storage), "--json"]) == 0
    assert capsys.readouterr().out == ""
