"""The search in plain Python: the readable statement of the algorithm, and the oracle for the C++ one.

`ReferencePool` has the interface of `search.pool.SearchPool` and must give the same trees, bit for bit: every number
below is a float32 that is rounded after each operation, in the order written here.  It knows no network and no
process, and is some hundred times slower than C++.

A value of a position is for the player to move there; `totals` of an edge are for the player who chooses that edge.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zerofleet.errors import IllegalMoveError, TerminalStateError, UsageError
from zerofleet.games.base import Game, Move, State
from zerofleet.search.base import Evaluation, FloatArray, IntArray, LeafBatch, SearchConfig, SearchResult

_NO_FLOATS = np.zeros(0, np.float32)
_NO_INTS = np.zeros(0, np.int32)


class TreeNode:
    """A position of the tree: finished, waiting for its evaluation, or expanded into one edge per legal move (`M`)."""

    __slots__ = (
        "actions", "children", "is_expanded", "moves", "priors", "state", "terminal_value", "to_play", "totals",
        "value_count", "value_sum", "virtual", "visits",
    )  # fmt: skip

    def __init__(self, game: Game, state: State) -> None:
        self.state = state
        self.to_play = game.to_play(state)
        self.terminal_value = game.terminal_value(state)
        is_finished = self.terminal_value is not None
        self.moves: list[Move] = [] if is_finished else list(game.legal_moves(state))
        self.actions: list[int] = [] if is_finished else list(game.legal_actions(state))
        self.is_expanded = False
        self.children: list[TreeNode | None] = []
        self.priors: FloatArray = _NO_FLOATS  # [M]
        self.visits: IntArray = _NO_INTS  # [M]
        self.totals: FloatArray = _NO_FLOATS  # [M]
        self.virtual: IntArray = _NO_INTS  # [M] visits in flight
        self.value_sum = np.float32(0)  # own evaluation and every value backed up through the node
        self.value_count = 0  # how many values that sum holds

    def expand(self, priors: FloatArray, value: np.float32) -> None:
        """Store the evaluation and make an edge for each move."""
        num_legal = len(self.moves)
        self.is_expanded = True
        self.children = [None] * num_legal
        self.priors = priors
        self.visits = np.zeros(num_legal, np.int32)
        self.totals = np.zeros(num_legal, np.float32)
        self.virtual = np.zeros(num_legal, np.int32)
        self.value_sum = value
        self.value_count = 1

    def mean_value(self) -> np.float32:
        """Return the mean of the own evaluation and all values backed up, for the player to move."""
        return self.value_sum / np.float32(self.value_count)


@dataclass(frozen=True, slots=True)
class _Leaf:
    """A position in flight, and the edges that lead to it from the root."""

    tree: _Tree
    node: TreeNode
    path: list[tuple[TreeNode, int]]


def puct_parts(
    visits: IntArray,
    totals: FloatArray,
    virtual: IntArray,
    priors: FloatArray,
    node_mean: np.float32,
    config: SearchConfig,
) -> tuple[FloatArray, FloatArray]:
    """Return Q and U of each edge, [M] each (Silver et al. 2018, PUCT), for the player who chooses.

    The search follows the edge whose Q + U is greatest.  A visit in flight counts as a visit, and as a loss for the
    player who chooses that edge.
    """
    one = np.float32(1)
    counts = visits + virtual
    total = int(counts.sum())
    exploration = np.float32(config.c_init)
    if config.exploration == "log":
        exploration = np.float32(math.log((1 + total + config.c_base) / config.c_base)) + exploration
    scale = exploration * np.sqrt(np.float32(max(1, total)))
    unvisited = np.float32(config.fpu_value)
    if config.first_play_urgency == "parent":
        unvisited = node_mean - unvisited
    n = counts.astype(np.float32)
    q = np.where(counts > 0, (totals - virtual.astype(np.float32)) / np.maximum(n, one), unvisited)
    u: FloatArray = (scale * priors) / (one + n)
    return q, u


class _Tree:
    """One tree: the search of one move after another of one game."""

    def __init__(self, game: Game, config: SearchConfig, dirichlet_fraction: float) -> None:
        self.game = game
        self.config = config
        self.fraction = np.float32(dirichlet_fraction)
        self.root: TreeNode | None = None  # None: the tree is idle

    def begin(self, root: TreeNode, num_nodes: int, budget: int) -> None:
        self.root = root
        self.num_nodes = num_nodes
        self.budget = budget
        self.num_reused = int(root.visits.sum())
        self.num_done = 0
        self.num_in_flight = 0
        self.is_full = False
        self.noise: FloatArray | None = None
        kept = self.config.reuse_limit * budget
        self.max_nodes = self.config.max_nodes or int(kept) + budget + self.config.leaves_per_tree + 2

    def collect(self) -> Iterator[_Leaf]:
        """Give the leaves to evaluate next, each with its virtual visits in place."""
        root = self.root
        if root is None or self.is_full:
            return
        if not root.is_expanded:
            self.num_in_flight = 1
            yield _Leaf(self, root, [])
            return
        root_priors = self._noised(root)
        num_slots = min(self.config.leaves_per_tree, max(1, self.budget // 16))
        while self.num_in_flight < num_slots and self.num_done + self.num_in_flight < self.budget:
            path, node = self._descend(root, root_priors)
            if node is None:
                self.is_full = True
                return
            if node.terminal_value is not None:
                self._back_up(path, node, np.float32(node.terminal_value))
            elif path[-1][0].virtual[path[-1][1]] > 0:
                return  # a collision: the position is in flight already
            else:
                for parent, edge in path:
                    parent.virtual[edge] += 1
                self.num_in_flight += 1
                yield _Leaf(self, node, path)

    def _descend(self, root: TreeNode, root_priors: FloatArray) -> tuple[list[tuple[TreeNode, int]], TreeNode | None]:
        """Follow the best edges to a node that is not expanded, made if need be; None if there is no room for it."""
        path: list[tuple[TreeNode, int]] = []
        node, priors = root, root_priors
        while node.is_expanded:
            mean = node.mean_value()
            q, u = puct_parts(node.visits, node.totals, node.virtual, priors, mean, self.config)
            edge = int((q + u).argmax())  # the first of equals
            path.append((node, edge))
            child = node.children[edge]
            if child is None:
                if self.num_nodes >= self.max_nodes:
                    return path, None
                child = TreeNode(self.game, self.game.next_state(node.state, node.moves[edge]))
                node.children[edge] = child
                self.num_nodes += 1
            node, priors = child, child.priors
        return path, node

    def _noised(self, root: TreeNode) -> FloatArray:
        if self.noise is None:
            return root.priors
        return (np.float32(1) - self.fraction) * root.priors + self.fraction * self.noise

    def expand(self, leaf: _Leaf, priors: FloatArray, value: np.float32) -> None:
        leaf.node.expand(priors, value)
        for parent, edge in leaf.path:
            parent.virtual[edge] -= 1
        self.num_in_flight -= 1
        if leaf.path:
            self._back_up(leaf.path, leaf.node, value)

    def _back_up(self, path: list[tuple[TreeNode, int]], leaf: TreeNode, value: np.float32) -> None:
        """Credit `value`, for the player to move at `leaf`, to every edge and node above it."""
        child = leaf
        for parent, edge in reversed(path):
            if parent.to_play != child.to_play:
                value = -value
            parent.visits[edge] += 1
            parent.totals[edge] += value
            parent.value_sum = parent.value_sum + value
            parent.value_count += 1
            child = parent
        self.num_done += 1

    def is_finished(self) -> bool:
        if self.root is None or not self.root.is_expanded or self.num_in_flight > 0:
            return False
        return self.num_done >= self.budget or self.is_full


def _subtree(root: TreeNode) -> Iterator[TreeNode]:
    open_nodes = [root]
    while open_nodes:
        node = open_nodes.pop()
        yield node
        open_nodes.extend(child for child in node.children if child is not None)


def _num_edge_bytes(root: TreeNode) -> int:
    edges = ((node.priors, node.visits, node.totals, node.virtual) for node in _subtree(root))
    return sum(array.nbytes for arrays in edges for array in arrays)


class ReferencePool:
    """Many trees of one game, searched side by side; one thread owns them."""

    def __init__(self, game: Game, num_trees: int, config: SearchConfig, *, dirichlet_fraction: float = 0.0) -> None:
        self.game = game
        self.config = config
        self.num_trees = num_trees
        self.num_simulations_total = 0
        self.num_uniform_rows = 0  # evaluations that were not finite, or without any weight on legal moves
        self._trees = [_Tree(game, config, dirichlet_fraction) for _ in range(num_trees)]
        self._leaves: list[_Leaf] = []
        self._is_waiting = False  # leaves are out for evaluation

    def reset(self, tree: int, state: State, num_simulations: int | None = None) -> None:
        """Begin a search of `state` in a fresh tree.

        Raises:
            TerminalStateError: the game is over in `state`.
        """
        searched = self._quiet(tree)
        root = self._root(state)
        searched.begin(root, 1, self._budget(num_simulations))

    def advance(self, tree: int, ordinal: int, num_simulations: int | None = None) -> None:
        """Play a legal move at the root and begin the next search, keeping the move's subtree within `reuse_limit`.

        Raises:
            TerminalStateError: the move ends the game; the tree stays as it was.
        """
        searched = self._quiet(tree)
        root = self._active(tree)
        if not 0 <= ordinal < len(root.moves):
            raise IllegalMoveError(f"move {ordinal} of {len(root.moves)} legal moves does not exist")
        budget = self._budget(num_simulations)
        child = root.children[ordinal] if root.is_expanded else None
        if child is None or child.terminal_value is not None:
            child = self._root(self.game.next_state(root.state, root.moves[ordinal]))
        elif child.visits.sum() > self.config.reuse_limit * budget:
            child = self._root(child.state)
        searched.begin(child, sum(1 for _ in _subtree(child)), budget)

    def release(self, tree: int) -> None:
        """Forget the tree; it gives no leaves until it is reset."""
        self._quiet(tree).root = None

    def set_root_noise(self, tree: int, noise: FloatArray) -> None:
        """Mix `noise`, [M], into the root's priors for the rest of this move's search."""
        root = self._active(tree)
        if noise.shape != (len(root.moves),) or not np.isfinite(noise).all() or (noise < 0).any():
            raise UsageError(f"noise must be {len(root.moves)} finite numbers, none below 0; got {noise}")
        self._trees[tree].noise = noise.astype(np.float32)

    def collect(self) -> LeafBatch:
        """Return the leaves of all trees that wait for an evaluation now; `expand` must follow if there are any."""
        if self._is_waiting:
            raise UsageError("collect was called again before expand answered the last batch")
        done_before = self._num_done()
        self._leaves = [leaf for tree in self._trees for leaf in tree.collect()]
        self.num_simulations_total += self._num_done() - done_before
        self._is_waiting = bool(self._leaves)
        lengths = [len(leaf.node.actions) for leaf in self._leaves]
        states = self.leaf_states()
        return LeafBatch(
            planes=self.game.pack(states) if states else np.zeros((0, self.game.packed_size), np.uint8),
            legal_offsets=np.cumsum([0, *lengths]).astype(np.int32),
            legal_actions=np.array([action for leaf in self._leaves for action in leaf.node.actions], np.uint16),
            source=self,
        )

    def leaf_states(self) -> list[State]:
        """Return the positions of the last batch, in order."""
        return [leaf.node.state for leaf in self._leaves]

    def expand(self, evaluation: Evaluation) -> None:
        """Store the evaluation of the last batch and back its values up, leaf by leaf in the order collected."""
        lengths = [len(leaf.node.moves) for leaf in self._leaves]
        if not self._is_waiting:
            raise UsageError("expand needs a batch that collect gave and that was not yet answered")
        if evaluation.priors.shape != (sum(lengths),) or evaluation.values.shape != (len(lengths),):
            raise UsageError(
                f"the batch has {len(lengths)} rows and {sum(lengths)} legal moves, the evaluation "
                f"{evaluation.values.shape} values and {evaluation.priors.shape} priors"
            )
        start = 0
        for leaf, length, answer in zip(self._leaves, lengths, evaluation.values, strict=True):
            priors, value = self._checked(evaluation.priors[start : start + length], np.float32(answer))
            leaf.tree.expand(leaf, priors, value)
            self.num_simulations_total += bool(leaf.path)
            start += length
        self._is_waiting = False

    def _checked(self, priors: FloatArray, value: np.float32) -> tuple[FloatArray, np.float32]:
        """Copy a row's priors; put uniform ones, and a value of 0, in the place of what is no number."""
        has_priors = bool(np.isfinite(priors).all() and (priors >= 0).all() and (priors > 0).any())
        has_value = bool(np.isfinite(value))
        self.num_uniform_rows += not (has_priors and has_value)
        uniform = np.full(len(priors), np.float32(1) / np.float32(len(priors)), np.float32)
        return priors.astype(np.float32) if has_priors else uniform, value if has_value else np.float32(0)

    def finished(self) -> npt.NDArray[np.bool_]:
        """Return for each tree whether its search of this move is complete; [num_trees], False for idle trees."""
        return np.array([tree.is_finished() for tree in self._trees], np.bool_)

    def result(self, tree: int) -> SearchResult:
        """Return what the search says about its root; visits in flight are left out."""
        root = self._active(tree)
        if not root.is_expanded:
            raise UsageError(f"tree {tree} has no result yet: its root was not evaluated")
        q_values = np.full(len(root.moves), np.nan, np.float32)
        np.divide(root.totals, root.visits.astype(np.float32), out=q_values, where=root.visits > 0)
        return SearchResult(
            visit_counts=root.visits.copy(),
            q_values=q_values,
            priors=root.priors.copy(),
            root_value=float(root.mean_value()),
            num_simulations=self._trees[tree].num_done,
            num_reused=self._trees[tree].num_reused,
        )

    def root(self, tree: int) -> TreeNode:
        """Return the tree's root, to be looked at."""
        return self._active(tree)

    def root_state(self, tree: int) -> State:
        """Return the position that the tree searches."""
        return self._active(tree).state

    def num_legal(self, tree: int) -> int:
        """Return the number of legal moves of the root."""
        return len(self._active(tree).moves)

    def num_nodes(self, tree: int) -> int:
        """Return the number of positions that the tree holds; 0 when it is idle."""
        return self._trees[tree].num_nodes if self._trees[tree].root is not None else 0

    def num_in_flight(self, tree: int) -> int:
        """Return the number of the tree's leaves that wait for their evaluation."""
        return self._trees[tree].num_in_flight if self._trees[tree].root is not None else 0

    @property
    def num_bytes(self) -> int:
        """Memory of all edges, in bytes; what Python adds to it is not known."""
        return sum(_num_edge_bytes(tree.root) for tree in self._trees if tree.root is not None)

    def _num_done(self) -> int:
        return sum(tree.num_done for tree in self._trees if tree.root is not None)

    def _budget(self, num_simulations: int | None) -> int:
        budget = self.config.num_simulations if num_simulations is None else num_simulations
        if budget < 0:
            raise UsageError(f"num_simulations must be 0 or more, got {budget}")
        return budget

    def _root(self, state: State) -> TreeNode:
        root = TreeNode(self.game, state)
        if root.terminal_value is not None:
            raise TerminalStateError("the game is over in this position: there is nothing to search")
        return root

    def _active(self, tree: int) -> TreeNode:
        root = self._trees[tree].root
        if root is None:
            raise UsageError(f"tree {tree} is idle: reset it first")
        return root

    def _quiet(self, tree: int) -> _Tree:
        if self.num_in_flight(tree) > 0:
            raise UsageError(f"tree {tree} has leaves in flight: expand them first")
        return self._trees[tree]
