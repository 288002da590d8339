"""The pool of trees from outside: what it takes and gives, what it refuses, and the memory it holds."""

from __future__ import annotations

import gc
import threading
import weakref
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import ConfigError, GameError, IllegalMoveError, TerminalStateError, UsageError
from zerofleet.games import load_game
from zerofleet.games.base import Game, State
from zerofleet.games.python_game import adapt
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.search.pool import SearchPool

CONNECT4 = load_game("connect4")
UNIFORM = UniformEvaluator()


class Cell:
    """A position of `Row`, which a weak reference can watch."""

    def __init__(self, stones: tuple[int, ...]) -> None:
        self.stones = stones


def free(state: Any) -> list[int]:
    return [cell for cell, stone in enumerate(state.stones) if not stone]


def is_late(state: Any) -> bool:
    return sum(state.stones) > 2


class Row:
    """Two players fill a row of `length` cells; a draw."""

    name = "row"
    rules_version = 1

    def __init__(self, length: int = 6) -> None:
        self.num_actions = length
        self.observation_shape = (1, 1, length)

    def initial_state(self) -> State:
        return Cell((0,) * self.num_actions)

    def to_play(self, state: Any) -> int:
        return sum(state.stones) % 2

    def legal_moves(self, state: Any) -> list[int]:
        return free(state)

    def next_state(self, state: Any, move: Any) -> State:
        return Cell((*state.stones[:move], 1, *state.stones[move + 1 :]))

    def terminal_value(self, state: Any) -> int | None:
        return None if 0 in state.stones else 0

    def encode(self, state: Any) -> Any:
        return np.array(state.stones, np.uint8).reshape(self.observation_shape)

    def move_index(self, move: Any) -> int:
        return int(move)


def make_pool(game: Game = CONNECT4, num_trees: int = 1, **parameters: Any) -> SearchPool:
    fraction = parameters.pop("dirichlet_fraction", 0.0)
    return SearchPool(game, num_trees, SearchConfig(**parameters), dirichlet_fraction=fraction)


def finish(pool: SearchPool) -> None:
    while len(batch := pool.collect()):
        pool.expand(UNIFORM.evaluate(batch))


def evaluation(batch: LeafBatch, prior: float = 1.0, value: float = 0.0) -> Evaluation:
    return Evaluation(
        priors=np.full(len(batch.legal_actions), prior, np.float32), values=np.full(len(batch), value, np.float32)
    )


def test_a_batch_describes_its_leaves() -> None:
    pool = make_pool(num_trees=3)
    pool.reset(0, CONNECT4.initial_state())
    state = CONNECT4.next_state(CONNECT4.initial_state(), 6)
    pool.reset(2, state)
    batch = pool.collect()
    assert len(batch) == 2
    assert batch.source.leaf_states() == pool.leaf_states() == [CONNECT4.initial_state(), state]
    assert np.array_equal(batch.planes, CONNECT4.pack([CONNECT4.initial_state(), state]))
    assert batch.legal_offsets.tolist() == [0, 7, 14]
    assert batch.legal_actions.tolist() == [*range(7), *range(7)]
    assert (batch.planes.dtype, batch.legal_offsets.dtype, batch.legal_actions.dtype) == (np.uint8, np.int32, np.uint16)


def test_a_larger_batch_leaves_the_arrays_of_a_smaller_one_alive() -> None:
    pool = make_pool(num_trees=100, num_simulations=200, leaves_per_tree=8)
    pool.reset(0, CONNECT4.initial_state())
    small = pool.collect()
    pool.expand(UNIFORM.evaluate(small))
    for tree in range(1, 100):
        pool.reset(tree, CONNECT4.initial_state())
    finish(pool)
    assert small.legal_offsets[0] == 0  # old contents, or newer ones; never another's memory
    assert pool.finished().all()


