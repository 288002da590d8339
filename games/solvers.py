"""Perfect play: of any game small enough to search to the end, and of Connect Four."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

import numpy as np
import numpy.typing as npt

from zerofleet import _native
from zerofleet.errors import GameError, UsageError
from zerofleet.games.base import Game, Move, State
from zerofleet.games.connect4 import Connect4

_MAX_POSITIONS = 1_000_000


class Solver(Protocol):
    """Knows what every position of a game is worth."""

    game: Game

    def value(self, state: State) -> int:
        """Return -1, 0 or 1 for the player to move, both playing perfectly."""

    def best_moves(self, state: State) -> list[Move]:
        """Return the moves that keep the position's value, in the order of `legal_moves`."""

    def keeps(self, state: State, move: Move, value: int) -> bool:
        """Return whether `move` still gets `value`, or more, for the player who makes it."""


class Connect4Solver(Solver):
    """Perfect play of Connect Four by alpha-beta on bitboards, in C++.

    Positions from the middle of a game on take microseconds to milliseconds; the first few moves take minutes.  Bounds
    that were found are kept in a table of a fixed size, so many positions are best given to one solver.  A solver
    belongs to one thread, and lets others run meanwhile.
    """

    def __init__(self, table_mib: int = 32) -> None:
        if table_mib < 1:
            raise UsageError(f"the table needs 1 MiB or more, got {table_mib}")
        self.game = Connect4()
        self._native = _native.Connect4Solver(16 + table_mib.bit_length())  # 2**17 bounds of 8 bytes are 1 MiB

    @property
    def num_nodes(self) -> int:
        """Positions searched so far."""
        return self._native.num_nodes

    def scores(self, states: Sequence[State]) -> npt.NDArray[np.int8]:
        """Return `[len(states)]`: the exact score of each position for its player to move, finished ones included.

        Above 0: a win that leaves the winner `score - 1` of 21 stones.  Below 0: a loss that leaves the winner
        `-score - 1`.  0: a draw.
        """
        return self._native.scores(list(states))

    def values(self, states: Sequence[State]) -> npt.NDArray[np.int8]:
        """Return `[len(states)]`: the scores' signs, which take less time."""
        return self._native.signs(list(states))

    def score_within(self, state: State, plies: int) -> int | None:
        """Return the score where perfect play ends the game within so many moves, else None: soon told for few."""
        return self._native.score_within(state, plies)

    def value(self, state: State) -> int:
        """Return -1, 0 or 1 for the player to move."""
        return int(self.values([state])[0])

    def best_moves(self, state: State) -> list[Move]:
        """Return the moves that keep the position's value: of a won one all that win, however slowly."""
        moves = self.game.legal_moves(state)
        values = -self.values([self.game.next_state(state, move) for move in moves])
        return [move for move, value in zip(moves, values, strict=True) if value == values.max()]

    def keeps(self, state: State, move: Move, value: int) -> bool:
        """Return whether `move` still gets `value`, or more, for the player who makes it: one search at most."""
        return value < 0 or not self._native.at_least(self.game.next_state(state, move), 1 - value)


class Minimax(Solver):
    """Exact values of a small game whose states are hashable; each position is worked out once."""

    def __init__(self, game: Game) -> None:
        self.game = game
        self._values: dict[State, int] = {}

    def value(self, state: State) -> int:
        """Return -1, 0 or 1 for the player to move, both playing perfectly.

        Raises:
            GameError: the game has too many positions to solve.
        """
        known = self._values.get(state)
        if known is not None:
            return known
        value = self.game.terminal_value(state)
        if value is None:
            value = max(self.move_value(state, move) for move in self.game.legal_moves(state))
        if len(self._values) >= _MAX_POSITIONS:
            raise GameError(f"{self.game.name} has more than {_MAX_POSITIONS} positions: too large to solve")
        self._values[state] = value
        return value

    def move_value(self, state: State, move: Move) -> int:
        """Return what `move` is worth to the player who makes it."""
        child = self.game.next_state(state, move)
        value = self.value(child)
        return value if self.game.to_play(child) == self.game.to_play(state) else -value

    def best_moves(self, state: State) -> list[Move]:
        """Return the moves that keep the position's value, in the order of `legal_moves`."""
        value = self.value(state)
        return [move for move in self.game.legal_moves(state) if self.move_value(state, move) == value]

    def keeps(self, state: State, move: Move, value: int) -> bool:
        """Return whether `move` still gets `value`, or more, for the player who makes it."""
        return self.move_value(state, move) >= value


def reachable_positions(game: Game) -> list[State]:
    """Return every position of a small game, finished ones included, each once, in the order of their texts."""
    found: set[State] = set()
    waiting = [game.initial_state()]
    while waiting:
        state = waiting.pop()
        if state in found:
            continue
        found.add(state)
        if len(found) > _MAX_POSITIONS:
            raise GameError(f"{game.name} has more than {_MAX_POSITIONS} positions")
        waiting += [game.next_state(state, move) for move in game.legal_moves(state)]
    return sorted(found, key=game.state_text)  # type: ignore[arg-type]  # a solved game has texts


_SOLVERS: dict[str, Callable[[Game], Solver]] = {"connect4": lambda _game: Connect4Solver(), "tictactoe": Minimax}


def has_solver(game: Game) -> bool:
    """Return whether `solver_for` knows a game."""
    return game.name in _SOLVERS


def solver_for(game: Game) -> Solver:
    """Return a solver of a game.

    Raises:
        GameError: nobody can solve it here.
    """
    if not has_solver(game):
        raise GameError(f"there is no solver of {game.spec}; {' and '.join(_SOLVERS)} have one")
    return _SOLVERS[game.name](game)


def minimax_value(game: Game, state: State) -> int:
    """Return the exact value of one position; use one `Minimax` for many."""
    return Minimax(game).value(state)


__all__ = ["Connect4Solver", "Minimax", "Solver", "has_solver", "minimax_value", "reachable_positions", "solver_for"]
