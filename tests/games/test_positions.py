"""Positions to measure with: their values are right, their stages too, and a wrong file is refused by line."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from zerofleet.errors import GameError, UsageError
from zerofleet.games import load_game
from zerofleet.games.positions import plies_to_end, random_positions, read_positions, solved_positions, stage_of
from zerofleet.games.solvers import Connect4Solver, Minimax, reachable_positions

CONNECT4 = load_game("connect4")
TICTACTOE = load_game("tictactoe")
PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "connect4"


@pytest.mark.parametrize(
    ("num_stones", "score", "plies"),
    [
        (6, 18, 1),  # the fourth stone of 21 leaves 17
        (7, 18, 1),
        (5, -18, 2),  # the opponent, who moves first, wins with its fourth: two moves
        (6, -17, 4),  # the opponent moves second; its fifth stone is the tenth of all
        (40, 0, 2),
        (0, 1, 41),  # the first player's last stone
    ],
)
def test_how_far_the_end_is(num_stones: int, score: int, plies: int) -> None:
    assert plies_to_end(num_stones, score) == plies


def test_stages_by_their_bounds() -> None:
    assert stage_of(14, 0) == "begin-medium"  # 28 plies are left
    assert stage_of(13, 0) == "begin-hard"
    assert stage_of(15, 0) == "middle-medium"
    assert stage_of(28, 0) == "middle-easy"  # 14 plies
    assert stage_of(29, 0) == "end-easy"
    assert stage_of(6, 18) == "begin-easy"


@pytest.mark.parametrize(("name", "stage"), [(name, name) for name in ("end-easy", "middle-easy", "begin-easy")])
@pytest.mark.skipif(not PUBLISHED.is_dir(), reason="shared/data/connect4 is not here")
def test_published_sets_have_the_stage_of_their_name(name: str, stage: str) -> None:
    lines = [line.split() for line in (PUBLISHED / f"{name}.txt").read_text().splitlines()]
    assert {stage_of(len(moves), int(score)) for moves, score in lines} == {stage}


def test_drawn_positions_are_of_their_stage_and_solved_right() -> None:
    solver = Connect4Solver()
    stages = ("begin-easy", "middle-easy", "middle-medium", "end-easy")
    positions = solved_positions(CONNECT4, solver, seed=3, num_each=20, stages=stages)
    assert [position.stage for position in positions] == [stage for stage in stages for _ in range(20)]
    assert len({position.state for position in positions}) == 80
    scores = Connect4Solver().scores([position.state for position in positions]).tolist()
    assert [position.value for position in positions] == np.sign(scores).tolist()
    for position, score in zip(positions, scores, strict=True):
        assert stage_of(position.state.num_moves, score) == position.stage
    again = solved_positions(CONNECT4, Connect4Solver(), seed=3, num_each=20, stages=stages)
    assert again == positions
    assert solved_positions(CONNECT4, solver, seed=4, num_each=20, stages=stages) != positions


def test_a_score_is_told_only_where_the_end_is_near() -> None:
    solver = Connect4Solver()
    rng = np.random.default_rng(2)
    told = 0
    for _ in range(60):
        state = CONNECT4.initial_state()
        for _ in range(int(rng.integers(16, 36))):
            moves = CONNECT4.legal_moves(state)
            if not moves:
                break
            state = CONNECT4.next_state(state, moves[int(rng.integers(len(moves)))])
        if CONNECT4.terminal_value(state) is not None:
            continue
        (score,) = Connect4Solver().scores([state]).tolist()
        for plies in (1, 4, 9, 14):
            is_near = plies_to_end(state.num_moves, score) <= plies
            assert solver.score_within(state, plies) == (score if is_near else None)
            told += is_near
    assert told > 40


def test_tic_tac_toe_is_measured_everywhere() -> None:
    positions = solved_positions(TICTACTOE, Minimax(TICTACTOE), seed=1, num_each=5)
    assert len(positions) == 4520
    assert len(reachable_positions(TICTACTOE)) == 5478


def test_games_without_a_solver_and_unknown_stages_are_refused() -> None:
    with pytest.raises(UsageError, match="no stage 'late-easy'"):
        solved_positions(CONNECT4, Connect4Solver(), seed=1, num_each=1, stages=["late-easy"])
    other = load_game(f"{Path(__file__).resolve().parents[2] / 'examples' / 'domineering.py'}:Domineering")
    with pytest.raises(GameError, match="give a file"):
        solved_positions(other, Minimax(other), seed=1, num_each=1)


def test_a_file_of_positions_is_read(tmp_path: Path) -> None:
    path = tmp_path / "positions.txt"
    path.write_text("# moves score\n112233 18\n\n22334 -18  # both ends\n")
    positions = read_positions(CONNECT4, Connect4Solver(), path)
    assert [(position.value, position.stage) for position in positions] == [(1, "begin-easy"), (-1, "begin-easy")]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("112233 18\n11x 3", "line 2: expected moves as digits from 1, got 'x'"),
        ("112233", "line 1: expected `moves score`, got 1 words"),
        ("1111111 0", "line 1: move 0 is not legal"),
        ("8 0", "line 1: move 7 is not legal"),
        ("1122334 -18", "line 1: the game is over"),
        ("112233 0", r"line 1: score 0 is wrong: the position is worth \+1"),
        ("112233 many", "line 1: invalid literal"),
        ("# nothing", "holds no position"),
    ],
)
def test_a_wrong_file_is_refused_with_its_line(tmp_path: Path, text: str, message: str) -> None:
    path = tmp_path / "positions.txt"
    path.write_text(text)
    with pytest.raises(UsageError, match=message):
        read_positions(CONNECT4, Connect4Solver(), path)
    with pytest.raises(UsageError, match="No such file"):
        read_positions(CONNECT4, Connect4Solver(), tmp_path / "absent.txt")


def test_random_positions_are_unfinished_and_the_same_every_time() -> None:
    states = random_positions(CONNECT4, 100, seed=3)
    assert len(states) == 100
    assert states[0] == CONNECT4.initial_state()
    assert all(CONNECT4.terminal_value(state) is None for state in states)
    assert states == random_positions(CONNECT4, 100, seed=3)
    assert states != random_positions(CONNECT4, 100, seed=4)
    assert random_positions(CONNECT4, 0, seed=3) == []