def test_idle_trees_give_nothing_and_never_finish() -> None:
    pool = make_pool(num_trees=2)
    assert len(pool.collect()) == 0
    assert pool.finished().tolist() == [False, False]
    assert pool.num_nodes(0) == 0
    with pytest.raises(UsageError, match="tree 0 is idle"):
        pool.result(0)
    with pytest.raises(UsageError, match="tree 1 is idle"):
        pool.advance(1, 0)


@pytest.mark.parametrize("tree", [-1, 2, 10**12])
def test_a_tree_that_does_not_exist_is_refused(tree: int) -> None:
    pool = make_pool(num_trees=2)
    calls = (
        lambda: pool.reset(tree, CONNECT4.initial_state()),
        lambda: pool.advance(tree, 0),
        lambda: pool.release(tree),
        lambda: pool.set_root_noise(tree, np.ones(7, np.float32)),
        lambda: pool.result(tree),
        lambda: pool.root_state(tree),
        lambda: pool.num_legal(tree),
        lambda: pool.num_nodes(tree),
        lambda: pool.num_in_flight(tree),
    )
    for call in calls:
        with pytest.raises(UsageError, match=r"tree must lie in \[0, 2\)"):
            call()


def test_calls_in_the_wrong_order_are_refused() -> None:
    pool = make_pool()
    with pytest.raises(UsageError, match="expand must follow a collect"):
        pool.expand(Evaluation(priors=np.ones(7, np.float32), values=np.zeros(1, np.float32)))
    pool.reset(0, CONNECT4.initial_state())
    with pytest.raises(UsageError, match="its root was not evaluated"):
        pool.result(0)
    batch = pool.collect()
    assert pool.num_in_flight(0) == 1
    with pytest.raises(UsageError, match="1 leaves wait for expand"):
        pool.collect()
    for call in (lambda: pool.reset(0, CONNECT4.initial_state()), lambda: pool.advance(0, 0), lambda: pool.release(0)):
        with pytest.raises(UsageError, match="while its leaves wait for expand"):
            call()
    pool.expand(UNIFORM.evaluate(batch))
    with pytest.raises(UsageError, match="expand must follow a collect"):
        pool.expand(UNIFORM.evaluate(batch))


@pytest.mark.parametrize(
    ("priors", "values", "message"),
    [
        (np.ones(6, np.float32), np.zeros(1, np.float32), "priors must have one entry per legal move, 7, got 6"),
        (np.ones(8, np.float32), np.zeros(1, np.float32), "priors must have one entry per legal move, 7, got 8"),
        (np.ones(7, np.float32), np.zeros(2, np.float32), "values must have one entry per leaf, 1, got 2"),
        (np.ones((1, 7), np.float32), np.zeros(1, np.float32), r"arrays of one dimension, got float32\[1, 7\]"),
        ("seven", np.zeros(1, np.float32), "arrays of one dimension, got str"),
        (np.ones(7, np.float32), None, "NoneType"),
    ],
)
def test_an_evaluation_of_another_size_is_refused_and_the_leaves_go_on_waiting(
    priors: Any, values: Any, message: str
) -> None:
    pool = make_pool()
    pool.reset(0, CONNECT4.initial_state())
    batch = pool.collect()
    with pytest.raises(UsageError, match=message):
        pool.expand(Evaluation(priors=priors, values=values))
    pool.expand(UNIFORM.evaluate(batch))
    finish(pool)
    assert pool.result(0).visit_counts.sum() == 100


@pytest.mark.parametrize("dtype", [np.float64, np.float16])
def test_other_floats_and_strided_arrays_are_converted(dtype: Any) -> None:
    pool = make_pool(num_simulations=0)
    pool.reset(0, CONNECT4.initial_state())
    pool.collect()
    priors = np.linspace(0, 0.25, 14, dtype=dtype)[::2]
    pool.expand(Evaluation(priors=priors, values=np.array([0.5], dtype)))  # type: ignore[arg-type]
    assert np.array_equal(pool.result(0).priors, priors.astype(np.float32))


