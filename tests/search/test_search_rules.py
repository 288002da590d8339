"""What every search must do, shown on both trees: whose value it is, finished positions, budgets, odd inputs."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import IllegalMoveError, TerminalStateError, UsageError
from zerofleet.games.base import Game, State
from zerofleet.search.base import Evaluation, SearchConfig, SearchResult
from zerofleet.search.evaluators import RolloutEvaluator, UniformEvaluator
from zerofleet.search.search import run_searches

Answer = Callable[[State], tuple[Sequence[float], float]]


def searched(pool_type: Any, game: Game, state: State, evaluator: Any, config: SearchConfig) -> SearchResult:
    pool = pool_type(game, 1, config)
    pool.reset(0, state)
    run_searches(pool, evaluator)
    assert pool.finished().tolist() == [True]
    assert pool.num_in_flight(0) == 0
    result: SearchResult = pool.result(0)
    return result


def even(game: Game) -> Answer:
    """Uniform priors and a value of 0."""
    return lambda state: ([1 / len(game.legal_moves(state))] * len(game.legal_moves(state)), 0.0)


def after(game: Game, moves: Sequence[Any]) -> State:
    state = game.initial_state()
    for move in moves:
        state = game.next_state(state, move)
    return state


# --- whose value ---------------------------------------------------------------------------------------------------


def test_the_second_player_finds_a_win_in_one_and_knows_that_it_wins(
    pool_type: Any, toy_games: dict[str, Game]
) -> None:
    """Fault 1: values belong to the player to move."""
    game = toy_games["tictactoe"]
    # X . X    O (player 1) to move wins at 5, and must not look at 1, where X would win
    # O O .
    # X . .
    state = after(game, [0, 3, 2, 4, 6])
    result = searched(pool_type, game, state, UniformEvaluator(), SearchConfig(num_simulations=200, leaves_per_tree=1))
    moves = game.legal_moves(state)
    assert moves[int(result.visit_counts.argmax())] == 5
    assert result.q_values[moves.index(5)] == 1.0
    assert result.root_value > 0.9


@pytest.mark.parametrize("plies", [0, 1])
def test_a_childs_good_news_is_the_roots_bad_news(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any, plies: int
) -> None:
    """Fault 3: after one simulation of a child worth +1 to the opponent, the edge is worth -1; for both colours."""
    game = toy_games["tictactoe"]
    root = after(game, list(range(plies)))

    def answer(state: State) -> tuple[Sequence[float], float]:
        num_legal = len(game.legal_moves(state))
        return [1 / num_legal] * num_legal, 0.0 if state == root else 1.0

    config = SearchConfig(num_simulations=1)
    result = searched(pool_type, game, root, function_evaluator(answer), config)
    assert result.visit_counts.tolist() == [1] + [0] * (8 - plies)
    assert result.q_values[0] == -1.0
    assert result.root_value == -0.5  # the mean of the root's own 0 and of -1


def test_a_value_keeps_its_sign_while_the_same_player_moves_on(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """Faults 2 and 3, in a game where player 1 moves twice: plies 1 and 2 are both player 1's."""
    game = toy_games["race"]
    root = after(game, [1])  # ply 1
    assert (game.to_play(root), game.to_play(after(game, [1, 1])), game.to_play(after(game, [1, 1, 1]))) == (1, 1, 0)

    def answer(state: State) -> tuple[Sequence[float], float]:
        return [1.0, 0.0, 0.0], {1: 0.0, 2: 0.5, 3: 0.25}[state[1]]

    config = SearchConfig(num_simulations=2, leaves_per_tree=1, first_play_urgency="value", fpu_value=-1.0)
    result = searched(pool_type, game, root, function_evaluator(answer), config)
    # simulation 1: ply 2 is player 1's own, worth +0.5 to it; simulation 2: ply 3 is the opponent's, worth +0.25 to him
    assert result.visit_counts.tolist() == [2, 0, 0]
    assert result.q_values[0] == (0.5 - 0.25) / 2
    assert result.root_value == pytest.approx((0.0 + 0.5 - 0.25) / 3)


