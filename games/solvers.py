"""Perfect play of games small enough to search to the end."""

from __future__ import annotations

from zerofleet.errors import GameError
from zerofleet.games.base import Game, Move, State

_MAX_POSITIONS = 1_000_000


class Minimax:
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


def minimax_value(game: Game, state: State) -> int:
    """Return the exact value of one position; use one `Minimax` for many."""
    return Minimax(game).value(state)


__all__ = ["Minimax", "minimax_value"]
