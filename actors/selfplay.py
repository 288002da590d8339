"""A group of self-play games searched together: where searches turn into moves, and moves into episodes.

Per batch of leaves: `collect`, have it evaluated, `expand`, `play_moves`.  Python runs once per batch and once per
move, never per leaf.  All random draws of a game come from its own generator, seeded with `[seed, game number]`, in
this order: its random opening (unless no game has one), then for each move the noise of its root (unless noise is off)
and the choice of the move.  So what a game draws does not depend on the actor, the group or the games beside it.

This module knows no process, no stream and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol

import numpy as np
import numpy.typing as npt

from zerofleet.actors.config import SelfPlaySetup
from zerofleet.games.base import Game, Move, State
from zerofleet.games.position_crc import position_crc
from zerofleet.games.random_moves import play_random_moves
from zerofleet.search.base import Evaluation, FloatArray, LeafBatch, SearchConfig, SearchResult
from zerofleet.search.noise import root_noise
from zerofleet.search.pool import SearchPool
from zerofleet.search.temperature import choose_move, move_probabilities
from zerofleet.streams.records import Episode, MoveRecord

PLY_CAP = "ply cap"
"""The termination of a game that `max_plies` ended."""

_MAX_OPENING_TRIES = 100

_NOT_SEARCHED = MoveRecord(
    ordinal=0,
    visited=np.array([], np.uint16),
    visit_counts=np.array([], np.uint32),
    root_value=0.0,
    weights_version=0,
    full_search=False,
)
"""A move of a random opening, but for its ordinal."""


class TreePool(Protocol):
    """What a group asks of its trees; `SearchPool` and the reference tree meet it."""

    @property
    def num_simulations_total(self) -> int:
        """Simulations of all trees so far."""

    @property
    def num_uniform_rows(self) -> int:
        """Rows so far whose priors were all zero or not finite."""

    def reset(self, tree: int, state: State, num_simulations: int | None = None) -> None:
        """Start a fresh search."""

    def advance(self, tree: int, ordinal: int, num_simulations: int | None = None) -> None:
        """Play a move, keep its subtree, and start the next search."""

    def set_root_noise(self, tree: int, noise: FloatArray) -> None:
        """Mix noise into the root's priors."""

    def collect(self) -> LeafBatch:
        """Return the leaves that the active trees want evaluated."""

    def expand(self, evaluation: Evaluation) -> None:
        """Back up the answers to the last batch."""

    def finished(self) -> npt.NDArray[np.bool_]:
        """Tell which trees have finished their search."""

    def result(self, tree: int) -> SearchResult:
        """Return what the search of a tree says about its root."""


PoolFactory = Callable[..., TreePool]


@dataclass(slots=True)
class Tally:
    """What a group did since it was last asked."""

    moves: int = 0
    positions: int = 0
    simulations: int = 0
    reused_visits: int = 0
    uniform_rows: int = 0


@dataclass(slots=True)
class _GameInPlay:
    """A game that is not over: the position it stands at, and how it came there."""

    number: int
    rng: np.random.Generator
    state: State
    legal_moves: Sequence[Move]
    moves: list[MoveRecord]
    opening_plies: int  # so many of the moves were drawn at random


