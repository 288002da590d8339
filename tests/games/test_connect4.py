"""Connect Four: rules, planes and symmetry on positions worked out by hand."""

from __future__ import annotations

import pickle
from collections.abc import Sequence

import numpy as np
import pytest

from zerofleet.errors import GameError, IllegalMoveError
from zerofleet.games import load_game
from zerofleet.games.base import State
from zerofleet.games.laws import check_laws, transform_planes

GAME = load_game("connect4")


def after(moves: Sequence[int]) -> State:
    state = GAME.initial_state()
    for move in moves:
        state = GAME.next_state(state, move)
    return state


def test_the_laws_hold_in_random_games() -> None:
    check_laws(GAME, num_games=60, seed=1)


def test_stones_fall_and_the_top_row_comes_first() -> None:
    state = after([3, 3, 0, 6])
    assert GAME.state_text(state) == "......./......./......./......./...o.../x..x..o"
    # Player 0 to move: own stones at (5, 0) and (5, 3), the opponent's at (4, 3) and (5, 6).
    planes = GAME.encode(state)
    assert planes.shape == (2, 6, 7)
    assert planes.dtype == np.uint8
    assert [tuple(map(int, place)) for place in np.argwhere(planes)] == [(0, 5, 0), (0, 5, 3), (1, 4, 3), (1, 5, 6)]


def test_planes_are_seen_by_the_player_to_move() -> None:
    planes = GAME.encode(after([3]))  # player 1 to move: the stone is the opponent's
    assert [tuple(map(int, place)) for place in np.argwhere(planes)] == [(1, 5, 3)]


def test_planes_pack_to_eleven_bytes_as_numpy_packs_them() -> None:
    states = [after([3, 3, 0, 6, 6, 6][:n]) for n in range(7)]
    packed = GAME.pack(states)
    assert packed.shape == (7, 11)
    assert np.array_equal(packed, np.packbits(GAME.encode_batch(states).reshape(7, 84), axis=1))


@pytest.mark.parametrize(
    "moves",
    [
        [0, 0, 1, 1, 2, 2, 3],  # across, at the left edge
        [3, 3, 4, 4, 5, 5, 6],  # across, at the right edge
        [6, 0, 6, 0, 6, 0, 6],  # up, in the last column
        [0, 1, 1, 2, 2, 3, 2, 3, 3, 6, 3],  # rising to the right
        [6, 5, 5, 4, 4, 3, 4, 3, 3, 0, 3],  # falling to the right
    ],
)
def test_four_in_a_row_wins(moves: list[int]) -> None:
    before, state = after(moves[:-1]), after(moves)
    assert GAME.terminal_value(before) is None
    assert GAME.terminal_value(state) == -1  # for the player to move, who lost
    assert GAME.legal_moves(state) == []
    assert GAME.termination(state) == "line"
    assert GAME.to_play(state) == 1


@pytest.mark.parametrize("moves", [[4, 0, 5, 0, 6, 0], [0, 1, 0, 1, 0, 1]])
def test_three_in_a_row_go_on(moves: list[int]) -> None:
    assert GAME.terminal_value(after(moves)) is None


def test_no_line_runs_around_an_edge() -> None:
    # Player 0 has columns 5 and 6 of the bottom row and 0 and 1 of the second: neighbours in memory, not on the board.
    assert GAME.terminal_value(after([5, 0, 6, 1, 0, 3, 1])) is None


def test_a_full_column_is_closed() -> None:
    state = after([2, 2, 2, 2, 2, 2])
    assert GAME.legal_moves(state) == [0, 1, 3, 4, 5, 6]
    assert GAME.legal_actions(state) == [0, 1, 3, 4, 5, 6]
    with pytest.raises(IllegalMoveError, match="move 2 is not legal"):
        GAME.next_state(state, 2)


def test_a_full_board_is_a_draw_for_both() -> None:
    """Fault 6: a draw is over, and exactly 0."""
    columns = [0, 1, 0, 1, 0, 1, 1, 0, 1, 0, 1, 0, 2, 3, 2, 3, 2, 3, 3, 2, 3, 2, 3, 2]
    columns += [4, 5, 4, 5, 4, 5, 5, 4, 5, 4, 5, 4, 6, 6, 6, 6, 6, 6]
    state = after(columns)
    assert GAME.terminal_value(state) == 0
    assert GAME.termination(state) == "full board"
    assert GAME.legal_moves(state) == []


@pytest.mark.parametrize("move", [-1, 7, 1000, "3", None, 2.0])
def test_an_illegal_move_is_an_error_that_names_it(move: object) -> None:
    with pytest.raises(IllegalMoveError, match=r"move"):
        GAME.next_state(GAME.initial_state(), move)


def test_no_move_follows_the_end() -> None:
    with pytest.raises(IllegalMoveError, match="after the end"):
        GAME.next_state(after([0, 1, 0, 1, 0, 1, 0]), 3)


def test_the_mirror_moves_board_and_policy_together() -> None:
    """Faults 63 and 67: on a board that is no square only the mirror remains."""
    identity, mirror = GAME.symmetries()
    assert np.array_equal(identity.squares, np.arange(42))
    assert list(mirror.actions) == [6, 5, 4, 3, 2, 1, 0]
    assert np.array_equal(transform_planes(mirror, GAME.encode(after([0, 1]))), GAME.encode(after([6, 5])))


def test_states_are_values() -> None:
    one, two = after([3, 4, 3]), after([3, 4, 3])
    assert one == two
    assert hash(one) == hash(two)
    assert one != after([4, 3, 3])
    assert one != "connect4"
    assert pickle.loads(pickle.dumps(one)) == one
    # The positions after three plies (OEIS A212693).
    assert len({after([a, b, c]) for a in range(7) for b in range(7) for c in range(7)}) == 238
    with pytest.raises(AttributeError):
        one.to_play = 1


@pytest.mark.parametrize("bits", [(1, 0), (2, 2), (1 << 40, 0), (0xFE, 0), (2**63, 0), (0, 0xFE00000000)])
def test_bits_that_are_no_position_are_refused(bits: tuple[int, int]) -> None:
    with pytest.raises(GameError, match="no position"):
        type(GAME.initial_state()).from_bits(bits)


def test_the_game_travels_by_name() -> None:
    copy = pickle.loads(pickle.dumps(GAME))
    assert copy == GAME
    assert copy.spec == "connect4"
