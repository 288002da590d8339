"""Servers that die, freeze, forget, fill up, or are meddled with."""

from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from zerofleet.errors import NeedsCeilingError, StreamUnavailableError
from zerofleet.streams.keys import Keys
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import StoreSnapshot, WishRecord
from zerofleet.streams.stream import StreamCounts

ACTOR = RoleRecord(role="actor", index=0, node="n", pid=1, incarnation="a")


def learner(backend: Any, floor: int = 0) -> int:
    return backend.store().acquire_epoch("learner", floor, lambda _epoch: None)


def test_a_killed_server_comes_back_with_all_that_was_published(own_backend: Any) -> None:
    stream, store = own_backend.stream(), own_backend.store()
    store.restore(StoreSnapshot(next_game=0, ceiling=100))
    epoch, before = learner(own_backend), store.server_id()
    for i in range(5):
        assert stream.publish(b"%d" % i)
    read = stream.read("learner-1", 2, 0)
    numbers = store.take_game_numbers(10)
    own_backend.server.restart()
    assert store.server_id() != before
    with pytest.raises(NeedsCeilingError):
        store.take_game_numbers(10)  # its counter may be an older one, for all that anybody knows
    store.restore(StoreSnapshot())
    assert store.take_game_numbers(10) == range(numbers.stop, numbers.stop + 10)
    assert stream.ack([read[0].id], epoch) == 1  # the scripts were lost with the server's memory, and sent again
    assert stream.counts() == StreamCounts(3, 1, 0)
    assert [entry.payload for entry in stream.claim("learner-2", 0, 10)] == [b"1"]
    assert [entry.payload for entry in stream.read("learner-2", 10, 0)] == [b"2", b"3", b"4"]


def test_a_dead_server_is_said_to_be_away_at_once(own_backend: Any) -> None:
    stream, store = own_backend.stream(), own_backend.store()
    own_backend.server.kill()
    started = time.monotonic()
    calls = [
        lambda: stream.publish(b"game"),
        lambda: stream.read("a", 1, 5.0),
        stream.counts,
        lambda: store.heartbeat(ACTOR, 5.0),
        lambda: store.take_game_numbers(1),
        store.ping,
    ]
    for call in calls:
        with pytest.raises(StreamUnavailableError, match="does not answer") as caught:
            call()
        assert not isinstance(caught.value, NeedsCeilingError)
        assert own_backend.server.password not in str(caught.value)
    assert time.monotonic() - started < 3.0  # nobody retried unseen or slept
    own_backend.server.start()
    assert stream.publish(b"game")


def test_a_frozen_server_makes_nobody_wait_longer_than_the_timeout(own_backend: Any) -> None:
    """Fault 80: stopped in the middle; waits are bounded, and no game is lost or doubled for the learner."""
    stream, store = own_backend.stream(timeout_s=0.4), own_backend.store(timeout_s=0.4)
    epoch = learner(own_backend)
    for i in range(3):
        assert stream.publish(b"%d" % i)
    own_backend.server.freeze()
    for call in (lambda: stream.read("a", 10, 30.0), stream.counts, lambda: store.heartbeat(ACTOR, 5.0)):
        started = time.monotonic()
        with pytest.raises(StreamUnavailableError, match="does not answer"):
            call()
        assert time.monotonic() - started < 2.5  # one timeout to connect and one for the reply, on a slow machine
    own_backend.server.thaw()
    own_backend.store().ping()
    # The server carried out the read whose reply nobody heard: its entries come with the next one.
    entries = stream.read("a", 10, 0)
    assert [entry.payload for entry in entries] == [b"0", b"1", b"2"]
    assert stream.read("a", 10, 0) == []
    assert stream.ack([entry.id for entry in entries], epoch) == 3
    assert stream.counts() == StreamCounts(0, 0, 0)


def test_entries_of_a_lost_reply_come_again_but_those_in_hand_do_not(own_backend: Any) -> None:
    stream = own_backend.stream(timeout_s=0.4)
    for i in range(6):
        assert stream.publish(b"%d" % i)
    in_hand = stream.read("a", 2, 0)
    own_backend.server.freeze()
    with pytest.raises(StreamUnavailableError):
        stream.read("a", 3, 0)
    own_backend.server.thaw()
    own_backend.store().ping()
    assert [entry.payload for entry in in_hand] == [b"0", b"1"]
    assert [entry.payload for entry in stream.read("a", 2, 0)] == [b"2", b"3"]
    assert [entry.payload for entry in stream.read("a", 2, 0)] == [b"4"]
    assert [entry.payload for entry in stream.read("a", 2, 0)] == [b"5"]
    assert stream.read("a", 2, 0) == []


