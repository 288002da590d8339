"""Tic-tac-toe: rules, planes and the eight symmetries."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from zerofleet.errors import IllegalMoveError
from zerofleet.games import load_game
from zerofleet.games.base import State
from zerofleet.games.laws import check_laws, transform_planes
from zerofleet.games.solvers import Minimax

GAME = load_game("tictactoe")


def after(moves: Sequence[int]) -> State:
    state = GAME.initial_state()
    for move in moves:
        state = GAME.next_state(state, move)
    return state


def test_the_laws_hold_in_random_games() -> None:
    check_laws(GAME, num_games=100, seed=2)


def test_cells_are_numbered_row_by_row() -> None:
    state = after([0, 4, 2])
    assert GAME.state_text(state) == "x.x/.o./..."
    assert GAME.legal_moves(state) == [1, 3, 5, 6, 7, 8]
    assert [tuple(map(int, place)) for place in np.argwhere(GAME.encode(state))] == [(0, 1, 1), (1, 0, 0), (1, 0, 2)]
    assert [GAME.move_text(state, move) for move in (0, 4, 8)] == ["a3", "b2", "c1"]


@pytest.mark.parametrize(
    "line", [(0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6)]
)
def test_each_of_the_eight_lines_wins(line: tuple[int, int, int]) -> None:
    others = [cell for cell in range(9) if cell not in line]
    pair = next((a, b) for a in others for b in others if a != b)
    state = after([line[0], pair[0], line[1], pair[1], line[2]])
    assert GAME.terminal_value(state) == -1
    assert GAME.termination(state) == "line"


def test_a_full_board_is_a_draw() -> None:
    """Fault 6."""
    state = after([0, 1, 2, 4, 3, 5, 7, 6, 8])
    assert GAME.terminal_value(state) == 0
    assert GAME.termination(state) == "full board"


def test_there_are_5478_positions_and_4520_of_them_go_on() -> None:
    solver = Minimax(GAME)
    assert solver.value(GAME.initial_state()) == 0
    seen = {GAME.initial_state()}
    frontier = list(seen)
    while frontier:
        state = frontier.pop()
        for move in GAME.legal_moves(state):
            child = GAME.next_state(state, move)
            if child not in seen:
                seen.add(child)
                frontier.append(child)
    assert len(seen) == 5478
    assert sum(GAME.terminal_value(state) is None for state in seen) == 4520


def test_a_quarter_turn_four_times_is_the_identity_and_the_policy_turns_along() -> None:
    """Fault 66: a turn is not its own inverse, so a confused direction shows."""
    turn = next(s for s in GAME.symmetries() if s.name == "quarter turn")
    state = after([0, 1])  # x on cell 0, o on cell 1
    planes = GAME.encode(state)
    image = transform_planes(turn, planes)
    for _ in range(3):
        planes = transform_planes(turn, planes)
    assert np.array_equal(transform_planes(turn, planes), GAME.encode(state))
    # Counterclockwise, the top left corner (cell 0) goes to the bottom left (6), the top middle (1) to the left (3).
    assert (int(turn.actions[0]), int(turn.actions[1])) == (6, 3)
    assert np.array_equal(image, GAME.encode(after([6, 3])))


def test_there_are_eight_symmetries() -> None:
    symmetries = GAME.symmetries()
    assert symmetries[0].name == "identity"
    assert len({tuple(s.actions) for s in symmetries}) == 8
    for s in symmetries:
        assert sorted(s.squares) == sorted(s.actions) == list(range(9))


def test_states_are_values() -> None:
    assert after([0, 4, 8]) == after([8, 4, 0])
    assert hash(after([0, 4, 8])) == hash(after([8, 4, 0]))
    assert pickle.loads(pickle.dumps(after([0, 4]))) == after([0, 4])


@pytest.mark.parametrize("move", [9, -1, 4])
def test_an_illegal_move_is_refused(move: int) -> None:
    with pytest.raises(IllegalMoveError):
        GAME.next_state(after([4]), move)
