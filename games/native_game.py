"""What the built-in games share: the Python face of rules written in C++."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from zerofleet.errors import IllegalMoveError
from zerofleet.games.base import Move, PackedPlanes, Planes, PlaneType, State, Symmetry
from zerofleet.games.packing import packed_size, unpack_planes


class NativeGame:
    """A built-in game.  Its states are native values: immutable, hashable, comparable, picklable."""

    name: str
    rules_version: int = 1
    num_actions: int
    observation_shape: tuple[int, int, int]
    plane_type: PlaneType = "bits"

    def __init__(self, state_type: Any, pool_type: Any) -> None:
        """Make the face of the rules in `state_type`, which `pool_type` searches."""
        self.spec = self.name
        self.packed_size = packed_size(self.observation_shape, self.plane_type)
        self.native_state_type = state_type
        self.native_pool_type = pool_type

    def __repr__(self) -> str:
        return f"load_game({self.spec!r})"

    def __reduce__(self) -> tuple[Any, ...]:
        return (type(self), ())

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self)

    def __hash__(self) -> int:
        return hash(self.spec)

    def initial_state(self) -> State:
        """Return the empty board."""
        return self.native_state_type()

    def to_play(self, state: State) -> int:
        """Return the player to move."""
        return int(state.to_play)

    def legal_moves(self, state: State) -> Sequence[Move]:
        """Return the legal moves in ascending order."""
        moves: list[int] = state.legal_moves()
        return moves

    def next_state(self, state: State, move: Move) -> State:
        """Return the position after `move`.

        Raises:
            IllegalMoveError: `move` is not legal in `state`.
        """
        if not isinstance(move, (int, np.integer)):
            raise IllegalMoveError(f"a move of {self.name} is a number, got {move!r}")
        if not 0 <= move < self.num_actions:
            raise IllegalMoveError(
                f"move {move} is not legal in {state.text()}: moves run from 0 to {self.num_actions - 1}"
            )
        return state.play(int(move))

    def terminal_value(self, state: State) -> int | None:
        """Return None while the game goes on, else -1 or 0 for the player to move."""
        value: int | None = state.terminal_value()
        return value

    def encode(self, state: State) -> Planes:
        """Return own stones and the opponent's stones, the top row first."""
        planes: Planes = self.encode_batch([state])[0]
        return planes

    def encode_batch(self, states: Sequence[State]) -> Planes:
        """Return `encode` of each position."""
        return unpack_planes(self.pack(states), self.observation_shape, self.plane_type)

    def pack(self, states: Sequence[State]) -> PackedPlanes:
        """Return the packed planes of each position."""
        packed: PackedPlanes = self.native_state_type.pack(list(states))
        return packed

    def move_index(self, move: Move) -> int:
        """Return the move itself: moves are actions here."""
        if not isinstance(move, (int, np.integer)) or not 0 <= move < self.num_actions:
            raise IllegalMoveError(f"a move of {self.name} is a number from 0 to {self.num_actions - 1}, got {move!r}")
        return int(move)

    def legal_actions(self, state: State) -> list[int]:
        """Return the action of each legal move."""
        actions: list[int] = state.legal_moves()
        return actions

    def symmetries(self) -> Sequence[Symmetry]:
        """Return the symmetries of the board, the identity first."""
        raise NotImplementedError

    def move_text(self, state: State, move: Move) -> str:
        """Return the move as people write it: counted from one."""
        return str(self.move_index(move) + 1)

    def state_text(self, state: State) -> str:
        """Return the rows from the top: "x" stones of player 0, "o" of player 1, "." free."""
        return str(state.text())

    def termination(self, state: State) -> str:
        """Return "line" or "full board"."""
        return str(state.termination())
