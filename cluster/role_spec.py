"""What a role is started with, and what is left of it when it has ended."""

from __future__ import annotations

import secrets
from dataclasses import dataclass, field
from typing import Literal, TypeAlias

from zerofleet.cluster.game_source import GameSource
from zerofleet.cluster.run_config import RunConfig

Role: TypeAlias = Literal["actor", "inference", "learner", "controller"]
ROLES: tuple[Role, ...] = ("inference", "learner", "actor")
"""The roles that the controller starts, in the order in which they start."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RunSpec:
    """What all roles of a run share."""

    run: str
    storage: str
    config: RunConfig
    game: GameSource
    redis_url: str = field(repr=False)  # may hold a password, and what Ray or a log shows of a spec is its repr
    redis_is_embedded: bool
    token: str = field(repr=False)
    session: str
    """Which launch this is: a controller of an older launch, restarted late, ends when it sees a newer one."""

    storage_nodes: tuple[str, ...]
    """Ids of the nodes that see the storage, the launcher's first: the learner and the controller live on these."""

    scratch: str
    """On one machine, a folder that goes when the run's `train` ends; "" on a cluster."""

    changes: tuple[str, ...] = ()
    """The settings that a resume changed, to be logged with the step from which on they hold."""

    spans_nodes: bool
    """Whether roles may live on several nodes: then they listen on their node's address, else on this machine alone."""


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleSpec:
    """One start of one role."""

    run: RunSpec
    role: Role
    index: int
    incarnation: str
    node: str = ""
    host: str = "127.0.0.1"
    """Where the role's sockets listen."""

    num_servers: int = 1
    num_actors: int = 1
    """How many there are at its start: an actor derives its number of games from them."""

    @property
    def slot(self) -> str:
        """The name that stays over restarts, such as "actor-3"."""
        return f"{self.role}-{self.index}"

    @property
    def name(self) -> str:
        """The name of this start, unique in the cluster."""
        return f"{self.run.run}-{self.slot}-{self.incarnation}"


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleOutcome:
    """How a role ended."""

    kind: Literal["stopped", "superseded", "failed", "fatal", "died"]
    """`superseded`: a successor holds its place; `fatal`: a restart would not help; `died`: its process is gone."""

    text: str = ""


def new_incarnation() -> str:
    """Return a word that no other start of a role has."""
    return secrets.token_hex(4)


def parse_name(run: str, name: str) -> tuple[str, int, str] | None:
    """Return role, index and incarnation of a role's name, or None if it is no role of this run."""
    parts = name.removeprefix(f"{run}-").split("-")
    if not name.startswith(f"{run}-") or len(parts) != 3 or not parts[1].isdigit():
        return None
    return parts[0], int(parts[1]), parts[2]
