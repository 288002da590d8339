"""What Ray is asked for, without a Ray: the session of one machine, and the resources of each role."""

from __future__ import annotations

import os
import socket
from collections.abc import Iterator
from pathlib import Path
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from zerofleet.cluster.ray_session import connect, start_local
from zerofleet.cluster.role_spec import ROLES, Role, RoleSpec, new_incarnation
from zerofleet.cluster.topology import Node
from zerofleet.errors import ConfigError, RunError

if TYPE_CHECKING:
    from tests.cluster.conftest import World


@pytest.fixture
def ray(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """Ray's package, and the environment as it was before it is used."""
    before = dict(os.environ)
    import ray

    yield ray
    os.environ.clear()
    os.environ.update(before)


def test_ray_on_one_machine_has_no_dashboard_and_a_bounded_store(
    ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Faults 108 and 112: no dashboard that could fail, a cap on memory, loopback, and nothing left in its folder."""
    asked: dict[str, Any] = {}
    monkeypatch.setattr(ray, "init", lambda **options: asked.update(options))
    monkeypatch.setattr(ray, "shutdown", lambda: None)
    monkeypatch.setattr("zerofleet.cluster.ray_session._own_node", lambda: "home")
    session = start_local("run", tmp_path / "scratch", num_processes=7, object_store_mb=100)
    assert asked["include_dashboard"] is False
    assert asked["object_store_memory"] == 100 * 2**20
    assert asked["num_cpus"] == 7
    assert os.environ["RAY_ENABLE_WINDOWS_OR_OSX_CLUSTER"] == "0"
    assert len(os.environ["RAY_AUTH_TOKEN"]) == 64
    (tmp_path / "scratch").mkdir()
    session.end()
    assert not (tmp_path / "scratch").exists()


def test_what_nobody_sees_of_a_ray_of_our_own_is_hardly_collected(
    ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Its agent and log monitor take the cores' time otherwise; a cluster that is there already is left as it is."""
    quiet = {
        "RAY_enable_metrics_collection": "0",
        "REPORTER_UPDATE_INTERVAL_MS": "60000",
        "SCAN_EVENT_DIR_INTERVAL_SECONDS": "60",
        "RAY_LOG_MONITOR_MANY_FILES_THRESHOLD": "0",
        "LOG_NAME_UPDATE_INTERVAL_S": "3600",
    }
    for name in quiet:
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setattr(ray, "init", lambda **options: None)
    monkeypatch.setattr("zerofleet.cluster.ray_session._own_node", lambda: "home")
    monkeypatch.setattr("zerofleet.cluster.ray_session._alive", lambda: ["home"])
    connect("run", "auto")
    assert not quiet.keys() & os.environ.keys()
    start_local("run", tmp_path, num_processes=7, object_store_mb=100)
    assert {name: os.environ[name] for name in quiet} == quiet


@pytest.mark.parametrize("num_failures", [1, 2])
def test_ray_that_starts_too_slowly_is_started_once_more(
    ray: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, num_failures: int
) -> None:
    tries: list[str] = []

    def init(**_options: Any) -> None:
        tries.append("init")
        if tries.count("init") <= num_failures:
            raise Exception("The current node timed out during startup.")

    monkeypatch.setattr(ray, "init", init)
    monkeypatch.setattr(ray, "shutdown", lambda: tries.append("shutdown"))
    monkeypatch.setattr("zerofleet.cluster.ray_session._own_node", lambda: "home")
    if num_failures == 1:
        assert start_local("run", tmp_path, num_processes=7, object_store_mb=100).home == "home"
        assert tries == ["init", "shutdown", "init"]
    else:
        with pytest.raises(RunError, match="too busy: The current node timed out"):
            start_local("run", tmp_path, num_processes=7, object_store_mb=100)


def test_a_run_is_ended_at_once_with_its_controller_first(ray: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """It would start the roles again; other runs' actors stay."""
    from zerofleet.cluster.ray_controller import end_actors

    living = ["run-actor-0-aa", "run-learner-0-bb", "run-controller", "run-2-actor-0-cc", "run-2-controller"]
    killed: list[str] = []

    def kill(name: str, *, no_restart: bool) -> None:
        assert no_restart
        living.remove(name)
        killed.append(name)

    monkeypatch.setattr(ray.util, "list_named_actors", lambda: list(living))
    monkeypatch.setattr(ray, "get_actor", lambda name: name)
    monkeypatch.setattr(ray, "kill", kill)
    end_actors("run")
    assert killed[0] == "run-controller"
    assert living == ["run-2-actor-0-cc", "run-2-controller"]


@pytest.mark.parametrize("num_gpus", [0, 1])
def test_servers_and_the_learner_alone_hold_a_gpu_and_no_role_waits_for_a_core(
    ray: Any, monkeypatch: pytest.MonkeyPatch, world: World, num_gpus: int
) -> None:
    """Faults 77, 106: no role asks for CPUs, so a small machine starts them all; actors get no GPU."""
    from zerofleet.cluster.ray_roles import RayLauncher

    asked: dict[str, dict[str, Any]] = {}

    class FakeActorClass:
        def options(self, **options: Any) -> Any:
            return SimpleNamespace(remote=lambda spec: self.start(spec, options))

        def start(self, spec: RoleSpec, options: dict[str, Any]) -> Any:
            asked[spec.role] = options
            method = SimpleNamespace(remote=lambda *_arguments: None)
            return SimpleNamespace(outcome=SimpleNamespace(options=lambda **_options: method))

    monkeypatch.setattr(ray, "remote", lambda **_options: lambda _actor: FakeActorClass())
    node = "0" * 56
    launcher = RayLauncher(world.spec)
    monkeypatch.setattr(launcher, "nodes", lambda: [Node(id=node, cpus=2, gpus=num_gpus, is_home=True)])
    for role in ROLES:
        launcher.start(RoleSpec(run=world.spec, role=role, index=0, incarnation=new_incarnation(), node=node))
    assert {options["num_cpus"] for options in asked.values()} == {0}
    assert {options["max_restarts"] for options in asked.values()} == {0}
    assert {options["lifetime"] for options in asked.values()} == {"detached"}  # fault 76: no handle keeps it alive
    shares = {role: options["num_gpus"] for role, options in asked.items()}
    assert shares["actor"] == 0.0
    assert shares["inference"] + shares["learner"] == pytest.approx(0.9 * num_gpus)
    assert 2 * shares["inference"] > num_gpus or num_gpus == 0  # two servers never share one


@pytest.mark.parametrize(
    ("num_servers", "gpus", "most_on_one"), [(1, [1], 1), (2, [2], 1), (3, [1], 3), (5, [2, 2], 2), (4, [1, 0], 4)]
)
def test_more_servers_than_gpus_share_them_beside_a_learner(
    world: World, num_servers: int, gpus: list[int], most_on_one: int
) -> None:
    """As many servers as must meet fit on the GPU that the learner is on: otherwise they would wait for ever."""
    from zerofleet.cluster.ray_roles import gpu_share

    nodes = [Node(id=str(index), cpus=4, gpus=count) for index, count in enumerate(gpus)]

    def share(role: Role) -> float:
        incarnation = new_incarnation()
        spec = RoleSpec(run=world.spec, role=role, index=0, incarnation=incarnation, node="0", num_servers=num_servers)
        return gpu_share(spec, nodes)

    assert most_on_one * share("inference") + share("learner") <= 1.0
    assert (most_on_one + 1) * share("inference") + share("learner") > 1.0
    assert share("actor") == 0.0


@pytest.mark.parametrize("scheme", ["", "ray://"])
def test_an_address_where_nobody_listens_is_told_at_once(scheme: str) -> None:
    """Ray itself tries for more than a minute, and then names another address."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # and does not listen
        address = f"{scheme}127.0.0.1:{taken.getsockname()[1]}"
        with pytest.raises(ConfigError, match=f"--address {address}: nobody listens there"):
            connect("run", address)
    with pytest.raises(ConfigError, match="nobody listens there"):
        connect("run", "127.0.0.1:99999")
