from typing import Any

from zerofleet.actors.outbox import GameNumbers, Outbox
from zerofleet.actors.waiting import Backoff


def _outbox(stream: Any, clock: Any, capacity: int = 3) -> Outbox:
    return Outbox(stream, capacity, Backoff(clock=clock), Backoff(clock=clock))


def test_games_are_published_oldest_first(fake_stream: Any, fake_clock: Any) -> None:
    outbox = _outbox(fake_stream, fake_clock)
    outbox.put(b"a")
    outbox.put(b"b")
    assert outbox.flush() == ""
    assert fake_stream.payloads == [b"a", b"b"]
    assert (len(outbox), outbox.num_published) == (0, 2)


def test_what_a_full_stream_refuses_is_kept_and_published_later_in_order(fake_stream: Any, fake_clock: Any) -> None:
    fake_stream.capacity = 1
    outbox = _outbox(fake_stream, fake_clock)
    for payload in (b"a", b"b", b"c"):
        outbox.put(payload)
    assert outbox.flush() == "stream_full"
    assert (len(outbox), outbox.is_full) == (2, False)
    fake_stream.capacity = 10
    fake_clock.now += outbox.retry_in_s
    assert outbox.flush() == ""
    assert fake_stream.payloads == [b"a", b"b", b"c"]


def test_nothing_is_lost_while_the_store_is_away(fake_stream: Any, fake_clock: Any) -> None:
    fake_stream.is_away = True
    outbox = _outbox(fake_stream, fake_clock)
    for payload in (b"a", b"b", b"c"):
        outbox.put(payload)
        assert outbox.flush() == "store"
    assert outbox.is_full
    fake_stream.is_away = False
    fake_clock.now += outbox.retry_in_s
    assert outbox.flush() == ""
    assert fake_stream.payloads == [b"a", b"b", b"c"]


def test_a_store_that_is_away_is_asked_ever_more_rarely(fake_stream: Any, fake_clock: Any) -> None:
    """Fault 80: a store that hangs must not be hammered, nor freeze the actor."""
    fake_stream.is_away = True
    outbox = _outbox(fake_stream, fake_clock)
    outbox.put(b"a")
    for _ in range(6000):  # 600 s, looked at every 0.1 s
        outbox.flush()
        fake_clock.now += 0.1
    # delays end at 2 s, each drawn from [1, 2]: at least 300 tries, at most 600, and a few quick ones at first
    assert 300 <= fake_stream.num_failed <= 610


def test_numbers_come_in_blocks_and_none_repeats(fake_numbers: Any, fake_clock: Any) -> None:
    numbers = GameNumbers(fake_numbers, 3, Backoff(clock=fake_clock))
    assert [numbers.take() for _ in range(7)] == [0, 1, 2, 3, 4, 5, 6]
    assert fake_numbers.blocks == [range(3), range(3, 6), range(6, 9)]


def test_without_the_store_there_are_no_numbers_until_it_is_back(fake_numbers: Any, fake_clock: Any) -> None:
    fake_numbers.is_away = True
    numbers = GameNumbers(fake_numbers, 3, Backoff(clock=fake_clock))
    assert numbers.take() is None
    fake_numbers.is_away = False
    assert numbers.take() is None, "not before the delay is over"
    fake_clock.now += numbers.retry_in_s
    assert numbers.take() == 0
