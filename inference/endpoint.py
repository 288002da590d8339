"""Addresses of inference servers, "unix:/path" or "tcp:host:port", and the sockets behind them."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
from collections.abc import Iterable
from pathlib import Path

from zerofleet.errors import ConfigError, InferenceError

MAX_UNIX_PATH_BYTES = 107
SOCKET_BUFFER_BYTES = 4 << 20  # asked for; the kernel gives what its limits allow

_BACKLOG = 512
_KEEPALIVE = (("TCP_KEEPIDLE", 30), ("TCP_KEEPINTVL", 10), ("TCP_KEEPCNT", 3))  # a peer whose machine is gone: a minute


def parse(address: str) -> tuple[socket.AddressFamily, str | tuple[str, int]]:
    """Return the family of `address` and what `bind` and `connect` take.

    Raises:
        ConfigError: it is no address of ours, or a path too long for a Unix socket.
    """
    scheme, _, rest = address.partition(":")
    if scheme == "unix" and rest:
        if len(rest.encode()) > MAX_UNIX_PATH_BYTES:
            raise ConfigError(
                f"{address}: {len(rest.encode())} bytes of path, a Unix socket takes at most {MAX_UNIX_PATH_BYTES}: "
                "use a shorter folder"
            )
        return socket.AF_UNIX, rest
    host, _, port = rest.rpartition(":")
    if scheme == "tcp" and host and port.isdecimal() and int(port) < 65536:
        host = host.removeprefix("[").removesuffix("]")
        return (socket.AF_INET6 if ":" in host else socket.AF_INET), (host, int(port))
    raise ConfigError(f"{address!r} is no address: write unix:/path or tcp:host:port")


def listen(address: str) -> tuple[socket.socket, str]:
    """Listen at `address` and return the socket and the real address: port 0 becomes the port that was free.

    Raises:
        InferenceError: somebody listens there already, or the address is not this machine's.
    """
    family, target = parse(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        if isinstance(target, str):
            _remove_stale(target)
        else:
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.bind(target)
        if isinstance(target, str):
            Path(target).chmod(0o600)
        sock.listen(_BACKLOG)
    except OSError as error:
        sock.close()
        raise InferenceError(f"cannot listen at {address}: {error.strerror or error}") from None
    sock.setblocking(False)
    if isinstance(target, str):
        return sock, address
    host = f"[{target[0]}]" if family == socket.AF_INET6 else target[0]
    return sock, f"tcp:{host}:{sock.getsockname()[1]}"


def start_connecting(address: str) -> socket.socket:
    """Return a socket on its way to `address`; it turns writable when the way is open or has failed."""
    family, target = parse(address)
    sock = socket.socket(family, socket.SOCK_STREAM)
    tune(sock)
    try:
        code = sock.connect_ex(target)
        if code not in (0, errno.EINPROGRESS):
            raise OSError(code, os.strerror(code))
    except OSError:
        sock.close()
        raise
    return sock


def tune(sock: socket.socket) -> None:
    """Make a stream socket non-blocking, with room for whole frames, and quick to send small ones."""
    sock.setblocking(False)
    for option in (socket.SO_SNDBUF, socket.SO_RCVBUF):
        with contextlib.suppress(OSError):
            sock.setsockopt(socket.SOL_SOCKET, option, SOCKET_BUFFER_BYTES)
    if sock.family != socket.AF_UNIX:
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for name, value in _KEEPALIVE:
            if hasattr(socket, name):
                sock.setsockopt(socket.IPPROTO_TCP, getattr(socket, name), value)


class Outbox:
    """Bytes that a non-blocking socket did not take yet."""

    def __init__(self) -> None:
        self._rest = bytearray()

    def __len__(self) -> int:
        return len(self._rest)

    def hold(self, data: bytes) -> None:
        """Keep `data` for the first flush."""
        self._rest += data

    def send(self, sock: socket.socket, parts: Iterable[bytes | bytearray | memoryview]) -> None:
        """Send `parts` in order, after what waits; what the socket does not take now is copied and waits."""
        views = [memoryview(part).cast("B") for part in parts if len(part) > 0]
        sent = 0
        if not self._rest:
            with contextlib.suppress(BlockingIOError, InterruptedError):
                sent = sock.sendmsg(views)
        for view in views:
            if sent < len(view):
                self._rest += view[sent:]
            sent = max(0, sent - len(view))

    def flush(self, sock: socket.socket) -> None:
        """Send more of what waits, as far as the socket takes it."""
        with contextlib.suppress(BlockingIOError, InterruptedError):
            del self._rest[: sock.send(self._rest)]


def _remove_stale(path: str) -> None:
    """Remove the socket file that a dead server left; leave a living one's alone."""
    probe = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
    try:
        probe.connect(path)
    except FileNotFoundError:
        return
    except ConnectionRefusedError:
        Path(path).unlink(missing_ok=True)
        return
    finally:
        probe.close()
    raise OSError(errno.EADDRINUSE, "a server listens there already")
