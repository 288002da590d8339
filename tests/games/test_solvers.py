"""Perfect play: against what is known by heart, plain minimax, and published scores."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zerofleet.errors import UsageError
from zerofleet.games import load_game
from zerofleet.games.base import State
from zerofleet.games.solvers import Connect4Solver, Minimax, minimax_value, solver_for

GAME = load_game("tictactoe")
CONNECT4 = load_game("connect4")
PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "connect4"


@pytest.fixture(scope="module")
def solver() -> Connect4Solver:
    return Connect4Solver()


def played(columns: str) -> State:
    """Return the position of Connect Four after moves in columns 1 to 7."""
    state = CONNECT4.initial_state()
    for column in columns:
        state = CONNECT4.next_state(state, int(column) - 1)
    return state


def random_position(rng: np.random.Generator, num_moves: int) -> State | None:
    """Return a position of a random game after so many moves, None where it was over before."""
    state = CONNECT4.initial_state()
    for _ in range(num_moves):
        moves = CONNECT4.legal_moves(state)
        if not moves:
            return None
        state = CONNECT4.next_state(state, moves[int(rng.integers(len(moves)))])
    return state


@pytest.mark.parametrize(
    ("moves", "value", "best"),
    [
        ([], 0, list(range(9))),
        ([4], 0, [0, 2, 6, 8]),  # against the middle only a corner holds
        ([0, 1], 1, [3, 4, 6]),  # an edge next to the corner loses
        ([0, 4, 1], 0, [2]),  # the row must be blocked
        ([0, 3, 1, 4], 1, [2]),  # the row wins at once; so does nothing else
    ],
)
def test_values_and_moves_known_by_heart(moves: list[int], value: int, best: list[int]) -> None:
    state = GAME.initial_state()
    for move in moves:
        state = GAME.next_state(state, move)
    assert minimax_value(GAME, state) == value
    assert Minimax(GAME).best_moves(state) == best


@pytest.mark.parametrize(
    ("columns", "score"),
    [
        ("112233", 18),  # wins with the fourth of 21 stones, and has 17 left
        ("1122334", -18),  # and so has lost who would be next
        ("22334", -18),  # cannot hold both ends
        ("223344", 18),
    ],
)
def test_scores_worked_by_hand(solver: Connect4Solver, columns: str, score: int) -> None:
    assert solver.scores([played(columns)]).tolist() == [score]


@pytest.mark.parametrize("name", ["end-easy", "middle-easy", "begin-easy"])
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="shared/data/connect4 is not here")
def test_published_scores(name: str) -> None:
    """All 500 positions of a set, and their mirror images."""
    lines = [line.split() for line in (PUBLISHED / f"{name}.txt").read_text().splitlines()]
    scores = [int(score) for _columns, score in lines]
    assert len(scores) == 500
    for mirror in (False, True):
        states = [played("".join(str(8 - int(c)) for c in columns) if mirror else columns) for columns, _ in lines]
        assert Connect4Solver().scores(states).tolist() == scores
        assert Connect4Solver().values(states).tolist() == np.sign(scores).tolist()


def plain_score(state: State) -> int:
    """Return the score by trying everything."""
    value = CONNECT4.terminal_value(state)
    if value is not None:
        num_stones = state.num_moves
        return value * (22 - (num_stones + 1) // 2)
    return max(-plain_score(CONNECT4.next_state(state, move)) for move in CONNECT4.legal_moves(state))


def test_the_solver_agrees_with_trying_everything(solver: Connect4Solver) -> None:
    rng = np.random.default_rng(5)
    states = [state for _ in range(4000) if (state := random_position(rng, int(rng.integers(32, 43)))) is not None]
    assert len(states) > 100
    assert solver.scores(states).tolist() == [plain_score(state) for state in states]
    oracle = Minimax(CONNECT4)
    for state in states:
        assert solver.value(state) == oracle.value(state)
        if CONNECT4.legal_moves(state):
            best, value = oracle.best_moves(state), oracle.value(state)
            assert solver.best_moves(state) == best
            for move in CONNECT4.legal_moves(state):
                kept = oracle.move_value(state, move)
                for wanted in (-1, 0, 1):
                    assert solver.keeps(state, move, wanted) == oracle.keeps(state, move, wanted) == (kept >= wanted)
                assert solver.keeps(state, move, value) == (move in best)


def test_a_position_is_worth_what_its_best_move_is_worth(solver: Connect4Solver) -> None:
    rng = np.random.default_rng(6)
    for num_moves in range(18, 42):
        state = random_position(rng, num_moves)
        if state is None or CONNECT4.terminal_value(state) is not None:
            continue
        children = [CONNECT4.next_state(state, move) for move in CONNECT4.legal_moves(state)]
        assert solver.scores([state])[0] == max(-solver.scores(children))
        assert solver.value(state) == max(-solver.values(children))


def test_a_table_that_is_far_too_small_changes_nothing() -> None:
    rng = np.random.default_rng(7)
    states = [state for _ in range(60) if (state := random_position(rng, 20)) is not None]
    assert Connect4Solver(table_mib=1).scores(states).tolist() == Connect4Solver(table_mib=64).scores(states).tolist()


def test_who_can_be_solved() -> None:
    assert isinstance(solver_for(CONNECT4), Connect4Solver)
    assert isinstance(solver_for(GAME), Minimax)
    with pytest.raises(UsageError, match="1 MiB or more"):
        Connect4Solver(0)