def test_a_publish_that_is_repeated_after_a_lost_reply_may_write_twice(own_backend: Any) -> None:
    stream = own_backend.stream(timeout_s=0.4)
    assert stream.publish(b"0")
    own_backend.server.freeze()
    with pytest.raises(StreamUnavailableError):
        stream.publish(b"1")
    own_backend.server.thaw()
    own_backend.store().ping()
    assert stream.publish(b"1")
    payloads = [entry.payload for entry in stream.read("a", 10, 0)]
    assert payloads in ([b"0", b"1", b"1"], [b"0", b"1"])


def test_a_store_that_lost_everything_gives_nothing_out_until_it_is_restored(own_backend: Any) -> None:
    stream, store = own_backend.stream(), own_backend.store()
    store.restore(StoreSnapshot(next_game=0, ceiling=1 << 20))
    controller = store.acquire_epoch("controller", 0, lambda _epoch: None)
    epoch = learner(own_backend)
    store.set_wish(4, controller)
    given = store.take_game_numbers(50)
    own_backend.server.restart(empty=True)
    assert (store.epoch("learner"), store.game_counter(), store.wish()) == (None, None, None)
    with pytest.raises(NeedsCeilingError):
        store.take_game_numbers(1)
    with pytest.raises(StreamUnavailableError, match="no epoch of the learner"):
        stream.ack(["1-0"], epoch)
    store.restore(
        StoreSnapshot(
            epochs={"learner": epoch, "controller": controller},
            next_game=1 << 20,  # the ceiling that the run folder knows
            ceiling=1 << 21,
            wish=WishRecord(4, 1),
        )
    )
    assert store.take_game_numbers(1)[0] > given[-1]
    assert store.wish() == 4
    assert store.heartbeat(ACTOR, 5.0)
    assert stream.publish(b"game")  # the group was lost too, and comes back
    (entry,) = stream.read("learner-1", 10, 0)
    assert stream.ack([entry.id], epoch) == 1
    assert learner(own_backend) == epoch + 1


def test_a_full_memory_refuses_games_and_nothing_else(own_backend: Any) -> None:
    """Fault 118: actors back off with a reason, control keys still work, and it heals."""
    stream, store, raw = own_backend.stream(), own_backend.store(), own_backend.raw()
    store.restore(StoreSnapshot(next_game=0, ceiling=100))
    epoch = learner(own_backend)
    for i in range(3):
        assert stream.publish(b"%d" % i)
    first, second, _third = stream.read("a", 3, 0)
    raw.config_set("maxmemory", "1mb")
    with pytest.raises(StreamUnavailableError, match=r"out of memory \(OOM, raise its maxmemory\)"):
        stream.publish(b"one more")
    assert store.heartbeat(ACTOR, 5.0)
    assert len(store.roles()) == 1
    assert store.take_game_numbers(5) == range(5)
    assert store.set_wish(3) == 1
    store.publish_weights(1, 0, "aa", epoch)
    stream.dead_letter(first, "torn", epoch)
    assert stream.ack([second.id], epoch) == 1
    assert stream.counts() == StreamCounts(0, 1, 1)
    raw.config_set("maxmemory", "0")
    assert stream.publish(b"one more")


def test_a_server_that_evicts_or_forgets_is_warned_of(own_backend: Any) -> None:
    """Fault 118: eviction loses games silently."""
    store, raw = own_backend.store(), own_backend.raw()
    assert store.warnings() == []
    raw.config_set("maxmemory", "1gb")
    raw.config_set("maxmemory-policy", "allkeys-lru")
    raw.config_set("appendonly", "no")
    evicts, forgets = store.warnings()
    assert "allkeys-lru" in evicts
    assert "append-only" in forgets


