"""Uniformly random games, played to the end: in C++ for built-in games, in Python for others."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from zerofleet import _native
from zerofleet.games.base import Game, State
from zerofleet.games.native_game import NativeGame


def rollout_outcomes(game: Game, states: Sequence[State], *, seed: int) -> npt.NDArray[np.int8]:
    """Return the outcome of one random game from each position, for the player to move there; [B].

    A finished position has its own value.  The same seed, in [0, 2**64), gives the same outcomes.
    """
    if isinstance(game, NativeGame):
        outcomes: npt.NDArray[np.int8] = _native.rollouts(list(states), seed)
        return outcomes
    rng = np.random.default_rng(seed)
    return np.array([random_outcome(game, state, rng) for state in states], np.int8)


def random_outcome(game: Game, state: State, rng: np.random.Generator) -> int:
    """Play one uniformly random game from `state`; return its outcome for the player to move at `state`."""
    player = game.to_play(state)
    while (value := game.terminal_value(state)) is None:
        moves = game.legal_moves(state)
        state = game.next_state(state, moves[int(rng.integers(len(moves)))])
    return value if game.to_play(state) == player else -value
