"""What every run store does, over memory and over each server."""

from __future__ import annotations

import dataclasses
import threading
from typing import Any

import pytest

from zerofleet.errors import NeedsCeilingError, StaleEpochError, StreamError, StreamUnavailableError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import GameCounter, Overview, StoreSnapshot, WeightsRecord, WishRecord


def take(store: Any, role: str, floor: int = 0) -> int:
    return store.acquire_epoch(role, floor, lambda _epoch: None)


def actor(index: int, incarnation: str) -> RoleRecord:
    return RoleRecord(
        role="actor",
        index=index,
        node="node-a",
        pid=100 + index,
        incarnation=incarnation,
        metrics_url="http://127.0.0.1:9000/metrics",
        started=12.5,
        waiting_for="",
        numbers={"games": 3.0},
    )


def test_a_new_store_knows_nothing(backend: Any) -> None:
    store = backend.store()
    store.ping()
    assert store.server_id() == store.server_id()
    assert (store.epoch("learner"), store.game_counter(), store.wish(), store.wish_record()) == (None,) * 4
    assert (store.weights(), store.state(), store.roles()) == (None, None, [])
    assert (store.stop_requested(), store.paused()) == (False, False)


def test_an_overview_says_what_each_call_says(backend: Any) -> None:
    store = backend.store()
    nothing = {"epoch": None, "game_counter": None, "wish": None, "weights": None}
    assert store.overview() == Overview(
        **nothing, server_id=store.server_id(), roles=[], paused=False, stop_requested=False
    )
    learner, _controller = take(store, "learner", floor=6), take(store, "controller", floor=2)
    store.restore(StoreSnapshot(next_game=5, ceiling=9, wish=WishRecord(4, 2)))
    store.publish_weights(3, 120, "ab" * 32, learner)
    for index in (1, 0):
        store.register(actor(index, "first"), 60.0)
    for paused, must_stop in ((True, False), (False, True)):
        store.set_paused(paused)
        store.request_stop() if must_stop else store.clear_stop()
        seen = store.overview()
        assert dataclasses.replace(seen, roles=[]) == Overview(
            epoch=3,
            server_id=store.server_id(),
            roles=[],
            game_counter=GameCounter(5, 9),
            wish=WishRecord(4, 2),
            weights=WeightsRecord(3, 120, "ab" * 32),
            paused=paused,
            stop_requested=must_stop,
        )
        assert [leased.record for leased in seen.roles] == [actor(0, "first"), actor(1, "first")]
        assert all(50.0 < leased.lease_left_s <= 60.0 for leased in seen.roles)


def test_each_epoch_is_above_the_last_and_above_the_floor(backend: Any) -> None:
    store = backend.store()
    assert [take(store, "learner"), take(store, "learner"), take(store, "controller")] == [1, 2, 1]
    assert take(store, "learner", floor=10) == 11
    assert take(store, "learner", floor=5) == 12
    assert (store.epoch("learner"), store.epoch("controller")) == (12, 1)


def test_an_epoch_is_durable_before_the_store_holds_it(backend: Any) -> None:
    store = backend.store()
    seen: list[tuple[int, int | None]] = []
    store.acquire_epoch("learner", 7, lambda epoch: seen.append((epoch, store.epoch("learner"))))
    assert seen == [(8, None)]


def test_an_epoch_that_cannot_be_made_durable_is_not_taken(backend: Any) -> None:
    store = backend.store()

    def fail(_epoch: int) -> None:
        raise OSError("disk full")

    with pytest.raises(OSError, match="disk full"):
        store.acquire_epoch("learner", 0, fail)
    assert store.epoch("learner") is None


def test_who_loses_the_race_for_an_epoch_takes_a_higher_one(backend: Any) -> None:
    store, rival = backend.store(), backend.store()
    persisted: list[int] = []

    def persist(epoch: int) -> None:
        persisted.append(epoch)
        if len(persisted) == 1:
            assert take(rival, "learner") == 1

    assert store.acquire_epoch("learner", 0, persist) == 2
    assert persisted == [1, 2]