class SelfPlayGroup:
    """Up to `num_games` games of one owner thread, one search tree each."""

    def __init__(self, setup: SelfPlaySetup, num_games: int, *, pool_factory: PoolFactory = SearchPool) -> None:
        self._setup = setup
        self._game: Game = setup.game
        self._search: SearchConfig = setup.search
        self._config = setup.self_play
        self._pool = pool_factory(
            setup.game, num_games, setup.search, dirichlet_fraction=setup.self_play.dirichlet_fraction
        )
        self._slots: list[_GameInPlay | None] = [None] * num_games
        self._idle = list(range(num_games))[::-1]
        self._versions = np.zeros(num_games, np.int64)  # newest weights that answered the group in each tree's search
        self._batch_size = 0
        self._tally = Tally()
        self._pool_counts = (0, 0)

    @property
    def num_idle(self) -> int:
        """Games that could be begun now."""
        return len(self._idle)

    @property
    def num_games(self) -> int:
        """Games in play."""
        return len(self._slots) - len(self._idle)

    def begin(self, game_number: int) -> None:
        """Begin a game in an idle place."""
        tree = self._idle.pop()
        rng = np.random.default_rng(np.random.SeedSequence([self._setup.seed, game_number]))
        state, opening = self._draw_opening(rng)
        moves = [_NOT_SEARCHED._replace(ordinal=ordinal) for ordinal in opening]
        game = _GameInPlay(game_number, rng, state, self._game.legal_moves(state), moves, len(opening))
        self._slots[tree] = game
        self._versions[tree] = 0
        self._pool.reset(tree, state)
        self._add_noise(tree, game)

    def collect(self) -> LeafBatch:
        """Return the leaves of all games; empty where every search finished without a further one."""
        batch = self._pool.collect()
        self._batch_size = len(batch)
        return batch

    def expand(self, evaluation: Evaluation) -> None:
        """Give the searches the answers to the last batch."""
        self._pool.expand(evaluation)
        np.maximum(self._versions, evaluation.weights_version, out=self._versions)
        self._tally.positions += self._batch_size

    def play_moves(self) -> list[Episode]:
        """Play a move in each game whose search is complete, and return the games that are over now."""
        finished: list[int] = np.flatnonzero(self._pool.finished()).tolist()
        episodes = [self._play_move(tree, game) for tree in finished if (game := self._slots[tree]) is not None]
        return [episode for episode in episodes if episode is not None]

    def abandon(self) -> int:
        """Forget all games in play, and return how many they were; the group must not be used afterwards.

        Leaves may still be away, so the trees are left as they are and go with the group.
        """
        dropped = self.num_games
        self._slots = [None] * len(self._slots)
        self._idle = list(range(len(self._slots)))
        return dropped

    def take_tally(self) -> Tally:
        """Return what was done since the last call."""
        tally, self._tally = self._tally, Tally()
        counts = (int(self._pool.num_simulations_total), int(self._pool.num_uniform_rows))
        tally.simulations = counts[0] - self._pool_counts[0]
        tally.uniform_rows = counts[1] - self._pool_counts[1]
        self._pool_counts = counts
        return tally

    def _draw_opening(self, rng: np.random.Generator) -> tuple[State, list[int]]:
        """Return the position that a game begins at, and the ordinals of the random moves that lead to it.

        Where so many moves end the game, others are drawn; where they mostly do, the game begins at its beginning.
        """
        start = self._game.initial_state()
        if self._config.random_opening_fraction == 0.0 or rng.random() >= self._config.random_opening_fraction:
            return start, []
        num_plies = int(rng.integers(1, self._config.random_opening_plies, endpoint=True))
        for _ in range(_MAX_OPENING_TRIES):
            if (played := play_random_moves(self._game, num_plies, rng)) is not None:
                return played
        return start, []

    def _add_noise(self, tree: int, game: _GameInPlay) -> None:
        if self._config.dirichlet_fraction > 0.0:
            num_legal = len(game.legal_moves)
            self._pool.set_root_noise(tree, root_noise(game.rng, num_legal, self._config.alpha_for(num_legal)))

    def _play_move(self, tree: int, game: _GameInPlay) -> Episode | None:
        ordinal = self._choose(tree, game)
        game.state = self._game.next_state(game.state, game.legal_moves[ordinal])
        value = self._game.terminal_value(game.state)
        if value is None and not 0 < self._config.max_plies <= len(game.moves):
            game.legal_moves = self._game.legal_moves(game.state)
            self._pool.advance(tree, ordinal)
            self._add_noise(tree, game)
            return None
        self._vacate(tree)
        return self._episode(game, value)

    def _choose(self, tree: int, game: _GameInPlay) -> int:
        result = self._pool.result(tree)
        temperature = self._config.temperature_at(len(game.moves))
        ordinal = choose_move(move_probabilities(result.visit_counts, result.priors, temperature), game.rng)
        game.moves.append(self._record(result, ordinal, self._version_of(tree, game)))
        self._versions[tree] = 0
        self._tally.moves += 1
        self._tally.reused_visits += result.num_reused
        return ordinal

    def _version_of(self, tree: int, game: _GameInPlay) -> int:
        """Return the version behind a move; where its search needed no answer, the one its tree was grown with."""
        version = int(self._versions[tree])
        return game.moves[-1].weights_version if version == 0 and game.moves else version

    def _record(self, result: SearchResult, ordinal: int, version: int) -> MoveRecord:
        visited = result.visit_counts.nonzero()[0]
        return MoveRecord(
            ordinal=ordinal,
            visited=visited.astype(np.uint16),
            visit_counts=result.visit_counts[visited].astype(np.uint32),
            root_value=min(1.0, max(-1.0, result.root_value)),
            weights_version=version,
            full_search=len(visited) > 0 and result.num_simulations >= self._search.num_simulations,
        )

    def _episode(self, game: _GameInPlay, value: int | None) -> Episode:
        outcome = 0
        if value is not None:
            outcome = value if self._game.to_play(game.state) == 0 else -value
        return Episode(
            id=f"{self._setup.run}-{game.number}",
            game=self._game.spec,
            rules_version=self._game.rules_version,
            actor=self._setup.actor,
            game_number=game.number,
            purpose="self-play",
            moves=tuple(game.moves),
            outcome=outcome,
            termination=PLY_CAP if value is None else self._game.termination(game.state),
            final_crc=position_crc(self._game, game.state),
            opening_plies=game.opening_plies,
        )

    def _vacate(self, tree: int) -> None:
        """Leave the tree to the next game, which clears it: its memory is used again, not given back and taken anew."""
        self._slots[tree] = None
        self._idle.append(tree)
