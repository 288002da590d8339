from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zerofleet.actors.actor import split_games
from zerofleet.actors.config import SelfPlaySetup
from zerofleet.actors.pipelining import Flight, InProcess
from zerofleet.actors.selfplay import SelfPlayGroup
from zerofleet.actors.waiting import Backoff
from zerofleet.errors import ConfigError, InferenceUnavailableError
from zerofleet.search.base import Evaluation, LeafBatch
from zerofleet.search.evaluators import UniformEvaluator


class _Flaky(InProcess):
    """Fails as often as it is told to, when a batch is sent and when it is collected."""

    def __init__(self, submit_failures: int, collect_failures: int) -> None:
        super().__init__(UniformEvaluator())
        self.submit_failures = submit_failures
        self.collect_failures = collect_failures
        self.num_submitted = 0

    def submit(self, batch: LeafBatch) -> LeafBatch:
        self.num_submitted += 1
        if self.submit_failures > 0:
            self.submit_failures -= 1
            raise InferenceUnavailableError("no server")
        return super().submit(batch)

    def collect(self, ticket: LeafBatch) -> Evaluation:
        if self.collect_failures > 0:
            self.collect_failures -= 1
            raise InferenceUnavailableError("no answer")
        return super().collect(ticket)


def _flight(setup: SelfPlaySetup, evaluator: InProcess) -> Flight:
    flight = Flight(SelfPlayGroup(setup, 2), evaluator)
    flight.group.begin(0)
    flight.launch(flight.group.collect())
    return flight


def test_a_batch_that_was_refused_or_lost_is_sent_again(make_setup: Callable[..., Any], fake_clock: Any) -> None:
    evaluator = _Flaky(submit_failures=2, collect_failures=1)
    flight = _flight(make_setup(), evaluator)
    pauses: list[float] = []
    evaluation = flight.land(Backoff(clock=fake_clock), lambda seconds: bool(pauses.append(seconds)))
    assert evaluation is not None
    assert evaluation.priors == pytest.approx(np.full(9, 1 / 9))
    # launched in vain; sent in vain; sent and lost; sent and answered
    assert evaluator.num_submitted == 4
    assert len(pauses) == 2
    assert not flight.is_away


def test_landing_ends_when_the_actor_must_stop(make_setup: Callable[..., Any], fake_clock: Any) -> None:
    flight = _flight(make_setup(), _Flaky(submit_failures=99, collect_failures=0))
    assert flight.land(Backoff(clock=fake_clock), lambda _seconds: True) is None
    assert flight.is_away


@pytest.mark.parametrize(
    ("num_games", "num_groups", "sizes"), [(64, 2, [32, 32]), (5, 2, [3, 2]), (1, 2, [1]), (7, 3, [3, 2, 2])]
)
def test_games_are_split_evenly_and_no_group_is_empty(num_games: int, num_groups: int, sizes: list[int]) -> None:
    assert split_games(num_games, num_groups) == sizes


def test_an_actor_without_games_is_refused(make_setup: Callable[..., Any]) -> None:
    with pytest.raises(ConfigError, match="at least 1 game at once, got 0"):
        make_setup(num_games=0)
