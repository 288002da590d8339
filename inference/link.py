"""A client's connection to one server, from the first attempt to the last reply."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass, field

from zerofleet.errors import InferenceError, WireError
from zerofleet.inference import wire
from zerofleet.inference.endpoint import Outbox, start_connecting
from zerofleet.inference.wire import Dimensions, FrameReader, Kind
from zerofleet.search.base import Evaluation, LeafBatch


@dataclass(slots=True, kw_only=True, eq=False)
class Ticket:
    """A request that was submitted; the client fills in how it ended."""

    id: int
    version: int
    batch: LeafBatch  # sent again from here if it must be
    link: Link | None = None  # where it was sent
    num_sent: int = 0
    evaluation: Evaluation | None = None
    error: str | None = None

    @property
    def is_done(self) -> bool:
        """Whether it was answered, one way or the other."""
        return self.evaluation is not None or self.error is not None


@dataclass(slots=True, eq=False)
class Link:
    """One connection.  It is opened without waiting; `is_ready` turns true when the server has welcomed the client."""

    address: str
    sock: socket.socket
    opened: float
    heard: float  # when the server last said something, or had nothing to answer
    is_ready: bool = False
    pinged: float | None = None  # when it was asked for a sign of life that did not come yet
    status: str = ""  # what the server last said of itself
    tickets: dict[int, Ticket] = field(default_factory=dict)  # that it has not answered
    outbox: Outbox = field(default_factory=Outbox)
    reader: FrameReader = field(default_factory=FrameReader)

    @classmethod
    def open(cls, address: str, dimensions: Dimensions, token: str, now: float) -> Link:
        """Start connecting; the hello goes out as soon as the way is open.

        Raises:
            OSError: there is no way.
        """
        link = cls(address, start_connecting(address), opened=now, heard=now)
        link.outbox.hold(wire.hello(dimensions, token))
        return link

    def send(self, ticket: Ticket, now: float) -> None:
        """Send a request, or as much of it as the socket takes now."""
        if not self.tickets:
            self.heard, self.pinged = now, None
        parts = wire.request_parts(ticket.id, ticket.version, ticket.batch)
        self.tickets[ticket.id] = ticket
        ticket.link = self
        ticket.num_sent += 1
        self.outbox.send(self.sock, parts)

    def ping(self, now: float) -> None:
        """Ask for a sign of life."""
        self.pinged = now
        self.outbox.send(self.sock, [wire.frame(Kind.PING)])

    def flush(self) -> None:
        """Send more of what waits; an attempt to connect that failed shows here."""
        code = self.sock.getsockopt(socket.SOL_SOCKET, socket.SO_ERROR)
        if code:
            raise OSError(code, os.strerror(code))
        self.outbox.flush(self.sock)

    def read(self, now: float) -> None:
        """Read what is there and hand it to its tickets; replies that nobody waits for are dropped.

        Raises:
            ConnectionError: the server hung up.
            InferenceError: it refused the client.
            WireError: it sent what is no frame of ours, or not the answer to what was asked.
        """
        try:
            if self.reader.fill(self.sock) == 0:
                raise ConnectionResetError("the server hung up")
        except BlockingIOError:
            return
        self.heard, self.pinged = now, None
        for kind, payload in self.reader.frames():
            self._handle(kind, payload)

    def _handle(self, kind: int, payload: memoryview) -> None:
        if kind == Kind.REPLY:
            request_id, evaluation = wire.read_reply(payload)
            ticket = self.tickets.pop(request_id, None)
            if ticket is None:
                return
            if (len(evaluation.values), len(evaluation.priors)) != (len(ticket.batch), len(ticket.batch.legal_actions)):
                self.tickets[request_id] = ticket
                raise WireError(f"reply {request_id}: {len(evaluation.values)} positions, not {len(ticket.batch)}")
            ticket.evaluation = evaluation
        elif kind == Kind.FAILED:
            request_id, text = wire.read_failed(payload)
            ticket = self.tickets.pop(request_id, None)
            if ticket is not None:
                ticket.error = text
        elif kind in (Kind.WELCOME, Kind.PONG):
            newest, number = wire.read_pair(payload)
            self.is_ready = True
            if kind == Kind.PONG:
                self.status = f"{number} positions wait in it" if newest else "it has no weights yet"
            elif not newest:
                self.status = "it has no weights yet"
        elif kind == Kind.REFUSED:
            raise InferenceError(wire.text_of(payload))
        else:
            raise WireError(f"frame: kind {kind} is not a server's to send")
