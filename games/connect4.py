"""Connect Four: seven columns, six rows, four in a row win.  A move is a column, 0 to 6 from the left."""

from __future__ import annotations

from collections.abc import Sequence

from zerofleet import _native
from zerofleet.games.base import Symmetry
from zerofleet.games.native_game import NativeGame
from zerofleet.games.symmetry import board_symmetries


class Connect4(NativeGame):
    """Connect Four.  Planes: own stones, the opponent's stones; row 0 is the top row."""

    name = "connect4"
    num_actions = 7
    observation_shape = (2, 6, 7)

    def __init__(self) -> None:
        super().__init__(_native.Connect4State, _native.Connect4Pool)

    def symmetries(self) -> Sequence[Symmetry]:
        """Return the identity and the mirror image."""
        return board_symmetries(6, 7, names=("identity", "mirror"), actions="columns")


__all__ = ["Connect4"]