def test_a_finished_position_is_refused_and_the_tree_stays_as_it_was() -> None:
    """Faults 9 and 10."""
    pool = make_pool(num_simulations=16)
    state = CONNECT4.initial_state()
    for move in (0, 1, 0, 1, 0, 1):
        state = CONNECT4.next_state(state, move)
    pool.reset(0, state)
    finish(pool)
    with pytest.raises(TerminalStateError, match="the move ends the game"):
        pool.advance(0, 0)
    assert pool.root_state(0) == state
    assert pool.finished().tolist() == [True]
    with pytest.raises(TerminalStateError, match="finished position"):
        pool.reset(0, CONNECT4.next_state(state, 0))
    assert pool.result(0).num_simulations == 16


@pytest.mark.parametrize("ordinal", [-1, 7, 2**40])
def test_an_illegal_move_cannot_be_played(ordinal: int) -> None:
    pool = make_pool()
    pool.reset(0, CONNECT4.initial_state())
    with pytest.raises(IllegalMoveError, match=r"ordinal must lie in \[0, 7\)"):
        pool.advance(0, ordinal)


@pytest.mark.parametrize(
    ("num_trees", "fraction"), [(0, 0.0), (-3, 0.0), (2**40, 0.0), (1, -0.1), (1, 1.5), (1, np.nan)]
)
def test_impossible_pools_are_refused(num_trees: int, fraction: float) -> None:
    with pytest.raises(UsageError, match=r"num_trees|dirichlet_fraction"):
        make_pool(num_trees=num_trees, dirichlet_fraction=fraction)


@pytest.mark.parametrize("num_simulations", [-1, 2**31, 2**70])
def test_an_impossible_budget_is_refused(num_simulations: int) -> None:
    pool = make_pool()
    with pytest.raises(UsageError, match="num_simulations"):
        pool.reset(0, CONNECT4.initial_state(), num_simulations)
    with pytest.raises(ConfigError, match="num_simulations"):
        make_pool(num_simulations=num_simulations).reset(0, CONNECT4.initial_state())


@pytest.mark.parametrize("noise", [np.ones(6), np.full(7, np.nan), np.full(7, -1.0), np.ones((7, 1))])
def test_noise_of_another_kind_is_refused(noise: Any) -> None:
    pool = make_pool(dirichlet_fraction=0.25)
    pool.reset(0, CONNECT4.initial_state())
    with pytest.raises(UsageError, match="noise"):
        pool.set_root_noise(0, noise)


def test_noise_steers_the_search_and_stays_out_of_the_priors() -> None:
    noise = np.eye(7, dtype=np.float32)[5]
    for before_evaluation in (True, False):
        pool = make_pool(num_simulations=14, leaves_per_tree=1, dirichlet_fraction=1.0)
        pool.reset(0, CONNECT4.initial_state())
        if before_evaluation:
            pool.set_root_noise(0, noise)
        pool.expand(UNIFORM.evaluate(pool.collect()))
        pool.set_root_noise(0, noise)
        finish(pool)
        result = pool.result(0)
        assert result.visit_counts.tolist() == [0, 0, 0, 0, 0, 14, 0]
        assert np.array_equal(result.priors, np.full(7, 1 / 7, np.float32))


@pytest.mark.parametrize("leaves", [1, 8, 64])
def test_collisions_are_no_simulations(leaves: int) -> None:
    """Fault 38: a fresh root's visits add up to the budget, however many leaves are in flight."""
    pool = make_pool(num_simulations=800, leaves_per_tree=leaves)
    pool.reset(0, CONNECT4.initial_state())
    finish(pool)
    assert pool.result(0).visit_counts.sum() == 800
    assert pool.num_in_flight(0) == 0
    assert pool.num_simulations_total == 800


def test_withdrawn_leaves_are_as_if_never_chosen() -> None:
    pool, twin = (make_pool(num_simulations=200, leaves_per_tree=8) for _ in range(2))
    for each in (pool, twin):
        each.reset(0, CONNECT4.initial_state())
    while len(pool.collect()):
        pool.withdraw()
        assert pool.num_in_flight(0) == 0
        pool.expand(UNIFORM.evaluate(pool.collect()))
    finish(twin)
    assert pool.result(0).visit_counts.tolist() == twin.result(0).visit_counts.tolist()
    assert pool.result(0).q_values.tobytes() == twin.result(0).q_values.tobytes()


