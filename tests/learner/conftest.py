"""What the learner's tests share: real games, random episodes of them, and a learner over memory."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from zerofleet.games import load_game
from zerofleet.games.base import Game
from zerofleet.games.position_crc import position_crc
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.learner import Learner
from zerofleet.network.config import NetworkConfig
from zerofleet.streams.codec import encode_episode
from zerofleet.streams.records import Episode, MoveRecord
from zerofleet.streams.store import MemoryRunStore
from zerofleet.streams.stream import MemoryEpisodeStream
from zerofleet.telemetry import Metrics

RUN = "test"


@pytest.fixture(autouse=True)
def _one_thread() -> None:
    torch.set_num_threads(1)


@pytest.fixture
def tictactoe() -> Game:
    return load_game("tictactoe")


@pytest.fixture
def connect4() -> Game:
    return load_game("connect4")


@pytest.fixture
def play() -> Callable[..., Episode]:
    return random_episode


def random_episode(game: Game, number: int, *, run: str = RUN, max_plies: int = 0) -> Episode:
    """Play a random game with random search results; the same number gives the same game."""
    rng = np.random.default_rng(number)
    state, moves = game.initial_state(), []
    while (legal := game.legal_moves(state)) and not (max_plies and len(moves) >= max_plies):
        counts = rng.integers(0, 20, len(legal))
        counts[int(rng.integers(len(legal)))] += 1
        visited = np.flatnonzero(counts)
        ordinal = int(rng.choice(visited))
        moves.append(
            MoveRecord(
                ordinal=ordinal,
                visited=visited.astype(np.uint16),
                visit_counts=counts[visited].astype(np.uint32),
                root_value=float(np.sin(number + len(moves))),
                weights_version=1,
                full_search=True,
            )
        )
        state = game.next_state(state, legal[ordinal])
    value = game.terminal_value(state)
    return Episode(
        id=f"{run}-{number}",
        game=game.spec,
        rules_version=game.rules_version,
        actor="actor-0",
        game_number=number,
        purpose="self-play",
        moves=tuple(moves),
        outcome=0 if value is None else value * (1 if game.to_play(state) == 0 else -1),
        termination="ply cap" if value is None else game.termination(state),
        final_crc=position_crc(game, state),
    )


@dataclass
class Bench:
    """A run's folder with stream and store in memory, in which learners come and go."""

    game: Game
    folder: Path
    config: LearnerConfig
    network: NetworkConfig = field(default_factory=lambda: NetworkConfig(channels=4, blocks=1, value_hidden=4))
    seed: int = 3
    run_config: dict[str, Any] = field(default_factory=dict)
    store: MemoryRunStore = field(default_factory=MemoryRunStore)
    metrics: Metrics = field(default_factory=Metrics)
    stop: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self.stream = MemoryEpisodeStream(self.store.epoch, max_backlog=100_000)

    def publish(self, numbers: range | list[int]) -> None:
        """Put random games of these numbers into the stream."""
        for number in numbers:
            assert self.stream.publish(encode_episode(random_episode(self.game, number)))

    def learner(self, config: LearnerConfig | None = None) -> Learner:
        """Start a learner of the next epoch, up to the point where it would run."""
        return Learner(
            game=self.game,
            config=config or self.config,
            network=self.network,
            seed=self.seed,
            run=RUN,
            folder=self.folder,
            stream=self.stream,
            store=self.store,
            epoch=self.store.acquire_epoch("learner", 0, lambda _epoch: None),
            metrics=self.metrics,
            run_config=self.run_config,
        )

    def run_until(self, learner: Learner, done: Callable[[Learner], bool]) -> Learner:
        """Run `learner` in this thread until `done` holds after a step or a look at the stream."""
        self.stop = StopWhen(lambda: done(learner))
        learner.run(self.stop)
        return learner

    def run_dry(self, learner: Learner) -> Learner:
        """Run `learner` until the stream is empty and no step is allowed."""

        def dry(it: Learner) -> bool:
            counts = self.stream.counts()
            nothing_left = counts.backlog + counts.pending == 0 or not it.training.may_read
            return nothing_left and it.version > 0 and not it.training.may_step

        return self.run_until(learner, dry)


class StopWhen(threading.Event):
    """A stop event that sets itself when a condition holds; a wait does not take time."""

    def __init__(self, condition: Callable[[], bool]) -> None:
        super().__init__()
        self._condition = condition

    def is_set(self) -> bool:
        return super().is_set() or self._condition()

    def wait(self, timeout: float | None = None) -> bool:
        return self.is_set()


SMALL = LearnerConfig(
    batch_size=8,
    samples_per_insert=2.0,
    min_rows=20,
    replay_rows=60,
    max_rows_ahead=40,
    publish_interval_steps=5,
    warmup_steps=3,
    read_episodes=3,
)


@pytest.fixture
def small_config() -> LearnerConfig:
    return SMALL


@pytest.fixture
def bench(tictactoe: Game, tmp_path: Path) -> Iterator[Bench]:
    yield Bench(game=tictactoe, folder=tmp_path / "run", config=SMALL)


@pytest.fixture
def same_weights() -> Callable[[Learner, Learner], bool]:
    def same(first: Learner, second: Learner) -> bool:
        ours, theirs = first.training.trainer.state(), second.training.trainer.state()
        return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)

    return same
