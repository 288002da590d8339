"""The controller as a Ray actor: detached, named, restarted by Ray itself for as long as the run is not over."""

from __future__ import annotations

import os
import threading
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import ray
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zerofleet.cluster.controller import Controller
from zerofleet.cluster.embedded_redis import EmbeddedRedis
from zerofleet.cluster.metrics_http import MetricsPage
from zerofleet.cluster.ray_roles import RayLauncher, live_nodes
from zerofleet.cluster.role_process import RoleProcess
from zerofleet.cluster.role_spec import RoleOutcome, RoleSpec, RunSpec, new_incarnation, parse_name
from zerofleet.cluster.roles import PlainRole, Role, open_store, open_stream
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.telemetry import Metrics

_LINGER_S = 10.0
"""Between the end of a run and of its controller's process: on one machine Ray ends first."""

_PAUSE_S = 1.0
"""Before a controller that failed lets Ray start another one."""


_MOST_LOOKS = 50
"""How often a run's actors are looked for, until none is left."""


def controller_name(run: str) -> str:
    """Return the name of a run's controller in its namespace."""
    return f"{run}-controller"


class ControllerActor:
    """The Ray side of the controller; made anew by Ray with the same arguments whenever its process dies."""

    def __init__(self, spec: RunSpec) -> None:
        here = str(ray.get_runtime_context().get_node_id())
        host = next((node.address for node in live_nodes(spec) if node.id == here), "") if spec.spans_nodes else ""
        role = RoleSpec(
            run=spec,
            role="controller",
            index=0,
            incarnation=new_incarnation(),
            node=here,
            host=host or "127.0.0.1",
        )
        self._incarnation = role.incarnation
        self._process = RoleProcess(role, build=build_controller)
        threading.Thread(target=self._end_with_the_run, daemon=True).start()

    def ping(self) -> str:
        """Return if the process lives."""
        return str(os.getpid())

    def leave(self, incarnation: str) -> None:
        """End this process for good, if it is the one that is meant: Ray may have started another in its place."""
        if incarnation == self._incarnation:
            ray.actor.exit_actor()  # type: ignore[no-untyped-call]

    def _end_with_the_run(self) -> None:
        outcome: RoleOutcome | None = None
        while outcome is None:
            outcome = self._process.outcome(3600.0)
        if outcome.kind == "stopped":
            time.sleep(_LINGER_S)
            ray.kill(ray.get_runtime_context().current_actor, no_restart=True)
        elif outcome.kind == "superseded":  # it must not come back; the name is free for the next one
            ray.get_runtime_context().current_actor.leave.remote(self._incarnation)
        else:
            time.sleep(_PAUSE_S)
            os._exit(1)


def start_controller(spec: RunSpec, *, may_move: bool) -> None:
    """Start the run's controller, unless it lives already; `may_move` says whether every node will do for it."""
    home = spec.storage_nodes[0]
    actor_class: Any = ray.remote(ControllerActor)
    actor_class.options(
        name=controller_name(spec.run),
        lifetime="detached",
        get_if_exists=True,
        max_restarts=-1,
        num_cpus=0,
        max_concurrency=2,
        scheduling_strategy=NodeAffinitySchedulingStrategy(home, soft=may_move),
    ).remote(spec)


def end_actors(run: str) -> None:
    """End the controller of a run, which would start the roles again, and then every role, all at once."""
    for _look in range(_MOST_LOOKS):
        names = [
            name
            for name in ray.util.list_named_actors()
            if name == controller_name(run) or parse_name(run, name) is not None
        ]
        if not names:
            return
        for name in sorted(names, key=lambda name: name != controller_name(run)):
            with suppress(ValueError):  # it has just ended
                ray.kill(ray.get_actor(name), no_restart=True)
        time.sleep(_PAUSE_S / 10)


def controller_lives(run: str) -> bool:
    """Whether the run has a controller on this cluster."""
    try:
        ray.get_actor(controller_name(run))
    except ValueError:
        return False
    return True


def build_controller(spec: RoleSpec, metrics: Metrics) -> Role:
    """Put the controller together; brings the embedded Redis back first, should it have died with its predecessor."""
    folder = RunFolder(Path(spec.run.storage), spec.run.run)
    revive = EmbeddedRedis(folder.redis).revive if spec.run.redis_is_embedded else None
    if revive is not None:
        revive()
    controller = Controller(
        spec.run,
        folder,
        open_store(spec),
        open_stream(spec),
        RayLauncher(spec.run),
        metrics,
        revive_store=revive,
    )
    page = MetricsPage(spec.run.run, open_store(spec), folder)
    address = page.serve(spec.host, spec.run.config.cluster.metrics_port)
    controller.reporter.metrics_url = f"{address}/metrics"
    return PlainRole(controller)
