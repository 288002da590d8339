"""Server and client together over real sockets, with a backend that needs no network."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import InferenceError, InferenceUnavailableError, StorageError, WireError
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.remote import RemoteEvaluator
from zerofleet.inference.server import InferenceServer
from zerofleet.inference.wire import MAX_FRAME_BYTES, Dimensions
from zerofleet.search.base import Evaluation, LeafBatch
from zerofleet.telemetry import Metrics

BatchOf = Callable[..., LeafBatch]
Expected = Callable[[LeafBatch, int], Evaluation]
Same = Callable[[Evaluation, Evaluation], None]
Until = Callable[[Callable[[], bool]], None]


@pytest.mark.parametrize("kind", ["unix", "tcp"])
def test_every_row_gets_its_own_answer(
    kind: str, fleet: Any, batch_of: BatchOf, expected: Expected, same: Same
) -> None:
    fleet.start(address="tcp:127.0.0.1:0" if kind == "tcp" else None)
    client = fleet.client()
    for num_rows in (1, 2, 63, 64, 65, 1000):
        batch = batch_of(num_rows, seed=num_rows)
        same(client.evaluate(batch), expected(batch, 1))


def test_several_requests_are_in_flight_and_collected_in_any_order(
    fleet: Any, batch_of: BatchOf, expected: Expected, same: Same
) -> None:
    fleet.start()
    client = fleet.client()
    batches = [batch_of(5 + seed, seed) for seed in range(6)]
    tickets = [client.submit(batch) for batch in batches]
    for index in (3, 0, 5, 1, 4, 2):
        same(client.collect(tickets[index]), expected(batches[index], 1))


def test_requests_that_wait_together_share_a_forward_pass(
    fleet: Any, batch_of: BatchOf, make_backend: Any, until: Until, expected: Expected, same: Same
) -> None:
    """Fault 82: the first goes alone at once; those that came during its pass go together, up to the largest batch."""
    backend = make_backend()
    fleet.start(backend)
    client, batches = fleet.client(), [batch_of(20, seed) for seed in range(5)]
    backend.gate.clear()
    tickets = [client.submit(batches[0])]
    while not backend.is_in_forward.is_set():
        client._pump()
    tickets += [client.submit(batch) for batch in batches[1:]]
    backend.gate.set()
    for ticket, batch in zip(tickets, batches, strict=True):
        same(client.collect(ticket), expected(batch, 1))
    assert backend.batches[0] == 20
    assert sum(backend.batches) == 100
    assert max(backend.batches) == 60


def test_few_remaining_requests_are_answered_at_once(fleet: Any, batch_of: BatchOf, make_backend: Any) -> None:
    """Fault 82: 1 client of a server whose largest batch is 256; each request is a pass of its own, nothing waits."""
    backend = make_backend(max_batch_size=256)
    fleet.start(backend, max_batch_size=256)
    client = fleet.client()
    for _ in range(20):
        client.evaluate(batch_of(3))
    assert backend.batches == [3] * 20


def test_a_version_can_be_asked_for_and_zero_is_the_newest(
    fleet: Any, batch_of: BatchOf, make_backend: Any, expected: Expected, same: Same
) -> None:
    """Fault 89: each answer says which weights computed it."""
    fleet.start(make_backend(versions=(3, 5)))
    client, batch = fleet.client(), batch_of(4)
    same(client.evaluate(batch), expected(batch, 5))
    same(client.evaluate(batch, version=3), expected(batch, 3))
    same(RemoteEvaluator(client, version=3).evaluate(batch), expected(batch, 3))


def test_an_unknown_version_is_an_error_that_names_the_resident_ones(
    fleet: Any, batch_of: BatchOf, make_backend: Any
) -> None:
    """Fault 87: nothing is computed by other weights than those asked for."""
    fleet.start(make_backend(versions=(3, 5)))
    client = fleet.client()
    with pytest.raises(InferenceError, match=r"version 4 is not resident.*3, 5"):
        client.evaluate(batch_of(1), version=4)
    assert client.evaluate(batch_of(1)).weights_version == 5


def test_requests_wait_for_the_first_weights(
    fleet: Any, batch_of: BatchOf, make_backend: Any, expected: Expected, same: Same
) -> None:
    address = fleet.start(make_backend(versions=()))
    server, client, batch = fleet.servers[address], fleet.client(deadline_s=0.3), batch_of(4)
    assert server.waiting_for == "the first weights"
    timer = threading.Timer(0.8, server.load, (1, b"weights"))  # past the deadline: a server that says so is waited for
    timer.start()
    same(client.evaluate(batch), expected(batch, 1))
    timer.join()
    assert server.waiting_for == ""
    assert client.num_resends == 0


def test_new_weights_answer_the_next_batch(fleet: Any, batch_of: BatchOf) -> None:
    address = fleet.start()
    client, batch = fleet.client(), batch_of(4)
    for version in range(2, 30):
        fleet.servers[address].load(version, b"weights")
        assert client.evaluate(batch).weights_version == version


def test_weights_that_are_torn_leave_the_old_ones_in_place(fleet: Any, batch_of: BatchOf) -> None:
    """Fault 88."""
    address = fleet.start()
    client = fleet.client()
    with pytest.raises(StorageError):
        fleet.servers[address].load(2, b"torn")
    assert client.evaluate(batch_of(1)).weights_version == 1


def test_a_wrong_token_is_refused_and_never_shown(fleet: Any, batch_of: BatchOf) -> None:
    fleet.start()
    client = fleet.client(token="somebody else's")
    with pytest.raises(InferenceError, match=r"every inference server refuses.*token") as caught:
        client.evaluate(batch_of(1))
    assert not isinstance(caught.value, InferenceUnavailableError)
    assert "secret" not in str(caught.value)
    assert "somebody" not in str(caught.value)


def test_a_client_of_another_game_is_refused(fleet: Any, batch_of: BatchOf) -> None:
    other = Dimensions(packed_size=11, num_actions=7)
    fleet.start()
    client = fleet.client(dimensions=other)
    with pytest.raises(InferenceError, match="11 bytes and 7 actions, the server's 4 and 10"):
        client.evaluate(batch_of(1, dimensions=other))


def test_big_frames_in_both_directions_do_not_block_each_other(
    fleet: Any, batch_of: BatchOf, make_backend: Any, expected: Expected, same: Same
) -> None:
    """Requests and replies of megabytes, several in flight: each side writes while the other does."""
    fleet.start(make_backend(max_batch_size=65_536), max_batch_size=65_536, max_queued_positions=65_536)
    client, batches = fleet.client(), [batch_of(20_000, seed) for seed in range(2)]
    tickets = [(client.submit(batch), batch) for _ in range(3) for batch in batches]
    for ticket, batch in tickets:
        same(client.collect(ticket), expected(batch, 1))


def test_a_request_over_the_frame_limit_is_the_callers_error(fleet: Any) -> None:
    fleet.start()
    client = fleet.client()
    num_rows = MAX_FRAME_BYTES // 4 + 1
    batch = LeafBatch(
        planes=np.zeros((num_rows, 4), dtype=np.uint8),
        legal_offsets=np.arange(num_rows + 1, dtype=np.int32),
        legal_actions=np.zeros(num_rows, dtype=np.uint16),
        source=None,  # type: ignore[arg-type]
    )
    with pytest.raises(WireError, match="at most"):
        client.evaluate(batch)


def test_requests_spread_over_the_servers(fleet: Any, batch_of: BatchOf, make_backend: Any) -> None:
    backends = [make_backend() for _ in range(3)]
    for backend in backends:
        fleet.start(backend)
    client = fleet.client()
    while sum(link.is_ready for link in client._links.values()) < 3:
        client.evaluate(batch_of(1))
    for backend in backends:
        backend.batches.clear()
    for _ in range(30):
        client.evaluate(batch_of(1))
    assert [len(backend.batches) for backend in backends] == [10, 10, 10]


def test_a_server_that_joins_is_used(fleet: Any, batch_of: BatchOf, make_backend: Any, until: Until) -> None:
    fleet.start()
    addresses = list(fleet.servers)
    client = fleet.client(lambda: addresses)
    client.evaluate(batch_of(1))
    late = make_backend()
    addresses.append(fleet.start(late))

    def is_used() -> bool:
        client.evaluate(batch_of(1))
        return bool(late.batches)

    until(is_used)


def test_metrics_say_what_was_served(short_tmp: Any, batch_of: BatchOf, make_backend: Any, fleet: Any) -> None:
    metrics = Metrics()
    address = f"unix:{short_tmp}/m"
    server = InferenceServer(
        make_backend(), InferenceConfig(max_batch_size=64), address, "a secret of this run", metrics
    )
    stop = threading.Event()
    thread = threading.Thread(target=server.run, args=(stop,))
    thread.start()
    server.load(2, b"weights")
    client = fleet.client([address])
    for num_rows in (5, 7):
        client.evaluate(batch_of(num_rows))
    value = metrics.registry.get_sample_value
    assert value("zerofleet_inference_positions_total") == 12
    assert value("zerofleet_inference_requests_total") == 2
    assert value("zerofleet_inference_batch_size_bucket", {"le": "4.0"}) == 0
    assert value("zerofleet_inference_batch_size_bucket", {"le": "8.0"}) == 2
    assert value("zerofleet_inference_queue_seconds_count") == 2
    assert value("zerofleet_inference_forward_seconds_count") == 2
    assert value("zerofleet_inference_weights_version") == 2
    assert value("zerofleet_inference_resident_versions") == 2
    assert value("zerofleet_inference_connections") == 1
    stop.set()
    thread.join(5.0)


def test_stopping_removes_the_socket_file(fleet: Any) -> None:
    address = fleet.start()
    fleet.stop(address)
    assert list(fleet.folder.iterdir()) == []
