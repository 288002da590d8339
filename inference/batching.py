"""What goes into the next forward pass: whatever waits, up to the largest batch, for one weights version.

Work-conserving: there is no timer, and nothing waits for company while the device is free.  Requests of one version
keep their order, and the version whose oldest request has waited longest goes first.  This module knows no socket, no
clock and no network, and is not thread-safe: the server's one thread owns it.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np

from zerofleet.games.base import PackedPlanes
from zerofleet.inference.wire import Request
from zerofleet.search.base import ActionArray, IntArray

C = TypeVar("C")


@dataclass(frozen=True, slots=True, kw_only=True)
class Waiting(Generic[C]):
    """A request in the queue, and whom to answer."""

    client: C
    request: Request
    arrived: float  # seconds, by the server's clock


class Batcher(Generic[C]):
    """The queue of one server."""

    def __init__(self, max_batch_size: int) -> None:
        self.max_batch_size = max_batch_size
        self.num_positions = 0  # that wait
        self._queues: dict[int, deque[Waiting[C]]] = {}  # by the version asked for; no queue is empty

    def add(self, waiting: Waiting[C]) -> None:
        """Queue a request."""
        self._queues.setdefault(waiting.request.version, deque()).append(waiting)
        self.num_positions += len(waiting.request)

    def take(self) -> list[Waiting[C]]:
        """Remove and return the next batch: requests of one version, oldest first; [] where nothing waits.

        It holds at most `max_batch_size` positions, or a single request that alone has more.
        """
        if not self._queues:
            return []
        version = min(self._queues, key=lambda asked: self._queues[asked][0].arrived)
        queue = self._queues[version]
        batch = [queue.popleft()]
        size = len(batch[0].request)
        while queue and size + len(queue[0].request) <= self.max_batch_size:
            batch.append(queue.popleft())
            size += len(batch[-1].request)
        if not queue:
            del self._queues[version]
        self.num_positions -= size
        return batch

    def remove(self, is_gone: Callable[[C], bool]) -> int:
        """Drop the requests of clients that are gone and return how many those were."""
        num_before = sum(len(queue) for queue in self._queues.values())
        kept = {
            version: deque(waiting for waiting in queue if not is_gone(waiting.client))
            for version, queue in self._queues.items()
        }
        self._queues = {version: queue for version, queue in kept.items() if queue}
        self.num_positions = sum(len(waiting.request) for queue in self._queues.values() for waiting in queue)
        return num_before - sum(len(queue) for queue in self._queues.values())


def join(requests: Sequence[Request]) -> tuple[PackedPlanes, IntArray, ActionArray]:
    """Return (planes, legal offsets, legal actions) of one batch of all positions, in order."""
    if len(requests) == 1:
        planes, actions, counts = requests[0].planes, requests[0].actions, requests[0].counts
    else:
        planes = np.concatenate([request.planes for request in requests])
        actions = np.concatenate([request.actions for request in requests])
        counts = np.concatenate([request.counts for request in requests])
    offsets: IntArray = np.zeros(len(counts) + 1, dtype=np.int32)
    np.cumsum(counts, dtype=np.int32, out=offsets[1:])
    return planes, offsets, actions


def bucket_sizes(max_batch_size: int) -> tuple[int, ...]:
    """Return the batch sizes that a backend pads to, increasing, `max_batch_size` last.

    1 to 16 each, then eight steps per doubling: at most 1 row in 9 is padding, and a device sees few shapes.
    """
    sizes = list(range(1, min(16, max_batch_size) + 1))
    step = 2
    while sizes[-1] + step < max_batch_size:
        sizes.append(sizes[-1] + step)
        if sizes[-1] == 16 * step:
            step *= 2
    if sizes[-1] < max_batch_size:
        sizes.append(max_batch_size)
    return tuple(sizes)


def bucket_for(num_rows: int, sizes: Sequence[int]) -> int:
    """Return the smallest of the increasing `sizes` that holds `num_rows`."""
    return sizes[bisect_left(sizes, num_rows)]
