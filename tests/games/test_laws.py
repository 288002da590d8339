"""The law checker finds each broken law and names its method."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import GameError
from zerofleet.games.base import Game, State, Symmetry
from zerofleet.games.laws import check_laws, transform_policy
from zerofleet.games.python_game import adapt
from zerofleet.games.symmetry import board_symmetries


def free(state: State) -> list[int]:
    return [cell for cell in range(4) if state[cell] == 0]


class Corners:
    """Two players fill the four corners of a 2 by 2 board; the game ends in a draw.  State: the cells."""

    name = "corners"
    num_actions = 4
    observation_shape = (2, 2, 2)
    rules_version = 1

    def initial_state(self) -> State:
        return (0, 0, 0, 0)

    def to_play(self, state: State) -> int:
        return sum(cell != 0 for cell in state) % 2

    def legal_moves(self, state: State) -> list[int]:
        return free(state)

    def next_state(self, state: State, move: Any) -> State:
        cells = list(state)
        cells[move] = self.to_play(state) + 1
        return tuple(cells)

    def terminal_value(self, state: State) -> int | None:
        return None if 0 in state else 0

    def encode(self, state: State) -> Any:
        cells = np.array(state).reshape(2, 2)
        return np.stack([cells == self.to_play(state) + 1, cells == 2 - self.to_play(state)])

    def move_index(self, move: Any) -> int:
        return int(move)

    def symmetries(self) -> list[Symmetry]:
        return board_symmetries(2, 2)


def broken(**members: Any) -> Game:
    return adapt(type("Broken", (Corners,), members)(), "broken")


def test_a_sound_game_passes() -> None:
    check_laws(adapt(Corners(), "corners"), num_games=20, seed=0)


def mutating_next_state(self: Any, state: State, move: Any) -> State:
    state[move] = sum(cell != 0 for cell in state) % 2 + 1
    return state


def swapped(self: Any) -> list[Symmetry]:
    mirror = board_symmetries(2, 2, names=["mirror"])[0]
    return [Symmetry(name="mirror", squares=mirror.squares, actions=np.arange(4))]


def inverted(self: Any) -> list[Symmetry]:
    turn, back = board_symmetries(2, 2, names=["quarter turn", "three-quarter turn"])
    return [Symmetry(name="turn", squares=turn.squares, actions=back.actions)]


_calls = itertools.count()

CASES: list[tuple[str, dict[str, Callable[..., Any]]]] = [
    ("initial_state", {"terminal_value": lambda self, state: 0}),
    ("to_play: player 0", {"to_play": lambda self, state: 1}),
    ("to_play: must be 0 or 1", {"to_play": lambda self, state: sum(cell != 0 for cell in state)}),
    ("terminal_value: must be", {"terminal_value": lambda self, state: None if 0 in state else 2}),
    ("legal_moves: must be empty exactly", {"terminal_value": lambda self, state: None}),
    ("legal_moves: must be empty exactly", {"terminal_value": lambda self, state: 0 if sum(state) > 1 else None}),
    ("legal_moves: moves must be hashable", {"legal_moves": lambda self, state: [[c] for c in free(state)],
                                             "move_index": lambda self, move: move[0]}),
    ("legal_moves: lists a move twice", {"legal_moves": lambda self, state: free(state)[:1] + free(state)}),
    ("legal_moves: asked twice", {"legal_moves": lambda self, state: free(state)[:: 1 - 2 * (next(_calls) % 2)]}),
    ("move_index", {"move_index": lambda self, move: move + 1}),
    ("encode", {"encode": lambda self, state: np.zeros((2, 2))}),
    ("encode: asked twice|encode_batch", {"encode": lambda self, state: np.full((2, 2, 2), next(_calls) % 2)}),
    ("encode_batch", {"encode_batch": lambda self, states: np.ones((len(states), 2, 2, 2), np.uint8)}),
    ("next_state must leave", {"initial_state": lambda self: [0, 0, 0, 0], "next_state": mutating_next_state}),
    ("symmetries: 'mirror'", {"symmetries": swapped}),
    ("symmetries: 'turn'", {"symmetries": inverted}),
]  # fmt: skip


@pytest.mark.parametrize(("message", "members"), CASES)
def test_a_broken_law_is_named(message: str, members: dict[str, Any]) -> None:
    """Faults 68 and 156: a wrong symmetry is rejected with the position that shows it; so is every other broken law."""
    with pytest.raises(GameError, match=message):
        check_laws(broken(**members), num_games=20, seed=0)


def test_an_endless_game_is_an_error_not_a_hang(monkeypatch: pytest.MonkeyPatch) -> None:
    class Endless(Corners):
        def legal_moves(self, state: State) -> list[int]:
            return [0]

        def next_state(self, state: State, move: Any) -> State:
            return state

        def symmetries(self) -> list[Symmetry]:
            return []

    monkeypatch.setattr("zerofleet.games.laws._MAX_PLIES", 50)
    with pytest.raises(GameError, match="must end within 50 moves"):
        check_laws(adapt(Endless(), "endless"), num_games=1, seed=0)


def test_a_pass_stays_in_place_under_every_symmetry() -> None:
    """Fault 65."""
    policy = np.array([0.2, 0.1, 0.2, 0.13, 0.37])
    for symmetry in board_symmetries(2, 2, fixed_actions=1):
        image = transform_policy(symmetry, policy)
        assert image[4] == 0.37
        assert image.sum() == pytest.approx(1.0)


@pytest.mark.parametrize("name", ["quarter turn", "transpose", "antitranspose", "three-quarter turn"])
def test_a_board_that_is_no_square_has_no_transposing_symmetry(name: str) -> None:
    """Fault 67."""
    with pytest.raises(GameError, match="swaps rows and columns"):
        board_symmetries(6, 7, names=[name])


def test_a_symmetry_that_is_no_permutation_is_refused() -> None:
    def wrong(self: Any) -> list[Symmetry]:
        return [Symmetry(name="fold", squares=np.zeros(4, np.int64), actions=np.arange(4))]

    with pytest.raises(GameError, match="squares of 'fold' must be a permutation"):
        broken(symmetries=wrong)
