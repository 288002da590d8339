from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import pytest

from zerofleet.cluster.limits import Limits
from zerofleet.cluster.role_spec import RoleOutcome
from zerofleet.cluster.run_state import RunState
from zerofleet.cluster.upkeep import CEILING_STEP
from zerofleet.errors import StaleEpochError, StreamUnavailableError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import WeightsRecord, WishRecord

if TYPE_CHECKING:
    from tests.cluster.conftest import World

DIED = RoleOutcome(kind="died", text="its process is gone")


def step(world: World, clock: Any, seconds: float = 0.25, **numbers: float) -> None:
    """Let time pass, every role speak, and the controller look."""
    clock.advance(seconds)
    world.speak(**numbers)
    world.controller.step()


def names(world: World) -> list[str]:
    return [f"{role.role}-{role.index}" for role in world.launcher.started]


def test_a_run_begins_with_servers_learner_and_actors(world: World) -> None:
    world.begin()
    assert names(world) == ["inference-0", "inference-1", "learner-0", "actor-0", "actor-1"]
    assert world.store.wish() == 2
    state = world.store.state()
    assert state is not None
    assert state["actors"] == {"wished": 2, "alive": 2, "most": 32}


def test_epoch_ceiling_and_wish_are_in_the_folder_before_they_count(world: World) -> None:
    world.begin()
    assert world.folder.epoch("controller") == world.store.epoch("controller") == 1
    assert world.folder.ceiling() == CEILING_STEP
    counter = world.store.game_counter()
    assert counter is not None
    assert (counter.next, counter.ceiling) == (0, CEILING_STEP)
    assert world.folder.wish() == WishRecord(2, 1)


