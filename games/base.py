"""What a game is: the protocol that every game meets, and the laws behind it.

A *move* belongs to the rules (any hashable object); an *action* is the move's index in the policy output.
Two moves of one position may share an action: they stay two edges of the tree and share that action's prior equally.
Players are 0 (who moves first) and 1.  Every value of a position is for the player to move there.

The laws (`zerofleet check-game` checks them):

- a state never changes: `next_state` returns a new one;
- `legal_moves` always lists the same moves in the same order, and is empty exactly when the game is over;
- `terminal_value` is None exactly while the game goes on;
- `to_play` is defined on finished states too;
- applying a symmetry commutes with playing a move.

This module knows no search, no network and no process.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass
from typing import Any, Literal, Protocol, TypeAlias, runtime_checkable

import numpy as np
import numpy.typing as npt

State: TypeAlias = Any
"""A position.  Opaque to everything but its own game; immutable."""

Move: TypeAlias = Hashable
"""What the rules call a move."""

Planes: TypeAlias = npt.NDArray[Any]
PackedPlanes: TypeAlias = npt.NDArray[np.uint8]

PlaneType: TypeAlias = Literal["bits", "uint8", "float32"]
"""How planes travel and rest: packed bits (0 or 1), bytes, or floats."""


@runtime_checkable
class GameRules(Protocol):
    """What a user writes to add a game: these members, in one Python file.  Everything else has a default.

    Optional members, looked up by name: `plane_type` (a `PlaneType`, "bits" by default),
    `encode_batch(states) -> [B, planes, height, width]`, `symmetries() -> list[Symmetry]` (with or without the
    identity), `move_text(state, move) -> str`, `state_text(state) -> str`, `termination(state) -> str`.
    """

    name: str
    num_actions: int
    observation_shape: tuple[int, int, int]  # planes, height, width
    rules_version: int  # changes when, and only when, an old record would replay differently

    def initial_state(self) -> State:
        """Return the position a game starts from."""

    def to_play(self, state: State) -> int:
        """Return the player to move, 0 or 1; defined on finished states too."""

    def legal_moves(self, state: State) -> Sequence[Move]:
        """Return the legal moves, always in the same order; empty exactly when the game is over."""

    def next_state(self, state: State, move: Move) -> State:
        """Return the position after `move`, leaving `state` as it was."""

    def terminal_value(self, state: State) -> int | None:
        """Return None while the game goes on, else -1, 0 or 1 for the player to move."""

    def encode(self, state: State) -> Planes:
        """Return the network's input, `[planes, height, width]`, seen by the player to move."""

    def move_index(self, move: Move) -> int:
        """Return the move's action, in `[0, num_actions)`."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Symmetry:
    """One symmetry of a game, acting on planes and policy together.

    It maps the square `(row, column)` of the planes and the action `a` to their images: the image of `planes` is
    `planes.reshape(P, H * W)[:, squares].reshape(P, H, W)`, and the image of a policy has `policy[a]` at `actions[a]`.
    """

    name: str
    squares: npt.NDArray[np.int64]  # [H * W] for each square of the image, the square of the original it shows
    actions: npt.NDArray[np.int64]  # [num_actions] for each action of the original, its action in the image


class Game(GameRules, Protocol):
    """A game with every optional member filled in: what the rest of Zerofleet works with.

    `games.load_game` returns one, for built-in games and users' files alike.
    """

    spec: str  # the canonical name with options, such as "connect4" or "go(size=9,komi=7)"; load_game takes it
    plane_type: PlaneType
    packed_size: int  # bytes of one packed observation

    def encode_batch(self, states: Sequence[State]) -> Planes:
        """Return `[B, planes, height, width]` in the dtype of `plane_type` (bits: uint8 zeros and ones)."""

    def pack(self, states: Sequence[State]) -> PackedPlanes:
        """Return `[B, packed_size]`: `encode_batch`, packed (bits: `np.packbits` over the flat planes, big-endian)."""

    def symmetries(self) -> Sequence[Symmetry]:
        """Return all symmetries, the identity first."""

    def legal_actions(self, state: State) -> list[int]:
        """Return `move_index` of each legal move, in the order of `legal_moves`."""

    def move_text(self, state: State, move: Move) -> str:
        """Return the move as people write it."""

    def state_text(self, state: State) -> str | None:
        """Return the position as text that determines it, or None where the game has no such text."""

    def termination(self, state: State) -> str:
        """Return in a word or two why the finished game ended, such as "line" or "full board"."""
