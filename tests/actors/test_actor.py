from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest
from prometheus_client import CollectorRegistry

from zerofleet.actors.actor import Actor
from zerofleet.actors.config import SelfPlaySetup
from zerofleet.actors.pipelining import InProcess
from zerofleet.errors import InferenceError, InferenceUnavailableError
from zerofleet.search.base import Evaluation, LeafBatch
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.streams.codec import decode_episode
from zerofleet.streams.records import Episode
from zerofleet.telemetry import Metrics

MakeSetup = Callable[..., SelfPlaySetup]


class _World:
    """An actor between fakes, with a clock that waiting moves."""

    def __init__(self, stream: Any, numbers: Any, stop: Any, clock: Any) -> None:
        self.stream, self.numbers, self.stop, self.clock = stream, numbers, stop, clock
        self.metrics = Metrics(CollectorRegistry())

    def actor(self, setup: SelfPlaySetup, evaluator: Any = None) -> Actor:
        return Actor(
            setup,
            evaluator or InProcess(UniformEvaluator()),
            self.stream,
            self.numbers,
            self.metrics,
            clock=self.clock,
            sleep=self.clock.sleep,
        )

    def stop_after(self, num_episodes: int) -> None:
        self.stream.on_publish = lambda count: self.stop.set() if count >= num_episodes else None

    def episodes(self) -> list[Episode]:
        return [decode_episode(payload) for payload in self.stream.payloads]

    def metric(self, name: str, **labels: str) -> float | None:
        return self.metrics.registry.get_sample_value(f"zerofleet_actor_{name}", labels)


@pytest.fixture
def world(fake_stream: Any, fake_numbers: Any, fake_stop: Any, fake_clock: Any) -> _World:
    return _World(fake_stream, fake_numbers, fake_stop, fake_clock)


def test_finished_games_are_published_and_unfinished_ones_counted(world: _World, make_setup: MakeSetup) -> None:
    world.stop_after(20)
    actor = world.actor(make_setup(num_games=6))
    actor.run(world.stop)
    episodes = world.episodes()
    numbers = [episode.game_number for episode in episodes]
    assert len(numbers) >= 20
    assert len(set(numbers)) == len(numbers)
    counts = actor.numbers()
    assert counts["games"] == len(numbers) == world.metric("games_total")
    assert counts["unpublished_episodes"] == 0
    assert counts["abandoned_games"] == world.metric("abandoned_games_total")
    # every game begun was published or is counted as abandoned; no place stayed empty
    assert 1 <= counts["abandoned_games"] <= 6
    assert counts["moves"] == world.metric("moves_total") >= sum(len(episode.moves) for episode in episodes)
    assert counts["simulations"] == world.metric("simulations_total") >= 16 * 20 * 5
    assert counts["positions"] == world.metric("positions_total") > 0
    assert counts["games_in_flight"] == world.metric("games_in_flight") == 0


def test_one_group_is_searched_while_the_other_ones_leaves_are_away(world: _World, make_setup: MakeSetup) -> None:
    class Spy(InProcess):
        away = 0
        most_away = 0
        least_away_at_collect = 9

        def submit(self, batch: LeafBatch) -> LeafBatch:
            self.away += 1
            self.most_away = max(self.most_away, self.away)
            return super().submit(batch)

        def collect(self, ticket: LeafBatch) -> Evaluation:
            self.least_away_at_collect = min(self.least_away_at_collect, self.away)
            self.away -= 1
            return super().collect(ticket)

    world.stop_after(10)
    spy = Spy(UniformEvaluator())
    world.actor(make_setup("connect4", num_games=5, num_groups=2), spy).run(world.stop)
    assert (spy.most_away, spy.least_away_at_collect) == (2, 2)


def test_a_full_stream_makes_the_actor_wait_and_say_so(world: _World, make_setup: MakeSetup) -> None:
    """Fault 56: nothing is dropped and nothing piles up; the actor plays no further game until there is room."""
    world.stream.capacity = 3
    world.stop_after(12)
    actor = world.actor(make_setup(num_games=2))
    seen: list[tuple[str, float]] = []

    def look() -> None:
        seen.append((actor.waiting_for, actor.numbers()["unpublished_episodes"]))
        if world.stop.num_waits == 20:
            world.stream.capacity = 100

    world.stop.on_wait = look
    actor.run(world.stop)
    assert "the learner to read the stream" in {text for text, _ in seen}
    assert max(kept for _, kept in seen) <= 2, "no more than were over when the stream became full"
    assert actor.numbers()["waiting_stream_full_seconds"] == world.metric("waiting_seconds_total", reason="stream_full")
    assert actor.numbers()["waiting_stream_full_seconds"] > 1.0
    assert {episode.game_number for episode in world.episodes()} >= set(range(10))


def test_while_the_store_is_away_games_are_kept_up_to_a_bound_and_none_is_lost(
    world: _World, make_setup: MakeSetup
) -> None:
    """Fault 80: minutes without a store cost waiting, not games."""
    world.stream.is_away = world.numbers.is_away = False
    actor = world.actor(make_setup(num_games=2, max_unpublished_episodes=5, game_number_block=50))
    kept: list[float] = []
    start = world.clock.now
    world.stream.on_publish = lambda count: _leave(world, count)

    def look() -> None:
        kept.append(actor.numbers()["unpublished_episodes"])
        if world.clock.now > start + 300.0 and world.stream.is_away:
            assert actor.waiting_for == "the store to take games"
            world.stream.is_away = False
            world.stop_after(20)

    world.stop.on_wait = look
    actor.run(world.stop)
    assert max(kept) <= 5 + 2, "the bound, and what was over in the same turn"
    assert actor.numbers()["waiting_store_seconds"] >= 290.0
    published = [episode.game_number for episode in world.episodes()]
    abandoned = int(actor.numbers()["abandoned_games"])
    begun = len(published) + abandoned
    assert len(set(published)) == len(published)
    assert max(published) < begun, "every game begun before the last was published or is in play"


