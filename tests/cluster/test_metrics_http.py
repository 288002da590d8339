from __future__ import annotations

import json
import socket
import time
import urllib.request
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from zerofleet.cluster import metrics_http
from zerofleet.cluster.metrics_http import MetricsPage
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.errors import StorageError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import MemoryRunStore
from zerofleet.telemetry import Metrics, serve


@pytest.fixture
def store() -> MemoryRunStore:
    return MemoryRunStore()


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path, "run")
    folder.path.mkdir()
    return folder


@pytest.fixture
def page(store: MemoryRunStore, folder: RunFolder) -> Iterator[MetricsPage]:
    page = MetricsPage("run", store, folder)
    yield page
    page.close()


def join(store: MemoryRunStore, metrics: Metrics, index: int = 0, incarnation: str = "a") -> str:
    url = f"http://127.0.0.1:{serve(metrics)}/metrics"
    store.register(
        RoleRecord(role="actor", index=index, node="n", pid=1, incarnation=incarnation, metrics_url=url), 60.0
    )
    return url


def get(url: str) -> str:
    with urllib.request.urlopen(url, timeout=5.0) as answer:
        return str(answer.read().decode())


def test_discovery_names_every_process_once(store: MemoryRunStore, page: MetricsPage) -> None:
    urls = [join(store, Metrics(), index) for index in (0, 1)]
    found = json.loads(get(page.serve("127.0.0.1", 0) + "/sd"))
    assert [target["labels"] for target in found] == [
        {"run": "run", "process": "actor-0"},
        {"run": "run", "process": "actor-1"},
    ]
    assert [f"http://{target['targets'][0]}/metrics" for target in found] == urls


def test_a_counter_on_the_combined_page_never_falls(store: MemoryRunStore, page: MetricsPage) -> None:
    """Fault 126."""
    first = Metrics()
    first.actor_games.inc(5)
    join(store, first)
    assert 'zerofleet_actor_games_total{process="actor-0"} 5.0' in page.combined()
    second = Metrics()
    second.actor_games.inc(2)
    join(store, second, incarnation="b")
    assert 'zerofleet_actor_games_total{process="actor-0"} 7.0' in page.combined()
    second.actor_games.inc(1)
    assert 'zerofleet_actor_games_total{process="actor-0"} 8.0' in page.combined()


def test_a_counter_with_labels_that_a_successor_has_not_counted_yet_stays(
    store: MemoryRunStore, page: MetricsPage
) -> None:
    first = Metrics()
    first.actor_waiting_seconds.labels("inference").inc(3)
    join(store, first)
    (before,) = [line for line in page.combined().splitlines() if "inference" in line and line.endswith(" 3.0")]
    join(store, Metrics(), incarnation="b")
    for _ in range(2):
        assert before in page.combined().splitlines()


