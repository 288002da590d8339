"""Moves as people write them."""

from __future__ import annotations

from pathlib import Path

import pytest

from zerofleet.errors import IllegalMoveError
from zerofleet.games import load_game
from zerofleet.games.notation import find_move, play_line, split_line

CONNECT4 = load_game("connect4")
DOMINEERING = load_game(f"{Path(__file__).resolve().parents[2] / 'examples' / 'domineering.py'}:Domineering")


@pytest.mark.parametrize("text", ["4453", "4 4 5 3", "4,4,5,3", " 44 53 "])
def test_moves_may_stand_together_where_each_is_one_character(text: str) -> None:
    state = CONNECT4.initial_state()
    for move in (3, 3, 4, 2):
        state = CONNECT4.next_state(state, move)
    assert play_line(CONNECT4, text) == state


def test_no_move_is_the_initial_position() -> None:
    assert play_line(CONNECT4, "") == CONNECT4.initial_state()


def test_longer_moves_stand_apart() -> None:
    state = DOMINEERING.initial_state()
    move = DOMINEERING.legal_moves(state)[0]
    text = DOMINEERING.move_text(state, move)
    assert len(text) > 1
    assert split_line(DOMINEERING, f"{text}, {text}") == [text, text]
    assert find_move(DOMINEERING, state, text) == move


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("448", "move 3: there is no move '8' here; there are 1, 2, 3, 4, 5, 6, 7"),
        ("1111111", "move 7: there is no move '1' here; there are 2, 3, 4, 5, 6, 7"),
        ("11223344", r"move 8: there is no move '4': the game is over \(line\)"),
        ("44x", "move 3: there is no move 'x'"),
    ],
)
def test_a_move_that_is_not_there_is_named_with_its_place(text: str, message: str) -> None:
    with pytest.raises(IllegalMoveError, match=message):
        play_line(CONNECT4, text)
