from __future__ import annotations

from typing import Any

from zerofleet.cluster.patience import Patience


def test_a_controller_that_was_silent_for_a_minute_is_given_up(fake_clock: Any) -> None:
    patience = Patience(fake_clock)
    fake_clock.advance(59.0)
    assert patience.verdict() == ""
    patience.heard("a", 0, 0)
    fake_clock.advance(59.0)
    assert patience.verdict() == ""
    fake_clock.advance(2.0)
    assert "silent" in patience.verdict()


def test_silence_while_the_store_is_away_does_not_count(fake_clock: Any) -> None:
    patience = Patience(fake_clock)
    for _ in range(10):
        fake_clock.advance(59.0)
        patience.excuse()
    assert patience.verdict() == ""


def test_a_controller_that_dies_again_and_again_is_given_up(fake_clock: Any) -> None:
    """Such as one that cannot write to the run folder: each start is heard of, and none does anything."""
    patience = Patience(fake_clock)
    for start in range(10):
        patience.heard(f"start {start}", 5, 7)
        patience.heard(f"start {start}", 5, 7)
    assert patience.verdict() == ""
    patience.heard("start 10", 5, 7)
    assert "11 times without progress" in patience.verdict()


def test_deaths_with_progress_in_between_do_not_add_up(fake_clock: Any) -> None:
    patience = Patience(fake_clock)
    for start in range(30):
        patience.heard(f"start {start}", start, 7)
    assert patience.verdict() == ""


def test_who_waits_for_the_end_waits_for_a_quarter_of_a_minute(fake_clock: Any) -> None:
    """The signal that asked for the end may have ended Ray as well: `timeout` sends it to the whole process group."""
    patience = Patience(fake_clock)
    fake_clock.advance(14.0)
    assert patience.verdict(is_hurried=True) == ""
    fake_clock.advance(2.0)
    assert patience.verdict() == ""
    assert "silent" in patience.verdict(is_hurried=True)
