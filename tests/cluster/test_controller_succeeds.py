"""What a controller knows of the one that was killed before it, and of the launch before its own."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from zerofleet.cluster.role_spec import RoleOutcome
from zerofleet.cluster.run_state import RunState

if TYPE_CHECKING:
    from tests.cluster.conftest import World


def succeed(world: World) -> None:
    """Kill the controller and let the next one adopt what lives."""
    world.launcher.living = [
        (role.role, role.index, role) for role in world.launcher.started if role.end is None and not role.killed
    ]
    world.controller = world.make_controller()
    world.controller.take_over()


def look(world: World, clock: Any, **numbers: float) -> dict[str, Any]:
    """Let time pass, every role speak and the controller look; return the state that it wrote."""
    clock.advance(1.0)
    world.speak(**numbers)
    world.controller.step()
    state = world.store.state()
    assert state is not None
    return state


def test_the_first_new_weights_came_when_they_came(world: World, fake_clock: Any) -> None:
    world.begin()
    first = look(world, fake_clock, weights_version=2.0)["first_new_weights"]
    assert first == fake_clock()
    fake_clock.advance(100.0)
    succeed(world)
    assert look(world, fake_clock, weights_version=2.0)["first_new_weights"] == first


def test_the_weights_that_a_resumed_run_began_with_are_not_new(world: World, fake_clock: Any) -> None:
    before = RunState(state="stopped", weights_version=39, first_new_weights=12.0)
    world.store.set_state(before.begun_anew().to_record())
    world.begin()
    assert look(world, fake_clock, weights_version=39.0)["first_new_weights"] is None
    assert look(world, fake_clock, weights_version=40.0)["first_new_weights"] == fake_clock()


def test_restarts_stay_counted(world: World, fake_clock: Any) -> None:
    world.begin()
    world.launcher.now("actor", 1).end = RoleOutcome(kind="died", text="its process is gone")
    look(world, fake_clock)
    assert look(world, fake_clock)["restarts"]["actor-1"] == 1
    succeed(world)
    assert look(world, fake_clock)["restarts"] == {
        "inference-0": 0, "inference-1": 0, "learner-0": 0, "actor-0": 0, "actor-1": 1,
    }  # fmt: skip


def test_a_run_that_has_failed_is_not_taken_up_again(world: World, fake_clock: Any) -> None:
    world.begin()
    world.launcher.now("learner").end = RoleOutcome(kind="fatal", text="loss is not finite at step 7")
    look(world, fake_clock)
    succeed(world)
    look(world, fake_clock)
    assert world.controller.exit_reason == "failed"
    assert world.controller.error == "learner-0: loss is not finite at step 7"
    assert [role.role for role in world.launcher.started].count("learner") == 1


def test_what_a_resume_changed_is_logged_with_its_step(
    world: World, fake_clock: Any, caplog: pytest.LogCaptureFixture
) -> None:
    world.spec = replace(world.spec, changes=("search.num_simulations: 100 -> 50",))
    world.controller = world.make_controller()
    with caplog.at_level(logging.WARNING, "zerofleet"):
        world.begin()
        assert "search.num_simulations" not in caplog.text  # the learner has not read its checkpoint yet
        look(world, fake_clock, step=40.0, weights_version=5.0)
        look(world, fake_clock, step=41.0, weights_version=5.0)
    assert caplog.text.count("from step 41 on, search.num_simulations: 100 -> 50") == 1
