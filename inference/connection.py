"""One client's connection, as the server sees it."""

from __future__ import annotations

import contextlib
import socket

from zerofleet.inference.endpoint import Outbox
from zerofleet.inference.wire import MAX_FRAME_BYTES, MAX_HELLO_BYTES, FrameReader, Kind, frame


class Connection:
    """The socket, what was read of it and what it did not take yet; owned by the server's thread."""

    def __init__(self, sock: socket.socket, deadline: float) -> None:
        self.sock = sock
        self.reader = FrameReader(MAX_HELLO_BYTES)
        self.outbox = Outbox()
        self.is_greeted = False  # its hello was accepted
        self.is_refused = False  # it was sent away; what it still writes is thrown away until it hangs up
        self.is_open = True
        self.deadline = deadline  # of the hello, and once refused of hanging up; it has none in between
        self.num_waiting = 0  # positions in the server's queue
        self.interest = 0  # what the selector watches for

    def greet(self, welcome: bytes) -> None:
        """Accept the client: from here on it may send requests."""
        self.is_greeted = True
        self.deadline = float("inf")
        self.reader.max_frame_bytes = MAX_FRAME_BYTES
        self.outbox.send(self.sock, [welcome])

    def refuse(self, reason: str, deadline: float) -> None:
        """Say why, and wait until `deadline` for the client to hang up, so that it can read the reason."""
        self.is_refused = True
        self.deadline = deadline
        with contextlib.suppress(OSError):
            self.outbox.send(self.sock, [frame(Kind.REFUSED, reason.encode())])
            if not self.outbox:
                self.sock.shutdown(socket.SHUT_WR)

    def discard(self) -> bool:
        """Throw away what a refused client writes; return whether it has hung up."""
        try:
            return self.sock.recv(1 << 16) == b""
        except BlockingIOError:
            return False
        except OSError:
            return True
