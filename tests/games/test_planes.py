"""What the network is fed."""

from __future__ import annotations

import numpy as np
import pytest

from zerofleet.games import load_game
from zerofleet.games.packing import plane_dtype


@pytest.mark.parametrize("name", ["tictactoe", "connect4"])
def test_every_plane_holds_zeros_and_ones(rng: np.random.Generator, name: str) -> None:
    """Fault 92: no counter, no scale of its own, over 10,000 random positions; and no plane that says nothing."""
    game = load_game(name)
    states = []
    while len(states) < 10_000:
        state = game.initial_state()
        while moves := game.legal_moves(state):
            states.append(state)
            state = game.next_state(state, moves[int(rng.integers(len(moves)))])
    planes = game.encode_batch(states)
    assert game.plane_type == "bits"
    assert planes.dtype == plane_dtype("bits") == np.uint8
    assert set(np.unique(planes)) == {0, 1}
    by_plane = planes.reshape(len(states), game.observation_shape[0], -1)
    assert (by_plane.min((0, 2)) == 0).all()
    assert (by_plane.max((0, 2)) == 1).all()
