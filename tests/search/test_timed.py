"""Time: what a move may take of a clock, and that a search ends when it is told to."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

from zerofleet.errors import ConfigError
from zerofleet.games import load_game
from zerofleet.search.base import SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.search.pool import SearchPool
from zerofleet.search.timed import Clock, TimeControl, run_until

if TYPE_CHECKING:
    from tests.conftest import FakeClock


def test_a_move_never_takes_more_than_its_share() -> None:
    control = TimeControl(total_s=100.0, moves_to_go=10, greatest_share=0.2)
    assert control.for_move(100.0) == pytest.approx(10.0)
    assert control.for_move(30.0) == pytest.approx(3.0)
    short = TimeControl(total_s=100.0, moves_to_go=2, greatest_share=0.2)
    assert short.for_move(100.0) == pytest.approx(20.0)  # half would be more than the share
    assert control.for_move(0.0) == 0.0
    assert control.for_move(-3.0) == 0.0


def test_a_clock_never_runs_out(fake_clock: FakeClock) -> None:
    clock = Clock(TimeControl(total_s=60.0), now=fake_clock)
    began = fake_clock.now
    for _ in range(300):
        is_over = clock.think()
        while not is_over():
            fake_clock.advance(clock.left_s / 200)
        assert clock.left_s == pytest.approx(60.0 - (fake_clock.now - began), abs=1e-6)
        assert clock.left_s > 0.0
        fake_clock.advance(5.0)  # the opponent's time does not count
        began += 5.0


@pytest.mark.parametrize(
    "values", [{"total_s": 0.0}, {"total_s": 1.0, "moves_to_go": 0}, {"total_s": 1.0, "greatest_share": 1.0}]
)
def test_an_impossible_clock_is_refused(values: dict[str, float]) -> None:
    with pytest.raises(ConfigError):
        TimeControl(**values)  # type: ignore[arg-type]


def test_a_search_ends_when_its_time_is_over_and_has_a_result() -> None:
    game = load_game("connect4")
    pool = SearchPool(game, 1, SearchConfig(num_simulations=1000, leaves_per_tree=4))
    pool.reset(0, game.initial_state())
    looks = iter([False] * 9)
    run_until(pool, UniformEvaluator(), lambda: next(looks, True))
    result = pool.result(0)
    assert 0 < result.num_simulations < 1000
    assert int(result.visit_counts.sum()) == result.num_simulations
    run_until(pool, UniformEvaluator(), lambda: False)
    assert pool.result(0).num_simulations == 1000


def test_a_search_without_any_time_knows_its_priors() -> None:
    game = load_game("connect4")
    pool = SearchPool(game, 1, SearchConfig(num_simulations=1000))
    pool.reset(0, game.initial_state())
    run_until(pool, UniformEvaluator(), lambda: True)
    assert pool.result(0).policy().tolist() == pytest.approx([1 / 7] * 7)
