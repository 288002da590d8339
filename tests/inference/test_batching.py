from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from zerofleet.inference.batching import Batcher, Waiting, bucket_for, bucket_sizes
from zerofleet.inference.wire import Request


def waiting(client: str, num_rows: int, arrived: float, version: int = 0) -> Waiting[str]:
    ones = np.ones(num_rows, dtype=np.uint16)
    planes: Any = np.zeros((num_rows, 1), dtype=np.uint8)
    request = Request(id=1, version=version, counts=ones, actions=ones, planes=planes)
    return Waiting(client=client, request=request, arrived=arrived)


def names(batch: list[Waiting[str]]) -> list[str]:
    return [entry.client for entry in batch]


def test_whatever_waits_goes_at_once() -> None:
    """Fault 82: one request is a batch; nothing waits for a batch that never fills."""
    batcher: Batcher[str] = Batcher(256)
    batcher.add(waiting("a", 3, 0.0))
    assert names(batcher.take()) == ["a"]
    assert batcher.take() == []
    assert batcher.num_positions == 0


def test_a_batch_is_filled_in_order_up_to_the_largest() -> None:
    batcher: Batcher[str] = Batcher(10)
    for at, (name, size) in enumerate([("a", 4), ("b", 6), ("c", 1), ("d", 10), ("e", 1)]):
        batcher.add(waiting(name, size, float(at)))
    assert [names(batcher.take()) for _ in range(4)] == [["a", "b"], ["c"], ["d"], ["e"]]


def test_a_request_larger_than_a_batch_goes_alone() -> None:
    batcher: Batcher[str] = Batcher(10)
    batcher.add(waiting("a", 25, 0.0))
    batcher.add(waiting("b", 1, 1.0))
    assert [names(batcher.take()), names(batcher.take())] == [["a"], ["b"]]


def test_versions_never_mix_and_the_longest_waiting_goes_first() -> None:
    batcher: Batcher[str] = Batcher(100)
    for at, (name, version) in enumerate([("a", 0), ("b", 7), ("c", 0), ("d", 7)]):
        batcher.add(waiting(name, 1, float(at), version))
    assert [names(batcher.take()), names(batcher.take())] == [["a", "c"], ["b", "d"]]


def test_requests_of_a_client_that_is_gone_are_dropped() -> None:
    batcher: Batcher[str] = Batcher(100)
    for name, version in [("a", 0), ("b", 0), ("b", 7), ("c", 0)]:
        batcher.add(waiting(name, 2, 0.0, version))
    assert batcher.remove(lambda client: client == "b") == 2
    assert batcher.num_positions == 4
    assert names(batcher.take()) == ["a", "c"]


def test_buckets_grow_by_eighths() -> None:
    assert bucket_sizes(40) == (*range(1, 17), 18, 20, 22, 24, 26, 28, 30, 32, 36, 40)
    assert bucket_sizes(3) == (1, 2, 3)
    assert bucket_sizes(17) == (*range(1, 17), 17)


@pytest.mark.parametrize("max_batch_size", [1, 16, 100, 256, 1000, 4096])
def test_at_most_a_ninth_of_a_batch_is_padding(max_batch_size: int) -> None:
    sizes = bucket_sizes(max_batch_size)
    assert sizes[-1] == max_batch_size
    assert list(sizes) == sorted(set(sizes))
    for num_rows in range(1, max_batch_size + 1):
        bucket = bucket_for(num_rows, sizes)
        assert num_rows <= bucket
        assert (bucket - num_rows) * 9 <= bucket
