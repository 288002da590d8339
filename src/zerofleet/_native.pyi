"""Rules of the built-in games and the search tree, in C++."""

from typing import Any, final

import numpy as np
import numpy.typing as npt

from zerofleet.games.base import Game, State

class _BoardState:
    """A position of a built-in game: an immutable value."""

    def __init__(self) -> None: ...
    def __eq__(self, other: object, /) -> bool: ...
    def __hash__(self) -> int: ...
    def __getstate__(self) -> tuple[int, int]: ...
    def __setstate__(self, bits: tuple[int, int], /) -> None: ...
    @property
    def to_play(self) -> int: ...
    @property
    def is_terminal(self) -> bool: ...
    @property
    def num_moves(self) -> int: ...
    @property
    def bits(self) -> tuple[int, int]: ...
    def legal_moves(self) -> list[int]: ...
    def terminal_value(self) -> int | None: ...
    def termination(self) -> str: ...
    def text(self) -> str: ...
    def perft(self, depth: int) -> int: ...

@final
class Connect4State(_BoardState):
    """A position of Connect Four."""

    def play(self, move: int) -> Connect4State: ...
    @staticmethod
    def from_bits(bits: tuple[int, int]) -> Connect4State: ...
    @staticmethod
    def pack(states: list[Connect4State]) -> npt.NDArray[np.uint8]: ...

@final
class TicTacToeState(_BoardState):
    """A position of tic-tac-toe."""

    def play(self, move: int) -> TicTacToeState: ...
    @staticmethod
    def from_bits(bits: tuple[int, int]) -> TicTacToeState: ...
    @staticmethod
    def pack(states: list[TicTacToeState]) -> npt.NDArray[np.uint8]: ...

class _Pool:
    """Many trees of one game, owned by one thread; `zerofleet.search.pool` documents the calls."""

    def reset(self, tree: int, state: State, num_simulations: int) -> None: ...
    def advance(self, tree: int, ordinal: int, num_simulations: int) -> None: ...
    def release(self, tree: int) -> None: ...
    def withdraw(self) -> None: ...
    def set_root_noise(self, tree: int, noise: npt.NDArray[np.float32]) -> None: ...
    def collect(self) -> tuple[npt.NDArray[np.uint8], npt.NDArray[np.int32], npt.NDArray[np.uint16]]: ...
    def expand(self, priors: npt.NDArray[np.float32], values: npt.NDArray[np.float32]) -> None: ...
    def leaf_states(self) -> list[State]: ...
    def finished(self) -> npt.NDArray[np.bool_]: ...
    def result(
        self, tree: int
    ) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float32], npt.NDArray[np.float32], float, int, int]: ...
    def root_state(self, tree: int) -> State: ...
    def num_legal(self, tree: int) -> int: ...
    def num_nodes(self, tree: int) -> int: ...
    def num_in_flight(self, tree: int) -> int: ...
    @property
    def num_simulations_total(self) -> int: ...
    @property
    def num_uniform_rows(self) -> int: ...
    @property
    def num_bytes(self) -> int: ...

@final
class Connect4Pool(_Pool):
    """Trees of Connect Four."""

    def __init__(
        self,
        *,
        num_trees: int,
        num_simulations: int,
        leaves_per_tree: int,
        log_exploration: bool,
        c_init: float,
        c_base: float,
        parent_urgency: bool,
        fpu_value: float,
        reuse_limit: float,
        max_nodes: int,
        dirichlet_fraction: float,
    ) -> None: ...

@final
class TicTacToePool(_Pool):
    """Trees of tic-tac-toe."""

    def __init__(
        self,
        *,
        num_trees: int,
        num_simulations: int,
        leaves_per_tree: int,
        log_exploration: bool,
        c_init: float,
        c_base: float,
        parent_urgency: bool,
        fpu_value: float,
        reuse_limit: float,
        max_nodes: int,
        dirichlet_fraction: float,
    ) -> None: ...

@final
class PythonPool(_Pool):
    """Trees of a game written in Python."""

    def __init__(
        self,
        game: Game,
        /,
        *,
        num_trees: int,
        num_simulations: int,
        leaves_per_tree: int,
        log_exploration: bool,
        c_init: float,
        c_base: float,
        parent_urgency: bool,
        fpu_value: float,
        reuse_limit: float,
        max_nodes: int,
        dirichlet_fraction: float,
    ) -> None: ...

def rollouts(states: list[State], seed: int) -> npt.NDArray[np.int8]: ...
def uct_search(
    state: Any, num_simulations: int, c: float, seed: int
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.float64]]: ...
def uniform_priors(legal_offsets: npt.NDArray[np.int32]) -> npt.NDArray[np.float32]: ...
