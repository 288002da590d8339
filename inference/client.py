"""The client of inference servers: requests in flight, spread over the servers, sent again where one dies.

Each request goes to a live server with the fewest open requests of this client, in turn where several have as few.  A
server that was silent for `deadline_s`, though asked for a sign of life, is given up; what it owed goes to another one,
which is safe because requests are pure.  A server that is only busy, or still without weights, answers the question and
is waited for.  Nothing here blocks but `collect`, and that no longer than `total_deadline_s`.
"""

from __future__ import annotations

import itertools
import select
import time
from collections.abc import Callable, Sequence

from zerofleet.errors import InferenceError, InferenceUnavailableError, WireError, ZerofleetError
from zerofleet.inference.link import Link, Ticket
from zerofleet.inference.wire import Dimensions
from zerofleet.search.base import Evaluation, LeafBatch
from zerofleet.telemetry import Metrics

_REFRESH_S = 1.0  # between two looks at the list of servers
_HANDSHAKE_S = 5.0  # for a server to welcome the client
_BACKOFF_S = (0.05, 2.0)  # first and longest pause before a server is tried again
_REFUSED_S = 5.0  # the pause after a refusal
_MAX_SLEEP_S = 0.25
_READABLE = select.POLLIN | select.POLLHUP | select.POLLERR