def test_a_finished_position_is_worth_to_the_root_what_the_rules_say(
    pool_type: Any, toy_games: dict[str, Game]
) -> None:
    """Faults 1 and 6: at 9 of 10 adding 1 wins, 2 draws and 3 loses, whoever is to move afterwards."""
    game = toy_games["race"]
    for ply in range(3):
        config = SearchConfig(num_simulations=60, leaves_per_tree=1, c_init=50.0)
        result = searched(pool_type, game, (9, ply), UniformEvaluator(), config)
        assert (result.visit_counts > 0).all()
        assert result.q_values.tolist() == [1.0, 0.0, -1.0]


def test_colours_swapped_give_the_same_search(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """Fault 5: an evaluator that does not see colours gives both twins the same visits and the same values."""
    game = toy_games["tictactoe"]
    cells = (1, 0, 2, 0, 1, 0, 0, 0, 2)
    swapped = tuple((0, 2, 1)[cell] for cell in cells)

    def answer(state: State) -> tuple[Sequence[float], float]:
        seen = hash(game.encode(state).tobytes()) & 0xFFFF
        moves = game.legal_moves(state)
        weights = [1.0 + (seen >> k) % 7 for k in range(len(moves))]
        return [w / sum(weights) for w in weights], seen / 0x10000 - 0.5

    config = SearchConfig(num_simulations=100, leaves_per_tree=3)
    one = searched(pool_type, game, (cells, 0), function_evaluator(answer), config)
    two = searched(pool_type, game, (swapped, 1), function_evaluator(answer), config)
    assert one.visit_counts.tolist() == two.visit_counts.tolist()
    assert np.array_equal(one.q_values, two.q_values, equal_nan=True)
    assert one.root_value == two.root_value


def test_mirrored_positions_give_mirrored_searches(pool_type: Any, connect4: Game, function_evaluator: Any) -> None:
    """An evaluator that respects the mirror, without ties, gives mirrored visits on Connect Four."""
    weights = np.array([0.05, 0.11, 0.17, 0.25, 0.19, 0.13, 0.10])

    def answer(flip: bool) -> Answer:
        def of(state: State) -> tuple[Sequence[float], float]:
            planes = connect4.encode(state)
            planes = planes[:, :, ::-1] if flip else planes
            columns = [6 - move if flip else move for move in connect4.legal_actions(state)]
            priors = weights[columns] / weights[columns].sum()
            return priors.tolist(), float(np.sin((planes * np.arange(84).reshape(2, 6, 7)).sum()))

        return of

    config = SearchConfig(num_simulations=300, leaves_per_tree=4)
    state, mirrored = after(connect4, [3, 3, 2, 5]), after(connect4, [3, 3, 4, 1])
    one = searched(pool_type, connect4, state, function_evaluator(answer(False)), config)
    two = searched(pool_type, connect4, mirrored, function_evaluator(answer(True)), config)
    assert one.visit_counts.tolist() == two.visit_counts.tolist()[::-1]
    assert one.root_value == two.root_value


# --- finished positions --------------------------------------------------------------------------------------------


def test_a_draw_is_worth_nothing_to_either_player(pool_type: Any, toy_games: dict[str, Game]) -> None:
    """Fault 6: one empty cell left, and filling it draws."""
    game = toy_games["tictactoe"]
    state = ((1, 2, 1, 1, 2, 2, 2, 1, 0), 0)
    result = searched(pool_type, game, state, UniformEvaluator(), SearchConfig(num_simulations=5))
    assert (result.visit_counts.tolist(), result.q_values.tolist(), result.root_value) == ([5], [0.0], 0.0)


def test_finished_positions_gain_visits_and_are_never_evaluated(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """Fault 9: 500 simulations one ply before the end, where every move ends the game."""
    game = toy_games["race"]
    evaluator = function_evaluator(lambda state: ([0.2, 0.3, 0.5], 0.0))
    result = searched(pool_type, game, (9, 0), evaluator, SearchConfig(num_simulations=500))
    assert evaluator.seen == [(9, 0)]
    assert result.visit_counts.sum() == 500
    assert result.visit_counts[0] > 400
    near_end = function_evaluator(even(game))
    searched(pool_type, game, (5, 0), near_end, SearchConfig(num_simulations=500))
    assert all(game.terminal_value(state) is None for state in near_end.seen)


def test_a_finished_root_is_refused(pool_type: Any, toy_games: dict[str, Game]) -> None:
    """Fault 10: there is nothing to search, and that is said at once."""
    game = toy_games["race"]
    pool = pool_type(game, 1, SearchConfig())
    with pytest.raises(TerminalStateError):
        pool.reset(0, (10, 1))
    pool.reset(0, (9, 1))
    run_searches(pool, UniformEvaluator())
    for ordinal in range(3):
        with pytest.raises(TerminalStateError):
            pool.advance(0, ordinal)
    assert pool.root_state(0) == (9, 1)  # as it was
    assert pool.finished().tolist() == [True]


# --- budgets -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("leaves", [1, 8, 64])
def test_visits_add_up_to_the_budget_however_many_leaves_fly(
    pool_type: Any, toy_games: dict[str, Game], connect4: Game, leaves: int
) -> None:
    """Fault 38: collisions are no simulations."""
    for game in (connect4, toy_games["twins"], toy_games["walk"]):
        config = SearchConfig(num_simulations=800, leaves_per_tree=leaves)
        result = searched(pool_type, game, game.initial_state(), UniformEvaluator(), config)
        assert int(result.visit_counts.sum()) == result.num_simulations == 800
        assert result.num_reused == 0


def test_no_simulations_leave_the_roots_own_evaluation(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    evaluator = function_evaluator(lambda state: ([0.5, 0.25, 0.25], 0.75))
    result = searched(pool_type, toy_games["race"], (0, 0), evaluator, SearchConfig(num_simulations=0))
    assert result.visit_counts.tolist() == [0, 0, 0]
    assert np.isnan(result.q_values).all()
    assert result.root_value == 0.75
    assert result.policy().tolist() == [0.5, 0.25, 0.25]


def test_the_first_simulation_follows_the_priors(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """Fault 31: nothing is visited yet, and still the greatest prior decides, not the lowest index."""
    evaluator = function_evaluator(lambda state: ([0.1, 0.2, 0.7], 0.0))
    for count, expected in ((1, [0, 0, 1]), (2, [0, 0, 2])):
        result = searched(pool_type, toy_games["race"], (0, 0), evaluator, SearchConfig(num_simulations=count))
        assert result.visit_counts.tolist() == expected


def test_with_noise_a_move_without_prior_that_alone_wins_is_found(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """Fault 26: the network gives the only win nothing, and it still gets most visits."""
    pool = pool_type(toy_games["race"], 1, SearchConfig(num_simulations=800), dirichlet_fraction=0.25)
    pool.reset(0, (9, 0))
    pool.set_root_noise(0, np.full(3, 1 / 3, np.float32))
    run_searches(pool, function_evaluator(lambda state: ([0.0, 0.5, 0.5], 0.0)))
    assert pool.result(0).visit_counts.argmax() == 0
    assert (pool.result(0).visit_counts > 0).all()


def test_one_legal_move_takes_every_visit(pool_type: Any, toy_games: dict[str, Game]) -> None:
    game = toy_games["tictactoe"]
    result = searched(pool_type, game, ((1, 2, 1, 1, 2, 2, 2, 1, 0), 0), UniformEvaluator(), SearchConfig())
    assert result.visit_counts.tolist() == [100]


def test_an_endless_game_is_searched_to_any_depth(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """No recursion: the tree is one line that grows deeper with each move."""
    game = toy_games["walk"]
    evaluator = function_evaluator(lambda state: ([0.0, 1.0], 0.0))
    config = SearchConfig(num_simulations=80, leaves_per_tree=1, exploration="constant", c_init=1e5)
    pool = pool_type(game, 1, config)
    pool.reset(0, game.initial_state())
    for reused in (0, 79, 158):  # the move's own first visit stays with the move
        run_searches(pool, evaluator)
        assert pool.result(0).visit_counts.tolist() == [0, reused + 80]
        assert pool.num_nodes(0) == 1 + reused + 80
        pool.advance(0, 1)
    assert pool.root_state(0) == (3, 3)


def test_a_full_tree_ends_its_search_early(pool_type: Any, connect4: Game) -> None:
    config = SearchConfig(num_simulations=100, max_nodes=20, leaves_per_tree=4)
    result = searched(pool_type, connect4, connect4.initial_state(), UniformEvaluator(), config)
    assert result.num_simulations == int(result.visit_counts.sum()) == 19  # one node each, the root aside


def test_budgets_may_differ_from_move_to_move(pool_type: Any, connect4: Game) -> None:
    pool = pool_type(connect4, 2, SearchConfig(num_simulations=50))
    pool.reset(0, connect4.initial_state(), 10)
    pool.reset(1, connect4.initial_state())
    run_searches(pool, UniformEvaluator())
    assert [int(pool.result(tree).visit_counts.sum()) for tree in (0, 1)] == [10, 50]
    pool.advance(0, 3, 200)
    pool.release(1)
    run_searches(pool, UniformEvaluator())
    result = pool.result(0)
    assert (result.num_simulations, int(result.visit_counts.sum())) == (200, 200 + result.num_reused)
    assert pool.finished().tolist() == [True, False]  # the released tree is idle


# --- leaves in flight ----------------------------------------------------------------------------------------------


def test_virtual_loss_spreads_the_leaves_and_stays_out_of_results(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """Fault 39: what is in flight shows in no result, and none is left at the end."""
    game = toy_games["race"]
    pool = pool_type(game, 1, SearchConfig(num_simulations=48, leaves_per_tree=3))
    pool.reset(0, game.initial_state())
    evaluator = function_evaluator(lambda state: ([0.4, 0.3, 0.3], 0.0))
    pool.expand(evaluator.evaluate(pool.collect()))
    before = pool.result(0)
    batch = pool.collect()
    assert batch.source.leaf_states() == [(1, 1), (2, 1), (3, 1)]  # each leaf from another edge
    assert pool.num_in_flight(0) == 3
    during = pool.result(0)
    assert during.visit_counts.tolist() == before.visit_counts.tolist() == [0, 0, 0]
    assert during.root_value == before.root_value == 0.0
    pool.expand(evaluator.evaluate(batch))
    assert pool.num_in_flight(0) == 0
    assert pool.result(0).visit_counts.tolist() == [1, 1, 1]
    assert pool.result(0).q_values.tolist() == [0.0, 0.0, 0.0]


def test_a_collision_ends_the_batch_of_its_tree_and_costs_nothing(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """With all weight on one move the second descent meets the first one's leaf."""
    game = toy_games["walk"]
    evaluator = function_evaluator(lambda state: ([0.0, 1.0], 0.0))
    pool = pool_type(game, 1, SearchConfig(num_simulations=64, leaves_per_tree=4, c_init=100.0))
    pool.reset(0, game.initial_state())
    pool.expand(evaluator.evaluate(pool.collect()))
    for done in range(3):
        batch = pool.collect()
        assert (len(batch), pool.num_in_flight(0)) == (1, 1)
        pool.expand(evaluator.evaluate(batch))
        assert pool.result(0).num_simulations == done + 1


def test_small_searches_take_one_leaf_at_a_time(pool_type: Any, connect4: Game) -> None:
    """At most max(1, num_simulations // 16) leaves of a tree fly together."""
    for num_simulations, leaves in ((1, 1), (31, 1), (32, 2), (79, 4), (80, 5), (1000, 5)):
        pool = pool_type(connect4, 1, SearchConfig(num_simulations=num_simulations, leaves_per_tree=5))
        pool.reset(0, connect4.initial_state())
        pool.expand(UniformEvaluator().evaluate(pool.collect()))
        assert len(pool.collect()) == leaves


def test_leaves_in_flight_change_no_bit_of_a_result(pool_type: Any, connect4: Game) -> None:
    """Fault 39: with visits on every edge, what is shown while leaves are away is what was shown before."""
    pool = pool_type(connect4, 1, SearchConfig(num_simulations=160, leaves_per_tree=8))
    pool.reset(0, connect4.initial_state())
    evaluator = RolloutEvaluator(connect4, 1)
    for _ in range(8):
        pool.expand(evaluator.evaluate(pool.collect()))
    before = pool.result(0)
    batch = pool.collect()
    assert pool.num_in_flight(0) > 1
    during = pool.result(0)
    assert (during.visit_counts > 0).all()
    assert during.visit_counts.tobytes() == before.visit_counts.tobytes()
    assert during.q_values.tobytes() == before.q_values.tobytes()
    assert (during.root_value, during.num_simulations) == (before.root_value, before.num_simulations)
    pool.expand(evaluator.evaluate(batch))
    assert pool.result(0).num_simulations == before.num_simulations + len(batch)


def test_values_hardly_depend_on_the_leaves_in_flight(pool_type: Any, connect4: Game, function_evaluator: Any) -> None:
    """Fault 39: the root value after 8 leaves at once stays close to that of 8 simulations one by one."""

    def answer(state: State) -> tuple[Sequence[float], float]:
        num_legal = len(connect4.legal_moves(state))
        return [1 / num_legal] * num_legal, 0.2 if connect4.to_play(state) == 0 else -0.2

    values = []
    for leaves in (1, 8):
        config = SearchConfig(num_simulations=128, leaves_per_tree=leaves)
        result = searched(pool_type, connect4, connect4.initial_state(), function_evaluator(answer), config)
        values.append(result.root_value)
    assert values == pytest.approx([0.2, 0.2], abs=1e-5)


# --- priors and values that are none -------------------------------------------------------------------------------


@pytest.mark.parametrize("priors", [[0.0, 0.0, 0.0], [np.nan, 0.5, 0.5], [np.inf, 0.0, 0.0], [-1.0, 1.0, 1.0]], ids=str)
def test_priors_that_are_none_become_uniform_and_are_counted(
    pool_type: Any, toy_games: dict[str, Game], priors: list[float]
) -> None:
    """Fault 23: all weight on illegal moves leaves zeros."""
    game = toy_games["race"]
    pool = pool_type(game, 1, SearchConfig(num_simulations=4))
    pool.reset(0, game.initial_state())
    pool.collect()
    pool.expand(Evaluation(priors=np.array(priors, np.float32), values=np.zeros(1, np.float32)))
    assert pool.num_uniform_rows == 1
    run_searches(pool, UniformEvaluator())
    result = pool.result(0)
    assert result.priors.tolist() == [np.float32(1) / np.float32(3)] * 3
    assert result.visit_counts.sum() == 4
    assert np.isfinite(result.root_value)
    assert pool.num_uniform_rows == 1


def test_a_value_that_is_no_number_becomes_even(pool_type: Any, toy_games: dict[str, Game]) -> None:
    game = toy_games["race"]
    pool = pool_type(game, 1, SearchConfig(num_simulations=0))
    pool.reset(0, game.initial_state())
    pool.collect()
    pool.expand(Evaluation(priors=np.array([0.2, 0.2, 0.6], np.float32), values=np.array([np.nan], np.float32)))
    assert pool.result(0).root_value == 0.0
    assert pool.num_uniform_rows == 1


# --- misuse --------------------------------------------------------------------------------------------------------


def test_misuse_is_refused_and_changes_nothing(pool_type: Any, toy_games: dict[str, Game]) -> None:
    game = toy_games["race"]
    pool = pool_type(game, 2, SearchConfig(num_simulations=2))
    with pytest.raises(UsageError):
        pool.result(0)  # idle
    pool.reset(0, game.initial_state())
    with pytest.raises(UsageError):
        pool.result(0)  # not evaluated
    batch = pool.collect()
    with pytest.raises(UsageError):
        pool.collect()  # the batch was not answered
    with pytest.raises(UsageError):
        pool.reset(0, game.initial_state())  # leaves in flight
    with pytest.raises(UsageError):
        pool.expand(Evaluation(priors=np.ones(2, np.float32), values=np.zeros(1, np.float32)))
    with pytest.raises(UsageError):
        pool.expand(Evaluation(priors=np.ones(3, np.float32), values=np.zeros(2, np.float32)))
    pool.expand(UniformEvaluator().evaluate(batch))
    with pytest.raises(IllegalMoveError):
        pool.advance(0, 3)
    with pytest.raises(IllegalMoveError):
        pool.advance(0, -1)
    with pytest.raises(UsageError):
        pool.set_root_noise(0, np.ones(2, np.float32))
    run_searches(pool, UniformEvaluator())
    assert pool.result(0).visit_counts.sum() == 2
    assert pool.num_simulations_total == 2


def test_an_empty_batch_asks_nobody(pool_type: Any, toy_games: dict[str, Game]) -> None:
    pool = pool_type(toy_games["race"], 3, SearchConfig())
    batch = pool.collect()
    assert len(batch) == 0
    assert batch.legal_offsets.tolist() == [0]
    assert batch.source.leaf_states() == []
