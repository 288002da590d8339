"""A stop event that moves the fake clock, and fakes of what an actor talks to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pytest

from zerofleet.actors.config import SelfPlayConfig, SelfPlaySetup
from zerofleet.errors import StreamUnavailableError
from zerofleet.games import load_game
from zerofleet.search.base import SearchConfig


class FakeStop(threading.Event):
    """Waiting moves the clock at once; `on_wait` sees each wait."""

    def __init__(self, clock: Any) -> None:
        super().__init__()
        self._clock = clock
        self.num_waits = 0
        self.on_wait: Callable[[], None] = lambda: None

    def wait(self, timeout: float | None = None) -> bool:
        assert timeout is not None, "an actor never waits without a bound"
        self._clock.advance(timeout)
        self.num_waits += 1
        self.on_wait()
        return self.is_set()


@dataclass
class FakeStream:
    """Keeps what is published; can be full or away, and can stop the actor after so many episodes."""

    capacity: int = 10**9
    is_away: bool = False
    payloads: list[bytes] = field(default_factory=list)
    num_refused: int = 0
    num_failed: int = 0
    on_publish: Callable[[int], None] = lambda count: None

    def publish(self, payload: bytes) -> bool:
        if self.is_away:
            self.num_failed += 1
            raise StreamUnavailableError("the store does not answer")
        if len(self.payloads) >= self.capacity:
            self.num_refused += 1
            return False
        self.payloads.append(payload)
        self.on_publish(len(self.payloads))
        return True


@dataclass
class FakeNumbers:
    next_number: int = 0
    is_away: bool = False
    blocks: list[range] = field(default_factory=list)

    def take_game_numbers(self, count: int) -> range:
        if self.is_away:
            raise StreamUnavailableError("the store does not answer")
        block = range(self.next_number, self.next_number + count)
        self.next_number += count
        self.blocks.append(block)
        return block


@pytest.fixture
def fake_stop(fake_clock: Any) -> FakeStop:
    return FakeStop(fake_clock)


@pytest.fixture
def fake_stream() -> FakeStream:
    return FakeStream()


@pytest.fixture
def fake_numbers() -> FakeNumbers:
    return FakeNumbers()


@pytest.fixture
def make_setup() -> Callable[..., SelfPlaySetup]:
    """Build a setup of few simulations; keywords that SelfPlayConfig knows change it, others the setup."""

    def build(game: str = "tictactoe", *, num_games: int = 4, seed: int = 7, **changes: object) -> SelfPlaySetup:
        search = changes.pop("search", SearchConfig(num_simulations=16, leaves_per_tree=1))
        assert isinstance(search, SearchConfig)
        return SelfPlaySetup(
            run="test",
            actor="actor-0",
            seed=seed,
            game=load_game(game),
            search=search,
            self_play=SelfPlayConfig(**changes),  # type: ignore[arg-type]
            num_games=num_games,
        )

    return build
