"""What the controller does when the store comes back poorer than it went."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from zerofleet.cluster.upkeep import CEILING_STEP
from zerofleet.errors import NeedsCeilingError
from zerofleet.streams.store import GameCounter

if TYPE_CHECKING:
    from tests.cluster.conftest import World


def restart_with_older_data(world: World, monkeypatch: pytest.MonkeyPatch) -> None:
    """Do what a Redis does that was killed between two snapshots of its data."""
    monkeypatch.setattr(world.store, "server_id", lambda: "another start")
    world.store._games = GameCounter(100, CEILING_STEP)


def test_no_number_repeats_after_a_server_came_back_with_older_data(
    world: World, fake_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Such as one that writes snapshots, and no append-only file."""
    world.begin()
    world.store.take_game_numbers(500)
    restart_with_older_data(world, monkeypatch)
    with pytest.raises(NeedsCeilingError):
        world.store.take_game_numbers(10)  # an actor may ask before the controller looks
    fake_clock.advance(0.25)
    world.controller.step()
    for _ in range(4):
        fake_clock.advance(0.25)
        world.speak()
        world.controller.step()
    assert world.store.game_counter() == GameCounter(CEILING_STEP, 2 * CEILING_STEP)
    assert not any(role.killed for role in world.launcher.started)


def test_nor_where_that_happened_between_two_launches(
    world: World, fake_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    world.begin()
    world.store.take_game_numbers(500)
    restart_with_older_data(world, monkeypatch)
    world.controller = world.make_controller()
    world.controller.take_over()
    assert world.store.game_counter() == GameCounter(CEILING_STEP, CEILING_STEP)


def test_numbers_go_on_where_they_were_after_a_restart_of_the_embedded_server(
    world: World, fake_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It has every write on disk before it answers."""
    world.spec = replace(world.spec, redis_is_embedded=True)
    world.controller = world.make_controller()
    world.begin()
    world.store.take_game_numbers(500)
    monkeypatch.setattr(world.store, "server_id", lambda: "another start")
    with pytest.raises(NeedsCeilingError):
        world.store.take_game_numbers(10)
    fake_clock.advance(0.25)
    world.speak()
    world.controller.step()
    assert world.store.take_game_numbers(10) == range(500, 510)


def test_numbers_go_on_where_they_were_while_the_server_is_the_same(world: World) -> None:
    world.begin()
    world.store.take_game_numbers(500)
    world.controller = world.make_controller()
    world.controller.take_over()
    assert world.store.game_counter() == GameCounter(500, CEILING_STEP)


def test_a_role_that_was_stopped_while_the_store_lost_its_data_is_dead(world: World, fake_clock: Any) -> None:
    world.begin()
    old = world.launcher.now("learner")
    world.store.lose_data()
    for _ in range(60):
        fake_clock.advance(0.25)
        world.speak(but=["learner-0"])
        world.controller.step()
    assert old.killed
    assert world.launcher.now("learner").incarnation != old.incarnation
    assert sum(role.killed for role in world.launcher.started) == 1
