"""Searches from start to end, and the evaluators that need no network."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zerofleet.errors import TerminalStateError
from zerofleet.games import load_game
from zerofleet.games.base import Game
from zerofleet.search.base import SearchConfig, SearchResult
from zerofleet.search.evaluators import RolloutEvaluator, UniformEvaluator
from zerofleet.search.pool import SearchPool
from zerofleet.search.search import run_searches, search, search_many


def same(one: SearchResult, two: SearchResult) -> bool:
    return (
        one.visit_counts.tobytes() == two.visit_counts.tobytes()
        and one.q_values.tobytes() == two.q_values.tobytes()
        and one.root_value == two.root_value
    )


def test_the_same_arguments_give_the_same_result(connect4: Game) -> None:
    config = SearchConfig(num_simulations=200, leaves_per_tree=4)
    results = [
        search(connect4, connect4.initial_state(), RolloutEvaluator(connect4, seed), config) for seed in (1, 1, 2)
    ]
    assert same(results[0], results[1])
    assert not same(results[0], results[2])


def test_positions_searched_side_by_side_are_searched_alike(connect4: Game) -> None:
    states = [connect4.initial_state()]
    for move in (3, 2, 3, 2, 3):
        states.append(connect4.next_state(states[-1], move))
    config = SearchConfig(num_simulations=120, leaves_per_tree=3)
    together = search_many(connect4, states, UniformEvaluator(), config)
    for state, result in zip(states, together, strict=True):
        assert same(result, search(connect4, state, UniformEvaluator(), config))
    # at the last one player 1 must block column 3, where player 0 has three
    assert together[-1].visit_counts.argmax() == 3


def test_a_search_of_many_leaves_gives_one_answer_in_any_company(connect4: Game) -> None:
    """Fault 49: ten repeats with 16 leaves at once, beside none to nine other trees: no spread at all."""
    state = connect4.next_state(connect4.next_state(connect4.initial_state(), 3), 3)
    config = SearchConfig(num_simulations=256, leaves_per_tree=16)
    others = [connect4.next_state(state, move) for move in (0, 1, 2, 4, 5, 6, 0, 1, 2)]
    answers = [search_many(connect4, [*others[:k], state], UniformEvaluator(), config)[-1] for k in range(10)]
    assert all(same(answer, answers[0]) for answer in answers)


def test_noise_changes_a_search_and_is_given_not_drawn(connect4: Game) -> None:
    noise = np.eye(7, dtype=np.float32)[6]
    config = SearchConfig(num_simulations=50)
    state = connect4.initial_state()
    plain = search(connect4, state, UniformEvaluator(), config)
    noised = search(connect4, state, UniformEvaluator(), config, noise=noise, dirichlet_fraction=0.5)
    again = search(connect4, state, UniformEvaluator(), config, noise=noise, dirichlet_fraction=0.5)
    assert noised.visit_counts[6] > plain.visit_counts[6]
    assert same(noised, again)
    assert noised.priors.tobytes() == plain.priors.tobytes()


def test_a_finished_position_is_refused(toy_games: dict[str, Game]) -> None:
    with pytest.raises(TerminalStateError):
        search(toy_games["race"], (12, 3), UniformEvaluator(), SearchConfig())


def test_released_trees_hold_nothing(connect4: Game) -> None:
    """Fault 50: after many games no node is left, and the memory does not grow."""
    pool = SearchPool(connect4, 4, SearchConfig(num_simulations=60))
    sizes = []
    for _ in range(20):
        for tree in range(4):
            pool.reset(tree, connect4.initial_state())
        for _ in range(3):
            run_searches(pool, UniformEvaluator())
            for tree in range(4):
                pool.advance(tree, int(pool.result(tree).visit_counts.argmax()))
        for tree in range(4):
            pool.release(tree)
        assert [pool.num_nodes(tree) for tree in range(4)] == [0] * 4
        sizes.append(pool.num_bytes)
    assert sizes[-1] == sizes[0]


@pytest.mark.parametrize("move", [0, 1, 2])
def test_playing_a_move_keeps_its_subtree_alone(pool_type: Any, toy_games: dict[str, Game], move: int) -> None:
    """Fault 51: as many nodes as the move had visits: one for its position and one for each below it."""
    game = toy_games["tictactoe"]
    pool = pool_type(game, 1, SearchConfig(num_simulations=60, reuse_limit=10.0))
    pool.reset(0, game.initial_state())
    run_searches(pool, UniformEvaluator())
    visits = int(pool.result(0).visit_counts[move])
    assert visits > 1
    pool.advance(0, move)
    # no line of 60 simulations from the empty board is decided, so every visit made a node
    assert pool.num_nodes(0) == visits
    assert pool.result(0).num_reused == visits - 1


def test_uniform_answers_know_nothing(connect4: Game) -> None:
    pool = SearchPool(connect4, 3, SearchConfig())
    for tree in range(3):
        pool.reset(tree, connect4.initial_state())
    evaluation = UniformEvaluator().evaluate(pool.collect())
    assert evaluation.priors.tolist() == [np.float32(1) / np.float32(7)] * 21
    assert evaluation.values.tolist() == [0.0] * 3
    assert evaluation.priors.dtype == evaluation.values.dtype == np.float32


@pytest.mark.parametrize("name", ["tictactoe", "toy tictactoe"])
def test_rollout_values_are_for_the_player_to_move(toy_games: dict[str, Game], name: str) -> None:
    """Player 0 wins at 2 and at 8: whatever player 1 does at 2 or 8, every game is lost for him, and won for player 0.

    X X .
    O X O
    X O .
    """
    game = toy_games["tictactoe"] if name.startswith("toy") else load_game(name)
    state = game.initial_state()
    for move in (0, 3, 1, 5, 4, 7, 6):
        state = game.next_state(state, move)
    pool = SearchPool(game, 2, SearchConfig())
    pool.reset(0, state)
    pool.reset(1, game.next_state(state, 2))
    evaluator = RolloutEvaluator(game, 3)
    batch = pool.collect()
    for _ in range(20):
        evaluation = evaluator.evaluate(batch)
        assert evaluation.values.tolist() == [-1.0, 1.0]
        assert evaluation.priors.tolist() == [0.5, 0.5, 1.0]
