from __future__ import annotations

import socket
from pathlib import Path

import pytest

from zerofleet.errors import ConfigError, InferenceError
from zerofleet.inference.endpoint import Outbox, listen, parse, tune


def test_addresses_are_read() -> None:
    assert parse("unix:/a/b") == (socket.AF_UNIX, "/a/b")
    assert parse("tcp:localhost:80") == (socket.AF_INET, ("localhost", 80))
    assert parse("tcp:[::1]:80") == (socket.AF_INET6, ("::1", 80))


@pytest.mark.parametrize("address", ["", "unix:", "tcp:host", "tcp::80", "tcp:h:99999", "tcp:h:-1", "udp:h:1", "/a/b"])
def test_what_is_no_address_is_refused(address: str) -> None:
    with pytest.raises(ConfigError, match="unix:/path or tcp:host:port"):
        parse(address)


def test_a_unix_path_over_107_bytes_is_refused_with_the_limit() -> None:
    parse("unix:/" + "a" * 106)
    with pytest.raises(ConfigError, match="at most 107"):
        parse("unix:/" + "a" * 107)


def test_port_zero_becomes_a_real_port() -> None:
    sock, address = listen("tcp:127.0.0.1:0")
    with sock:
        assert address == f"tcp:127.0.0.1:{sock.getsockname()[1]}"
        assert not address.endswith(":0")


def test_a_dead_servers_socket_file_is_replaced_and_a_living_ones_is_not(short_tmp: Path) -> None:
    address = f"unix:{short_tmp}/s"
    sock, _ = listen(address)
    with pytest.raises(InferenceError, match="already"):
        listen(address)
    sock.close()
    again, _ = listen(address)
    again.close()


def test_the_socket_file_is_its_owners_alone(short_tmp: Path) -> None:
    sock, _ = listen(f"unix:{short_tmp}/s")
    sock.close()
    assert (short_tmp / "s").stat().st_mode & 0o777 == 0o600


def test_an_address_of_another_machine_is_refused() -> None:
    with pytest.raises(InferenceError, match="cannot listen at tcp"):
        listen("tcp:192.0.2.1:0")


def test_an_outbox_keeps_what_the_socket_does_not_take() -> None:
    ours, theirs = socket.socketpair()
    with ours, theirs:
        tune(ours)
        outbox, data = Outbox(), bytes(range(256)) * 80_000
        outbox.send(ours, [data[:1000], b"", memoryview(data)[1000:]])
        outbox.send(ours, [b"end"])
        assert len(outbox) > 0
        got = bytearray()
        while len(got) < len(data) + 3:
            got += theirs.recv(1 << 20)
            outbox.flush(ours)
        assert bytes(got) == data + b"end"
        assert len(outbox) == 0
