"""Players for matches: by search with an evaluator, by UCT, by perfect play, at random.

A player chooses for many games at once and keeps nothing from one choice to the next: no tree is carried between moves
or games, so what it plays depends on the position, and on the game's own random numbers, alone.  Players measure
strength: no root noise, no temperature.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal, Protocol, TypeAlias

import numpy as np

from zerofleet.games.base import Game, State
from zerofleet.games.solvers import Solver
from zerofleet.search.base import Evaluator, SearchConfig, SearchResult
from zerofleet.search.pool import SearchPool
from zerofleet.search.search import run_searches
from zerofleet.search.uct import uct_search

_MAX_TREES = 256
"""Positions that one player searches side by side; it bounds the memory and the size of an evaluator's batch."""


Choice: TypeAlias = Literal["visits", "visits_q"]
"""How a search's result is turned into a move: `visits`: the most visited; `visits_q`: the greatest visits * (1 + Q),
which prefers, of two moves searched about as much, the one that looks better now."""


class Player(Protocol):
    """Chooses a move in each of many unfinished positions, all of the same game."""

    name: str

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        """Return the move for each position, as its place in `legal_moves`; `rngs[i]` belongs to `states[i]`'s game."""

    def choose(self, state: State, rng: np.random.Generator) -> int:
        """Return the move for one position."""
        return self.choose_many([state], [rng])[0]


class RandomPlayer(Player):
    """Plays each legal move with the same probability."""

    def __init__(self, game: Game) -> None:
        self.name = "random"
        self._game = game

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        """Draw one move for each position."""
        return [int(rng.integers(len(self._game.legal_moves(state)))) for state, rng in zip(states, rngs, strict=True)]


class SearchPlayer(Player):
    """Plays the move of a PUCT search that `choice` ranks first; of equals the one with the greater prior.

    It draws no random numbers.
    """

    def __init__(
        self, game: Game, evaluator: Evaluator, config: SearchConfig, *, name: str = "", choice: Choice = "visits"
    ) -> None:
        self._choice: Choice = choice
        self.name = name or f"search-{config.num_simulations}"
        self._game = game
        self._evaluator = evaluator
        self._config = config
        self._pool: SearchPool | None = None
        self._num_trees = 0

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        """Search all positions side by side, at most 256 at a time."""
        chosen: list[int] = []
        for start in range(0, len(states), _MAX_TREES):
            chosen += [best_move(result, self._choice) for result in self._search(states[start : start + _MAX_TREES])]
        return chosen

    def _search(self, states: Sequence[State]) -> list[SearchResult]:
        if self._pool is None or self._num_trees < len(states):
            self._num_trees = len(states)
            self._pool = SearchPool(self._game, self._num_trees, self._config)
        pool = self._pool
        for tree, state in enumerate(states):
            pool.reset(tree, state)
        run_searches(pool, self._evaluator)
        results = [pool.result(tree) for tree in range(len(states))]
        for tree in range(len(states)):
            pool.release(tree)
        return results


def best_move(result: SearchResult, choice: Choice = "visits") -> int:
    """Return the ordinal of the move to play; of equals the one with the greater prior, then the first."""
    merit = result.visit_counts.astype(np.float64)
    if choice == "visits_q":
        merit *= 1.0 + np.nan_to_num(result.q_values)
    return int(np.lexsort((-result.priors, -merit))[0])


class UctPlayer(Player):
    """Plays the most visited move of a UCT search with random rollouts."""

    def __init__(self, game: Game, num_simulations: int) -> None:
        self.name = f"uct-{num_simulations}"
        self._game = game
        self._num_simulations = num_simulations

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        """Search each position by itself, seeded from its game's random numbers."""
        return [
            uct_search(self._game, state, self._num_simulations, seed=int(rng.integers(2**63))).best()
            for state, rng in zip(states, rngs, strict=True)
        ]


class SolverPlayer(Player):
    """Plays perfectly, drawing among the moves that keep the position's value."""

    def __init__(self, game: Game, solver: Solver) -> None:
        self.name = "solver"
        self._game = game
        self._solver = solver

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        """Solve each position."""
        return [self._choose(state, rng) for state, rng in zip(states, rngs, strict=True)]

    def _choose(self, state: State, rng: np.random.Generator) -> int:
        best = self._solver.best_moves(state)
        return self._game.legal_moves(state).index(best[int(rng.integers(len(best)))])
