"""Toy games whose searches can be worked out by hand, and evaluators that say what a test wants them to say."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from zerofleet.games import load_game
from zerofleet.games.base import Game, GameRules, State
from zerofleet.games.python_game import adapt
from zerofleet.search.base import Evaluation, LeafBatch
from zerofleet.search.pool import SearchPool
from zerofleet.search.reference import ReferencePool

_LINES = ((0, 1, 2), (3, 4, 5), (6, 7, 8), (0, 3, 6), (1, 4, 7), (2, 5, 8), (0, 4, 8), (2, 4, 6))


class PythonTicTacToe:
    """State: (cells, player to move); a cell is 0 (empty), 1 (player 0) or 2 (player 1)."""

    name = "python-tictactoe"
    num_actions = 9
    observation_shape = (2, 3, 3)
    rules_version = 1

    def initial_state(self) -> State:
        return ((0,) * 9, 0)

    def to_play(self, state: State) -> int:
        return int(state[1])

    def legal_moves(self, state: State) -> list[int]:
        return [] if self.terminal_value(state) is not None else [i for i in range(9) if state[0][i] == 0]

    def next_state(self, state: State, move: Any) -> State:
        cells, player = state
        return ((*cells[:move], player + 1, *cells[move + 1 :]), 1 - player)

    def terminal_value(self, state: State) -> int | None:
        cells, player = state
        for a, b, c in _LINES:
            if cells[a] != 0 and cells[a] == cells[b] == cells[c]:
                return 1 if cells[a] == player + 1 else -1
        return 0 if 0 not in cells else None

    def encode(self, state: State) -> Any:
        cells = np.array(state[0]).reshape(3, 3)
        return np.stack([cells == state[1] + 1, cells == 2 - state[1]]).astype(np.uint8)

    def move_index(self, move: Any) -> int:
        return int(move)


class Race:
    """Players add 1, 2 or 3 to a total: who reaches 10 exactly wins, 11 is a draw, and 12 loses.

    Player 1 always moves twice in a row: the players at plies 0, 1, 2, 3, ... are 0, 1, 1, 0, 1, 1, ...
    State: (total, ply).
    """

    name = "race"
    num_actions = 3
    observation_shape = (1, 4, 4)
    rules_version = 1

    def initial_state(self) -> State:
        return (0, 0)

    def to_play(self, state: State) -> int:
        return 0 if state[1] % 3 == 0 else 1

    def legal_moves(self, state: State) -> list[int]:
        return [] if state[0] >= 10 else [1, 2, 3]

    def next_state(self, state: State, move: Any) -> State:
        return (state[0] + move, state[1] + 1)

    def terminal_value(self, state: State) -> int | None:
        total, ply = state
        if total < 10:
            return None
        value_for_mover = (1, 0, -1)[total - 10]
        return value_for_mover if self.to_play(state) == self.to_play((0, ply - 1)) else -value_for_mover

    def encode(self, state: State) -> Any:
        planes = np.zeros(16, np.uint8)
        planes[state[0]] = 1
        planes[13 + state[1] % 3] = 1
        return planes.reshape(1, 4, 4)

    def move_index(self, move: Any) -> int:
        return int(move) - 1


class Twins:
    """Players in turn take 1 or 2 of seven coins; who is to move when none is left loses.

    A coin may be taken in two ways, "1" and "one": two moves, one action.  After "one" the same player moves again.
    State: (coins, player to move).
    """

    name = "twins"
    num_actions = 2
    observation_shape = (1, 3, 3)
    rules_version = 1

    def initial_state(self) -> State:
        return (7, 0)

    def to_play(self, state: State) -> int:
        return int(state[1])

    def legal_moves(self, state: State) -> list[str]:
        return ["1", "one", "2"][: (0, 2, 3)[min(state[0], 2)]]

    def next_state(self, state: State, move: Any) -> State:
        coins, player = state
        return (coins - (2 if move == "2" else 1), player if move == "one" else 1 - player)

    def terminal_value(self, state: State) -> int | None:
        return None if state[0] > 0 else -1

    def encode(self, state: State) -> Any:
        planes = np.zeros(9, np.uint8)
        planes[state[0]] = 1
        planes[8] = state[1]
        return planes.reshape(1, 3, 3)

    def move_index(self, move: Any) -> int:
        return 1 if move == "2" else 0


class Walk:
    """A token steps left or right on an endless line; nobody ever wins.  State: (place, ply)."""

    name = "walk"
    num_actions = 2
    observation_shape = (1, 1, 17)
    rules_version = 1

    def initial_state(self) -> State:
        return (0, 0)

    def to_play(self, state: State) -> int:
        return int(state[1]) % 2

    def legal_moves(self, state: State) -> list[int]:
        return [-1, 1]

    def next_state(self, state: State, move: Any) -> State:
        return (state[0] + move, state[1] + 1)

    def terminal_value(self, state: State) -> int | None:
        return None

    def encode(self, state: State) -> Any:
        planes = np.zeros((1, 1, 17), np.uint8)
        planes[0, 0, 8 + max(-8, min(8, state[0]))] = 1
        return planes

    def move_index(self, move: Any) -> int:
        return 0 if move == -1 else 1


class FunctionEvaluator:
    """Answers each leaf with `answer(state)`: priors in the order of its legal moves, and a value for its player."""

    def __init__(self, answer: Callable[[State], tuple[Sequence[float], float]]) -> None:
        self._answer = answer
        self.seen: list[State] = []

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        states = batch.source.leaf_states()
        self.seen.extend(states)
        answers = [self._answer(state) for state in states]
        return Evaluation(
            priors=np.array([prior for priors, _ in answers for prior in priors], np.float32),
            values=np.array([value for _, value in answers], np.float32),
        )


@pytest.fixture(params=[ReferencePool, SearchPool], ids=["reference", "native"])
def pool_type(request: pytest.FixtureRequest) -> Any:
    """Both trees: what is said of the search holds for each."""
    return request.param


@pytest.fixture(scope="session")
def toy_games() -> dict[str, Game]:
    rules: dict[str, GameRules] = {"tictactoe": PythonTicTacToe(), "race": Race(), "twins": Twins(), "walk": Walk()}
    return {name: adapt(game, f"toys.py:{type(game).__name__}") for name, game in rules.items()}


@pytest.fixture(scope="session")
def function_evaluator() -> type[FunctionEvaluator]:
    return FunctionEvaluator


@pytest.fixture(scope="session")
def connect4() -> Game:
    return load_game("connect4")
