from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.run_config import RunConfig, resolve_config
from zerofleet.cluster.run_folder import RunFolder, fresh_run_name
from zerofleet.errors import ConfigError, RunError, StorageError
from zerofleet.streams.store import WeightsRecord, WishRecord

GAME = GameSource(spec="tictactoe")


@pytest.fixture
def config() -> RunConfig:
    return resolve_config("tictactoe", [])


@pytest.fixture
def folder(tmp_path: Path, config: RunConfig) -> RunFolder:
    folder = RunFolder(tmp_path, "run")
    folder.create(config, GAME)
    return folder


def test_the_resolved_config_is_stored_and_read_back(folder: RunFolder, config: RunConfig) -> None:
    assert folder.config() == config


def test_numbers_survive_and_never_go_back(folder: RunFolder) -> None:
    assert (folder.epoch("learner"), folder.ceiling(), folder.wish(), folder.published()) == (0, 0, None, None)
    folder.persist_epoch("learner", 3)
    folder.persist_ceiling(2**21)
    folder.persist_ceiling(2**20)
    folder.persist_wish(WishRecord(4, 2))
    folder.persist_published(WeightsRecord(5, 100, "ab"))
    again = RunFolder(folder.storage, "run")
    assert (again.epoch("learner"), again.ceiling()) == (3, 2**21)
    assert again.wish() == WishRecord(4, 2)
    assert again.published() == WeightsRecord(5, 100, "ab")


@pytest.mark.parametrize(
    "assignment", ["seed=1", "network.channels=16", "network.blocks=7"], ids=["seed", "channels", "blocks"]
)
def test_a_resume_with_another_network_or_seed_is_refused(folder: RunFolder, assignment: str) -> None:
    """Fault 71."""
    with pytest.raises(RunError, match=assignment.partition("=")[0]):
        folder.resume(resolve_config("tictactoe", [assignment]), GAME)


def test_a_resume_with_other_changes_stores_and_tells_them(folder: RunFolder) -> None:
    changed = resolve_config("tictactoe", ["learner.learning_rate=0.005"])
    assert folder.resume(changed, GAME) == ["learner.learning_rate: 0.02 -> 0.005"]
    assert folder.config() == changed


def test_a_resume_sweeps_away_what_killed_writers_left(folder: RunFolder, config: RunConfig) -> None:
    old = [folder.path / ".config.toml.77", folder.path / "durable" / ".ceiling.78", folder.redis / ".server.conf.79"]
    others = [folder.path / ".hidden", folder.path / "durable" / ".wish.json.80"]
    for path in (*old, *others):
        path.write_bytes(b"half")
    for path in old:
        os.utime(path, (0.0, 0.0))
    folder.resume(config, GAME)
    assert [path for path in old if path.exists()] == []
    assert all(path.exists() for path in others)  # not ours, and of somebody who may be at work


def test_a_changed_game_file_is_refused(tmp_path: Path) -> None:
    folder = RunFolder(tmp_path, "own")
    config = resolve_config("my.py:My", [])
    folder.create(config, GameSource(spec="my.py:My", filename="my.py", source=b"# one"))
    assert folder.game_source("my.py:My").source == b"# one"
    with pytest.raises(RunError, match=r"my\.py"):
        folder.resume(config, GameSource(spec="my.py:My", filename="my.py", source=b"# two"))


def test_two_processes_cannot_run_one_run(folder: RunFolder) -> None:
    with folder.locked(), pytest.raises(RunError, match="running already"), RunFolder(folder.storage, "run").locked():
        pass
    with folder.locked():
        pass


def test_the_commands_that_help_with_a_held_run_name_its_storage(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    again = RunFolder(folder.storage, "run")
    with folder.locked(), pytest.raises(RunError, match=f"status run --storage {folder.storage}`"), again.locked():
        pass
    (folder.storage / "runs").symlink_to(folder.storage)
    monkeypatch.chdir(folder.storage)
    with folder.locked(), pytest.raises(RunError, match=r"status run`.*stop run`"), again.locked():
        pass


def test_a_config_that_lacks_what_it_must_have_is_named(folder: RunFolder) -> None:
    (folder.path / "config.toml").write_text("")
    with pytest.raises(ConfigError, match=f"{folder.path}/config.toml: game is required"):
        folder.config()


def test_a_missing_run_is_named_with_those_that_exist(folder: RunFolder) -> None:
    with pytest.raises(RunError, match=r"no run 'nun'.*runs there: run"):
        RunFolder(folder.storage, "nun").require()


@pytest.mark.parametrize("name", ["", "a/b", "../up", "a b", ".hidden", "x" * 65, "a:b"])
def test_a_name_that_is_no_name_is_refused(tmp_path: Path, name: str) -> None:
    with pytest.raises(RunError):
        RunFolder(tmp_path, name)


@pytest.mark.parametrize("game", ["connect4", "go(size=9,komi=7)", "domineering.py:Domineering"])
def test_a_fresh_name_is_a_name(tmp_path: Path, game: str) -> None:
    assert fresh_run_name(game) != fresh_run_name(game)
    RunFolder(tmp_path, fresh_run_name(game))


def test_the_token_is_the_owners_alone(folder: RunFolder) -> None:
    assert len(folder.token()) == 32
    assert stat.S_IMODE((folder.path / "token").stat().st_mode) == 0o600


def test_weights_are_found_by_version_and_checksum(folder: RunFolder) -> None:
    for epoch, checksum in ((1, "aaaa"), (2, "bbbb")):
        header = f'{{"__metadata__":{{"zerofleet":"{checksum}"}}}}'.encode()
        path = folder.weights / f"00000003-{epoch:06d}.safetensors"
        path.write_bytes(len(header).to_bytes(8, "little") + header + b"tensors")
    assert b"aaaa" in folder.read_weights(WeightsRecord(3, 1, "aaaa"))
    assert b"bbbb" in folder.read_weights(WeightsRecord(3, 1, "bbbb"))
    with pytest.raises(StorageError, match="version 3"):
        folder.read_weights(WeightsRecord(3, 1, "cccc"))