def test_rows_that_are_no_distribution_become_uniform_and_are_counted() -> None:
    for prior, value, expected in ((np.nan, 0.0, 0.0), (np.inf, 0.0, 0.0), (-1.0, 0.0, 0.0), (0.0, 0.5, 0.5)):
        pool = make_pool(num_simulations=0)
        pool.reset(0, CONNECT4.initial_state())
        pool.expand(evaluation(pool.collect(), prior, value))
        assert np.array_equal(pool.result(0).priors, np.full(7, 1 / 7, np.float32))
        assert pool.result(0).root_value == expected
        assert pool.num_uniform_rows == 1


def test_a_second_thread_inside_gets_an_error() -> None:
    """The pool gives up the GIL; a game's method may run another thread just as well."""
    errors: list[BaseException] = []

    class Nosy(Row):
        def encode(self, state: Any) -> Any:
            thread = threading.Thread(target=self.meddle)
            thread.start()
            thread.join()
            return super().encode(state)

        def meddle(self) -> None:
            try:
                pool.finished()
            except UsageError as error:
                errors.append(error)

    pool = make_pool(adapt(Nosy(), "nosy"))
    pool.reset(0, pool.game.initial_state())
    pool.collect()
    assert "another thread" in str(errors[0])
    assert len(pool.finished()) == 1


@pytest.mark.parametrize(
    ("member", "wrong", "message"),
    [
        ("terminal_value", lambda self, state: 2 if is_late(state) else None, "terminal_value must return None, -1"),
        ("terminal_value", lambda self, state: 0.5 if is_late(state) else None, "terminal_value must return None"),
        ("to_play", lambda self, state: 5 if is_late(state) else 0, "to_play must return 0 or 1, got 5"),
        ("legal_moves", lambda self, state: [] if is_late(state) else free(state), "legal_moves must not be empty"),
        ("legal_moves", lambda self, state: 7 if is_late(state) else free(state), "legal_moves must return a seq"),
        ("move_index", lambda self, move: 600 if move > 2 else 0, r"move_index must return a number in \[0, 6\)"),
    ],
)
def test_a_law_broken_in_the_tree_names_the_method(member: str, wrong: Any, message: str) -> None:
    """Faults 163 and 164: an outcome that is none, and an unfinished position without moves."""
    game = adapt(type("Broken", (Row,), {member: wrong})(), "broken")
    pool = make_pool(game, num_simulations=200)
    pool.reset(0, game.initial_state())
    with pytest.raises(GameError, match=message):
        finish(pool)
    assert pool.num_in_flight(0) == 0
    pool.release(0)
    assert pool.num_nodes(0) == 0


def test_an_exception_of_a_game_comes_through_and_the_pool_goes_on() -> None:
    class Moody(Row):
        is_cross = False

        def next_state(self, state: Any, move: Any) -> State:
            if self.is_cross and move == 3:
                raise ZeroDivisionError("not today")
            return super().next_state(state, move)

    rules = Moody()
    pool = make_pool(adapt(rules, "moody"), num_trees=2, num_simulations=64, leaves_per_tree=4)
    for tree in range(2):
        pool.reset(tree, rules.initial_state())
    pool.expand(UNIFORM.evaluate(pool.collect()))
    rules.is_cross = True
    with pytest.raises(ZeroDivisionError, match="not today"):
        pool.collect()
    assert [pool.num_in_flight(tree) for tree in range(2)] == [0, 0]
    rules.is_cross = False
    finish(pool)
    assert pool.finished().all()
    assert pool.result(1).visit_counts.sum() == 64


