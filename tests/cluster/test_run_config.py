from __future__ import annotations

import tomllib
from importlib.resources import files

import pytest

from zerofleet.cluster.run_config import RunConfig, preset_values, resolve_config, resume_config
from zerofleet.config import build, to_mapping, to_toml
from zerofleet.errors import ConfigError

PRESETS = sorted(path.name.removesuffix(".toml") for path in files("zerofleet.cluster").joinpath("presets").iterdir())


@pytest.mark.parametrize("name", PRESETS)
def test_every_preset_is_a_config_that_reads_back(name: str) -> None:
    config = resolve_config(name, [])
    assert build(RunConfig, tomllib.loads(to_toml(config))) == config


def test_there_are_presets_for_the_built_in_games() -> None:
    assert PRESETS == ["connect4", "default", "tictactoe"]


@pytest.mark.parametrize("game", ["my.py:My", "go(size=9)", "../x"])
def test_a_game_without_preset_gets_the_default(game: str) -> None:
    assert preset_values(game) == preset_values("default")


def test_assignments_come_on_top_of_the_preset() -> None:
    config = resolve_config("connect4", ["search.num_simulations=7", "learner.learning_rate=1e-3"])
    assert config.search.num_simulations == 7
    assert config.learner.learning_rate == 0.001
    assert config.network == resolve_config("connect4", []).network


@pytest.mark.parametrize(
    ("assignment", "words"),
    [
        ("search.num_simulation=7", "did you mean num_simulations"),
        ("search.num_simulations=0", "learn its own priors"),
        ("search.num_simulations=-1", r"search\.num_simulations"),
        ("cluster.metrics_port=70000", r"cluster\.metrics_port"),
        ("stream.lease_s=1", r"stream\.lease_s .* cluster\.heartbeat_s"),
        ("learner.batch_size=0", r"learner\.batch_size"),
        ("seed=-1", "seed"),
        ("game=chess", "named by the command itself"),
        ("inference.max_queued_positions=10", "max_batch_size"),
    ],
)
def test_an_impossible_setting_is_refused_by_name(assignment: str, words: str) -> None:
    with pytest.raises(ConfigError, match=words):
        resolve_config("connect4", [assignment])


def test_a_resume_keeps_the_stored_settings() -> None:
    stored = resolve_config("tictactoe", ["learner.batch_size=64"])
    again = resume_config(stored, ["learner.learning_rate=0.01"], to_mapping(stored))
    assert again.learner.batch_size == 64
    assert again.learner.learning_rate == 0.01
