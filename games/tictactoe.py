"""Tic-tac-toe.  A move is a cell, 0 to 8, row by row from the top left."""

from __future__ import annotations

from collections.abc import Sequence

from zerofleet import _native
from zerofleet.games.base import Move, State, Symmetry
from zerofleet.games.native_game import NativeGame
from zerofleet.games.symmetry import SQUARE_SYMMETRIES, board_symmetries


class TicTacToe(NativeGame):
    """Tic-tac-toe.  Planes: own stones, the opponent's stones."""

    name = "tictactoe"
    num_actions = 9
    observation_shape = (2, 3, 3)

    def __init__(self) -> None:
        super().__init__(_native.TicTacToeState, _native.TicTacToePool)

    def symmetries(self) -> Sequence[Symmetry]:
        """Return the eight symmetries of the square."""
        return board_symmetries(3, 3, names=SQUARE_SYMMETRIES, actions="squares")

    def move_text(self, state: State, move: Move) -> str:
        """Return column and row, such as "b2" for the middle; row 1 is the bottom row."""
        row, column = divmod(self.move_index(move), 3)
        return f"{'abc'[column]}{3 - row}"


__all__ = ["TicTacToe"]
