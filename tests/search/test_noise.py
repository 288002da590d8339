"""Root noise: drawn once, over legal moves alone, at every root and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import UsageError
from zerofleet.games.base import Game, State
from zerofleet.search.base import SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.search.noise import root_noise
from zerofleet.search.search import run_searches


def test_noise_is_a_distribution_over_the_legal_moves(rng: np.random.Generator) -> None:
    """Fault 35: as long as the legal moves, and adding up to 1."""
    noise = root_noise(rng, 7, 0.3)
    assert noise.shape == (7,)
    assert noise.dtype == np.float32
    assert (noise >= 0).all()
    assert noise.sum() == pytest.approx(1.0, abs=1e-6)


@pytest.mark.parametrize("alpha", [1e-3, 0.0999, 0.1, 0.5, 1.0, 10.0])
def test_noise_is_drawn_once(rng: np.random.Generator, alpha: float) -> None:
    """Fault 34: one draw gives the whole vector, the same as numpy's own."""
    twin = np.random.default_rng(1)
    assert root_noise(rng, 5, alpha) == pytest.approx(twin.dirichlet([alpha] * 5), rel=1e-6)
    assert rng.random() == twin.random()


def test_one_legal_move_needs_no_draw(rng: np.random.Generator) -> None:
    assert root_noise(rng, 1, 0.3).tolist() == [1.0]
    assert rng.random() == np.random.default_rng(1).random()


def test_tiny_alphas_stay_finite(rng: np.random.Generator) -> None:
    for _ in range(100):
        noise = root_noise(rng, 9, 1e-3)
        assert np.isfinite(noise).all()
        assert noise.sum() == pytest.approx(1.0, abs=1e-5)


@pytest.mark.parametrize(("num_legal", "alpha"), [(0, 0.3), (3, 0.0), (3, -1.0), (3, float("nan"))])
def test_noise_over_nothing_is_refused(rng: np.random.Generator, num_legal: int, alpha: float) -> None:
    with pytest.raises(UsageError):
        root_noise(rng, num_legal, alpha)


def flat(state: State) -> tuple[Sequence[float], float]:
    return [0.5, 0.5], 0.0


def test_noise_is_mixed_by_its_fraction_and_stays_out_of_the_result(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """0.75 * 0.5 + 0.25 * (0, 1) = (0.375, 0.625): after 8 simulations 3 and 5 visits, in proportion to the priors."""
    pool = pool_type(
        toy_games["walk"],
        1,
        SearchConfig(num_simulations=8, exploration="constant", c_init=1e3),
        dirichlet_fraction=0.25,
    )
    pool.reset(0, (0, 0))
    pool.set_root_noise(0, np.array([0.0, 1.0], np.float32))  # before the root is evaluated
    run_searches(pool, function_evaluator(flat))
    assert pool.result(0).visit_counts.tolist() == [3, 5]
    assert pool.result(0).priors.tolist() == [0.5, 0.5]


def test_noise_reaches_a_reused_root_and_no_inner_node(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """Faults 32 and 35: after a move the kept root has the network's priors until its own noise is set."""
    config = SearchConfig(num_simulations=16, leaves_per_tree=1, exploration="constant", c_init=1e3)
    visits = {}
    for noise in ([0.0, 1.0], [1.0, 0.0], None):
        pool = pool_type(toy_games["walk"], 1, config, dirichlet_fraction=1.0)
        pool.reset(0, (0, 0))
        pool.set_root_noise(0, np.array([0.0, 1.0], np.float32))
        run_searches(pool, function_evaluator(flat))
        assert pool.result(0).visit_counts.tolist() == [0, 16]
        pool.advance(0, 1)
        reused = pool.result(0)
        assert reused.num_reused == 15
        assert abs(int(reused.visit_counts[0]) - int(reused.visit_counts[1])) == 1  # the inner node saw no noise
        if noise is not None:
            pool.set_root_noise(0, np.array(noise, np.float32))
        run_searches(pool, function_evaluator(flat))
        visits[str(noise)] = (pool.result(0).visit_counts - reused.visit_counts).tolist()
    assert visits["[0.0, 1.0]"] == [0, 16]
    assert visits["[1.0, 0.0]"] == [16, 0]
    assert sorted(visits["None"]) == [8, 8]


def test_reused_visits_cannot_drown_the_noise(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any
) -> None:
    """Fault 33: a forced line would carry ever more visits along; above reuse_limit * num_simulations none are kept."""
    config = SearchConfig(num_simulations=20, leaves_per_tree=1, c_init=1e5, reuse_limit=2.0)
    pool = pool_type(toy_games["walk"], 1, config)
    pool.reset(0, (0, 0))
    reused = []
    for _ in range(6):
        run_searches(pool, function_evaluator(lambda state: ([0.0, 1.0], 0.0)))
        reused.append(pool.result(0).num_reused)
        pool.advance(0, 1)
    # 19 of 20 visits stay, then 38 of 39; 57 would be above 2 * 20
    assert reused == [0, 19, 38, 0, 19, 38]


def test_noise_does_not_flatten_the_search(
    pool_type: Any, toy_games: dict[str, Game], rng: np.random.Generator
) -> None:
    """Fault 34: with a quarter of noise and 800 simulations the winning move keeps most visits."""
    game = toy_games["race"]
    pool = pool_type(game, 1, SearchConfig(num_simulations=800), dirichlet_fraction=0.25)
    pool.reset(0, (9, 0))
    pool.set_root_noise(0, root_noise(rng, 3, 0.3))
    run_searches(pool, UniformEvaluator())
    assert pool.result(0).visit_counts[0] > 600