def test_what_was_counted_is_known_though_nobody_asked_for_the_page(
    store: MemoryRunStore, page: MetricsPage, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A Prometheus that asks once a minute does not lose the minute before a process died."""
    monkeypatch.setattr(metrics_http, "_COUNT_EVERY_S", 0.05)
    first = Metrics()
    first.actor_games.inc(5)
    join(store, first)
    page.serve("127.0.0.1", 0)
    deadline = time.monotonic() + 10.0
    while "actor-0" not in folder.record("counters") and time.monotonic() < deadline:
        time.sleep(0.02)
    join(store, Metrics(), incarnation="b")
    assert 'zerofleet_actor_games_total{process="actor-0"} 5.0' in page.combined()


def test_a_counter_does_not_fall_with_the_controller_either(
    store: MemoryRunStore, page: MetricsPage, folder: RunFolder
) -> None:
    """Fault 126: a controller's successor knows what roles had counted that died before it, or while there was none."""
    for incarnation, games in (("a", 5), ("b", 2)):
        metrics = Metrics()
        metrics.actor_games.inc(games)
        join(store, metrics, incarnation=incarnation)
        page.combined()
    third = Metrics()
    third.actor_games.inc(1)
    join(store, third, incarnation="c")
    successor = MetricsPage("run", store, folder)
    for _ in range(2):
        assert 'zerofleet_actor_games_total{process="actor-0"} 8.0' in successor.combined()


@pytest.mark.parametrize(
    "torn", ['{"actor-0": 7}', '{"actor-0": {"incarnation": "a", "counted": 3, "retired": []}}', "{"]
)
def test_counters_that_cannot_be_read_begin_anew(store: MemoryRunStore, folder: RunFolder, torn: str) -> None:
    (folder.path / "counters.json").write_text(torn)
    metrics = Metrics()
    metrics.actor_games.inc(2)
    join(store, metrics)
    assert 'zerofleet_actor_games_total{process="actor-0"} 2.0' in MetricsPage("run", store, folder).combined()


def test_a_full_disk_does_not_take_the_page_away(
    store: MemoryRunStore, page: MetricsPage, folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise StorageError("no space left")

    monkeypatch.setattr(folder, "write_record", refuse)
    join(store, Metrics())
    assert 'process="actor-0"' in page.combined()


def test_gauges_and_counters_of_the_dead_are_not_shown(store: MemoryRunStore, page: MetricsPage) -> None:
    """Fault 126."""
    join(store, Metrics())
    assert "actor-0" in page.combined()
    store.unregister("actor", 0)
    assert "actor-0" not in page.combined()


def test_only_what_is_a_process_s_own_is_read(
    store: MemoryRunStore, page: MetricsPage, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The parser is slow, and every process shows the series of all roles."""
    parsed: list[str] = []
    parse = metrics_http.text_string_to_metric_families

    def noted(text: str) -> Any:
        parsed.extend(text.splitlines())
        return parse(text)

    monkeypatch.setattr(metrics_http, "text_string_to_metric_families", noted)
    metrics = Metrics()
    metrics.actor_waiting_seconds.labels("store").inc()
    metrics.process_resident_bytes.labels("actor").set(7.0)
    join(store, metrics)
    shown = [line for line in page.combined().splitlines() if not line.startswith("#")]
    assert {line.partition("{")[0] for line in shown} == {
        *(f"zerofleet_actor_{name}_total" for name in ("games", "positions", "moves", "simulations", "reused_visits")),
        *(f"zerofleet_actor_{name}_total" for name in ("abandoned_games", "uniform_priors", "resends")),
        *("zerofleet_actor_waiting_seconds_total", "zerofleet_actor_games_in_flight"),
        "zerofleet_process_resident_bytes",
    }
    families = {line.split()[2] for line in parsed if line.startswith("# TYPE")}
    assert families == {line.partition("{")[0] for line in shown}
    assert len(parsed) == 3 * len(shown)  # help, type and sample


def test_no_label_identifies_a_process_or_a_game(store: MemoryRunStore, page: MetricsPage) -> None:
    """Fault 127."""
    metrics = Metrics()
    metrics.actor_waiting_seconds.labels("store").inc()
    join(store, metrics)
    labels = {
        pair.partition("=")[0]
        for line in page.combined().splitlines()
        if not line.startswith("#")
        for pair in line.partition("{")[2].partition("}")[0].split(",")
    }
    assert labels <= {"process", "reason", "role", "state", "part", "le"}


def test_a_taken_port_is_replaced_by_a_free_one(page: MetricsPage, caplog: pytest.LogCaptureFixture) -> None:
    """Fault 128."""
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        url = page.serve("127.0.0.1", port)
    assert url != f"http://127.0.0.1:{port}"
    assert get(url + "/sd") == "[]"
    assert "cluster.metrics_port" in caplog.text


def test_a_process_that_does_not_answer_is_left_out(store: MemoryRunStore, page: MetricsPage) -> None:
    record = RoleRecord(
        role="actor", index=0, node="n", pid=1, incarnation="a", metrics_url="http://127.0.0.1:9/metrics"
    )
    store.register(record, 60.0)
    join(store, Metrics(), 1)
    assert "actor-1" in page.combined()
    assert 'process="actor-0"' not in page.combined()


def test_restarts_add_no_series(store: MemoryRunStore, page: MetricsPage) -> None:
    """Fault 127: twenty incarnations of an actor have one set of series, and no label holds what tells them apart."""
    sizes = set()
    for start in range(20):
        metrics = Metrics()
        metrics.actor_games.inc()
        url = f"http://127.0.0.1:{serve(metrics)}/metrics"
        record = RoleRecord(
            role="actor", index=0, node="node-7", pid=40_000 + start, incarnation=f"start-{start}", metrics_url=url
        )
        store.register(record, 60.0)
        text = page.combined()
        sizes.add(len(text.splitlines()))
        assert not any(word in text for word in (str(record.pid), record.incarnation, record.node))
    assert len(sizes) == 1
    assert 'zerofleet_actor_games_total{process="actor-0"} 20.0' in text


def test_two_runs_that_want_one_port_are_both_served(
    store: MemoryRunStore, page: MetricsPage, folder: RunFolder
) -> None:
    """Fault 128."""
    join(store, Metrics())
    first = page.serve("127.0.0.1", 0)
    other = MetricsPage("other", MemoryRunStore(), folder)
    try:
        second = other.serve("127.0.0.1", int(first.rpartition(":")[2]))
        assert second != first
        assert len(json.loads(get(first + "/sd"))) == 1
        assert json.loads(get(second + "/sd")) == []
    finally:
        other.close()
