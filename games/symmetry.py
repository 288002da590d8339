"""The symmetries of a rectangular board, as permutations of its squares and of the policy.

Directions are those of `Symmetry`: `squares[t]` is the square of the original that square `t` of the image shows,
`actions[a]` is the image of action `a`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

import numpy as np
import numpy.typing as npt

from zerofleet.errors import GameError
from zerofleet.games.base import Symmetry

SQUARE_SYMMETRIES = (
    "identity",
    "quarter turn",
    "half turn",
    "three-quarter turn",
    "mirror",
    "flip",
    "transpose",
    "antitranspose",
)
"""Symmetries of a square board: turns are counterclockwise, `mirror` swaps left and right, `flip` top and bottom."""

_TRANSPOSING = frozenset({"quarter turn", "three-quarter turn", "transpose", "antitranspose"})


def _image(board: npt.NDArray[np.int64], name: str) -> npt.NDArray[np.int64]:
    """Return `board`, `[H, W]`, as the symmetry `name` shows it."""
    images = {
        "identity": board,
        "quarter turn": np.rot90(board, 1),
        "half turn": np.rot90(board, 2),
        "three-quarter turn": np.rot90(board, 3),
        "mirror": board[:, ::-1],
        "flip": board[::-1],
        "transpose": board.T,
        "antitranspose": np.rot90(board, 2).T,
    }
    return images[name]


def _inverse(permutation: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    inverse = np.empty_like(permutation)
    inverse[permutation] = np.arange(len(permutation))
    return inverse


def board_symmetries(
    height: int,
    width: int,
    *,
    names: Sequence[str] = SQUARE_SYMMETRIES,
    actions: Literal["squares", "columns"] = "squares",
    fixed_actions: int = 0,
) -> list[Symmetry]:
    """Return the named symmetries of a board of `height` rows and `width` columns.

    An action is a square (row by row) or a column; `fixed_actions` more at the end, such as a pass, stay in place.

    Raises:
        GameError: a symmetry is unknown, or turns a board on its side that is no square, or moves columns into rows.
    """
    board = np.arange(height * width, dtype=np.int64).reshape(height, width)
    found = []
    for name in names:
        if name not in SQUARE_SYMMETRIES:
            raise GameError(f"there is no symmetry {name!r}; there are: {', '.join(SQUARE_SYMMETRIES)}")
        if name in _TRANSPOSING and (height != width or actions == "columns"):
            raise GameError(
                f"symmetry {name!r} swaps rows and columns: impossible for {actions} of a {height} by {width} board"
            )
        squares = _image(board, name).reshape(-1).copy()
        moved = _inverse(squares if actions == "squares" else squares[:width] % width)
        kept = np.arange(len(moved), len(moved) + fixed_actions, dtype=np.int64)
        found.append(Symmetry(name=name, squares=squares, actions=np.concatenate([moved, kept])))
    return found


__all__ = ["SQUARE_SYMMETRIES", "board_symmetries"]
