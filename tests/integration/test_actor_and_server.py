"""An actor and inference servers over a socket: the server dies in the middle of a game, another takes its place."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from prometheus_client import CollectorRegistry

from zerofleet.actors.actor import Actor
from zerofleet.actors.config import SelfPlayConfig, SelfPlaySetup
from zerofleet.games import load_game
from zerofleet.inference.client import InferenceClient
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.server import InferenceServer
from zerofleet.inference.wire import Dimensions
from zerofleet.search.base import Evaluation, SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.streams.codec import decode_episode
from zerofleet.telemetry import Metrics

GAME = load_game("connect4")
TOKEN = "the run's token"


class UniformBackend:
    """Answers like the uniform evaluator, as weights version `version`."""

    def __init__(self, version: int) -> None:
        self.dimensions = Dimensions.of(GAME)
        self.max_batch_size = 64
        self.num_non_finite_rows = 0
        self._version = version

    def load(self, version: int, weights: bytes) -> None:
        raise NotImplementedError

    def versions(self) -> tuple[int, ...]:
        return (self._version,)

    def forward(self, planes: Any, legal_offsets: Any, legal_actions: Any, version: int = 0) -> Evaluation:
        counts = legal_offsets[1:] - legal_offsets[:-1]
        priors = (1.0 / counts).astype("f4").repeat(counts)
        return Evaluation(priors=priors, values=0.0 * planes[:, 0].astype("f4"), weights_version=self._version)


class Numbers:
    def __init__(self) -> None:
        self.next = 0

    def take_game_numbers(self, count: int) -> range:
        self.next += count
        return range(self.next - count, self.next)


class Stream:
    """Keeps episodes, and lets others wait until there are enough."""

    def __init__(self) -> None:
        self.payloads: list[bytes] = []
        self._changed = threading.Condition()

    def publish(self, payload: bytes) -> bool:
        with self._changed:
            self.payloads.append(payload)
            self._changed.notify_all()
        return True

    def wait_for(self, count: int) -> None:
        with self._changed:
            assert self._changed.wait_for(lambda: len(self.payloads) >= count, 30.0)


@contextmanager
def _server(address: str, version: int) -> Iterator[None]:
    server = InferenceServer(UniformBackend(version), InferenceConfig(), address, TOKEN)
    stop = threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,), daemon=True)
    thread.start()
    try:
        yield
    finally:
        stop.set()
        thread.join(10.0)


def _wait_until(actor: Actor, text: str) -> None:
    for _ in range(600):
        if actor.waiting_for == text:
            return
        threading.Event().wait(0.05)
    raise AssertionError(f"the actor waits for {actor.waiting_for!r}, not for {text!r}")


def test_an_actor_outlives_its_server_and_plays_the_same_games(short_tmp: Path) -> None:
    """Faults 75 and 79: while no server is there the actor says so, and then it goes on where it was."""
    setup = SelfPlaySetup(
        run="socket",
        actor="actor-0",
        seed=3,
        game=GAME,
        search=SearchConfig(num_simulations=32, leaves_per_tree=2),
        self_play=SelfPlayConfig(),
        num_games=8,
    )
    address = f"unix:{short_tmp}/s"
    client = InferenceClient([address], TOKEN, Dimensions.of(GAME), deadline_s=0.5, total_deadline_s=1.0)
    stream, stop = Stream(), threading.Event()
    actor = Actor(setup, client, stream, Numbers(), Metrics(CollectorRegistry()))
    thread = threading.Thread(target=actor.run, args=(stop,), daemon=True)
    thread.start()
    try:
        with _server(address, version=1):
            stream.wait_for(3)
        _wait_until(actor, "an inference server")
        with _server(address, version=2):
            stream.wait_for(12)
            stop.set()
            thread.join(20.0)
    finally:
        stop.set()
        thread.join(20.0)
        client.close()

    episodes = [decode_episode(payload) for payload in stream.payloads]
    assert len({episode.game_number for episode in episodes}) == len(episodes) >= 12
    assert actor.numbers()["waiting_inference_seconds"] >= 1.0
    assert {move.weights_version for episode in episodes for move in episode.moves} == {1, 2}
    alone = _play_alone(setup, len(episodes))
    for episode in episodes:
        if episode.game_number in alone:
            assert [move.ordinal for move in episode.moves] == alone[episode.game_number]


def _play_alone(setup: SelfPlaySetup, count: int) -> dict[int, list[int]]:
    """Play the same numbers without any server, and return their moves."""
    from zerofleet.actors.pipelining import InProcess

    class Enough(Stream):
        def publish(self, payload: bytes) -> bool:
            super().publish(payload)
            if len(self.payloads) >= count:
                stop.set()
            return True

    stream, stop = Enough(), threading.Event()
    Actor(setup, InProcess(UniformEvaluator()), stream, Numbers(), Metrics(CollectorRegistry())).run(stop)
    return {e.game_number: [move.ordinal for move in e.moves] for e in map(decode_episode, stream.payloads)}
