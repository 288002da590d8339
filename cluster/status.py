"""What `status`, `scale`, `stop` and `episodes` know: the run folder and Redis, never Ray."""

from __future__ import annotations

import os
import time
from typing import Any

from zerofleet.cluster.embedded_redis import EmbeddedRedis
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.run_state import RunState
from zerofleet.errors import RunError, StreamError, StreamUnavailableError
from zerofleet.streams.redis_store import RedisRunStore
from zerofleet.streams.redis_stream import RedisEpisodeStream
from zerofleet.streams.store import LeasedRole
from zerofleet.streams.stream import StreamCounts

REDIS_URL_VARIABLE = "ZEROFLEET_REDIS_URL"

_ENDS = ("stopped", "failed")

_UNKNOWN_REDIS = "its Redis to start; if it uses a Redis of its own, give its --redis-url"


class RunView:
    """One run from outside."""

    def __init__(self, folder: RunFolder, redis_url: str | None) -> None:
        self._folder = folder.require()
        self._embedded = EmbeddedRedis(folder.redis)
        self._timeout_s = folder.config().stream.timeout_s
        self._url = redis_url or (self._embedded.url() if self._embedded.is_alive() else None)
        self._is_elsewhere = redis_url is not None

    def status(self) -> dict[str, Any]:
        """Return what `status --json` prints."""
        if self._url is None:
            return self._offline()
        store = self._store()
        stream = RedisEpisodeStream(self._url, self._folder.run, timeout_s=self._timeout_s)
        record = store.state()
        if record is None:  # a Redis that has lost it, or another run's
            return self._offline()
        state = RunState.from_record(record)
        roles = [role for role in store.roles() if role.lease_left_s > 0.0]
        if not _has_controller(roles) and self._folder.is_held():  # its `train` starts it, or waits for it to come back
            waiting_for = state.waiting_for or "the controller"
            state = RunState.from_record({**state.to_record(), "waiting_for": waiting_for, "positions_per_s": 0.0})
        else:
            state = _as_it_is(state, roles)
        return self._describe(state, roles, stream.counts())

    def is_running(self) -> bool:
        """Whether a controller watches the run now."""
        return self._url is not None and _has_controller(self._store().roles())

    def scale(self, actors: int) -> int:
        """Wish for so many actors; return the wish's sequence number.

        Raises:
            RunError: the number is impossible, or the store is not there to take it.
        """
        if not 0 <= actors <= 100_000:
            raise RunError(f"the number of actors must be 0 to 100,000, got {actors}")
        store = self._store()
        most = RunState.from_record(store.state()).actors.get("most", 0)
        if most and actors > most:
            raise RunError(f"the cores of this run take {most} actors at most, got {actors}")
        return store.set_wish(actors)

    def stop(self, timeout_s: float) -> str:
        """Ask the run to end in order, wait for it, and return what was done.

        Where nobody runs it any more (its `train` was killed), an embedded Redis that was left behind is ended.

        Raises:
            RunError: it runs, and its Redis is not known.
            StreamError: it has not ended within `timeout_s`.
            StreamUnavailableError: the Redis that was named does not answer.
        """
        if self._url is None:
            if self._folder.is_held():
                raise RunError(f"run {self._folder.run!r} runs, and waits for {_UNKNOWN_REDIS}")
            return "it was not running"
        if not self.is_running() and not self._folder.is_held():
            return self._end_embedded()
        deadline = time.monotonic() + timeout_s
        while time.monotonic() < deadline:
            try:
                self._store().request_stop()  # again and again: a `train` that is only starting takes it back once
                state = RunState.from_record(self._store().state()).state
                if not self._folder.is_held() and not (state in _ENDS or self.is_running()):
                    return self._end_embedded()
            except StreamUnavailableError:
                if self._is_elsewhere:
                    raise
                state = "stopped"  # its `train` ends the embedded Redis, and then itself
            if state in _ENDS and not self._folder.is_held():
                return "it has ended in order"
            time.sleep(0.2)
        raise StreamError(f"run {self._folder.run!r} was asked to end, and has not yet after {timeout_s:g} s")

    def _end_embedded(self) -> str:
        record = self._store().state()
        if record is not None:
            self._folder.write_record("summary", _as_it_is(RunState.from_record(record), []).to_record())
        self._folder.remove_scratch()
        if self._embedded.stop():
            return "nobody ran it any more; the Redis it had left behind has ended"
        return "nobody ran it any more"

    def _store(self) -> RedisRunStore:
        if self._url is None:
            raise RunError(
                f"run {self._folder.run!r} is not running here; if it uses a Redis of its own, give its --redis-url"
            )
        return RedisRunStore(self._url, self._folder.run, timeout_s=self._timeout_s)

    def _offline(self) -> dict[str, Any]:
        record = self._folder.record("summary")
        state = RunState.from_record({"state": "stopped", **record, "positions_per_s": 0.0, "waiting_for": ""})
        if self._folder.is_held():
            state = RunState.from_record({**state.to_record(), "state": "starting", "waiting_for": _UNKNOWN_REDIS})
        return self._describe(state, [], None)

    def _describe(self, state: RunState, roles: list[LeasedRole], counts: StreamCounts | None) -> dict[str, Any]:
        return {
            "run": self._folder.run,
            "state": state.state,
            "waiting_for": state.waiting_for,
            "error": state.error,
            "exit_reason": state.exit_reason,
            "weights_version": state.weights_version,
            "learner_step": state.step,
            "games": state.games,
            "games_per_s": state.games_per_s,
            "positions_per_s": state.positions_per_s,
            "replay_positions": state.replay_positions,
            "loss": state.loss,
            "errors": state.errors,
            "samples_per_insert": {
                "wanted": state.samples_per_insert.get("wanted"),
                "actual": state.samples_per_insert.get("actual"),
            },
            "actors": {
                "wished": state.actors.get("wished", 0),
                "alive": sum(role.record.role == "actor" for role in roles),
            },
            "stream": _describe_stream(counts),
            "metrics_url": state.metrics_url if roles else "",
            "roles": [_describe_role(role, state) for role in roles],
        }


