"""Positions drawn for people."""

from __future__ import annotations

from zerofleet.games import load_game
from zerofleet.games.board import draw_board
from zerofleet.games.notation import play_line


def test_connect_four_has_its_columns_numbered() -> None:
    game = load_game("connect4")
    assert draw_board(game, play_line(game, "44")).splitlines() == [
        "1 2 3 4 5 6 7",
        ". . . . . . .",
        ". . . . . . .",
        ". . . . . . .",
        ". . . . . . .",
        ". . . o . . .",
        ". . . x . . .",
    ]


def test_tic_tac_toe_has_letters_and_numbers_at_the_sides() -> None:
    game = load_game("tictactoe")
    assert draw_board(game, play_line(game, "b2 a3")).splitlines() == ["3 o . .", "2 . x .", "1 . . .", "  a b c"]
