"""Counting errors: against players whose errors are known by heart."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import pytest

from zerofleet.actors.evaluation import ErrorCount, count_errors
from zerofleet.actors.players import Player, RandomPlayer, SolverPlayer
from zerofleet.games import load_game
from zerofleet.games.base import State
from zerofleet.games.positions import solved_positions
from zerofleet.games.solvers import Minimax

GAME = load_game("tictactoe")
SOLVER = Minimax(GAME)
POSITIONS = solved_positions(GAME, SOLVER, seed=0, num_each=1)


class Fixed(Player):
    """Always chooses the same place among the legal moves."""

    def __init__(self, ordinal: int) -> None:
        self.name = f"fixed {ordinal}"
        self._ordinal = ordinal

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        return [self._ordinal] * len(states)


def test_perfect_play_makes_no_error() -> None:
    errors = count_errors(GAME, SOLVER, SolverPlayer(GAME, Minimax(GAME)), POSITIONS, seed=1)
    assert (errors.total.positions, errors.total.errors) == (4520, 0)
    assert errors.total.interval[0] == 0.0
    assert errors.total.interval[1] < 0.002


def test_a_move_that_does_not_exist_is_an_error() -> None:
    assert count_errors(GAME, SOLVER, Fixed(9), POSITIONS, seed=1).total.errors == 4520
    assert count_errors(GAME, SOLVER, Fixed(-1), POSITIONS, seed=1).total.rate == 1.0


def test_errors_are_counted_as_by_hand() -> None:
    """The first move of each position, judged through the solver move by move."""
    expected = 0
    for position in POSITIONS:
        first = GAME.legal_moves(position.state)[0]
        expected += SOLVER.move_value(position.state, first) < position.value
    errors = count_errors(GAME, SOLVER, Fixed(0), POSITIONS, seed=1)
    assert errors.total.errors == expected > 0
    assert errors.stages == {"all": errors.total}


def test_a_positions_random_numbers_are_its_own() -> None:
    player = RandomPlayer(GAME)
    whole = count_errors(GAME, SOLVER, player, POSITIONS, seed=1)
    assert count_errors(GAME, SOLVER, player, POSITIONS, seed=1) == whole
    assert count_errors(GAME, SOLVER, player, POSITIONS, seed=2) != whole
    counts = [count_errors(GAME, SOLVER, player, POSITIONS[:k], seed=1).total.errors for k in range(1, 40)]
    assert set(np.diff(counts).tolist()) == {0, 1}  # one position more never changes what was chosen in the others


def test_the_interval_is_wilsons() -> None:
    """5 of 100: the textbook's interval is 2.2 % to 11.2 %."""
    low, high = ErrorCount(positions=100, errors=5).interval
    assert low == pytest.approx(0.0215, abs=0.002)
    assert high == pytest.approx(0.1118, abs=0.004)