class InferenceClient:
    """Asks inference servers; used by one thread.

    `servers` gives their addresses, also again and again if it is callable; `spread` says which of them comes first for
    this client, so that many clients start on different ones.
    """

    def __init__(
        self,
        servers: Callable[[], Sequence[str]] | list[str],
        token: str,
        dimensions: Dimensions,
        *,
        spread: int = 0,
        deadline_s: float = 10.0,
        total_deadline_s: float = 60.0,
        metrics: Metrics | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self._servers = _always(servers) if isinstance(servers, list) else servers
        self._token = token
        self._dimensions = dimensions
        self._turn = spread
        self._deadline_s = deadline_s
        self._total_deadline_s = total_deadline_s
        self._metrics = metrics
        self._clock = clock
        self._ids = itertools.count(1)
        self._addresses: list[str] = []
        self._next_refresh = float("-inf")
        self._links: dict[str, Link] = {}
        self._by_fd: dict[int, Link] = {}
        self._poll = select.poll()
        self._unsent: list[Ticket] = []
        self._trouble: dict[str, str] = {}  # by address: why it was last given up
        self._refused: set[str] = set()
        self._retry_at: dict[str, float] = {}
        self._backoff: dict[str, float] = {}
        self.num_resends = 0

    def submit(self, batch: LeafBatch, version: int = 0) -> Ticket:
        """Send a batch without waiting for its answer; the batch's arrays must stay as they are until `collect`."""
        ticket = Ticket(id=next(self._ids), version=version, batch=batch)
        self._unsent.append(ticket)
        self._send_unsent()
        return ticket

    def collect(self, ticket: Ticket) -> Evaluation:
        """Wait for the answer to a submitted batch.

        Raises:
            InferenceError: the servers refuse this client, or the request; such as for a version that is not resident.
            InferenceUnavailableError: no answer came in `total_deadline_s`.
        """
        began = self._clock()
        while not ticket.is_done:
            self._pump()
            self._give_up_if_hopeless(ticket, began)
        if ticket.error is not None:
            raise InferenceError(ticket.error)
        assert ticket.evaluation is not None
        return ticket.evaluation

    def evaluate(self, batch: LeafBatch, version: int = 0) -> Evaluation:
        """Send a batch and wait for its answer."""
        return self.collect(self.submit(batch, version))

    def close(self) -> None:
        """Hang up on every server; open tickets have no answer."""
        self._unsent.clear()
        for link in list(self._links.values()):
            self._hang_up(link)

    def _pump(self) -> None:
        """Wait a moment for any server to say something, read it, and do what time makes due."""
        if self._unsent:
            self._send_unsent()
        for fd, events in self._poll.poll(self._sleep_ms()):
            link = self._by_fd.get(fd)
            if link is None:
                continue
            try:
                if events & select.POLLOUT:
                    link.flush()
                    self._watch(link)
                if events & _READABLE:
                    link.read(self._clock())
            except WireError as error:
                self._lose(link, str(error))
            except InferenceError as error:
                self._refused.add(link.address)
                self._lose(link, str(error))
                self._retry_at[link.address] = self._clock() + _REFUSED_S
            except OSError as error:
                self._lose(link, error.strerror or str(error))
            else:
                if link.is_ready:
                    self._backoff.pop(link.address, None)
                    self._refused.discard(link.address)
        self._check_silence()

    def _sleep_ms(self) -> float:
        """How long nothing can become due."""
        if self._unsent and any(link.is_ready for link in self._links.values()):
            return 0.0
        longest = min(_MAX_SLEEP_S, self._deadline_s / 8)
        if self._unsent and self._retry_at:
            longest = min(longest, max(0.001, min(self._retry_at.values()) - self._clock()))
        return longest * 1000.0

    def _send_unsent(self) -> None:
        now = self._clock()
        self._connect(now)
        while self._unsent and (link := self._pick()) is not None:
            ticket = self._unsent.pop(0)
            try:
                link.send(ticket, now)
                if link.outbox:
                    self._watch(link)
            except OSError as error:
                self._lose(link, error.strerror or str(error))
                continue
            if ticket.num_sent > 1:
                self.num_resends += 1
                if self._metrics is not None:
                    self._metrics.actor_resends.inc()

    def _pick(self) -> Link | None:
        """Return a ready link with the fewest open requests; among equals, the next in turn."""
        num_servers = len(self._addresses)
        best: Link | None = None
        for step in range(num_servers):
            link = self._links.get(self._addresses[(self._turn + step) % num_servers])
            if link is not None and link.is_ready and (best is None or len(link.tickets) < len(best.tickets)):
                best = link
        self._turn += 1
        return best

    def _connect(self, now: float) -> None:
        """Follow the list of servers: open links to new ones, close idle links to those that are gone."""
        if now >= self._next_refresh:
            self._next_refresh = now + _REFRESH_S
            try:
                self._addresses = list(self._servers())
            except ZerofleetError as error:  # the registry is away: those known are still there, as far as one knows
                self._trouble["the list of servers"] = str(error)
            for address in self._links.keys() - set(self._addresses):
                if not self._links[address].tickets:
                    self._hang_up(self._links[address])
        for address in self._addresses:
            if address not in self._links and now >= self._retry_at.get(address, now):
                self._open(address, now)

    def _open(self, address: str, now: float) -> None:
        try:
            link = Link.open(address, self._dimensions, self._token, now)
        except OSError as error:
            self._trouble[address] = error.strerror or str(error)
            self._back_off(address, now)
            return
        self._links[address] = link
        self._by_fd[link.sock.fileno()] = link
        self._watch(link)

    def _watch(self, link: Link) -> None:
        self._poll.register(link.sock, select.POLLIN | (select.POLLOUT if link.outbox else 0))

    def _check_silence(self) -> None:
        now = self._clock()
        for link in list(self._links.values()):
            try:
                if not link.is_ready:
                    if now - link.opened >= min(_HANDSHAKE_S, self._deadline_s):
                        self._lose(link, f"no welcome in {now - link.opened:.1f} s")
                elif link.pinged is not None:
                    if now - link.pinged >= self._deadline_s * 2 / 3:
                        self._lose(link, f"silent for {now - link.heard:.1f} s")
                elif link.tickets and now - link.heard >= self._deadline_s / 3:
                    link.ping(now)
                    self._watch(link)
            except OSError as error:
                self._lose(link, error.strerror or str(error))

    def _lose(self, link: Link, why: str) -> None:
        """Give a server up for now; what it owed is sent to another."""
        self._trouble[link.address] = why
        self._unsent.extend(link.tickets.values())
        self._hang_up(link)
        self._back_off(link.address, self._clock())

    def _back_off(self, address: str, now: float) -> None:
        first, longest = _BACKOFF_S
        pause = self._backoff.get(address, first)
        self._retry_at[address] = now + pause
        self._backoff[address] = min(2 * pause, longest)

    def _hang_up(self, link: Link) -> None:
        self._poll.unregister(link.sock)
        del self._by_fd[link.sock.fileno()], self._links[link.address]
        for ticket in link.tickets.values():
            ticket.link = None
        link.sock.close()

    def _give_up_if_hopeless(self, ticket: Ticket, began: float) -> None:
        waited = self._clock() - began
        is_refused = bool(self._addresses) and self._refused.issuperset(self._addresses)
        if ticket.is_done or (waited < self._total_deadline_s and not is_refused):
            return
        if ticket in self._unsent:
            self._unsent.remove(ticket)
        if ticket.link is not None:
            del ticket.link.tickets[ticket.id]
        if is_refused:
            raise InferenceError(f"every inference server refuses: {self._describe()}")
        raise InferenceUnavailableError(f"no inference server answered in {waited:.1f} s: {self._describe()}")

    def _describe(self) -> str:
        """Return in words what is known of each server."""
        if not self._addresses:
            return "; ".join(["no server is registered", *self._trouble.values()])
        said = []
        for address in self._addresses:
            link = self._links.get(address)
            alive = f"alive, {link.status}" if link is not None and link.is_ready and link.status else ""
            said.append(f"{address}: {alive or self._trouble.get(address, 'connecting' if link else 'not tried yet')}")
        return "; ".join(said)


def _always(addresses: Sequence[str]) -> Callable[[], Sequence[str]]:
    return lambda: addresses
