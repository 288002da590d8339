"""Perfect play of tic-tac-toe."""

from __future__ import annotations

import pytest

from zerofleet.games import load_game
from zerofleet.games.solvers import Minimax, minimax_value

GAME = load_game("tictactoe")


@pytest.mark.parametrize(
    ("moves", "value", "best"),
    [
        ([], 0, list(range(9))),
        ([4], 0, [0, 2, 6, 8]),  # against the middle only a corner holds
        ([0, 1], 1, [3, 4, 6]),  # an edge next to the corner loses
        ([0, 4, 1], 0, [2]),  # the row must be blocked
        ([0, 3, 1, 4], 1, [2]),  # the row wins at once; so does nothing else
    ],
)
def test_values_and_moves_known_by_heart(moves: list[int], value: int, best: list[int]) -> None:
    state = GAME.initial_state()
    for move in moves:
        state = GAME.next_state(state, move)
    assert minimax_value(GAME, state) == value
    assert Minimax(GAME).best_moves(state) == best
