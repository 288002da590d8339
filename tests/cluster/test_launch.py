from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zerofleet.cluster import launch
from zerofleet.cluster.cli import run_command
from zerofleet.cluster.embedded_redis import EmbeddedRedis
from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.launch import TrainOptions, leave_embedded, wish_for
from zerofleet.cluster.ray_session import RaySession
from zerofleet.cluster.run_config import resolve_config
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.run_state import RunState
from zerofleet.cluster.status import RunView
from zerofleet.errors import ConfigError, RunError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.redis_store import RedisRunStore
from zerofleet.streams.redis_stream import RedisEpisodeStream
from zerofleet.streams.store import WishRecord

if TYPE_CHECKING:
    from tests.cluster.conftest import World


def test_a_wish_at_the_start_counts_more_than_those_before(world: World) -> None:
    world.begin()
    wish_for(5, world.store, world.folder)
    world.controller.step()
    assert world.store.wish() == 5
    assert world.folder.wish() == WishRecord(5, 2)


def test_a_wish_at_the_start_counts_where_the_store_has_lost_its_data(world: World) -> None:
    world.begin()
    for actors in (3, 4):
        world.store.set_wish(actors)
        world.controller.step()
    world.store.lose_data()
    wish_for(1, world.store, world.folder)
    world.controller = world.make_controller()
    world.controller.take_over()
    assert world.store.wish() == 1


def test_a_fresh_run_does_not_take_the_keys_of_another_storages_run(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    server = EmbeddedRedis(tmp_path / "redis")
    url = server.ensure()
    try:
        RedisRunStore(url, "run").acquire_epoch("controller", 0, lambda _new: None)
        storage = tmp_path / "storage"
        arguments = ["train", "tictactoe", "--run", "run", "--storage", str(storage), "--redis-url", url]
        assert run_command(arguments) == 2
    finally:
        server.stop()
    assert "give its --storage, or another --run" in capsys.readouterr().err
    assert not storage.exists()


@pytest.mark.parametrize("bound", [("--steps", "700"), ("--games", "1000")])
def test_a_bound_that_the_run_has_reached_before_starts_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], bound: tuple[str, str]
) -> None:
    folder = RunFolder(tmp_path, "run")
    folder.create(resolve_config("tictactoe", ()), GameSource(spec="tictactoe"))
    folder.write_record("summary", RunState(state="stopped", games=1419, step=700, weights_version=9).to_record())
    monkeypatch.setattr(launch, "_start_ray", lambda *_: pytest.fail("Ray was started"))
    arguments = ["train", "tictactoe", "--run", "run", "--storage", str(tmp_path), *bound]
    assert run_command(arguments) == 0
    assert (
        f"ended ({bound[0][2:]}): 1,419 games, 700 steps, weights version 9, no new weights" in capsys.readouterr().out
    )


@pytest.mark.parametrize(
    ("url", "words"),
    [("foo", "is not understood"), ("redis://:hunter2@127.0.0.1:1/0", "does not answer")],
)
def test_a_redis_that_is_not_there_is_told_before_anything_is_made(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], url: str, words: str
) -> None:
    storage = tmp_path / "storage"
    arguments = ["train", "tictactoe", "--steps", "1", "--storage", str(storage), "--redis-url", url]
    assert run_command(arguments) == 2
    error = capsys.readouterr().err
    assert words in error
    assert "hunter2" not in error
    assert not storage.exists()


def test_the_wish_of_the_command_line_is_made_before_ray_starts(tmp_path: Path) -> None:
    """So that a `scale` while the run starts counts more."""
    folder = RunFolder(tmp_path, "run")
    own = EmbeddedRedis(tmp_path / "redis")
    options = TrainOptions(game="tictactoe", storage=tmp_path, actors=2)
    try:
        url = launch._ready_store(options, folder, own, None)
        store = RedisRunStore(url, "run")
        assert store.wish() == 2
        store.set_wish(3)
        assert store.wish() == 3
    finally:
        own.stop()


def test_a_run_leaves_its_own_redis_only_when_every_game_there_is_logged(tmp_path: Path) -> None:
    """Otherwise finished games would stay behind, and old counters come back with a later change of mind."""
    own = EmbeddedRedis(tmp_path / "redis")
    leave_embedded(own, "run")  # it was never started
    stream = RedisEpisodeStream(own.ensure(), "run")
    stream.publish(b"a game")
    with pytest.raises(RunError, match="1 finished games of run 'run' wait in its own Redis"):
        leave_embedded(own, "run")
    assert not own.is_alive()
    epoch = RedisRunStore(own.ensure(), "run").acquire_epoch("learner", 0, lambda _new: None)
    (entry,) = stream.read("learner", 1, 0.0)
    assert stream.ack([entry.id], epoch) == 1
    leave_embedded(own, "run")
    assert not own.is_alive()
    assert own.url() is None
    try:
        assert RedisRunStore(own.ensure(), "run").epoch("learner") is None
        assert RedisEpisodeStream(str(own.url()), "run").counts().backlog == 0
    finally:
        own.stop()


def test_a_run_that_lives_on_a_cluster_takes_no_other_settings(
    world: World, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """They would be stored, and hold for nobody."""
    monkeypatch.delenv("ZEROFLEET_REDIS_URL", raising=False)
    reached: list[str] = []

    def connect(_run: str, address: str) -> None:
        reached.append(address)
        raise ConfigError("no Ray cluster answers there")

    monkeypatch.setattr(launch, "connect", connect)
    server = EmbeddedRedis(world.folder.storage / "elsewhere")
    url, before = server.ensure(), world.folder.config()
    storage = ["--storage", str(world.folder.storage), "--redis-url", url, "--address", "auto"]
    arguments = ["train", "tictactoe", "--run", "run", *storage]
    changed = [*arguments, "--set", "learner.learning_rate=0.5"]
    try:
        controller = RoleRecord(role="controller", index=0, node="n", pid=1, incarnation="a")
        store = RedisRunStore(url, "run")
        store.register(controller, 60.0)
        assert run_command(changed) == 2
        told = capsys.readouterr().err
        assert "is alive" in told
        assert "learner.learning_rate" in told
        assert world.folder.config() == before
        assert reached == []
        assert run_command(arguments) == 2  # nothing is changed: it would be watched
        assert reached == ["auto"]
        store.unregister("controller", 0)
        assert run_command(changed) == 2
        assert reached == ["auto", "auto"]
    finally:
        server.stop()


def test_a_run_whose_controller_falls_silent_is_shown_as_failed_with_its_totals(
    world: World, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nobody else can say so: the controller writes the end of a run that ends in order."""
    server = EmbeddedRedis(world.folder.storage / "elsewhere")
    prepared = launch.Prepared(
        folder=world.folder, config=world.spec.config, game=world.spec.game, changes=[], is_resumed=True
    )
    try:
        options, watcher = TrainOptions(game="tictactoe", storage=world.folder.storage), launch.Watcher()
        driver = launch._Driver(options, prepared, RaySession("", False, ""), server.ensure(), False, watcher)
        state = RunState(state="running", games=1419, step=700, weights_version=9)
        driver._store.set_state(state.to_record())
        monkeypatch.setattr(driver._patience, "verdict", lambda **_: "the controller is silent")
        reason, error = driver._watch()
    finally:
        server.stop()
    assert reason == "failed"
    status = RunView(world.folder, None).status()
    assert (status["state"], status["exit_reason"], status["error"]) == ("failed", "failed", error)
    assert "the controller is silent" in error
    assert (status["games"], status["learner_step"], status["weights_version"]) == (1419, 700, 9)
