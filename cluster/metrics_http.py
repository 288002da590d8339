"""One HTTP endpoint for all processes of a run: a combined metrics page, and Prometheus service discovery.

    /metrics   every process's metrics on one page, with the label `process` ("actor-3"); for a single-node user
    /sd        Prometheus HTTP service discovery: every process's own endpoint; for a Prometheus that scrapes them

On the combined page a counter never falls: what a process had counted before it died stays in its successor's.  What
was counted is kept outside this process, which may be the one that dies.
"""

from __future__ import annotations

import json
import logging
import threading
import urllib.request
from collections.abc import Iterable, Mapping
from concurrent.futures import ThreadPoolExecutor
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any, Protocol
from urllib.parse import urlsplit

from prometheus_client.metrics_core import Metric
from prometheus_client.parser import text_string_to_metric_families

from zerofleet.errors import StorageError, StreamUnavailableError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import RunStore

_log = logging.getLogger(__name__)

_SCRAPE_S = 1.0
_COUNT_EVERY_S = 5.0

Series = tuple[str, tuple[tuple[str, str], ...]]
"""A sample's name and labels."""

_RECORD = "counters"


class Records(Protocol):
    """Where small records outlive this process; the run folder is one."""

    def record(self, name: str) -> dict[str, Any]:
        """Return a record, empty where there is none or it cannot be read."""

    def write_record(self, name: str, record: dict[str, Any]) -> None:
        """Store a record."""


class MetricsPage:
    """Serves both pages from the registry of roles."""

    def __init__(self, run: str, store: RunStore, records: Records) -> None:
        self._run = run
        self._store = store
        self._records = records
        self._lock = threading.Lock()
        self._last: dict[str, tuple[str, dict[Series, float]]] = {}  # by process: incarnation, its counters
        self._retired: dict[str, dict[Series, float]] = {}
        self._remember()
        self._server: ThreadingHTTPServer | None = None
        self._closed = threading.Event()

    def serve(self, host: str, port: int) -> str:
        """Serve from a daemon thread and return the address; a taken port is replaced by a free one."""
        handler = self._handler()
        try:
            server = ThreadingHTTPServer((host, port), handler)
        except OSError as error:
            _log.warning(
                "port %d is taken (%s): metrics are served on a free one; cluster.metrics_port sets another",
                port,
                error,
            )
            server = ThreadingHTTPServer((host, 0), handler)
        server.daemon_threads = True
        self._server = server
        threading.Thread(target=server.serve_forever, name="metrics-page", daemon=True).start()
        threading.Thread(target=self._count_on, name="metrics-count", daemon=True).start()
        return f"http://{host}:{server.server_port}"

    def close(self) -> None:
        """Stop serving."""
        self._closed.set()
        if self._server is not None:
            self._server.shutdown()
            self._server.server_close()

    def combined(self) -> str:
        """Return every process's metrics as one page of Prometheus text."""
        records = self._alive()
        with ThreadPoolExecutor(max_workers=8) as pool:
            pages = list(pool.map(_scrape, records))
        with self._lock:
            families: dict[str, tuple[Metric, list[str]]] = {}
            for record, page in zip(records, pages, strict=True):
                self._add(families, record, page)
            self._keep()
        lines: list[str] = []
        for metric, samples in families.values():
            name = f"{metric.name}_total" if metric.type == "counter" else metric.name
            lines += [f"# HELP {name} {metric.documentation}", f"# TYPE {name} {metric.type}", *samples]
        return "\n".join(lines) + "\n"

    def targets(self) -> list[dict[str, object]]:
        """Return what Prometheus HTTP service discovery asks for."""
        return [
            {
                "targets": [urlsplit(record.metrics_url).netloc],
                "labels": {"run": self._run, "process": f"{record.role}-{record.index}"},
            }
            for record in self._alive()
        ]

    def _count_on(self) -> None:
        """Look now and then, whoever asks for the page: what a process counted since the last look dies with it."""
        while not self._closed.wait(_COUNT_EVERY_S):
            try:
                self.combined()
            except StreamUnavailableError as error:
                _log.info("counters are not looked at now: %s", error)

    def _alive(self) -> list[RoleRecord]:
        leased = self._store.roles()
        return [role.record for role in leased if role.lease_left_s > 0.0 and role.record.metrics_url]

    def _add(self, families: dict[str, tuple[Metric, list[str]]], record: RoleRecord, page: list[Metric]) -> None:
        process = f"{record.role}-{record.index}"
        incarnation, counters = self._last.get(process, ("", {}))
        retired = self._retired.setdefault(process, {})
        if incarnation not in ("", record.incarnation):
            for series, value in counters.items():
                retired[series] = retired.get(series, 0.0) + value
        counters = {} if incarnation != record.incarnation or page else counters
        for metric in page:
            samples = families.setdefault(metric.name, (metric, []))[1]
            for sample in metric.samples:
                series = (sample.name, tuple(sorted(sample.labels.items())))
                value = sample.value
                if metric.type in ("counter", "histogram"):
                    counters[series] = value
                    value += retired.get(series, 0.0)
                samples.append(_line(series, process, value))
            for series in sorted(retired.keys() - counters.keys()):
                if _belongs(series, metric):  # counted by a process before this one, not yet by this one
                    samples.append(_line(series, process, retired[series]))
        self._last[process] = (record.incarnation, counters)

    def _remember(self) -> None:
        """Take over what a page before this one had counted."""
        try:
            for process, kept in self._records.record(_RECORD).items():
                last = (str(kept["incarnation"]), _series_from(kept["counted"]))
                self._last[process], self._retired[process] = last, _series_from(kept["retired"])
        except (LookupError, AttributeError, TypeError, ValueError) as error:
            _log.warning("what was counted before cannot be read, counters begin anew: %r", error)

    def _keep(self) -> None:
        kept = {
            process: {
                "incarnation": incarnation,
                "counted": _series_to(counters),
                "retired": _series_to(self._retired[process]),
            }
            for process, (incarnation, counters) in self._last.items()
        }
        try:
            self._records.write_record(_RECORD, kept)
        except StorageError as error:
            _log.warning("counters of the dead are not kept: %s", error)

    def _handler(self) -> type[BaseHTTPRequestHandler]:
        page = self

        class Handler(BaseHTTPRequestHandler):
            def do_GET(self) -> None:
                path = urlsplit(self.path).path
                try:
                    if path == "/metrics":
                        self._answer(200, "text/plain; version=0.0.4; charset=utf-8", page.combined())
                    elif path == "/sd":
                        self._answer(200, "application/json", json.dumps(page.targets()))
                    else:
                        self._answer(404, "text/plain; charset=utf-8", "there is /metrics and /sd\n")
                except StreamUnavailableError as error:
                    self._answer(503, "text/plain; charset=utf-8", f"{error}\n")

            def _answer(self, status: int, kind: str, text: str) -> None:
                body = text.encode("utf-8")
                self.send_response(status)
                self.send_header("Content-Type", kind)
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, format: str, *args: object) -> None:
                """Say nothing of each request."""

        return Handler


