from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from zerofleet.actors.waiting import Backoff, Waits
from zerofleet.telemetry import Metrics


def test_delays_double_up_to_the_longest_and_start_anew_after_a_success(fake_clock: Any) -> None:
    backoff = Backoff(first_s=1.0, longest_s=4.0, clock=fake_clock)
    assert backoff.remaining_s == 0.0
    for full in (1.0, 2.0, 4.0, 4.0):
        backoff.failed()
        assert 0.5 * full <= backoff.remaining_s <= full
    fake_clock.now += 4.0
    assert backoff.remaining_s == 0.0
    backoff.succeeded()
    backoff.failed()
    assert 0.5 <= backoff.remaining_s <= 1.0


def test_a_wait_is_named_only_once_it_lasts_a_second(fake_clock: Any) -> None:
    waits = Waits(Metrics(CollectorRegistry()), fake_clock)
    assert waits.text == ""
    with waits.on("store", "the store"):
        fake_clock.now += 0.9
        assert waits.text == ""
        fake_clock.now += 0.1
        assert waits.text == "the store"
    assert waits.text == ""


def test_waiting_seconds_are_added_up_by_reason_even_when_the_wait_fails(fake_clock: Any) -> None:
    metrics = Metrics(CollectorRegistry())
    waits = Waits(metrics, fake_clock)
    with waits.on("inference", "a server"):
        fake_clock.now += 2.0
    with pytest.raises(RuntimeError), waits.on("inference", "a server"):
        fake_clock.now += 3.0
        raise RuntimeError
    assert waits.seconds == {"inference": 5.0, "store": 0.0, "stream_full": 0.0}
    sample = metrics.registry.get_sample_value("zerofleet_actor_waiting_seconds_total", {"reason": "inference"})
    assert sample == 5.0