def test_the_ceiling_rises_before_the_numbers_run_out(world: World, fake_clock: Any) -> None:
    world.begin()
    world.store.take_game_numbers(CEILING_STEP // 2 + 1)
    step(world, fake_clock)
    assert world.folder.ceiling() == 2 * CEILING_STEP
    counter = world.store.game_counter()
    assert counter is not None
    assert counter.ceiling == 2 * CEILING_STEP


def test_a_dead_role_is_started_again_as_another_incarnation(world: World, fake_clock: Any) -> None:
    """Fault 75."""
    world.begin()
    old = world.launcher.now("learner")
    old.end = DIED
    step(world, fake_clock)
    assert old.killed
    step(world, fake_clock)
    assert world.launcher.now("learner").incarnation != old.incarnation
    state = world.store.state()
    assert state is not None


def test_a_role_that_says_nothing_for_a_lease_is_dead(world: World, fake_clock: Any) -> None:
    world.begin()
    old = world.launcher.now("inference")
    for _ in range(30):
        fake_clock.advance(0.25)
        world.speak(but=["inference-0"])
        world.controller.step()
    assert old.killed
    assert world.launcher.now("inference").incarnation != old.incarnation
    assert names(world).count("inference-1") == 1


def test_nobody_is_judged_while_the_store_is_silent_nor_just_after(world: World, fake_clock: Any) -> None:
    """Fault 80: the store is away for five minutes, and nobody can renew a lease."""
    world.begin()
    world.store.silent = True
    for _ in range(10):
        fake_clock.advance(30.0)
        with pytest.raises(StreamUnavailableError):
            world.controller.step()
    world.store.silent = False
    world.controller.step()
    assert len(world.launcher.started) == 5
    step(world, fake_clock)
    for _ in range(40):
        step(world, fake_clock)
    assert len(world.launcher.started) == 5


def test_a_controller_that_was_stopped_itself_judges_nobody_when_it_wakes(world: World, fake_clock: Any) -> None:
    world.begin()
    fake_clock.advance(60.0)  # and every lease is long over by the store's clock
    world.controller.step()
    assert len(world.launcher.started) == 5
    assert not any(role.killed for role in world.launcher.started)


def test_a_machine_that_sleeps_while_its_controller_looks_costs_no_role(
    world: World, fake_clock: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Every process stands still, and the controller wakes holding what the store says of leases long over."""
    world.begin()
    for _ in range(30):  # past the first lease, in which a new controller judges nobody
        step(world, fake_clock)
    roles = world.store.roles

    def asleep() -> Any:
        fake_clock.advance(60.0)
        return roles()

    with monkeypatch.context() as patch:
        patch.setattr(world.store, "roles", asleep)
        world.controller.step()
    for _ in range(40):
        step(world, fake_clock)
    assert len(world.launcher.started) == 5
    assert not any(role.killed for role in world.launcher.started)


def test_many_actors_start_a_few_at_a_time_and_a_smaller_wish_is_obeyed_meanwhile(
    world: World, fake_clock: Any
) -> None:
    world.begin()
    world.store.set_wish(30)
    for _ in range(8):  # nobody comes up
        fake_clock.advance(0.25)
        world.controller.step()
    assert len(world.launcher.started) == 5 + 4
    step(world, fake_clock)  # now they have, and the next ones start
    assert len(world.launcher.started) == 5 + 8
    world.store.set_wish(3)
    for _ in range(8):
        step(world, fake_clock)
    assert len(world.launcher.started) == 5 + 8


def test_no_wish_takes_more_actors_than_the_cores_bear(world: World, fake_clock: Any) -> None:
    """The test's cluster has two cores."""
    world.begin()
    world.store.set_wish(100_000)
    for _ in range(60):
        step(world, fake_clock)
    state = world.store.state()
    assert state is not None
    assert state["actors"] == {"wished": 100_000, "alive": 32, "most": 32}


def test_a_run_that_is_launched_again_shows_its_totals_before_its_learner_speaks(world: World, fake_clock: Any) -> None:
    before = RunState(state="failed", games=1419, step=700, weights_version=9, error="it broke", exit_reason="failed")
    world.folder.persist_published(WeightsRecord(9, 700, "a checksum"))
    world.store.set_state(before.begun_anew().to_record())
    world.controller.take_over()
    fake_clock.advance(1.0)
    world.controller.step()
    state = RunState.from_record(world.store.state())
    assert (state.games, state.step, state.weights_version) == (1419, 700, 9)
    assert (state.state, state.error, state.exit_reason) == ("starting", "", None)


def test_restarts_wait_longer_each_time_but_five_seconds_at_most(world: World, fake_clock: Any) -> None:
    world.begin()
    starts = []
    for _ in range(9):
        world.launcher.now("actor").end = DIED
        died_at = fake_clock()
        before = len(world.launcher.started)
        while len(world.launcher.started) == before:
            fake_clock.advance(0.05)
            world.speak()
            world.controller.step()
        starts.append(fake_clock() - died_at)
    assert starts == sorted(starts)
    assert starts[0] < 0.3
    assert 4.9 < starts[-1] < 5.3


def let_the_learner_die(world: World, clock: Any, *, times: int) -> None:
    for _ in range(times):
        world.launcher.now("learner").end = RoleOutcome(kind="failed", text="the disk is full")
        for _ in range(30):
            step(world, clock)


def test_ten_deaths_without_progress_end_the_run(world: World, fake_clock: Any) -> None:
    world.begin()
    let_the_learner_die(world, fake_clock, times=10)
    assert world.controller.exit_reason == "failed"
    assert "learner-0" in world.controller.error
    assert "the disk is full" in world.controller.error


def test_progress_between_deaths_keeps_the_run_alive(world: World, fake_clock: Any) -> None:
    world.begin()
    for _ in range(15):
        world.launcher.now("actor").end = DIED
        for games in range(30):
            step(world, fake_clock, games=float(games))
    assert world.controller.exit_reason is None


def test_a_learner_that_logs_games_makes_progress_though_it_makes_no_step(world: World, fake_clock: Any) -> None:
    world.begin()
    for death in range(15):
        world.launcher.now("learner").end = DIED
        for look in range(30):
            step(world, fake_clock, step=7.0, positions=100.0 * death + look)
    assert world.controller.exit_reason is None


def test_what_a_learner_reads_back_after_its_death_is_no_progress(world: World, fake_clock: Any) -> None:
    world.begin()
    step(world, fake_clock, step=700.0, positions=9000.0)
    for _ in range(10):
        world.launcher.now("learner").end = DIED
        for look in range(30):
            step(world, fake_clock, step=0.0 if look < 25 else 700.0, positions=9000.0)
    assert world.controller.exit_reason == "failed"


def test_a_fatal_role_is_never_restarted_and_ends_the_run(world: World, fake_clock: Any) -> None:
    world.begin()
    world.launcher.now("learner").end = RoleOutcome(kind="fatal", text="loss is not finite at step 7")
    step(world, fake_clock)
    assert names(world).count("learner-0") == 1
    assert world.controller.exit_reason == "failed"
    assert world.controller.error == "learner-0: loss is not finite at step 7"
    assert all(role.stop_asked for role in world.launcher.started if role.role == "actor")


def test_a_run_whose_time_is_up_has_failed_where_a_role_never_got_going(world: World, fake_clock: Any) -> None:
    """A short run would else end well although nothing was ever learned."""
    world.folder.write_record("limits", Limits(deadline=fake_clock() + 60.0).to_record())
    world.begin()
    let_the_learner_die(world, fake_clock, times=3)
    assert world.controller.exit_reason is None
    fake_clock.advance(60.0)
    step(world, fake_clock)
    assert world.controller.exit_reason == "failed"
    assert world.controller.error == "learner-0 ended 3 times without progress, last: the disk is full"


def test_a_run_that_is_stopped_has_not_failed_whatever_died(world: World, fake_clock: Any) -> None:
    world.begin()
    let_the_learner_die(world, fake_clock, times=3)
    world.store.request_stop()
    step(world, fake_clock)
    assert world.controller.exit_reason == "stopped"


def test_a_learner_that_still_reads_its_files_does_not_set_the_totals_back(world: World, fake_clock: Any) -> None:
    world.begin()
    step(world, fake_clock, step=700.0, games=90.0, weights_version=9.0)
    world.launcher.now("learner").end = DIED
    for _ in range(8):
        step(world, fake_clock, step=0.0, games=0.0, weights_version=0.0)
    state = world.store.state()
    assert state is not None
    assert (state["step"], state["games"]) == (700, 90)


def test_without_a_wished_actor_the_run_waits_for_one(world: World, fake_clock: Any) -> None:
    world.begin()
    world.store.set_wish(0)
    step(world, fake_clock)
    for index in (0, 1):
        world.launcher.now("actor", index).end = RoleOutcome(kind="stopped")
    for _ in range(3):
        step(world, fake_clock)
    assert world.controller.waiting_for == "actors: none is wished for"
    learner = world.record(world.launcher.now("learner"), {})
    world.store.heartbeat(replace(learner, waiting_for="has 8 of 9 positions"), 5.0)
    fake_clock.advance(1.0)
    world.controller.step()
    assert world.controller.waiting_for == "actors: none is wished for"
    waits = {reason: world.metrics.controller_waiting.labels(reason)._value.get() for reason in ("learner", "actors")}
    assert waits == {"learner": 0.0, "actors": 1.0}


def test_scaling_starts_more_actors_and_lets_the_last_ones_leave_in_order(world: World, fake_clock: Any) -> None:
    """Fault 110."""
    world.begin()
    world.store.set_wish(4)
    step(world, fake_clock)
    assert names(world)[-2:] == ["actor-2", "actor-3"]
    assert world.folder.wish() == WishRecord(4, 2)
    world.store.set_wish(1)
    step(world, fake_clock)
    leaving = [world.launcher.now("actor", index) for index in (1, 2, 3)]
    assert all(role.stop_asked and not role.killed for role in leaving)
    assert not world.launcher.now("actor", 0).stop_asked
    for role in leaving:
        role.end = RoleOutcome(kind="stopped")
    step(world, fake_clock)
    assert all(role.killed for role in leaving)
    world.store.set_wish(2)
    step(world, fake_clock)
    assert names(world).count("actor-1") == 2


def test_an_actor_that_does_not_leave_is_ended(world: World, fake_clock: Any) -> None:
    world.begin()
    world.store.set_wish(1)
    for _ in range(130):
        step(world, fake_clock)
    assert world.launcher.now("actor", 1).killed
    assert not world.launcher.now("actor", 0).killed


def test_weights_are_pushed_once_to_each_server_and_to_a_late_joiner(world: World, fake_clock: Any) -> None:
    world.begin()
    record = publish(world, 1)
    step(world, fake_clock)
    assert [world.launcher.now("inference", index).loaded for index in (0, 1)] == [[1], [1]]
    step(world, fake_clock, weights_version=1.0)
    assert world.launcher.now("inference").loaded == [1]
    assert world.launcher.num_shared == 1
    assert world.folder.published() == record
    world.launcher.now("inference", 1).end = DIED
    for _ in range(3):
        step(world, fake_clock)
    assert world.launcher.now("inference", 1).loaded == [1]


def test_a_push_that_did_not_arrive_is_made_again(world: World, fake_clock: Any) -> None:
    world.begin()
    publish(world, 1)
    for _ in range(25):
        step(world, fake_clock, weights_version=0.0)
    assert world.launcher.now("inference").loaded == [1, 1]


def publish(world: World, version: int) -> WeightsRecord:
    """Do what the learner does: a file whose header holds the checksum, then the number."""
    epoch = world.store.acquire_epoch("learner", 0, lambda _new: None)
    header = b'{"__metadata__":{"zerofleet":"abc123"}}'
    (world.folder.weights / f"{version:08d}-{epoch:06d}.safetensors").write_bytes(
        len(header).to_bytes(8, "little") + header
    )
    world.store.publish_weights(version, 10, "abc123", epoch)
    return WeightsRecord(version, 10, "abc123")


def test_a_store_that_lost_its_data_gets_it_back_above_all_that_was_given_out(world: World, fake_clock: Any) -> None:
    world.begin()
    publish(world, 3)
    world.folder.persist_epoch("learner", 1)
    world.store.set_wish(3)
    world.store.take_game_numbers(500)
    step(world, fake_clock)
    world.store.lose_data()
    step(world, fake_clock)
    step(world, fake_clock)
    counter = world.store.game_counter()
    assert counter is not None
    assert (counter.next, counter.ceiling) == (CEILING_STEP, 2 * CEILING_STEP)
    assert world.store.epoch("controller") == 1
    assert world.store.epoch("learner") == 1
    assert world.store.wish() == 3
    assert world.store.weights() == WeightsRecord(3, 10, "abc123")
    assert not any(role.killed for role in world.launcher.started)


def test_a_restarted_controller_adopts_what_lives(world: World, fake_clock: Any) -> None:
    world.begin()
    world.launcher.living = [(role.role, role.index, role) for role in world.launcher.started]
    old = world.controller
    world.controller = world.make_controller()
    world.controller.take_over()
    for _ in range(40):
        step(world, fake_clock)
    assert len(world.launcher.started) == 5
    with pytest.raises(StaleEpochError):
        old.step()


def test_a_controller_of_an_older_launch_does_not_take_over(world: World, anew: Callable[[], object]) -> None:
    world.begin()
    late = world.make_controller()
    anew()
    with pytest.raises(StaleEpochError):
        late.take_over()
    assert world.store.epoch("controller") == 1


@pytest.mark.parametrize(
    ("limits", "numbers", "reason"),
    [
        (Limits(games=100), {"games": 100.0}, "games"),
        (Limits(steps=7), {"step": 7.0}, "steps"),
        (Limits(deadline=1001.5), {}, "minutes"),
    ],
)
def test_a_limit_ends_the_run_in_order(
    world: World, fake_clock: Any, limits: Limits, numbers: dict[str, float], reason: str
) -> None:
    world.folder.write_record("limits", limits.to_record())
    world.begin()
    assert world.controller.exit_reason is None
    step(world, fake_clock, 1.0, **numbers)
    assert world.controller.exit_reason == reason
    order = []
    for _ in range(8):
        step(world, fake_clock, **numbers)
        for role in world.launcher.started:
            if role.stop_asked and role.end is None:
                order.append(role.role)
                role.end = RoleOutcome(kind="stopped")
    assert order == ["actor", "actor", "learner", "inference", "inference"]
    assert world.controller.is_over
    state = world.store.state()
    assert state is not None
    assert (state["state"], state["exit_reason"]) == ("stopped", reason)
    assert world.folder.record("summary")["exit_reason"] == reason


def test_what_a_dead_learner_said_reaches_no_limit(world: World, fake_clock: Any) -> None:
    """Its record is left of a launch that was killed, steps beyond the checkpoint that the next one resumes from."""
    world.folder.write_record("limits", Limits(steps=7).to_record())
    old = RoleRecord(role="learner", index=0, node="home", pid=1, incarnation="old", numbers={"step": 9.0})
    world.store.register(old, 5.0)
    fake_clock.advance(6.0)
    world.begin()
    assert world.controller.exit_reason is None
    world.store.register(world.record(world.launcher.now("learner"), {"step": 7.0}), 5.0)
    world.controller.step()
    assert world.controller.exit_reason == "steps"


def test_the_learner_stays_until_the_stream_is_logged(world: World, fake_clock: Any) -> None:
    world.begin()
    world.store.acquire_epoch("learner", 0, lambda _new: None)
    world.stream.publish(b"a game")
    world.store.request_stop()
    step(world, fake_clock)
    for index in (0, 1):
        world.launcher.now("actor", index).end = RoleOutcome(kind="stopped")
    for _ in range(5):
        step(world, fake_clock)
    assert not world.launcher.now("learner").stop_asked
    (entry,) = world.stream.read("learner", 10, 0.0)
    world.stream.ack([entry.id], 1)
    step(world, fake_clock)
    assert world.launcher.now("learner").stop_asked


def test_the_last_words_of_the_learner_count(world: World, fake_clock: Any) -> None:
    world.begin()
    learner = world.launcher.now("learner")
    step(world, fake_clock, 1.0, games=5.0, weights_version=1.0)
    learner.end = RoleOutcome(kind="stopped")
    look = world.store.roles

    def roles_with_last_words() -> Any:
        found = look()
        world.store.heartbeat(world.record(learner, {"games": 8.0, "weights_version": 1.0}), 5.0)
        return found

    world.store.roles = roles_with_last_words  # type: ignore[method-assign]
    world.controller.step()
    world.store.roles = look  # type: ignore[method-assign]
    step(world, fake_clock, 1.0)
    state = world.store.state()
    assert state is not None
    assert state["games"] == 8


def test_a_run_says_what_it_waits_for(world: World, fake_clock: Any) -> None:
    """Faults 77 and 78."""
    world.controller.take_over()
    world.controller.step()
    assert world.controller.waiting_for.startswith("inference-0 has been starting")
    world.speak()
    fake_clock.advance(1.0)
    learner = world.launcher.now("learner")
    record = world.record(learner, {})
    world.store.heartbeat(
        type(record)(
            **{
                **{f: getattr(record, f) for f in record.__dataclass_fields__},
                "waiting_for": "has 812 of 2,000 positions",
            }
        ),
        5.0,
    )
    world.controller.step()
    assert world.controller.waiting_for == "the learner has 812 of 2,000 positions"


def test_a_role_that_finds_no_room_is_named_and_in_the_end_fails_the_run(world: World, fake_clock: Any) -> None:
    """Fault 77: more roles than the cluster has room for; the run says which one it waits for, and since when."""
    world.begin()
    world.launcher.now("inference", 1).end = DIED
    said = set()
    while world.controller.exit_reason is None:
        assert fake_clock() < 5000.0, "it waits for ever"
        fake_clock.advance(1.0)
        world.speak(but=["inference-1"])
        world.controller.step()
        said.add(world.controller.waiting_for)
    assert "inference-1 has been starting for 60 s, after did not register within 120 s" in said
    assert world.controller.exit_reason == "failed"
    assert world.controller.error.startswith("inference-1 ended 10 times without progress")
    assert "did not register within 120 s" in world.controller.error
