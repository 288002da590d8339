"""The records that cross processes: one finished game, and what a role says of itself.

Records are frozen and hold no network input: who reads an episode rebuilds each position by replaying its moves through
the same rules, so generator and trainer cannot disagree about planes.  This module knows neither Redis nor files;
`codec` turns records into bytes and back.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt


class MoveRecord(NamedTuple):
    """One move of an episode, and the search that chose it.  A tuple, for it is made in half a dataclass's time."""

    ordinal: int  # the move played, as its place in legal_moves
    visited: npt.NDArray[np.uint16]  # [V] ordinals of the moves that the policy target gives weight, increasing
    visit_counts: npt.NDArray[np.uint32]  # [V] their visits, reused ones included; at least 1 each
    root_value: float  # the search's value for the player to move, in [-1, 1]
    weights_version: int  # the newest weights that answered this search; 0 where no network did
    full_search: bool  # whether the search ran its full number of simulations, so that its policy is worth learning


@dataclass(frozen=True, slots=True, kw_only=True)
class Episode:
    """One finished game."""

    id: str  # "<run>-<game_number>", unique within the run
    game: str  # canonical name with options
    rules_version: int
    actor: str  # the role that played it, such as "actor-3"
    game_number: int
    purpose: Literal["self-play", "match"]
    moves: tuple[MoveRecord, ...]
    outcome: int  # 1, 0 or -1 for player 0
    termination: str  # why it ended: the rules' reason, or "ply cap", which is a draw
    final_crc: int  # games.position_crc of the final position
    opening_plies: int = 0  # so many moves at its beginning were drawn at random, without a search


@dataclass(frozen=True, slots=True, kw_only=True)
class RoleRecord:
    """What a running role says of itself in the registry."""

    role: Literal["actor", "inference", "learner", "controller"]
    index: int
    node: str
    pid: int
    incarnation: str  # changes with each start of the process
    address: str = ""  # where clients reach it: "unix:/path" or "tcp:host:port"; "" for roles without clients
    metrics_url: str = ""
    started: float = 0.0  # seconds since 1970, for people only
    waiting_for: str = ""  # what the role waits for now, in words; "" while it works
    numbers: dict[str, float] = field(default_factory=dict)  # counters and gauges that `status` adds up
