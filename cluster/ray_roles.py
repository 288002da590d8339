"""Ray at its edge: role processes as Ray actors, and the launcher that the controller starts them with.

Every role is a detached, named actor that Ray never restarts; the controller alone does.  Calls go to a concurrency
group of their own, so that control never waits behind work.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any

import ray
from ray.exceptions import ActorUnavailableError, GetTimeoutError, RayError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from zerofleet.cluster.role_process import RoleProcess
from zerofleet.cluster.role_spec import ROLES, Role, RoleOutcome, RoleSpec, RunSpec, parse_name
from zerofleet.cluster.topology import Node, usable_cores

_log = logging.getLogger(__name__)

_WATCH_S = 10.0
"""How long one call waits for a role's end; then it is made again, so that no dead controller's call stays for ever."""

_NODES_S = 2.0
"""How long the list of nodes is good."""

_LEARNER_GPU, _SERVERS_GPU = 0.3, 0.6
"""Shares of a GPU: a learner may join the servers there."""


class RoleActor:
    """The Ray side of a role process."""

    def __init__(self, spec: RoleSpec) -> None:
        self._process = RoleProcess(spec)

    def outcome(self, timeout_s: float) -> RoleOutcome | None:
        """Wait for the role's end."""
        return self._process.outcome(timeout_s)

    def stop(self) -> None:
        """Ask the role to end in order."""
        self._process.stop()

    def load_weights(self, version: int, weights: bytes) -> None:
        """Hand weights to the role."""
        self._process.load_weights(version, weights)

    def node(self) -> str:
        """Return the id of the node it lives on."""
        return str(ray.get_runtime_context().get_node_id())


class RayRole:
    """A role that lives in a Ray actor, as the controller holds it."""

    def __init__(self, actor: Any, incarnation: str, node: str) -> None:  # Ray's handles have no type
        self._actor = actor
        self.incarnation = incarnation
        self.node = node
        self._ended = self._watch()

    def outcome(self) -> RoleOutcome | None:
        """Return how it ended, None while it lives; never waits."""
        ready, _ = ray.wait([self._ended], timeout=0)
        if not ready:
            return None
        try:
            outcome: RoleOutcome | None = ray.get(self._ended)
        except ActorUnavailableError:
            outcome = None  # the way to it is cut, for now
        except RayError as error:
            return RoleOutcome(kind="died", text=_first_line(error))
        if outcome is None:
            self._ended = self._watch()
        return outcome

    def stop(self) -> None:
        """Ask it to end in order."""
        self._actor.stop.options(concurrency_group="control").remote()

    def kill(self) -> None:
        """End its process."""
        ray.kill(self._actor, no_restart=True)

    def load_weights(self, version: int, weights: object) -> None:
        """Hand shared weights to it."""
        self._actor.load_weights.options(concurrency_group="control").remote(version, weights)

    def _watch(self) -> Any:  # Ray's references have no type
        return self._actor.outcome.options(concurrency_group="watch").remote(_WATCH_S)


class RayLauncher:
    """Starts the roles of one run on the Ray cluster that this process is connected to."""

    def __init__(self, spec: RunSpec) -> None:
        self._spec = spec
        self._nodes: list[Node] = []
        self._nodes_due = 0.0
        self._actor_class: Any = ray.remote(concurrency_groups={"control": 2, "watch": 4})(RoleActor)  # type: ignore[call-overload]

    def nodes(self) -> Sequence[Node]:
        """Return the nodes that are alive, as of a moment ago; on one machine, that one with its real cores."""
        if time.monotonic() >= self._nodes_due:
            self._nodes_due = time.monotonic() + _NODES_S
            self._nodes = live_nodes(self._spec) or self._nodes
        return self._nodes

    def start(self, spec: RoleSpec) -> RayRole:
        """Start a role as a detached actor on its node, without waiting for it."""
        actor = self._actor_class.options(
            name=spec.name,
            lifetime="detached",
            max_restarts=0,
            num_cpus=0,
            num_gpus=gpu_share(spec, self.nodes()),
            scheduling_strategy=NodeAffinitySchedulingStrategy(spec.node, soft=False),
        ).remote(spec)
        return RayRole(actor, spec.incarnation, spec.node)

    def adopt(self) -> list[tuple[Role, int, RayRole]]:
        """Return the roles of this run that live already, whoever started them."""
        found: list[tuple[Role, int, RayRole]] = []
        for name in ray.util.list_named_actors():
            parsed = parse_name(self._spec.run, name)
            role = next((role for role in ROLES if parsed is not None and parsed[0] == role), None)
            if parsed is None or role is None:
                continue
            try:
                found.append((role, parsed[1], RayRole(ray.get_actor(name), parsed[2], self._node_of(name))))
            except ValueError:
                _log.info("%s ended while it was being adopted", name)
        return found

    def share(self, data: bytes) -> object:
        """Put bytes into Ray's object store."""
        return ray.put(data)

    def _node_of(self, name: str) -> str:
        if not self._spec.spans_nodes:
            return self._spec.storage_nodes[0]
        try:
            return str(ray.get(ray.get_actor(name).node.options(concurrency_group="control").remote(), timeout=2.0))
        except (GetTimeoutError, RayError):
            return ""


def gpu_share(spec: RoleSpec, nodes: Sequence[Node]) -> float:
    """Return how much of a GPU a role holds, 0 where its node has none.

    Two servers meet on one GPU only where more of them are wished for than there are GPUs.
    """
    if not any(node.id == spec.node and node.gpus > 0 for node in nodes):
        return 0.0
    if spec.role == "learner":
        return _LEARNER_GPU
    servers_per_gpu = -(-spec.num_servers // sum(node.gpus for node in nodes))
    return _SERVERS_GPU / servers_per_gpu if spec.role == "inference" else 0.0


def live_nodes(spec: RunSpec) -> list[Node]:
    """Return the nodes that the run may use; of those that see its storage, the first that lives is its home."""
    nodes: list[dict[str, Any]] = ray.nodes()  # type: ignore[no-untyped-call]
    alive = {str(node["NodeID"]): node for node in nodes if node["Alive"]}
    if not spec.spans_nodes:
        alive = {node_id: node for node_id, node in alive.items() if node_id in spec.storage_nodes}
    home = next((node_id for node_id in spec.storage_nodes if node_id in alive), "")
    return [
        Node(
            id=node_id,
            address=str(node["NodeManagerAddress"]),
            cpus=int(node["Resources"].get("CPU", 0)) or 1 if spec.spans_nodes else usable_cores(),
            gpus=int(node["Resources"].get("GPU", 0)),
            is_home=node_id == home,
        )
        for node_id, node in alive.items()
    ]


def _first_line(error: BaseException) -> str:
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__