def test_counts_stay_true_when_somebody_trims_the_stream(own_backend: Any) -> None:
    """Fault 115: entries trimmed from outside are neither backlog nor pending."""
    stream, raw, key = own_backend.stream(), own_backend.raw(), Keys(own_backend.run).episodes
    for i in range(10):
        assert stream.publish(b"%d" % i)
    stream.read("learner-1", 4, 0)
    raw.xtrim(key, maxlen=8, approximate=False)  # two of the four pending ones
    assert stream.counts() == StreamCounts(6, 2, 0)
    assert [entry.payload for entry in stream.claim("learner-2", 0, 10)] == [b"2", b"3"]
    raw.xtrim(key, maxlen=3, approximate=False)  # both pending ones, and three that nobody read
    assert stream.counts() == StreamCounts(3, 0, 0)
    assert [entry.payload for entry in stream.read("learner-2", 10, 0)] == [b"7", b"8", b"9"]
    raw.xtrim(key, maxlen=0, approximate=False)
    assert stream.counts() == StreamCounts(0, 0, 0)
    assert stream.claim("learner-3", 0, 10) == []


def test_a_group_that_nobody_reads_holds_nothing_up_and_is_named(own_backend: Any) -> None:
    """Fault 116: a stale group does not make the stream grow."""
    stream, raw, epoch = own_backend.stream(), own_backend.raw(), learner(own_backend)
    assert stream.publish(b"first")
    raw.xgroup_create(Keys(own_backend.run).episodes, "curious", "0")
    for i in range(200):
        assert stream.publish(b"%d" % i)
        stream.ack([entry.id for entry in stream.read("a", 10, 0)], epoch)
        assert raw.xlen(Keys(own_backend.run).episodes) <= 2
    (warning,) = own_backend.store().warnings()
    assert "'curious'" in warning


def test_a_reader_that_waits_survives_the_loss_of_the_stream(own_backend: Any) -> None:
    stream, raw = own_backend.stream(), own_backend.raw()
    assert stream.read("a", 1, 0) == []
    got: list[Any] = []
    thread = threading.Thread(target=lambda: got.extend(stream.read("a", 1, 2.0)))
    thread.start()
    while thread.is_alive() and raw.info("clients")["blocked_clients"] == 0:
        pass
    raw.flushall()
    assert own_backend.stream().publish(b"game")
    thread.join(20)
    assert not thread.is_alive()
    assert [entry.payload for entry in got or stream.read("a", 1, 0)] == [b"game"]


def test_consumers_of_former_learners_do_not_pile_up(own_backend: Any) -> None:
    stream, raw, epoch = own_backend.stream(), own_backend.raw(), learner(own_backend)
    for start in range(5):
        assert stream.publish(b"game")
        name = f"learner-{start}"
        stream.claim(name, 0, 10)
        stream.ack([entry.id for entry in stream.read(name, 10, 0)], epoch)
    names = [consumer["name"] for consumer in raw.xinfo_consumers(Keys(own_backend.run).episodes, "learner")]
    assert names in ([b"learner-4"], [b"learner-3", b"learner-4"])


def test_an_entry_that_is_not_ours_can_be_put_aside(own_backend: Any) -> None:
    stream, raw, epoch = own_backend.stream(), own_backend.raw(), learner(own_backend)
    raw.xadd(Keys(own_backend.run).episodes, {"hello": "world"})
    (entry,) = stream.read("a", 10, 0)
    assert entry.payload == b""
    stream.dead_letter(entry, "no episode", epoch)
    assert stream.counts() == StreamCounts(0, 0, 1)


def test_every_key_of_a_run_starts_with_its_prefix(own_backend: Any) -> None:
    stream, store, epoch = own_backend.stream(), own_backend.store(), learner(own_backend)
    store.restore(StoreSnapshot(next_game=0, ceiling=9, wish=WishRecord(1, 1)))
    store.publish_weights(1, 0, "aa", epoch)
    store.register(ACTOR, 5.0)
    store.set_state({"state": "running"})
    store.request_stop()
    for _game in range(2):
        stream.publish(b"game")
    stream.dead_letter(stream.read("a", 1, 0)[0], "torn", epoch)
    keys = Keys(own_backend.run)
    expected = {name for attribute, name in vars(keys).items() if attribute != "prefix"}
    assert {key.decode() for key in own_backend.raw().keys("*")} == expected
    assert all(name.startswith(f"zerofleet:{own_backend.run}:") for name in expected)
