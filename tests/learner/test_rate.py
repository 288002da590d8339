"""The law between learning and playing, as a table."""

import math

import pytest

from zerofleet.errors import ConfigError
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.rate import SampleToInsert

LAW = SampleToInsert(batch_size=256, samples_per_insert=4.0, min_rows=2000, replay_rows=5000, max_rows_ahead=300)


@pytest.mark.parametrize(
    ("step", "rows"),
    [
        (1, 2000),  # 64 rows a step: the first 31 steps are covered by min_rows
        (31, 2000),  # 31 * 64 = 1984
        (32, 2048),
        (33, 2112),
        (1000, 64_000),
    ],
)
def test_rows_needed_before_a_step(step: int, rows: int) -> None:
    assert LAW.rows_needed(step) == rows


@pytest.mark.parametrize(
    ("logged", "step", "may_step", "may_read"),
    [
        (0, 1, False, True),
        (1999, 1, False, True),
        (2000, 1, True, True),
        (2299, 1, True, True),
        (2300, 1, True, False),  # max_rows_ahead beyond the next step's need: the actors wait
        (2300, 32, True, True),
        (2047, 32, False, True),  # one row short: the learner waits
        (2048, 32, True, True),
    ],
)
def test_who_waits_for_whom(logged: int, step: int, may_step: bool, may_read: bool) -> None:
    """Fault 61."""
    assert (LAW.may_step(step, logged), LAW.may_read(step, logged)) == (may_step, may_read)


def test_somebody_may_always_go_on() -> None:
    for logged in range(0, 8000, 7):
        for step in (1, 31, 32, 60, 100):
            assert LAW.may_step(step, logged) or LAW.may_read(step, logged)


def test_the_window_ends_at_the_need_and_holds_the_newest_rows() -> None:
    assert LAW.window(1) == (0, 2000)
    assert LAW.window(100) == (6400 - 5000, 6400)


@pytest.mark.parametrize(("batch", "wanted"), [(256, 4.0), (8, 0.1), (7, 3.0), (100, 0.3), (1, 8.0)])
def test_steps_allowed_is_the_last_step_whose_need_is_met(batch: int, wanted: float) -> None:
    law = SampleToInsert(batch_size=batch, samples_per_insert=wanted, min_rows=50, replay_rows=99, max_rows_ahead=5000)
    for logged in (0, 49, 50, 51, 1000, 4321):
        allowed = law.steps_allowed(logged)
        assert allowed == 0 or law.may_step(allowed, logged)
        assert not law.may_step(allowed + 1, logged)


def test_a_decimal_proportion_is_exact() -> None:
    # 3 samples at 0.1 per insert are 30 rows, not the 31 that ceil(3 / 0.1000000000000000055) would give
    law = SampleToInsert(batch_size=1, samples_per_insert=0.1, min_rows=1, replay_rows=9, max_rows_ahead=20)
    assert [law.rows_needed(step) for step in (1, 2, 3)] == [10, 20, 30]


def test_the_error_of_the_law_is_below_one_batch() -> None:
    """Fault 61: a learner that keeps up sampled the wished share of what was logged, less than a batch short of it."""
    for logged in range(2000, 40_000, 997):
        sampled = LAW.steps_allowed(logged) * 256
        assert 4 * logged - 256 < sampled <= 4 * logged


def test_a_changed_proportion_goes_on_from_where_it_was_changed() -> None:
    """Fault 72: eight times as many samples per insert must not ask for all the past's steps at once."""
    old_need = LAW.rows_needed(1000)
    law = SampleToInsert(
        batch_size=256,
        samples_per_insert=32.0,
        min_rows=2000,
        replay_rows=5000,
        max_rows_ahead=300,
        anchor_step=1000,
        anchor_rows=old_need,
    )
    assert law.rows_needed(1001) == old_need + 8
    assert law.steps_allowed(old_need + 80) == 1010


def test_impossible_settings_are_named_with_a_remedy() -> None:
    with pytest.raises(
        ConfigError, match=r"learner\.max_rows_ahead must be at least .* = 64, what one step needs, got 10"
    ):
        LearnerConfig(max_rows_ahead=10)
    for field, value in {"batch_size": 0, "samples_per_insert": 0.0, "min_rows": 0, "learning_rate": math.inf}.items():
        with pytest.raises(ConfigError, match=rf"learner\.{field} "):
            LearnerConfig(**{field: value})  # type: ignore[arg-type]
    with pytest.raises(ConfigError, match=r"learner\.min_rows must be 1 to replay_rows = 100000"):  # it never began
        LearnerConfig(min_rows=200_000, replay_rows=100_000)
    with pytest.raises(ConfigError, match=r"learner\.total_steps"):
        LearnerConfig(schedule="cosine")
