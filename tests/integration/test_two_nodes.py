"""A run with a user's game on two Ray nodes: leaves over TCP, Redis by URL, actors and servers on both."""

from __future__ import annotations

import os
import secrets
import signal
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from zerofleet.cluster.embedded_redis import EmbeddedRedis
from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.ray_session import connect
from zerofleet.cluster.role_spec import RunSpec
from zerofleet.cluster.run_config import resolve_config
from zerofleet.cluster.run_folder import RunFolder

if TYPE_CHECKING:
    from ray.cluster_utils import Cluster
    from tests.integration.conftest import TrainProcess

pytestmark = [pytest.mark.serial, pytest.mark.slow, pytest.mark.timeout(300)]

GAME_FILE = Path(__file__).resolve().parents[2] / "examples" / "domineering.py"


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=10.0) as answer:
        return str(answer.read().decode())


@pytest.fixture
def redis_url(tmp_path: Path) -> Iterator[str]:
    """A Redis that is not the run's own."""
    server = EmbeddedRedis(tmp_path / "elsewhere")
    yield server.ensure()
    server.stop()


@pytest.fixture(scope="module")
def ray_address() -> Iterator[str]:
    """The address of a Ray cluster of two nodes, on this machine."""
    os.environ.setdefault("RAY_AUTH_TOKEN", secrets.token_hex(32))  # Ray reads it once in a process
    try:
        cluster = _two_nodes()
    except Exception:  # a bare one: Ray gives its processes 30 s, which a busy machine may need for the first ones
        cluster = _two_nodes()
    yield cluster.address
    cluster.shutdown()


def _two_nodes() -> Cluster:
    from ray.cluster_utils import Cluster

    cluster = Cluster(
        initialize_head=True,
        head_node_args={"num_cpus": 1, "object_store_memory": 100 * 2**20, "include_dashboard": False},
    )
    cluster.add_node(num_cpus=1, object_store_memory=100 * 2**20)
    return cluster


def test_a_game_of_ones_own_trains_on_two_nodes(
    train_process: TrainProcess, ray_address: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = train_process
    train.redis_url = redis_url
    monkeypatch.setenv("ZEROFLEET_REDIS_URL", redis_url)
    train.start(f"{GAME_FILE}:Domineering", "--address", ray_address, "--steps", "60")
    status = train.wait_until(lambda status: len(status["roles"]) == 6 and status["games"] > 0, "games")
    roles = status["roles"]
    nodes = {role: {found["node"] for found in roles if found["role"] == role} for role in ("actor", "inference")}
    assert nodes["actor"] == nodes["inference"]
    assert all("tcp:" in address for address in train.addresses())
    assert len(nodes["actor"]) == 2
    servers = [found["metrics_url"] for found in roles if found["role"] == "inference"]
    for url in servers:  # each is asked by its own node's actor and, over TCP, by the other's
        deadline = time.monotonic() + 20.0  # the first games may be one actor's, before the other has connected
        while "zerofleet_inference_connections 2.0" not in get(url) and time.monotonic() < deadline:
            time.sleep(0.1)
        assert "zerofleet_inference_connections 2.0" in get(url)
    assert train.wait(200.0) == 0
    last = train.lines()[-1]
    assert last["exit_reason"] == "steps"
    assert last["seconds_to_first_weights"] is not None
    episodes = train.episodes()
    assert len({episode["game_number"] for episode in episodes}) == len(episodes) == last["games"]
    actors = {episode["actor"] for episode in episodes}
    assert actors == {"actor-0", "actor-1"}


def test_ctrl_c_twice_leaves_no_role_on_a_cluster(
    train_process: TrainProcess, ray_address: str, redis_url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    train = train_process
    train.redis_url = redis_url
    monkeypatch.setenv("ZEROFLEET_REDIS_URL", redis_url)
    train.start("tictactoe", "--address", ray_address)
    status = train.wait_until(lambda status: len(status["roles"]) == 6, "all roles")
    assert train.process is not None
    train.process.send_signal(signal.SIGINT)
    time.sleep(0.3)
    train.process.send_signal(signal.SIGINT)
    assert train.wait(60.0) == 130
    assert train.lines()[-1]["exit_reason"] == "interrupted"
    pids = {role["pid"] for role in status["roles"]}
    deadline = time.monotonic() + 20.0
    while (left := {pid for pid in pids if Path(f"/proc/{pid}").exists()}) and time.monotonic() < deadline:
        time.sleep(0.1)
    assert left == set()


def test_a_controller_of_an_older_launch_leaves_its_name(ray_address: str, redis_url: str, tmp_path: Path) -> None:
    """Else the next `train` would take it for one that is at work."""
    from zerofleet.cluster.ray_controller import controller_lives, start_controller

    folder = RunFolder(tmp_path, "older")
    config = resolve_config("tictactoe", ["cluster.metrics_port=0"])
    game = GameSource(spec="tictactoe")
    folder.create(config, game)
    session = connect("older", ray_address)
    try:
        spec = RunSpec(
            run="older",
            storage=str(tmp_path),
            config=config,
            game=game,
            redis_url=redis_url,
            redis_is_embedded=False,
            token=folder.token(),
            session=folder.begin_session(),
            storage_nodes=(session.home,),
            scratch="",
            spans_nodes=True,
        )
        folder.begin_session()
        start_controller(spec, may_move=False)
        deadline = time.monotonic() + 60.0
        while controller_lives("older") and time.monotonic() < deadline:
            time.sleep(0.2)
        assert not controller_lives("older")
        assert "launched anew" in (folder.logs / "controller-0.log").read_text()
    finally:
        session.end()


def test_two_nodes_without_a_redis_url_are_refused(
    train_process: TrainProcess, ray_address: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("ZEROFLEET_REDIS_URL", raising=False)
    train_process.start("tictactoe", "--address", ray_address)
    assert train_process.wait(100.0) == 2
    assert "--redis-url" in train_process.output.read_text()
    assert list((train_process.folder / "log").iterdir()) == []
    assert not EmbeddedRedis(train_process.folder / "redis").is_alive()
