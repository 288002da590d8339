"""What every episode stream does, over memory and over each server."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from zerofleet.errors import StaleEpochError, StreamUnavailableError
from zerofleet.streams.stream import StreamCounts


def learner(backend: Any) -> int:
    return backend.store().acquire_epoch("learner", 0, lambda _epoch: None)


def publish(stream: Any, count: int) -> None:
    for i in range(count):
        assert stream.publish(b"game %d" % i)


def payloads(entries: list[Any]) -> list[bytes]:
    return [entry.payload for entry in entries]


def test_entries_come_once_and_in_order(backend: Any) -> None:
    stream = backend.stream()
    publish(stream, 5)
    assert payloads(stream.read("a", 3, 0)) == [b"game 0", b"game 1", b"game 2"]
    assert payloads(stream.read("a", 3, 0)) == [b"game 3", b"game 4"]
    assert stream.read("a", 3, 0) == []


def test_any_bytes_travel_unchanged(backend: Any) -> None:
    stream = backend.stream()
    payload = bytes(range(256)) * 500 + b"\r\n\x00"
    stream.publish(payload)
    assert payloads(stream.read("a", 1, 0)) == [payload]


def test_reading_an_empty_stream_waits_no_longer_than_asked(backend: Any) -> None:
    stream = backend.stream()
    assert stream.read("a", 1, 0) == []
    assert stream.read("a", 1, 0.01) == []


def test_a_waiting_reader_gets_what_is_published(backend: Any) -> None:
    reader, writer = backend.stream(), backend.stream()
    got: list[Any] = []

    def wait() -> None:
        while not got:
            got.extend(reader.read("a", 1, 2.0))

    thread = threading.Thread(target=wait)
    thread.start()
    writer.publish(b"game")
    thread.join(20)
    assert payloads(got) == [b"game"]


def test_counts_follow_each_entry(backend: Any) -> None:
    """Fault 115: the backlog is a count, never the server's lag."""
    stream, epoch = backend.stream(), learner(backend)
    assert stream.counts() == StreamCounts(0, 0, 0)
    publish(stream, 10)
    assert stream.counts() == StreamCounts(10, 0, 0)
    entries = stream.read("a", 4, 0)
    assert stream.counts() == StreamCounts(6, 4, 0)
    assert stream.ack([entry.id for entry in entries[:3]], epoch) == 3
    assert stream.counts() == StreamCounts(6, 1, 0)
    stream.dead_letter(entries[3], "torn", epoch)
    assert stream.counts() == StreamCounts(6, 0, 1)


def test_a_full_stream_refuses_and_drops_nothing(backend: Any) -> None:
    """Fault 117: with the learner stopped, five times the bound is published; what was accepted is all there."""
    stream = backend.stream(max_backlog=10)
    accepted = [i for i in range(50) if stream.publish(b"%d" % i)]
    assert accepted == list(range(10))
    entries = stream.read("a", 100, 0)
    assert payloads(entries) == [b"%d" % i for i in range(10)]
    assert not stream.publish(b"while ten are pending")
    assert stream.ack([entries[0].id], learner(backend)) == 1
    assert stream.publish(b"one fits again")
    assert not stream.publish(b"and no other")


def test_what_a_dead_learner_read_goes_to_the_next(backend: Any) -> None:
    """Fault 114: a learner dies between read and ack."""
    dead, alive = backend.stream(), backend.stream()
    publish(dead, 5)
    dead.read("learner-1", 3, 0)
    assert alive.claim("learner-2", 60.0, 10) == []
    claimed = alive.claim("learner-2", 0, 2)
    assert payloads(claimed) == [b"game 0", b"game 1"]
    assert payloads(alive.claim("learner-2", 0, 2)) == [b"game 2"]
    assert alive.claim("learner-2", 0, 2) == []
    assert payloads(alive.read("learner-2", 10, 0)) == [b"game 3", b"game 4"]
    assert alive.ack([entry.id for entry in claimed], learner(backend)) == 2
    assert alive.counts() == StreamCounts(0, 3, 0)


def test_claiming_passes_over_any_number_of_entries_of_ones_own(backend: Any) -> None:
    stream, other = backend.stream(), backend.stream()
    publish(stream, 252)
    stream.read("mine", 250, 0)
    other.read("theirs", 2, 0)
    assert payloads(stream.claim("mine", 0, 10)) == [b"game 250", b"game 251"]


