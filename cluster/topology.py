"""How many roles a cluster holds, and which node gets the next one.

Nothing is planned ahead: the number of roles follows from the nodes that are there now, and each role goes to the node
that is furthest below its share.  So nodes may come and go.  This module knows no Ray.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True, slots=True, kw_only=True)
class Node:
    """One machine of the cluster."""

    id: str
    address: str = "127.0.0.1"
    cpus: int = 1
    gpus: int = 0
    is_home: bool = False
    """Whether the learner and the controller live here."""


_ACTORS_PER_CORE = 16
"""A bound against a slip of the hand: each takes about 125 MiB."""

_STARTING_PER_CORE = 2
"""Actors that start at once keep each other from it: of thousands on two cores, none had come up after minutes."""


def server_share(node: Node) -> int:
    """Return how many inference servers a node holds: one per GPU, else one per core that is left to them.

    A node of one or two cores shares them all; a larger one leaves a core to the learner, if it is there.
    """
    if node.gpus > 0:
        return node.gpus
    return max(1, node.cpus - 1) if node.is_home and node.cpus > 2 else max(1, node.cpus)


def actor_share(node: Node) -> int:
    """Return how many actors a node holds: with GPUs one per core that is left, else as many as servers."""
    if node.gpus > 0:
        return max(1, node.cpus - node.gpus - (1 if node.is_home else 0))
    return server_share(node)


def shares(role: str, nodes: Sequence[Node]) -> dict[str, int]:
    """Return each node's share of a role, by node id."""
    share = server_share if role == "inference" else actor_share
    return {node.id: share(node) for node in nodes}


def most_actors(nodes: Sequence[Node]) -> int:
    """Return how many actors a cluster takes."""
    return _ACTORS_PER_CORE * sum(node.cpus for node in nodes)


def most_starting(nodes: Sequence[Node]) -> int:
    """Return how many actors of a cluster may be starting at once."""
    return _STARTING_PER_CORE * sum(node.cpus for node in nodes)


def place(role: str, nodes: Sequence[Node], taken: Mapping[str, int]) -> Node:
    """Return the node for one more of `role`, where `taken` says how many of that role each node has."""
    if role == "learner":
        return next((node for node in nodes if node.is_home), nodes[0])
    share = shares(role, nodes)
    return min(nodes, key=lambda node: (taken.get(node.id, 0) / share[node.id], node.id))


def usable_cores() -> int:
    """Return the cores this process may use, a container's quota included."""
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    try:
        quota, period = Path("/sys/fs/cgroup/cpu.max").read_text(encoding="ascii").split()
    except (OSError, ValueError):
        return cores
    return cores if quota == "max" else max(1, min(cores, int(quota) // int(period)))
