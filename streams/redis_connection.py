"""One connection to Redis: bounded in time, never retrying unseen, every error translated to one of ours.

Nobody above this module sees an exception of redis-py, and no message holds a password.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, cast
from urllib.parse import urlsplit

import redis
from redis.backoff import NoBackoff
from redis.exceptions import NoScriptError, OutOfMemoryError, ReadOnlyError, RedisError, ResponseError
from redis.retry import Retry

from zerofleet.errors import ConfigError, NeedsCeilingError, StaleEpochError, StreamError, StreamUnavailableError

_SCHEMES = ("redis", "rediss", "unix")

# Replies that say "not now" rather than "never": out of memory, disk full, a replica, loading, still running a script.
_PASSING = ("OOM", "MISCONF", "READONLY", "LOADING", "BUSY", "MASTERDOWN", "CLUSTERDOWN", "NOREPLICAS", "TRYAGAIN")


class RedisConnection:
    """A pool of connections to one server; any thread may use it.

    A call gives up when nothing has come for `timeout_s`, connecting counted apart.  What was sent may still be carried
    out by a server that was only slow: so every command must bear to be given twice.
    """

    def __init__(self, url: str, timeout_s: float) -> None:
        self.where = without_password(url)
        self.timeout_s = timeout_s
        try:
            self._client: Any = redis.Redis.from_url(
                url,
                socket_timeout=timeout_s,
                socket_connect_timeout=timeout_s,
                retry=Retry(NoBackoff(), 0),
                protocol=2,
                decode_responses=False,
            )
        except (ValueError, TypeError):
            # The original message may quote a piece of the password.
            raise ConfigError(f"Redis URL at {self.where} is not understood; write redis://host:port/0") from None

    def command(self, *arguments: str | bytes | int) -> Any:
        """Run one command and return its reply."""
        with self._translated():
            return self._client.execute_command(*arguments)

    def script(self, source: str, keys: Sequence[str], *arguments: str | bytes | int) -> Any:
        """Run a Lua script, sending its text only to a server that does not know it (a restarted one)."""
        with self._translated():
            digest = hashlib.sha1(source.encode(), usedforsecurity=False).hexdigest()
            try:
                return self._client.execute_command("EVALSHA", digest, len(keys), *keys, *arguments)
            except NoScriptError:
                return self._client.execute_command("EVAL", source, len(keys), *keys, *arguments)

    def info(self, section: str) -> dict[str, Any]:
        """Return one section of the server's INFO."""
        return cast(dict[str, Any], self.command("INFO", section))

    def close(self) -> None:
        """Close all connections; the next call opens a new one."""
        self._client.close()
        self._client.connection_pool.disconnect()

    @contextmanager
    def _translated(self) -> Iterator[None]:
        try:
            yield
        except ResponseError as error:
            raise _from_reply(error, self.where) from error
        except (RedisError, OSError) as error:
            text = str(error) or type(error).__name__
            raise StreamUnavailableError(f"Redis at {self.where} does not answer: {text}") from error


def without_password(url: str) -> str:
    """Return what of a Redis URL may be shown: scheme, host, port and path."""
    try:
        parts = urlsplit(url)
        if parts.scheme not in _SCHEMES:
            raise ValueError(parts.scheme)
        if parts.scheme == "unix":
            return f"unix:{parts.path}"
        port = f":{parts.port}" if parts.port is not None else ""
    except ValueError:
        raise ConfigError("the Redis URL is not understood; write redis://host:port/0 or unix:///path") from None
    return f"{parts.scheme}://{parts.hostname or 'localhost'}{port}{parts.path}"


def _from_reply(error: ResponseError, where: str) -> StreamError:
    """Return our error for a server's error reply; the scripts' own replies start with words of ours."""
    text = str(error)[:300]
    word, _space, rest = text.partition(" ")
    if word == "STALE":
        role, claimed, held = rest.split(" ")[:3]
        return StaleEpochError(f"the {role} of epoch {claimed} is not in charge any more: epoch {held} is")
    if word == "NOEPOCH":
        return StreamUnavailableError(f"the store holds no epoch of the {rest} yet: the controller has to restore it")
    if word == "NOCEILING":
        return NeedsCeilingError(rest)
    if word == "NOCOUNTER":
        return StreamUnavailableError(rest)
    if isinstance(error, OutOfMemoryError) or "OOM " in text:
        return StreamUnavailableError(f"Redis at {where} is out of memory (OOM, raise its maxmemory): {text}")
    if isinstance(error, ReadOnlyError) or word in _PASSING:
        return StreamUnavailableError(f"Redis at {where} refuses for now: {text}")
    return StreamError(f"Redis at {where} refuses: {text}")