def test_a_learner_that_was_replaced_acknowledges_nothing(backend: Any) -> None:
    stream, old = backend.stream(), learner(backend)
    publish(stream, 2)
    entries = stream.read("learner-1", 2, 0)
    new = learner(backend)
    with pytest.raises(StaleEpochError, match=f"epoch {old} is not in charge any more: epoch {new} is"):
        stream.ack([entry.id for entry in entries], old)
    with pytest.raises(StaleEpochError):
        stream.dead_letter(entries[0], "torn", old)
    assert stream.counts() == StreamCounts(0, 2, 0)
    claimed = stream.claim("learner-2", 0, 10)
    assert stream.ack([entry.id for entry in claimed], new) == 2


def test_without_any_epoch_acknowledging_waits_for_the_controller(backend: Any) -> None:
    stream = backend.stream()
    publish(stream, 1)
    entries = stream.read("a", 1, 0)
    with pytest.raises(StreamUnavailableError, match="no epoch of the learner"):
        stream.ack([entries[0].id], 1)
    with pytest.raises(StreamUnavailableError, match="no epoch of the learner"):
        stream.dead_letter(entries[0], "torn", 1)
    assert stream.counts() == StreamCounts(0, 1, 0)


def test_acknowledging_twice_counts_once_and_touches_nothing_unread(backend: Any) -> None:
    stream, epoch = backend.stream(), learner(backend)
    publish(stream, 2)
    (read,) = stream.read("a", 1, 0)
    assert stream.ack(backend.entry_ids(), epoch) == 1
    assert stream.ack([read.id], epoch) == 0
    assert stream.ack([], epoch) == 0
    assert stream.counts() == StreamCounts(1, 0, 0)


def test_hundreds_of_entries_are_acknowledged_at_once(backend: Any) -> None:
    stream, epoch = backend.stream(max_backlog=2000), learner(backend)
    publish(stream, 900)
    ids = [entry.id for entry in stream.read("a", 1000, 0)]
    assert stream.ack(ids, epoch) == 900
    assert stream.counts() == StreamCounts(0, 0, 0)


def test_a_dead_letter_keeps_its_payload_and_reason_and_counts_once(backend: Any) -> None:
    stream, epoch = backend.stream(), learner(backend)
    publish(stream, 2)
    first, second = stream.read("a", 2, 0)
    stream.dead_letter(first, "episode.outcome: expected -1..1, got 7", epoch)
    stream.dead_letter(first, "again, after a lost reply", epoch)
    stream.dead_letter(second, "schöner Fehler", epoch)
    letters = stream.dead_letters()
    assert [(letter.entry, letter.reason) for letter in letters] == [
        (second, "schöner Fehler"),
        (first, "episode.outcome: expected -1..1, got 7"),
    ]
    assert stream.counts() == StreamCounts(0, 0, 2)


def test_the_dead_letters_are_bounded_and_their_number_is_not(backend: Any) -> None:
    stream, epoch = backend.stream(), learner(backend)
    publish(stream, 103)
    for entry in stream.read("a", 103, 0):
        stream.dead_letter(entry, "torn", epoch)
    assert payloads([letter.entry for letter in stream.dead_letters()]) == [b"game %d" % i for i in range(102, 2, -1)]
    assert stream.counts() == StreamCounts(0, 0, 103)


def test_many_producers_lose_and_double_nothing(backend: Any) -> None:
    """Fault 58: each game once."""
    epoch, consumer = learner(backend), backend.stream()

    def produce(number: int) -> None:
        stream = backend.stream()
        for i in range(20):
            while not stream.publish(b"%d/%d" % (number, i)):
                pass

    threads = [threading.Thread(target=produce, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    seen: list[bytes] = []
    while len(seen) < 80:
        entries = consumer.read("a", 7, 1.0)
        seen += payloads(entries)
        consumer.ack([entry.id for entry in entries], epoch)
    for thread in threads:
        thread.join()
    assert sorted(seen) == sorted(b"%d/%d" % (number, i) for number in range(4) for i in range(20))
    assert consumer.counts() == StreamCounts(0, 0, 0)
