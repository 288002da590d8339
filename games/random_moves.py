"""Moves drawn uniformly, without a thought: what leads to positions that no player would choose."""

from __future__ import annotations

import numpy as np

from zerofleet.games.base import Game, State


def play_random_moves(game: Game, num_moves: int, rng: np.random.Generator) -> tuple[State, list[int]] | None:
    """Return the position after so many random moves, and their ordinals in `legal_moves`.

    None where they end the game; draw again for other ones.
    """
    state, ordinals = game.initial_state(), list[int]()
    while game.terminal_value(state) is None:
        if len(ordinals) == num_moves:
            return state, ordinals
        moves = game.legal_moves(state)
        ordinals.append(int(rng.integers(len(moves))))
        state = game.next_state(state, moves[ordinals[-1]])
    return None