def _leave(world: _World, count: int) -> None:
    if count == 3:
        world.stream.is_away = True


def test_without_game_numbers_the_actor_waits_for_the_store(world: _World, make_setup: MakeSetup) -> None:
    world.numbers.is_away = True
    actor = world.actor(make_setup(num_games=2))
    texts: set[str] = set()

    def look() -> None:
        texts.add(actor.waiting_for)
        if world.stop.num_waits == 30:
            world.numbers.is_away = False

    world.stop.on_wait = look
    world.stop_after(4)
    actor.run(world.stop)
    assert texts == {"", "game numbers from the store"}
    assert len(world.episodes()) >= 4


def test_inference_that_goes_away_is_waited_for_and_asked_again(world: _World, make_setup: MakeSetup) -> None:
    """Fault 79, and a request is pure: the games are those that were played without the gap."""

    class Away(InProcess):
        num_asked = 0
        is_back = False

        def submit(self, batch: LeafBatch) -> LeafBatch:
            if self.num_asked > 8 and not self.is_back:
                raise InferenceUnavailableError("no server")
            return super().submit(batch)

        def collect(self, ticket: LeafBatch) -> Evaluation:
            self.num_asked += 1
            if self.num_asked > 7 and not self.is_back:
                raise InferenceUnavailableError("no answer within 10 s")
            return super().collect(ticket)

    setup = make_setup(num_games=3)
    away = Away(UniformEvaluator())
    actor = world.actor(setup, away)
    texts: set[str] = set()

    def look() -> None:
        texts.add(actor.waiting_for)
        away.is_back = world.stop.num_waits > 20

    world.stop.on_wait = look
    world.stop_after(6)
    actor.run(world.stop)
    assert "an inference server" in texts
    assert actor.numbers()["waiting_inference_seconds"] > 1.0
    with_gap = {episode.game_number: episode for episode in world.episodes()}

    world.stream.payloads.clear()
    world.numbers.next_number = 0
    world.stop.clear()
    world.actor(setup).run(world.stop)
    for episode in world.episodes():
        if (other := with_gap.get(episode.game_number)) is not None:
            assert [move.ordinal for move in other.moves] == [move.ordinal for move in episode.moves]


def test_a_refused_request_ends_the_actor_loudly_after_it_published_what_it_had(
    world: _World, make_setup: MakeSetup
) -> None:
    class Refusing(InProcess):
        def collect(self, ticket: LeafBatch) -> Evaluation:
            if world.stream.payloads:
                raise InferenceError("unknown version 7")
            return super().collect(ticket)

    actor = world.actor(make_setup(num_games=4), Refusing(UniformEvaluator()))
    with pytest.raises(InferenceError, match="unknown version 7"):
        actor.run(world.stop)
    assert actor.numbers()["unpublished_episodes"] == 0
    assert actor.numbers()["abandoned_games"] >= 3


def test_an_actor_told_to_stop_without_a_store_gives_up_in_time_and_counts(
    world: _World, make_setup: MakeSetup
) -> None:
    world.stream.is_away = True
    actor = world.actor(make_setup(num_games=2, max_unpublished_episodes=2, drain_s=6.0))
    world.stop.on_wait = world.stop.set
    actor.run(world.stop)
    begun = 2 + actor.numbers()["unpublished_episodes"]
    assert actor.numbers()["unpublished_episodes"] >= 2
    assert actor.numbers()["abandoned_games"] in (begun, begun - 1)
    assert 4.0 <= world.clock.now - 1000.0 <= 7.0, "up to the last try before the deadline, delays being 2 s at most"


def test_an_actor_that_starts_anew_repeats_no_game(world: _World, make_setup: MakeSetup) -> None:
    """Fault 58: killed in the middle of its games, started again: each game once, its plies from 0 on."""

    class Dying(InProcess):
        def collect(self, ticket: LeafBatch) -> Evaluation:
            if len(world.stream.payloads) >= 5:
                raise KeyboardInterrupt
            return super().collect(ticket)

    setup = make_setup(num_games=4)
    with pytest.raises(KeyboardInterrupt):
        world.actor(setup, Dying(UniformEvaluator())).run(world.stop)
    world.stop_after(15)
    world.actor(setup).run(world.stop)
    numbers = [episode.game_number for episode in world.episodes()]
    assert len(numbers) >= 15
    assert len(set(numbers)) == len(numbers)


def test_every_first_move_is_legal(world: _World, make_setup: MakeSetup) -> None:
    """Fault 28: begun over and over again, no game plays a move that its position does not have."""
    setup = make_setup(num_games=8, max_plies=1)
    world.stop_after(1000)
    world.actor(setup).run(world.stop)
    assert all(0 <= episode.moves[0].ordinal < 9 for episode in world.episodes())


def test_actors_load_neither_torch_nor_ray_nor_redis() -> None:
    code = (
        "import sys, zerofleet.actors.actor, zerofleet.actors.config, zerofleet.actors.pipelining;"
        "print([name for name in ('torch', 'ray', 'redis') if name in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"
