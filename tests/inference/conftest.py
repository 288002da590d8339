"""A game of bytes, a backend whose answers are easy to work out, and servers of it that run in threads."""

from __future__ import annotations

import contextlib
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import InferenceError, StorageError
from zerofleet.inference.client import InferenceClient
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.server import InferenceServer
from zerofleet.inference.wire import Dimensions
from zerofleet.search.base import Evaluation, LeafBatch

TOKEN = "a secret of this run"
DIMENSIONS = Dimensions(packed_size=4, num_actions=10)


class NoStates:
    """The source of a batch that nobody plays on from."""

    def leaf_states(self) -> list[Any]:
        raise AssertionError("no evaluator of this folder asks for states")


def make_batch(num_rows: int, seed: int = 0, dimensions: Dimensions = DIMENSIONS) -> LeafBatch:
    """Random positions with 1 to `num_actions` legal moves each."""
    rng = np.random.default_rng(seed)
    counts = rng.integers(1, dimensions.num_actions + 1, size=num_rows)
    actions = [np.sort(rng.permutation(dimensions.num_actions)[:count]) for count in counts]
    return LeafBatch(
        planes=rng.integers(0, 256, size=(num_rows, dimensions.packed_size), dtype=np.uint8),
        legal_offsets=np.concatenate([[0], np.cumsum(counts)]).astype(np.int32),
        legal_actions=np.concatenate(actions).astype(np.uint16),
        source=NoStates(),
    )


def answer_to(batch: LeafBatch, version: int) -> Evaluation:
    """What `ByteBackend` answers: value = first byte / 256 + version, prior = action + 1 over the row's sum of it."""
    weights = batch.legal_actions.astype(np.float32) + 1
    sums = np.add.reduceat(weights, batch.legal_offsets[:-1])
    return Evaluation(
        priors=(weights / np.repeat(sums, np.diff(batch.legal_offsets))).astype(np.float32),
        values=(batch.planes[:, 0] / 256 + version).astype(np.float32),
        weights_version=version,
    )


class ByteBackend:
    """A backend without a network; `gate` holds a forward pass up, `batches` records what came."""

    def __init__(self, versions: tuple[int, ...] = (1,), max_batch_size: int = 64) -> None:
        self.dimensions = DIMENSIONS
        self.max_batch_size = max_batch_size
        self.num_non_finite_rows = 0
        self.gate = threading.Event()
        self.gate.set()
        self.is_in_forward = threading.Event()
        self.batches: list[int] = []
        self._versions = versions

    def load(self, version: int, weights: bytes) -> None:
        if weights == b"torn":
            raise StorageError("torn")
        self._versions = tuple(sorted({*self._versions, version}))

    def versions(self) -> tuple[int, ...]:
        return self._versions

    def forward(self, planes: Any, legal_offsets: Any, legal_actions: Any, version: int = 0) -> Evaluation:
        version = version or self._versions[-1]
        if version not in self._versions:
            raise InferenceError(f"weights version {version} is not resident here; these are: {self._versions}")
        self.batches.append(len(planes))
        self.is_in_forward.set()
        assert self.gate.wait(20.0)
        batch = LeafBatch(planes=planes, legal_offsets=legal_offsets, legal_actions=legal_actions, source=NoStates())
        return answer_to(batch, version)


class Fleet:
    """Servers in threads, and clients of them; everything ends with the test."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.servers: dict[str, InferenceServer] = {}
        self._stops: dict[str, threading.Event] = {}
        self._threads: dict[str, threading.Thread] = {}
        self._clients: list[InferenceClient] = []

    def start(self, backend: Any = None, address: str | None = None, **config: Any) -> str:
        backend = backend if backend is not None else ByteBackend()
        address = address or f"unix:{self.folder}/{len(self.servers)}"
        server = InferenceServer(backend, InferenceConfig(**{"max_batch_size": 64, **config}), address, TOKEN)
        stop = threading.Event()
        thread = threading.Thread(target=server.run, args=(stop,), daemon=True)
        thread.start()
        self.servers[server.address] = server
        self._stops[server.address], self._threads[server.address] = stop, thread
        return server.address

    def stop(self, address: str) -> None:
        self._stops[address].set()
        self._threads[address].join(10.0)
        assert not self._threads[address].is_alive()

    def client(self, servers: Any = None, **options: Any) -> InferenceClient:
        options = {"token": TOKEN, "dimensions": DIMENSIONS, "total_deadline_s": 20.0, **options}
        client = InferenceClient(servers if servers is not None else list(self.servers), **options)
        self._clients.append(client)
        return client

    def close(self) -> None:
        for client in self._clients:
            with contextlib.suppress(OSError):
                client.close()
        for address in self._threads:
            self.stop(address)


@pytest.fixture
def fleet(short_tmp: Path) -> Iterator[Fleet]:
    fleet = Fleet(short_tmp)
    yield fleet
    fleet.close()


@pytest.fixture
def make_backend() -> type[ByteBackend]:
    return ByteBackend


@pytest.fixture
def batch_of() -> Callable[..., LeafBatch]:
    return make_batch


@pytest.fixture
def expected() -> Callable[[LeafBatch, int], Evaluation]:
    return answer_to


@pytest.fixture
def dimensions() -> Dimensions:
    return DIMENSIONS


@pytest.fixture
def token() -> str:
    return TOKEN


@pytest.fixture
def until() -> Callable[[Callable[[], bool]], None]:
    """Wait for another thread to make a condition true."""

    def wait(condition: Callable[[], bool]) -> None:
        deadline = time.monotonic() + 10.0
        while not condition():
            assert time.monotonic() < deadline, "the condition never came true"
            time.sleep(0.002)

    return wait


@pytest.fixture
def same() -> Callable[[Evaluation, Evaluation], None]:
    """Assert that two evaluations are equal bit for bit."""

    def check(got: Evaluation, wanted: Evaluation) -> None:
        np.testing.assert_array_equal(got.values, wanted.values)
        np.testing.assert_array_equal(got.priors, wanted.priors)
        assert got.weights_version == wanted.weights_version

    return check
