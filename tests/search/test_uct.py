"""UCT: UCB1 worked by hand, whose result it is, and the strength that matches rest on."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt
import pytest

from zerofleet.errors import TerminalStateError, UsageError
from zerofleet.games import load_game
from zerofleet.games.base import Game, State
from zerofleet.search.rollouts import rollout_outcomes
from zerofleet.search.uct import SQRT_2, UctResult, uct_search, uct_search_in_python


def test_every_move_is_tried_once_in_order_before_ucb1_decides(toy_games: dict[str, Game]) -> None:
    game = toy_games["race"]
    for count in range(4):
        result = uct_search_in_python(game, (0, 0), count, outcome_fn=lambda state: 0)
        assert result.visit_counts.tolist() == [1] * count + [0] * (3 - count)
        assert result.mean_values[:count].tolist() == [0.5] * count
        assert np.isnan(result.mean_values[count:]).all()


def test_ucb1_by_hand(toy_games: dict[str, Game]) -> None:
    """Race at 9: the three moves win (1), draw (1/2) and lose (0) at once; with c = sqrt 2 and n of N visits.

    N = 4, n = 2 1 1: 1 + sqrt(2 ln 4 / 2) = 2.177 is above 1/2 + sqrt(2 ln 4) = 2.165
    N = 5, n = 3 1 1: 1 + sqrt(2 ln 5 / 3) = 2.036 is below 1/2 + sqrt(2 ln 5) = 2.294
    N = 6, n = 3 2 1: 2.093, 1.839 and 0 + sqrt(2 ln 6) = 1.893
    """
    expected = {3: [1, 1, 1], 4: [2, 1, 1], 5: [3, 1, 1], 6: [3, 2, 1], 7: [4, 2, 1]}
    for count, visits in expected.items():
        result = uct_search(toy_games["race"], (9, 0), count, seed=0)
        assert result.visit_counts.tolist() == visits
        assert result.mean_values.tolist() == [1.0, 0.5, 0.0]


def test_native_and_python_agree_exactly_where_rollouts_are_forced(toy_games: dict[str, Game]) -> None:
    """Tic-tac-toe with two free cells: every game from there is decided by its first move."""
    python, native = toy_games["tictactoe"], load_game("tictactoe")
    rng = np.random.default_rng(2)
    compared = 0
    while compared < 60:
        moves = rng.permutation(9)[:7].tolist()
        states = []
        for game in (python, native):
            state = game.initial_state()
            for move in moves:
                if game.terminal_value(state) is None:
                    state = game.next_state(state, move)
            states.append(state)
        if native.terminal_value(states[1]) is not None:
            continue
        compared += 1
        for count in (1, 2, 3, 10, 57):
            one, two = uct_search(python, states[0], count, seed=1), uct_search(native, states[1], count, seed=2)
            assert one.visit_counts.tolist() == two.visit_counts.tolist()
            assert np.array_equal(one.mean_values, two.mean_values, equal_nan=True)


@pytest.mark.parametrize("name", ["tictactoe", "toy tictactoe"])
def test_a_win_in_one_is_found_by_either_player(toy_games: dict[str, Game], name: str) -> None:
    """Fault 1: the result counts for the player who chooses."""
    game = toy_games["tictactoe"] if name.startswith("toy") else load_game(name)
    for moves, win in (([0, 3, 1, 4], 2), ([8, 0, 4, 1, 5], 2)):  # player 0 to move, player 1 to move
        state = game.initial_state()
        for move in moves:
            state = game.next_state(state, move)
        result = uct_search(game, state, 400, seed=3)
        assert game.legal_moves(state)[result.best()] == win
        assert result.mean_values[result.best()] == 1.0
        assert result.visit_counts.sum() == 400


def test_a_player_who_moves_twice_keeps_his_results(toy_games: dict[str, Game]) -> None:
    """At (8, 1) player 1 has two moves in a row: 1 and then 1 wins, so does 2 at once; 3 draws."""
    result = uct_search(toy_games["race"], (8, 1), 2000, seed=1)
    assert result.mean_values[1] == 1.0
    assert result.mean_values[2] == 0.5
    assert result.mean_values[0] > 0.9  # learnt inside the tree: his own best second move


def test_the_same_seed_gives_the_same_search(toy_games: dict[str, Game]) -> None:
    for game in (load_game("connect4"), toy_games["race"]):
        one, two, other = (uct_search(game, game.initial_state(), 200, seed=seed) for seed in (5, 5, 6))
        assert one.visit_counts.tolist() == two.visit_counts.tolist()
        assert np.array_equal(one.mean_values, two.mean_values, equal_nan=True)
        assert one.visit_counts.tolist() != other.visit_counts.tolist()


def test_native_and_python_agree_on_average(toy_games: dict[str, Game]) -> None:
    """Tic-tac-toe from the empty board, 60 searches of each: mean visits and values of corner, edge and centre.

    The tolerance is four standard errors of the difference.
    """
    python, native = toy_games["tictactoe"], load_game("tictactoe")
    found = []
    for game in (python, native):
        searches = [uct_search(game, game.initial_state(), 90, seed=seed) for seed in range(60)]
        found.append([_by_kind(search.visit_counts.astype(float)) for search in searches])
        found.append([_by_kind(search.mean_values) for search in searches])
    for mine, its in ((found[0], found[2]), (found[1], found[3])):
        a, b = np.array(mine), np.array(its)
        error = np.sqrt(a.var(axis=0) / len(a) + b.var(axis=0) / len(b))
        assert (np.abs(a.mean(axis=0) - b.mean(axis=0)) < 4 * error + 1e-9).all()


def _by_kind(cells: npt.NDArray[np.float64]) -> list[float]:
    return [cells[[0, 2, 6, 8]].mean(), cells[[1, 3, 5, 7]].mean(), cells[4]]


def test_the_best_move_has_most_visits_then_the_better_mean() -> None:
    def best(visits: list[int], means: list[float]) -> int:
        return UctResult(visit_counts=np.array(visits, np.int32), mean_values=np.array(means)).best()

    assert best([3, 9, 4], [0.9, 0.1, 0.5]) == 1
    assert best([5, 5, 5], [0.1, 0.9, 0.9]) == 1
    assert best([0, 0], [math.nan, math.nan]) == 0


def test_odd_inputs(toy_games: dict[str, Game]) -> None:
    for game, over in ((toy_games["race"], (10, 1)), (load_game("tictactoe"), _finished(load_game("tictactoe")))):
        with pytest.raises(TerminalStateError):
            uct_search(game, over, 10, seed=0)
        with pytest.raises(UsageError):
            uct_search(game, game.initial_state(), -1, seed=0)
        assert uct_search(game, game.initial_state(), 0, seed=0).visit_counts.sum() == 0


def _finished(game: Game) -> State:
    state = game.initial_state()
    for move in (0, 3, 1, 4, 2):
        state = game.next_state(state, move)
    return state


def test_rollouts_are_for_the_player_to_move(toy_games: dict[str, Game]) -> None:
    """Finished positions have their own value; one ply before the end the outcomes are those of the moves."""
    game = toy_games["race"]
    over = [(10, 1), (11, 1), (12, 1), (10, 2)]  # moved by player 0 and then 1; plies 1 and 2 are player 1's
    assert rollout_outcomes(game, over, seed=0).tolist() == [-1, 0, 1, 1]
    assert set(rollout_outcomes(game, [(9, 0)] * 100, seed=1).tolist()) == {-1, 0, 1}
    connect4 = load_game("connect4")
    lost = connect4.initial_state()
    for move in (0, 1, 0, 1, 0, 1, 0):
        lost = connect4.next_state(lost, move)
    assert rollout_outcomes(connect4, [lost] * 3, seed=0).tolist() == [-1, -1, -1]


def test_rollouts_repeat_and_are_fair() -> None:
    """From the empty tic-tac-toe board random play wins 58.5 %, draws 12.7 % and loses 28.8 % (counted exactly)."""
    game = load_game("tictactoe")
    starts = [game.initial_state()] * 20_000
    outcomes = rollout_outcomes(game, starts, seed=4)
    assert outcomes.dtype == np.int8
    assert outcomes.tolist() == rollout_outcomes(game, starts, seed=4).tolist()
    for outcome, share in ((1, 0.585), (0, 0.127), (-1, 0.288)):
        assert np.mean(outcomes == outcome) == pytest.approx(share, abs=0.015)  # four standard errors


def test_more_simulations_play_better() -> None:
    """Connect Four: from three in a row with one open end the block is found, always."""
    game = load_game("connect4")
    state = game.initial_state()
    for move in (0, 3, 0, 3, 6, 3):  # player 1 threatens column 3; player 0 to move
        state = game.next_state(state, move)
    choices = [uct_search(game, state, 600, seed=seed).best() for seed in range(20)]
    assert set(choices) == {3}


def at(game: Game, *moves: int) -> State:
    state = game.initial_state()
    for move in moves:
        state = game.next_state(state, move)
    return state


def test_a_win_at_hand_takes_most_visits_by_far_within_100_simulations() -> None:
    game = load_game("tictactoe")
    state = at(game, 0, 3, 1, 4)  # 2 completes the upper row
    win = game.legal_moves(state).index(2)
    for seed in range(50):
        visits = uct_search(game, state, 100, seed=seed).visit_counts
        assert visits[win] > 2 * max(np.delete(visits, win))


def test_a_forced_block_is_always_found_with_exploration_and_often_missed_without() -> None:
    """Player 1 has the middle and must stop 0, 1, 2.  With c = 0 an unlucky first rollout of the block is final."""
    game = load_game("tictactoe")
    state = at(game, 0, 4, 1)
    block = game.legal_moves(state).index(2)
    found = {
        c: [uct_search(game, state, 400, c=c, seed=seed).best() == block for seed in range(100)] for c in (SQRT_2, 0.0)
    }
    assert all(found[SQRT_2])
    assert found[0.0].count(False) > 10


def test_the_tree_is_lopsided() -> None:
    game = load_game("tictactoe")
    for seed in range(10):
        visits = uct_search(game, at(game, 0, 4, 1), 1000, seed=seed).visit_counts
        assert visits.min() > 0
        assert visits.max() > 10 * visits.min()


def test_from_the_empty_board_rollouts_favour_the_first_player() -> None:
    game = load_game("tictactoe")
    for seed in range(10):
        result = uct_search(game, game.initial_state(), 1000, seed=seed)
        assert np.average(result.mean_values, weights=result.visit_counts) > 0.6
