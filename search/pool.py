"""Many trees, searched in lock step by one thread.  The trees are in C++; this is their face.

The pool knows neither evaluator nor game loop: whoever holds it collects leaves, has them evaluated, and expands.
A tree that nobody has reset, or that was released, is idle: it gives no leaves and is never finished.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import numpy.typing as npt

from zerofleet import _native
from zerofleet.errors import UsageError
from zerofleet.games.base import Game, State
from zerofleet.search.base import MAX_SIMULATIONS, Evaluation, FloatArray, LeafBatch, SearchConfig, SearchResult


class SearchPool:
    """`num_trees` trees of one game.  Belongs to one thread; another one that enters meanwhile gets an error."""

    def __init__(self, game: Game, num_trees: int, config: SearchConfig, *, dirichlet_fraction: float = 0.0) -> None:
        """Make idle trees.

        Args:
            game: The game whose positions are searched.
            num_trees: How many trees there are.
            config: The parameters of every search.
            dirichlet_fraction: The share of noise in the priors of a root that was given noise.

        Raises:
            UsageError: a number is out of its range.
        """
        self.game = game
        self.config = config
        self.num_trees = num_trees
        self._tree = _native_pool(game, num_trees, config, dirichlet_fraction)
        self._source = _Leaves(self._tree)
        self._arrays: Any = None  # behind the last batch; while their sizes stay, the batch does
        self._batch: LeafBatch

    def reset(self, tree: int, state: State, num_simulations: int | None = None) -> None:
        """Start to search `state` afresh, with `num_simulations` or the config's.

        Raises:
            TerminalStateError: `state` is finished.
            UsageError: the tree's leaves wait for `expand`, or there is no such tree.
        """
        self._tree.reset(tree, state, -1 if num_simulations is None else _budget(num_simulations))

    def advance(self, tree: int, ordinal: int, num_simulations: int | None = None) -> None:
        """Play the legal move `ordinal` of the root and search on; its subtree is kept where it is small enough.

        Root noise is forgotten: give the new root its own.

        Raises:
            TerminalStateError: the move ends the game; the tree stays as it was.
            IllegalMoveError: there is no such move.
            UsageError: the tree is idle, or its leaves wait for `expand`, or there is no such tree.
        """
        self._tree.advance(tree, ordinal, -1 if num_simulations is None else _budget(num_simulations))

    def release(self, tree: int) -> None:
        """Free the tree's nodes; it becomes idle."""
        self._tree.release(tree)

    def set_root_noise(self, tree: int, noise: FloatArray) -> None:
        """Mix `noise`, `[M]`, into the root's priors by `dirichlet_fraction`: now, or when the root is evaluated.

        Raises:
            UsageError: the noise is not one finite number of 0 or more per legal move, or the tree is idle.
        """
        if noise.ndim != 1:
            raise UsageError(f"noise must have one dimension, got shape {noise.shape}")
        self._tree.set_root_noise(tree, np.ascontiguousarray(noise, dtype=np.float32))

    def collect(self) -> LeafBatch:
        """Return the leaves of all active trees, maybe none; they wait for `expand`.

        Raises:
            UsageError: the leaves of the last call still wait.
        """
        arrays = self._tree.collect()
        if arrays is not self._arrays:
            planes, offsets, actions = self._arrays = arrays
            self._batch = LeafBatch(planes=planes, legal_offsets=offsets, legal_actions=actions, source=self._source)
        return self._batch

    def expand(self, evaluation: Evaluation) -> None:
        """Give the collected leaves their evaluation.

        A row whose priors are all zero, negative or not finite becomes uniform over the legal moves, and a value that
        is not finite becomes 0; such rows are counted in `num_uniform_rows`.

        Raises:
            UsageError: nothing waits, or the evaluation has another size than the batch.
        """
        try:
            self._tree.expand(evaluation.priors, evaluation.values)
        except TypeError as error:
            raise UsageError(
                "an evaluation needs priors and values as arrays of one dimension, got "
                f"{_shown(evaluation.priors)} and {_shown(evaluation.values)}"
            ) from error

    def withdraw(self) -> None:
        """Take the collected leaves back, as if `collect` had not chosen them: their evaluation will never come."""
        self._tree.withdraw()

    def leaf_states(self) -> list[State]:
        """Return the positions that wait for `expand`, in order."""
        return self._source.leaf_states()

    def finished(self) -> npt.NDArray[np.bool_]:
        """Return `[num_trees]`: is the search of this move complete?  False for idle trees."""
        finished: npt.NDArray[np.bool_] = self._tree.finished()
        return finished

    def result(self, tree: int) -> SearchResult:
        """Return what the search says so far; visits in flight are not counted.

        Raises:
            UsageError: the tree is idle, or its root is not evaluated yet.
        """
        visit_counts, q_values, priors, root_value, num_simulations, num_reused = self._tree.result(tree)
        return SearchResult(
            visit_counts=visit_counts,
            q_values=q_values,
            priors=priors,
            root_value=root_value,
            num_simulations=num_simulations,
            num_reused=num_reused,
        )

    def root_state(self, tree: int) -> State:
        """Return the position that the tree searches."""
        return self._tree.root_state(tree)

    def num_legal(self, tree: int) -> int:
        """Return how many legal moves the root has."""
        return int(self._tree.num_legal(tree))

    def num_nodes(self, tree: int) -> int:
        """Return how many nodes the tree has; 0 for an idle one."""
        return int(self._tree.num_nodes(tree))

    def num_in_flight(self, tree: int) -> int:
        """Return how many leaves of the tree wait for `expand`."""
        return int(self._tree.num_in_flight(tree))

    @property
    def num_simulations_total(self) -> int:
        """Simulations of all trees since the pool was made."""
        return int(self._tree.num_simulations_total)

    @property
    def num_uniform_rows(self) -> int:
        """Rows of evaluations that were no distribution, since the pool was made."""
        return int(self._tree.num_uniform_rows)

    @property
    def num_bytes(self) -> int:
        """Memory of all trees, in bytes."""
        return int(self._tree.num_bytes)


class _Leaves:
    """The positions of the last batch.  No part of the pool, so that pool and batch hold each other in no circle."""

    def __init__(self, tree: Any) -> None:
        self._tree = tree

    def leaf_states(self) -> list[State]:
        """Return the positions that wait for `expand`, in order."""
        states: list[State] = self._tree.leaf_states()
        return states


def _shown(array: object) -> str:
    return f"{array.dtype}{list(array.shape)}" if isinstance(array, np.ndarray) else type(array).__name__


def _budget(num_simulations: int) -> int:
    if not 0 <= num_simulations <= MAX_SIMULATIONS:
        raise UsageError(f"num_simulations must lie in [0, {MAX_SIMULATIONS}], got {num_simulations}")
    return num_simulations


def _native_pool(game: Game, num_trees: int, config: SearchConfig, dirichlet_fraction: float) -> Any:
    pool_type = getattr(game, "native_pool_type", None) or partial(_native.PythonPool, game)
    return pool_type(
        num_trees=num_trees,
        num_simulations=config.num_simulations,
        leaves_per_tree=config.leaves_per_tree,
        log_exploration=config.exploration == "log",
        c_init=config.c_init,
        c_base=config.c_base,
        parent_urgency=config.first_play_urgency == "parent",
        fpu_value=config.fpu_value,
        reuse_limit=config.reuse_limit,
        max_nodes=config.max_nodes,
        dirichlet_fraction=dirichlet_fraction,
    )


__all__ = ["SearchPool"]