def redis_url_given(option: str | None) -> str | None:
    """Return the Redis that the user named, on the command line or in the environment."""
    return option or os.environ.get(REDIS_URL_VARIABLE) or None


def redis_url_of(folder: RunFolder, option: str | None) -> str | None:
    """Return the Redis that is named for a run, None where it has its own: the environment may mean other runs."""
    if option is None and EmbeddedRedis(folder.redis).is_alive():
        return None
    return redis_url_given(option)


def _as_it_is(state: RunState, roles: list[LeasedRole]) -> RunState:
    """Correct a stored state that its controller can no longer correct."""
    if state.state in _ENDS or _has_controller(roles):
        return state
    waiting_for = "somebody to run it: `zerofleet train` resumes it"
    return RunState.from_record(
        {**state.to_record(), "state": "interrupted", "waiting_for": waiting_for, "positions_per_s": 0.0}
    )


def _has_controller(roles: list[LeasedRole]) -> bool:
    return any(role.record.role == "controller" and role.lease_left_s > 0.0 for role in roles)


def _describe_stream(counts: StreamCounts | None) -> dict[str, int | None]:
    """Return the counts by name, each None where no Redis tells them."""
    if counts is None:
        return {"backlog": None, "pending": None, "dead_letters": None}
    return {"backlog": counts.backlog, "pending": counts.pending, "dead_letters": counts.dead_letters}


def _describe_role(leased: LeasedRole, state: RunState) -> dict[str, Any]:
    record = leased.record
    return {
        "role": record.role,
        "index": record.index,
        "node": record.node,
        "pid": record.pid,
        "incarnation": record.incarnation,
        "restarts": state.restarts.get(f"{record.role}-{record.index}", 0),
        "metrics_url": record.metrics_url,
        "waiting_for": record.waiting_for,
        "resident_bytes": int(record.numbers.get("resident_bytes", 0)),
    }