def test_game_numbers_are_never_given_out_twice(backend: Any) -> None:
    """Fault 46: eight actors take blocks at once; the numbers, which fix their randomness, are all distinct."""
    store = backend.store()
    store.restore(StoreSnapshot(next_game=0, ceiling=10_000))
    taken: list[int] = []

    def work() -> None:
        own = backend.store()
        for count in (1, 7, 16):
            taken.extend(own.take_game_numbers(count))

    threads = [threading.Thread(target=work) for _actor in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(taken) == list(range(8 * 24))
    assert store.game_counter() == GameCounter(8 * 24, 10_000)


def test_no_number_reaches_the_ceiling(backend: Any) -> None:
    store = backend.store()
    with pytest.raises(NeedsCeilingError):
        store.take_game_numbers(1)
    controller = take(store, "controller")
    with pytest.raises(StreamUnavailableError, match="no game counter"):
        store.set_ceiling(8, controller)
    store.restore(StoreSnapshot(next_game=0, ceiling=0))
    store.set_ceiling(8, controller)
    assert store.take_game_numbers(5) == range(5)
    with pytest.raises(NeedsCeilingError, match="4 game numbers are not free yet"):
        store.take_game_numbers(4)
    assert store.take_game_numbers(3) == range(5, 8)
    store.set_ceiling(16, controller)
    store.set_ceiling(12, controller)  # never down
    assert store.take_game_numbers(8) == range(8, 16)


def test_game_numbers_beyond_32_bits_stay_exact(backend: Any) -> None:
    store = backend.store()
    store.restore(StoreSnapshot(next_game=2**52 + 1, ceiling=2**52 + 10))
    assert store.take_game_numbers(3) == range(2**52 + 1, 2**52 + 4)
    assert store.game_counter() == GameCounter(2**52 + 4, 2**52 + 10)


def test_the_last_wish_counts(backend: Any) -> None:
    store = backend.store()
    assert store.set_wish(4) == 1
    assert store.set_wish(0) == 2
    assert (store.wish(), store.wish_record()) == (0, WishRecord(0, 2))


def test_a_controller_that_was_replaced_changes_nothing(backend: Any) -> None:
    store = backend.store()
    store.restore(StoreSnapshot(next_game=0, ceiling=100))
    with pytest.raises(StreamUnavailableError, match="no epoch of the controller"):
        store.set_wish(3, 1)
    old, new = take(store, "controller"), take(store, "controller")
    store.set_wish(3, new)
    store.set_state({"state": "running"}, new)
    for change in (
        lambda: store.set_wish(9, old),
        lambda: store.set_state({"state": "stopped"}, old),
        lambda: store.set_ceiling(200, old),
    ):
        with pytest.raises(StaleEpochError, match="the controller of epoch 1 is not in charge any more: epoch 2 is"):
            change()
    assert (store.wish(), store.state()) == (3, {"state": "running"})
    assert store.game_counter() == GameCounter(0, 100)


def test_a_version_never_has_two_contents(backend: Any) -> None:
    store = backend.store()
    epoch = take(store, "learner")
    store.publish_weights(1, 0, "aa", epoch)
    store.publish_weights(3, 200, "cc", epoch)
    store.publish_weights(3, 200, "cc", epoch)  # again, after a lost reply
    for version, sha256 in ((3, "dd"), (2, "bb")):
        with pytest.raises(StreamError, match=f"weights version {version} .* cannot be published: .* version 3"):
            store.publish_weights(version, 200, sha256, epoch)
    assert store.weights() == WeightsRecord(3, 200, "cc")


def test_a_learner_that_was_replaced_publishes_nothing(backend: Any) -> None:
    store = backend.store()
    old, _new = take(store, "learner"), take(store, "learner")
    with pytest.raises(StaleEpochError):
        store.publish_weights(1, 0, "aa", old)
    assert store.weights() is None


def test_roles_are_listed_with_what_is_left_of_their_lease(backend: Any) -> None:
    store = backend.store()
    store.register(actor(10, "b"), 0.0)
    store.register(actor(2, "a"), 30.0)
    learner = dataclasses.replace(actor(0, "l"), role="learner", address="tcp:10.0.0.1:7000", waiting_for="games")
    store.register(learner, 30.0)
    roles = backend.store().roles()
    assert [leased.record for leased in roles] == [actor(2, "a"), actor(10, "b"), learner]
    assert 20.0 < roles[0].lease_left_s <= 30.0
    assert -10.0 < roles[1].lease_left_s <= 0.0


def test_a_heartbeat_renews_record_and_lease(backend: Any) -> None:
    store = backend.store()
    store.register(actor(0, "a"), 0.0)
    busy = dataclasses.replace(actor(0, "a"), numbers={"games": 4.0}, waiting_for="inference")
    assert store.heartbeat(busy, 30.0)
    (leased,) = store.roles()
    assert leased.record == busy
    assert leased.lease_left_s > 20.0


def test_a_process_that_was_replaced_gets_its_slot_no_more(backend: Any) -> None:
    store = backend.store()
    store.register(actor(0, "old:one"), 30.0)
    store.register(actor(0, "new"), 30.0)
    assert not store.heartbeat(actor(0, "old:one"), 30.0)
    assert not store.unregister("actor", 0, "old:one")
    assert [leased.record.incarnation for leased in store.roles()] == ["new"]
    assert store.unregister("actor", 0, "new")
    assert not store.unregister("actor", 0)
    assert store.roles() == []


def test_a_heartbeat_takes_an_empty_slot(backend: Any) -> None:
    store = backend.store()
    assert store.heartbeat(actor(0, "a"), 30.0)
    assert [leased.record for leased in store.roles()] == [actor(0, "a")]
    assert store.unregister("actor", 0)


def test_state_and_commands_are_kept(backend: Any) -> None:
    store, other = backend.store(), backend.store()
    state = {"state": "running", "waiting_for": "has 812 of 2,000 positions", "progress": {"games": 3}, "alive": None}
    store.set_state(state)
    assert other.state() == state
    with pytest.raises(ValueError, match="JSON"):
        store.set_state({"loss": float("nan")})
    assert other.state() == state
    store.request_stop()
    store.set_paused(True)
    assert (other.stop_requested(), other.paused()) == (True, True)
    store.clear_stop()
    store.set_paused(False)
    assert (other.stop_requested(), other.paused()) == (False, False)


def test_restoring_raises_everything_and_lowers_nothing(backend: Any) -> None:
    store = backend.store()
    snapshot = StoreSnapshot(
        epochs={"learner": 4, "controller": 2},
        next_game=1 << 20,
        ceiling=1 << 21,
        wish=WishRecord(6, 3),
        weights=WeightsRecord(5, 900, "ee"),
    )
    store.restore(snapshot)
    assert (store.epoch("learner"), store.epoch("controller")) == (4, 2)
    assert store.game_counter() == GameCounter(1 << 20, 1 << 21)
    assert (store.wish_record(), store.weights()) == (WishRecord(6, 3), WeightsRecord(5, 900, "ee"))
    take(store, "learner")
    store.set_wish(9)
    store.publish_weights(6, 950, "ff", 5)
    store.take_game_numbers(10)
    store.restore(snapshot)
    store.restore(StoreSnapshot())
    assert store.epoch("learner") == 5
    assert store.game_counter() == GameCounter((1 << 20) + 10, 1 << 21)
    assert (store.wish_record(), store.weights()) == (WishRecord(9, 4), WeightsRecord(6, 950, "ff"))