def _belongs(series: Series, metric: Metric) -> bool:
    """Return whether a series is one of a family's."""
    return series[0] in {metric.name + ending for ending in ("_total", "_bucket", "_count", "_sum")}


def _scrape(record: RoleRecord) -> list[Metric]:
    """Return a process's own metrics, creation times left out."""
    try:
        with urllib.request.urlopen(record.metrics_url, timeout=_SCRAPE_S) as answer:  # our own endpoint
            text = answer.read().decode("utf-8")
    except OSError:
        return []  # it has just died, or is stopped
    families: Iterable[Metric] = text_string_to_metric_families("\n".join(_own_lines(record.role, text)))
    return list(families)


def _own_lines(role: str, text: str) -> list[str]:
    """Return the lines of a role's own series: the parser takes its time over each, and most are of other roles."""
    own = (role, "process", "stream") if role == "controller" else (role, "process")
    begin = tuple(f"{before}zerofleet_{whose}_" for before in ("", "# HELP ", "# TYPE ") for whose in own)
    return [line for line in text.splitlines() if line.startswith(begin) and "_created" not in line]


def _series_to(counters: Mapping[Series, float]) -> list[list[Any]]:
    return [[name, dict(labels), value] for (name, labels), value in counters.items()]


def _series_from(kept: list[list[Any]]) -> dict[Series, float]:
    return {(name, tuple(sorted(labels.items()))): float(value) for name, labels, value in kept}


def _line(series: Series, process: str, value: float) -> str:
    name, labels = series
    escaped = [(key, text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")) for key, text in labels]
    inner = ",".join(f'{key}="{text}"' for key, text in [*escaped, ("process", process)])
    return f"{name}{{{inner}}} {value!r}"
