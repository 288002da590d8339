"""One search from start to end: collect leaves, evaluate them, expand, until every tree is done."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

from zerofleet.games.base import Game, State
from zerofleet.search.base import Evaluator, FloatArray, SearchConfig, SearchResult
from zerofleet.search.pool import SearchPool
from zerofleet.search.reference import ReferencePool

AnyPool: TypeAlias = SearchPool | ReferencePool


def run_searches(pool: AnyPool, evaluator: Evaluator) -> None:
    """Search until no tree of the pool has a leaf left to evaluate, that is, until every search is complete."""
    while len(batch := pool.collect()) > 0:
        pool.expand(evaluator.evaluate(batch))


def search(
    game: Game,
    state: State,
    evaluator: Evaluator,
    config: SearchConfig,
    *,
    noise: FloatArray | None = None,
    dirichlet_fraction: float = 0.0,
) -> SearchResult:
    """Search one position; `noise`, [M], is mixed into the root's priors by `dirichlet_fraction`.

    The same arguments give the same result, bit for bit.

    Raises:
        TerminalStateError: the game is over in `state`.
    """
    noises = None if noise is None else [noise]
    return search_many(game, [state], evaluator, config, noises=noises, dirichlet_fraction=dirichlet_fraction)[0]


def search_many(
    game: Game,
    states: Sequence[State],
    evaluator: Evaluator,
    config: SearchConfig,
    *,
    noises: Sequence[FloatArray] | None = None,
    dirichlet_fraction: float = 0.0,
) -> list[SearchResult]:
    """Search many positions side by side, their leaves evaluated together; each in a fresh tree of its own.

    Raises:
        TerminalStateError: the game is over in one of the positions.
    """
    pool = SearchPool(game, len(states), config, dirichlet_fraction=dirichlet_fraction)
    for tree, state in enumerate(states):
        pool.reset(tree, state)
        if noises is not None:
            pool.set_root_noise(tree, noises[tree])
    run_searches(pool, evaluator)
    return [pool.result(tree) for tree in range(len(states))]
