"""The actor: plays self-play games without end and publishes each finished one.

In turns, for each of its groups: take the answer to the leaves sent last, play the moves that are decided, begin new
games for those that are over, search on, send the next leaves, publish what is over.  Whoever is away (inference,
store, learner) makes the actor wait and say so; no finished game is lost.  A role: a plain class with `run(stop)`.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from typing import Any

from zerofleet.actors.config import SelfPlaySetup
from zerofleet.actors.outbox import EpisodeSink, GameNumbers, NumberSource, Outbox
from zerofleet.actors.pipelining import Flight, PipelinedEvaluator
from zerofleet.actors.selfplay import PoolFactory, SelfPlayGroup, Tally
from zerofleet.actors.waiting import Backoff, Clock, Waits
from zerofleet.search.base import Evaluation
from zerofleet.search.pool import SearchPool
from zerofleet.streams.codec import encode_episode
from zerofleet.telemetry import Metrics

_COUNT_EVERY_S = 0.25

_log = logging.getLogger(__name__)


class Actor:
    """One self-play process.  `run` belongs to one thread; `numbers` and `waiting_for` may be read by any."""

    def __init__(
        self,
        setup: SelfPlaySetup,
        evaluator: PipelinedEvaluator[Any],
        stream: EpisodeSink,
        store: NumberSource,
        metrics: Metrics,
        *,
        clock: Clock = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
        pool_factory: PoolFactory = SearchPool,
    ) -> None:
        self._setup = setup
        self._metrics = metrics
        self._clock = clock
        self._sleep = sleep
        self._waits = Waits(metrics, clock)
        self._inference_backoff = Backoff(clock=clock)
        store_backoff = Backoff(clock=clock)
        config = setup.self_play
        self._outbox = Outbox(stream, config.max_unpublished_episodes, store_backoff, Backoff(clock=clock))
        self._game_numbers = GameNumbers(store, config.game_number_block, store_backoff)
        self._flights = [
            Flight(SelfPlayGroup(setup, size, pool_factory=pool_factory), evaluator)
            for size in split_games(setup.num_games, config.num_groups)
        ]
        self._totals = Tally()
        self._count_at = 0.0
        self._num_abandoned = 0
        self._num_published = 0

    @property
    def waiting_for(self) -> str:
        """What the actor has been waiting for, if for a second or more; "" while it works."""
        return self._waits.text

    def numbers(self) -> dict[str, float]:
        """Return the counters and gauges that `status` adds up."""
        totals = self._totals
        return {
            "games": self._outbox.num_published,
            "moves": totals.moves,
            "positions": totals.positions,
            "simulations": totals.simulations,
            "reused_visits": totals.reused_visits,
            "uniform_priors": totals.uniform_rows,
            "abandoned_games": self._num_abandoned,
            "unpublished_episodes": len(self._outbox),
            "games_in_flight": sum(flight.group.num_games for flight in self._flights),
            **{f"waiting_{reason}_seconds": seconds for reason, seconds in self._waits.seconds.items()},
        }

    def run(self, stop: threading.Event) -> None:
        """Play until told to stop; then drop the games in play, counted, and publish those that are finished."""
        try:
            while not stop.is_set():
                searching = [self._turn(flight, stop) for flight in self._flights]
                if not any(searching):
                    self._wait_for_numbers(stop)
                if self._clock() >= self._count_at:
                    self._count()
        finally:
            self._count()
            self._abandon()
            self._drain()

    def _turn(self, flight: Flight, stop: threading.Event) -> bool:
        """Bring one group to its next batch, and return whether it has one.

        Games are published when the batch is on its way: while the store fsyncs them, the servers have work.
        """
        if flight.is_away:
            evaluation = self._land(flight, stop)
            if evaluation is None:
                return False
            flight.group.expand(evaluation)
        has_batch = self._search_on(flight, stop)
        self._publish(stop)
        return has_batch

    def _search_on(self, flight: Flight, stop: threading.Event) -> bool:
        """Play the moves that are decided, begin games, and send the leaves of the next searches."""
        group = flight.group
        while not stop.is_set():
            for episode in group.play_moves():
                self._outbox.put(encode_episode(episode))
            self._begin_games(group)
            batch = group.collect()
            if len(batch) > 0:
                flight.launch(batch)
                return True
            if group.num_games == 0:
                return False
        return False

    def _land(self, flight: Flight, stop: threading.Event) -> Evaluation | None:
        with self._waits.on("inference", "an inference server"):
            return flight.land(self._inference_backoff, stop.wait)

    def _publish(self, stop: threading.Event) -> None:
        """Publish; wait while the stream is at its bound, and while the store is away and the outbox is full."""
        hindrance = self._outbox.flush()
        while not stop.is_set() and (hindrance == "stream_full" or (hindrance == "store" and self._outbox.is_full)):
            text = "the learner to read the stream" if hindrance == "stream_full" else "the store to take games"
            with self._waits.on(hindrance, text):
                stop.wait(self._outbox.retry_in_s)
                hindrance = self._outbox.flush()

    def _begin_games(self, group: SelfPlayGroup) -> None:
        while group.num_idle > 0:
            number = self._game_numbers.take()
            if number is None:
                return
            group.begin(number)

    def _wait_for_numbers(self, stop: threading.Event) -> None:
        with self._waits.on("store", "game numbers from the store"):
            stop.wait(self._game_numbers.retry_in_s)

    def _count(self) -> None:
        """Bring totals and metrics up to date; often enough for people, too rarely to cost the search anything."""
        self._count_at = self._clock() + _COUNT_EVERY_S
        totals, metrics = self._totals, self._metrics
        for flight in self._flights:
            tally = flight.group.take_tally()
            totals.moves += tally.moves
            totals.positions += tally.positions
            totals.simulations += tally.simulations
            totals.reused_visits += tally.reused_visits
            totals.uniform_rows += tally.uniform_rows
            metrics.actor_moves.inc(tally.moves)
            metrics.actor_positions.inc(tally.positions)
            metrics.actor_simulations.inc(tally.simulations)
            metrics.actor_reused_visits.inc(tally.reused_visits)
            metrics.actor_uniform_priors.inc(tally.uniform_rows)
        metrics.actor_games_in_flight.set(sum(flight.group.num_games for flight in self._flights))
        self._count_published()

    def _count_published(self) -> None:
        self._metrics.actor_games.inc(self._outbox.num_published - self._num_published)
        self._num_published = self._outbox.num_published

    def _abandon(self) -> None:
        dropped = sum(flight.group.abandon() for flight in self._flights)
        self._num_abandoned += dropped
        self._metrics.actor_abandoned_games.inc(dropped)
        self._metrics.actor_games_in_flight.set(0)

    def _drain(self) -> None:
        """Publish what is finished, for at most `drain_s`; what is left then is counted as abandoned."""
        deadline = self._clock() + self._setup.self_play.drain_s
        while self._outbox.flush() and self._clock() + self._outbox.retry_in_s < deadline:
            self._sleep(self._outbox.retry_in_s)
        self._count_published()
        if len(self._outbox) > 0:
            _log.warning("%s ends with %d finished games unpublished", self._setup.actor, len(self._outbox))
            self._num_abandoned += len(self._outbox)
            self._metrics.actor_abandoned_games.inc(len(self._outbox))


def split_games(num_games: int, num_groups: int) -> list[int]:
    """Return the sizes of at most `num_groups` groups, none empty, that differ by one at most."""
    groups = min(num_games, num_groups)
    return [num_games // groups + (1 if index < num_games % groups else 0) for index in range(groups)]
