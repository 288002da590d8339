"""Answers from memory are the answers that would have been given."""

from __future__ import annotations

import numpy as np
import pytest

from zerofleet.errors import UsageError
from zerofleet.games.base import Game
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig
from zerofleet.search.caching import CachingEvaluator
from zerofleet.search.pool import SearchPool
from zerofleet.search.search import run_searches, search


class Sum:
    """Priors and values from the planes alone; counts what it is asked."""

    def __init__(self) -> None:
        self.num_rows = 0

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        self.num_rows += len(batch)
        assert len(batch.source.leaf_states()) == len(batch) == len(batch.planes)
        counts = np.diff(batch.legal_offsets)
        sums = batch.planes.astype(np.float64) @ np.arange(1, batch.planes.shape[1] + 1)
        weights = 1 + (batch.legal_actions + np.repeat(sums, counts)) % 5
        totals = np.add.reduceat(weights, batch.legal_offsets[:-1])
        return Evaluation(
            priors=(weights / np.repeat(totals, counts)).astype(np.float32),
            values=np.sin(sums).astype(np.float32),
            weights_version=7,
        )


@pytest.mark.parametrize("max_positions", [1, 20, 100_000])
@pytest.mark.parametrize("name", ["connect4", "race", "twins"])
def test_a_search_with_memory_is_the_same_search(
    toy_games: dict[str, Game], connect4: Game, name: str, max_positions: int
) -> None:
    game = connect4 if name == "connect4" else toy_games[name]
    config = SearchConfig(num_simulations=200, leaves_per_tree=5)
    plain, cached = Sum(), CachingEvaluator(asked := Sum(), max_positions=max_positions)
    for _ in range(2):
        one = search(game, game.initial_state(), plain, config)
        two = search(game, game.initial_state(), cached, config)
        assert one.visit_counts.tolist() == two.visit_counts.tolist()
        assert one.q_values.tobytes() == two.q_values.tobytes()
    assert asked.num_rows == cached.num_asked - cached.num_found
    assert cached.num_asked == plain.num_rows
    if max_positions == 100_000:
        assert cached.num_found >= plain.num_rows // 2  # the second search asks nothing


def test_a_position_that_comes_twice_in_a_batch_is_asked_once(connect4: Game) -> None:
    pool = SearchPool(connect4, 3, SearchConfig(num_simulations=0))
    middle = connect4.next_state(connect4.initial_state(), 3)
    for tree, state in enumerate((connect4.initial_state(), middle, connect4.initial_state())):
        pool.reset(tree, state)
    cached = CachingEvaluator(asked := Sum())
    run_searches(pool, cached)
    assert asked.num_rows == 2
    assert (cached.num_asked, cached.num_found) == (3, 1)
    values = [pool.result(tree).root_value for tree in range(3)]
    assert values[0] == values[2] != values[1]
    assert pool.result(0).priors.tolist() == pool.result(2).priors.tolist()


def test_the_version_is_passed_on(connect4: Game) -> None:
    pool = SearchPool(connect4, 1, SearchConfig())
    pool.reset(0, connect4.initial_state())
    batch = pool.collect()
    cached = CachingEvaluator(Sum())
    assert [cached.evaluate(batch).weights_version for _ in range(2)] == [7, 7]


def test_memory_of_nothing_is_refused() -> None:
    with pytest.raises(UsageError, match="max_positions"):
        CachingEvaluator(Sum(), max_positions=0)
