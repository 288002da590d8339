"""What a search takes and gives: the parameters, the evaluator it asks, and the records between them.

The search knows no network, no process and no deadline: it hands a batch of leaves to an `Evaluator`.
Every value of a position is for the player to move there; every value of an edge is for the player who chooses it.

Letters used for shapes: `B` leaves in a batch, `M` legal moves of one position, `L` legal moves of a whole batch.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple, Protocol, TypeAlias

import numpy as np
import numpy.typing as npt

from zerofleet.config import check_values
from zerofleet.games.base import PackedPlanes, State

FloatArray: TypeAlias = npt.NDArray[np.float32]
IntArray: TypeAlias = npt.NDArray[np.int32]
ActionArray: TypeAlias = npt.NDArray[np.uint16]


MAX_SIMULATIONS = 2**30
"""The most simulations, and leaves, of one search: visit counts are 32 bits wide."""


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchConfig:
    """PUCT as AlphaZero (Silver et al. 2018, pseudocode) runs it, with the choices it leaves open."""

    num_simulations: int = 100
    """New simulations per move; visits carried over in a reused subtree come on top.  A fresh root's own evaluation
    is not a simulation, so the visits of a fresh root's edges add up to exactly this number."""

    leaves_per_tree: int = 4
    """Leaves collected from one tree before their values are known.  At most max(1, num_simulations // 16) are used."""

    exploration: Literal["log", "constant"] = "log"
    """`log`: C(s) = log((1 + N(s) + c_base) / c_base) + c_init.  `constant`: C(s) = c_init."""

    c_init: float = 1.25
    c_base: float = 19652.0

    first_play_urgency: Literal["value", "parent"] = "parent"
    """Q of an unvisited edge: `value`: the constant `fpu_value`; `parent`: the node's mean value less `fpu_value`."""

    fpu_value: float = 0.2

    reuse_limit: float = 4.0
    """A kept subtree holds at most `reuse_limit * num_simulations` visits; a larger one is dropped and searched afresh.
    So root noise and new simulations always decide at least 1 / (1 + reuse_limit) of the visits of a policy target."""

    max_nodes: int = 0
    """Nodes per tree; 0 derives the least number that never ends a search early.  A full tree ends its search early."""

    def __post_init__(self) -> None:
        laws = (
            (0 <= self.num_simulations <= MAX_SIMULATIONS, "num_simulations", f"must lie in [0, {MAX_SIMULATIONS}]"),
            (1 <= self.leaves_per_tree <= MAX_SIMULATIONS, "leaves_per_tree", f"must lie in [1, {MAX_SIMULATIONS}]"),
            (self.exploration in ("log", "constant"), "exploration", "must be log or constant"),
            (0.0 <= self.c_init < 1e6, "c_init", "must be 0 or more and finite"),
            (1.0 <= self.c_base < 1e12, "c_base", "must be 1 or more and finite"),
            (self.first_play_urgency in ("value", "parent"), "first_play_urgency", "must be value or parent"),
            (-2.0 <= self.fpu_value <= 2.0, "fpu_value", "must lie in [-2, 2]"),
            (0.0 <= self.reuse_limit < 1e6, "reuse_limit", "must be 0 or more and finite"),
            (self.max_nodes == 0 or self.max_nodes >= 2, "max_nodes", "must be 0 (derived) or at least 2"),
        )
        check_values("search", self, laws)


@dataclass(frozen=True, slots=True, kw_only=True)
class LeafBatch:
    """Positions that wait for an evaluation.  The arrays stay valid until the pool that gave them collects again."""

    planes: PackedPlanes  # [B, packed_size] what the network sees, from the view of the player to move
    legal_offsets: IntArray  # [B + 1] row i's legal moves are legal_actions[legal_offsets[i] : legal_offsets[i + 1]]
    legal_actions: ActionArray  # [L] the action of each legal move, in the order of legal_moves; may repeat in one row
    source: LeafSource  # gives the positions themselves, to evaluators that play on from them

    def __len__(self) -> int:
        return len(self.legal_offsets) - 1


class LeafSource(Protocol):
    """Where the positions of a batch can be had as states."""

    def leaf_states(self) -> list[State]:
        """Return the `B` positions of the last collected batch, in order."""


class Evaluation(NamedTuple):
    """An evaluator's answer to a `LeafBatch`."""

    priors: FloatArray  # [L] for each legal move of each row, at least 0; each row adds up to 1
    values: FloatArray  # [B] for the player to move, in [-1, 1]
    weights_version: int = 0  # the weights that computed it; 0 where no network did


class Evaluator(Protocol):
    """Turns positions into priors over their legal moves, and values."""

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Evaluate unfinished positions; never called with a finished one.

        Raises:
            InferenceError: the positions could not be evaluated.
        """


@dataclass(frozen=True, slots=True, kw_only=True)
class SearchResult:
    """What a search says about its root, a position with `M` legal moves."""

    visit_counts: IntArray  # [M] visits of each legal move, in the order of legal_moves; reused visits included
    q_values: FloatArray  # [M] mean value of each move for the root's player; nan where unvisited
    priors: FloatArray  # [M] the evaluator's priors, without noise
    root_value: float  # mean of the root's own evaluation and of all its simulations, for the root's player
    num_simulations: int  # new simulations
    num_reused: int  # visits carried over from the search before

    def policy(self) -> FloatArray:
        """Return the policy target, [M]: the share of visits, or the priors where no simulation was made."""
        total = int(self.visit_counts.sum())
        if total == 0:
            return self.priors
        return (self.visit_counts / np.float32(total)).astype(np.float32)


__all__ = [
    "MAX_SIMULATIONS",
    "ActionArray",
    "Evaluation",
    "Evaluator",
    "FloatArray",
    "IntArray",
    "LeafBatch",
    "LeafSource",
    "SearchConfig",
    "SearchResult",
]
