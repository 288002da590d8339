"""What the controller says of the run, from looks at the store."""

from __future__ import annotations

import logging

import pytest

from zerofleet.cluster.reporter import Reporter
from zerofleet.cluster.run_config import resolve_config
from zerofleet.telemetry import Metrics


def test_a_wait_is_logged_after_each_whole_minute_and_not_before(caplog: pytest.LogCaptureFixture) -> None:
    """Fault 78: who looks at the log alone sees what a stuck run waits for."""
    now = [1000.0]
    reporter = Reporter(resolve_config("tictactoe", ()), Metrics(), wall_clock=lambda: now[0])
    seen = []
    with caplog.at_level(logging.WARNING):
        for second in range(0, 150, 10):
            now[0] = 1000.0 + second
            reporter.store_is_silent("timed out")
            seen.append(len(caplog.records))

    assert seen == [0, 0, 0, 0, 0, 0, 1, 1, 1, 1, 1, 1, 2, 2, 2]  # the first look began the wait at 0 s
    assert "the store to answer (timed out)" in caplog.text
