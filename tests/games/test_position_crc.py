"""Checksums of positions."""

from __future__ import annotations

import zlib
from typing import Any

import numpy as np

from zerofleet.games import load_game
from zerofleet.games.base import State
from zerofleet.games.position_crc import position_crc
from zerofleet.games.python_game import adapt


class Silent:
    """A game without a text of its positions.  State: (cell, player)."""

    name = "silent"
    num_actions = 2
    observation_shape = (1, 1, 2)
    rules_version = 1

    def initial_state(self) -> State:
        return (0, 0)

    def to_play(self, state: State) -> int:
        return int(state[1])

    def legal_moves(self, state: State) -> list[int]:
        return [1, 0] if state[0] < 2 else []

    def next_state(self, state: State, move: Any) -> State:
        return (state[0] + 1, 1 - state[1])

    def terminal_value(self, state: State) -> int | None:
        return None if state[0] < 2 else 0

    def encode(self, state: State) -> Any:
        return np.arange(2).reshape(1, 1, 2) < state[0]

    def move_index(self, move: Any) -> int:
        return int(move)


def test_text_is_what_counts_where_there_is_one() -> None:
    game = load_game("tictactoe")
    state = game.next_state(game.initial_state(), 4)
    assert position_crc(game, state) == zlib.crc32(b".../.x./...")


def test_else_planes_player_and_legal_actions_count() -> None:
    game = adapt(Silent(), "silent")
    # The cell (1, ...) packs to 0b1000_0000; player 1; actions 1 and 0 as two bytes each, the low one first.
    assert position_crc(game, (1, 1)) == zlib.crc32(bytes([0b10000000, 1, 1, 0, 0, 0]))
    assert position_crc(game, (1, 0)) != position_crc(game, (1, 1))
    assert position_crc(game, (2, 0)) == zlib.crc32(bytes([0b11000000, 0]))
