"""A search laid open: the numbers behind every move, the line that both sides like best, and the tree's main branches.

It searches with the readable tree, which holds the same numbers as the C++ one and lets itself be looked at.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from zerofleet.games.base import Game, Move, State
from zerofleet.search.base import Evaluation, Evaluator, LeafBatch, SearchConfig
from zerofleet.search.reference import ReferencePool, TreeNode, puct_parts
from zerofleet.search.search import run_searches


@dataclass(frozen=True, slots=True, kw_only=True)
class Branch:
    """A move in the tree; every value is for the player who chooses it."""

    move: Move
    text: str  # the move as people write it
    visits: int
    prior: float
    q: float  # mean value; of an unvisited move its first-play urgency
    u: float  # what PUCT adds to it for exploration
    replies: tuple[Branch, ...]  # of the position it leads to, most visited first

    @property
    def score(self) -> float:
        """Return Q + U: the search goes on where it is greatest."""
        return self.q + self.u


@dataclass(frozen=True, slots=True, kw_only=True)
class Analysis:
    """What a search says about a position with `M` legal moves."""

    state: State
    value: float  # mean of all simulations, for the player to move
    branches: tuple[Branch, ...]  # [M] in the order of legal_moves
    weights_version: int

    @property
    def best(self) -> Branch:
        """Return the most visited move; of equals the one with the greater prior, then the first."""
        return max(self.branches, key=lambda branch: (branch.visits, branch.prior))

    @property
    def principal_variation(self) -> tuple[Branch, ...]:
        """Return the line of most visited moves."""
        line, branches = list[Branch](), self.branches
        while any(branch.visits for branch in branches):
            line.append(max(branches, key=lambda branch: (branch.visits, branch.prior)))
            branches = line[-1].replies
        return tuple(line)


class _Noting:
    """Remembers the newest weights that answered."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator
        self.weights_version = 0

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Evaluate, and note the version."""
        evaluation = self._evaluator.evaluate(batch)
        self.weights_version = max(self.weights_version, evaluation.weights_version)
        return evaluation


def analyse(game: Game, state: State, evaluator: Evaluator, config: SearchConfig) -> Analysis:
    """Search `state` one leaf at a time and lay the tree open.

    Raises:
        TerminalStateError: the game is over in `state`.
    """
    sequential = replace(config, leaves_per_tree=1)
    pool = ReferencePool(game, 1, sequential)
    pool.reset(0, state)
    noting = _Noting(evaluator)
    run_searches(pool, noting)
    root = pool.root(0)
    return Analysis(
        state=state,
        value=float(root.mean_value()),
        branches=_branches(game, root, sequential),
        weights_version=noting.weights_version,
    )


def _branches(game: Game, node: TreeNode, config: SearchConfig) -> tuple[Branch, ...]:
    """Return the node's moves in the order of legal_moves; replies are sorted by visits."""
    if not node.is_expanded:
        return ()
    q_values, u_values = puct_parts(node.visits, node.totals, node.virtual, node.priors, node.mean_value(), config)
    found = []
    for ordinal, move in enumerate(node.moves):
        child = node.children[ordinal]
        replies = _branches(game, child, config) if child is not None else ()
        found.append(
            Branch(
                move=move,
                text=game.move_text(node.state, move),
                visits=int(node.visits[ordinal]),
                prior=float(node.priors[ordinal]),
                q=float(q_values[ordinal]),
                u=float(u_values[ordinal]),
                replies=tuple(sorted(replies, key=lambda branch: (-branch.visits, -branch.prior))),
            )
        )
    return tuple(found)


def draw_tree(analysis: Analysis, *, min_visits: int, max_depth: int = 6, max_width: int = 3) -> list[str]:
    """Return the main branches as lines of text: move, visits and value, each reply below the move it answers."""
    lines: list[str] = []
    roots = sorted(analysis.branches, key=lambda branch: (-branch.visits, -branch.prior))
    _draw(roots, lines, "", min_visits, max_depth, max_width)
    return lines


def _draw(
    branches: list[Branch] | tuple[Branch, ...],
    lines: list[str],
    indent: str,
    min_visits: int,
    depth: int,
    max_width: int,
) -> None:
    shown = [branch for branch in branches[:max_width] if branch.visits >= max(1, min_visits)]
    for place, branch in enumerate(shown):
        is_last = place == len(shown) - 1
        lines.append(f"{indent}{'└─ ' if is_last else '├─ '}{branch.text}  {branch.visits}  {branch.q:+.2f}")
        if depth > 1:
            _draw(branch.replies, lines, indent + ("   " if is_last else "│  "), min_visits, depth - 1, max_width)


__all__ = ["Analysis", "Branch", "analyse", "draw_tree"]