def test_advance_keeps_the_subtree_and_nothing_else() -> None:
    """Fault 51: after a move the tree holds its subtree; the siblings are gone."""
    rules = Row()
    pool = make_pool(adapt(rules, "row"), num_simulations=300)
    start = rules.initial_state()
    pool.reset(0, start)
    watched = []
    while len(batch := pool.collect()):
        watched += [(s.stones, weakref.ref(s)) for s in batch.source.leaf_states() if sum(s.stones) > 1]
        pool.expand(UNIFORM.evaluate(batch))
    visits = int(pool.result(0).visit_counts[2])
    pool.advance(0, 2)
    gc.collect()
    alive = [stones for stones, ref in watched if ref() is not None]
    assert pool.num_nodes(0) == visits  # each simulation through the move made one node: the child itself, then others
    assert len(alive) == visits - 1
    assert all(stones[2] for stones in alive)
    assert pool.finished().tolist() == [False]
    assert len(watched) > 250


def test_a_pool_that_its_own_game_holds_is_collected() -> None:
    """Fault 50: a circle through C++ is seen by Python's collector."""
    rules: Any = Row()
    rules.pool = make_pool(adapt(rules, "row"), num_simulations=20)
    rules.pool.reset(0, rules.initial_state())
    finish(rules.pool)
    ref, state = weakref.ref(rules), weakref.ref(rules.pool.root_state(0))
    del rules
    gc.collect()
    assert ref() is None
    assert state() is None


def test_release_and_the_end_of_the_pool_free_every_position() -> None:
    """Fault 50."""
    rules = Row()
    pool = make_pool(adapt(rules, "row"), num_trees=2, num_simulations=100)
    states = [rules.initial_state() for _ in range(2)]
    refs = [weakref.ref(state) for state in states]
    for tree, state in enumerate(states):
        pool.reset(tree, state)
    del states, state
    finish(pool)
    pool.release(0)
    assert refs[0]() is None
    assert pool.num_nodes(0) == 0
    assert refs[1]() is not None
    del pool
    assert refs[1]() is None


def test_the_memory_of_many_games_stays_level() -> None:
    """Faults 50 and 52: nodes are freed or used again, game after game."""
    rng = np.random.default_rng(0)
    pool = make_pool(num_simulations=50, leaves_per_tree=4)
    peaks = []
    for _ in range(120):
        pool.reset(0, CONNECT4.initial_state())
        for _ in range(42):
            finish(pool)
            try:
                pool.advance(0, int(rng.integers(pool.num_legal(0))))
            except TerminalStateError:
                break
        peaks.append(pool.num_bytes)
    assert max(peaks[60:]) <= max(peaks[:60])
    assert max(peaks) < 120_000
    pool.release(0)
    assert pool.num_bytes < 20_000


def test_a_full_tree_ends_its_search_early() -> None:
    pool = make_pool(num_simulations=100, leaves_per_tree=4, max_nodes=20)
    pool.reset(0, CONNECT4.initial_state())
    finish(pool)
    assert pool.finished().tolist() == [True]
    assert pool.num_nodes(0) == 20
    assert pool.result(0).num_simulations == 19


def test_memory_per_node_is_bounded_for_many_moves() -> None:
    """Fault 53: 48 bytes of a node and 20 per legal move, twice that while arrays grow; no node before its visit."""
    game = adapt(Row(2048), "row")
    pool = make_pool(game, num_simulations=60, leaves_per_tree=1)
    pool.reset(0, game.initial_state())
    finish(pool)
    assert pool.num_nodes(0) == 61
    assert pool.num_bytes <= 2 * 64 * (48 + 20 * 2048) + 50_000


def test_0_simulations_give_the_evaluation_alone() -> None:
    pool = make_pool(num_simulations=0)
    pool.reset(0, CONNECT4.initial_state())
    pool.expand(evaluation(pool.collect(), 1 / 7, 0.25))
    assert pool.finished().tolist() == [True]
    result = pool.result(0)
    assert result.visit_counts.tolist() == [0] * 7
    assert np.isnan(result.q_values).all()
    assert result.root_value == 0.25
    assert len(pool.collect()) == 0
