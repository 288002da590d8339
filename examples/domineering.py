"""Domineering, as an example of a game of one's own.

    zerofleet train examples/domineering.py:Domineering

Two players lay dominoes on a square board, player 0 upright ones and player 1 flat ones.  Who cannot lay one loses.
A position is the pair (player to move, covered squares as bits); square `row * size + column` is bit number that.
"""

import numpy as np
import numpy.typing as npt

from zerofleet.games.base import Symmetry

State = tuple[int, int]  # player to move, covered squares
Move = tuple[int, int]  # player, upper or left square of the domino


class Domineering:
    """The rules; see `zerofleet.games.base.GameRules` for what each member means."""

    rules_version = 1

    def __init__(self, size: int = 4) -> None:
        self.name = "domineering"
        self.size = size
        self.num_actions = size * size
        self.observation_shape = (2, size, size)

    def initial_state(self) -> State:
        """Return the empty board, with player 0 to move."""
        return 0, 0

    def to_play(self, state: State) -> int:
        """Return the player to move."""
        return state[0]

    def legal_moves(self, state: State) -> list[Move]:
        """Return the places for a domino, in the order of their squares."""
        player, covered = state
        last_row = self.size - 1 if player == 0 else self.size
        last_column = self.size if player == 0 else self.size - 1
        places = (row * self.size + column for row in range(last_row) for column in range(last_column))
        return [(player, square) for square in places if not covered & self._domino(player, square)]

    def next_state(self, state: State, move: Move) -> State:
        """Return the position after a domino was laid."""
        player, square = move
        return 1 - player, state[1] | self._domino(player, square)

    def terminal_value(self, state: State) -> int | None:
        """Return -1 where the player to move has no place left, else None."""
        return None if self.legal_moves(state) else -1

    def move_index(self, move: Move) -> int:
        """Return the action: the square of a move, on the board as its own player sees it."""
        player, square = move
        return square if player == 0 else self._turned(square)

    def encode(self, state: State) -> npt.NDArray[np.uint8]:
        """Return the free squares, and a plane that tells the players apart.

        The board is turned over its diagonal for player 1, so that to the network every player lays upright dominoes.
        """
        player, covered = state
        free = np.array([not covered >> square & 1 for square in range(self.num_actions)], np.uint8)
        board = free.reshape(self.size, self.size)
        return np.stack([board if player == 0 else board.T, np.full_like(board, player)])

    def symmetries(self) -> list[Symmetry]:
        """Return the half turn of the board: an upright domino's upper square comes from its lower one."""
        rows, columns = np.divmod(np.arange(self.num_actions), self.size)
        actions = (self.size - 2 - rows) % self.size * self.size + self.size - 1 - columns
        return [Symmetry(name="half turn", squares=np.arange(self.num_actions)[::-1], actions=actions)]

    def move_text(self, state: State, move: Move) -> str:
        """Return a move as column letter and row number of its upper or left square."""
        row, column = divmod(move[1], self.size)
        return f"{chr(ord('a') + column)}{row + 1}"

    def state_text(self, state: State) -> str:
        """Return the position as rows of `.` (free) and `#` (covered), and the player to move."""
        squares = "".join("#" if state[1] >> square & 1 else "." for square in range(self.num_actions))
        rows = [squares[start : start + self.size] for start in range(0, self.num_actions, self.size)]
        return f"{'/'.join(rows)} {state[0]}"

    def termination(self, state: State) -> str:
        """Return why the game is over."""
        return "no place left"

    def _domino(self, player: int, square: int) -> int:
        return 1 << square | 1 << (square + (self.size if player == 0 else 1))

    def _turned(self, square: int) -> int:
        row, column = divmod(square, self.size)
        return column * self.size + row
