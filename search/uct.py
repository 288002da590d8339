"""UCT: UCB1 in a tree, each leaf judged by one random game.  A player of known strength to measure others against.

Win, draw and loss count 1, 1/2 and 0 for the player who chooses a move.  Every simulation adds one position to the tree
and plays one uniformly random game from it; each move of a position is tried once, in order, before UCB1 decides.
It knows no priors, no network and no batches.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from itertools import pairwise

import numpy as np
import numpy.typing as npt

from zerofleet import _native
from zerofleet.errors import TerminalStateError, UsageError
from zerofleet.games.base import Game, Move, State
from zerofleet.games.native_game import NativeGame
from zerofleet.search.base import IntArray
from zerofleet.search.rollouts import random_outcome

SQRT_2 = math.sqrt(2.0)


@dataclass(frozen=True, slots=True, kw_only=True)
class UctResult:
    """What a UCT search says about its root, a position with `M` legal moves."""

    visit_counts: IntArray  # [M] simulations that began with each legal move
    mean_values: npt.NDArray[np.float64]  # [M] their mean result in [0, 1] for the root's player; nan where unvisited

    def best(self) -> int:
        """Return the most visited move; of equals the one with the better mean, then the first."""
        means = np.nan_to_num(self.mean_values, nan=-1.0)
        return int(np.lexsort((-means, -self.visit_counts))[0])


class _Node:
    """A position in the tree."""

    __slots__ = ("children", "moves", "state", "terminal_value", "to_play", "visits", "wins")

    def __init__(self, game: Game, state: State) -> None:
        self.state = state
        self.to_play = game.to_play(state)
        self.terminal_value = game.terminal_value(state)
        self.moves: list[Move] = list(game.legal_moves(state))
        self.children: list[_Node] = []  # of the moves tried so far, in their order
        self.visits = 0  # simulations that passed through this position or ended in it
        self.wins = 0.0  # their results, for the player who chose to come here

    def best_child(self, c: float) -> _Node:
        """UCB1 (Auer et al. 2002): mean + c * sqrt(ln(visits of the parent) / visits); the first of equals."""
        log_visits = math.log(self.visits)
        return max(
            self.children, key=lambda child: child.wins / child.visits + c * math.sqrt(log_visits / child.visits)
        )


def uct_search(game: Game, state: State, num_simulations: int, *, c: float = SQRT_2, seed: int) -> UctResult:
    """Search `state`, in C++ where the game is built in; the same arguments give the same result.

    Raises:
        TerminalStateError: the game is over in `state`.
    """
    if isinstance(game, NativeGame):
        visit_counts, mean_values = _native.uct_search(state, num_simulations, c, seed)
        return UctResult(visit_counts=visit_counts, mean_values=mean_values)
    rng = np.random.default_rng(seed)
    return uct_search_in_python(
        game, state, num_simulations, c=c, outcome_fn=lambda leaf: random_outcome(game, leaf, rng)
    )


def uct_search_in_python(
    game: Game, state: State, num_simulations: int, *, c: float = SQRT_2, outcome_fn: Callable[[State], int]
) -> UctResult:
    """Search `state`, asking `outcome_fn` for a result, for the player to move, of each unfinished leaf."""
    root = _Node(game, state)
    if root.terminal_value is not None:
        raise TerminalStateError("the game is over in this position: there is nothing to search")
    if num_simulations < 0:
        raise UsageError(f"num_simulations must be 0 or more, got {num_simulations}")
    for _ in range(num_simulations):
        path = _descend(game, root, c)
        leaf = path[-1]
        outcome = outcome_fn(leaf.state) if leaf.terminal_value is None else leaf.terminal_value
        for parent, child in pairwise(path):
            result = outcome if parent.to_play == leaf.to_play else -outcome
            child.wins += (1 + result) / 2
            child.visits += 1
        root.visits += 1
    visits = np.zeros(len(root.moves), np.int32)
    means = np.full(len(root.moves), np.nan)
    for ordinal, child in enumerate(root.children):
        visits[ordinal] = child.visits
        means[ordinal] = child.wins / child.visits
    return UctResult(visit_counts=visits, mean_values=means)


def _descend(game: Game, root: _Node, c: float) -> list[_Node]:
    """Follow UCB1 to a position that is new or finished; return the positions on the way, the root first."""
    path = [root]
    node = root
    while node.terminal_value is None:
        is_new = len(node.children) < len(node.moves)
        if is_new:
            child = _Node(game, game.next_state(node.state, node.moves[len(node.children)]))
            node.children.append(child)
        else:
            child = node.best_child(c)
        path.append(child)
        node = child
        if is_new:
            break
    return path
