"""The run store over Redis."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from typing import Any

from zerofleet.errors import StreamError, StreamUnavailableError
from zerofleet.streams import redis_scripts as scripts
from zerofleet.streams.codec import decode_role, encode_role
from zerofleet.streams.keys import GROUP, Keys
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.redis_connection import RedisConnection
from zerofleet.streams.store import (
    MAX_EPOCH_RACES,
    NO_COUNTER,
    GameCounter,
    LeasedRole,
    Overview,
    StoreSnapshot,
    WeightsRecord,
    WishRecord,
    check_weights,
    needs_ceiling_text,
)

_OLDEST_MAJOR_VERSION = 7


class RedisRunStore:
    """`RunStore` over Redis; any thread may call it."""

    def __init__(self, url: str, run: str, *, timeout_s: float = 5.0) -> None:
        self._keys = Keys(run)
        self._redis = RedisConnection(url, timeout_s)

    def ping(self) -> None:
        """Return if the store answers."""
        self._redis.command("PING")

    def server_id(self) -> str:
        """Return the server's run id, another after each of its starts."""
        return str(self._redis.info("server")["run_id"])

    def warnings(self) -> list[str]:
        """Return what is wrong with the server's settings; see `RunStore.warnings`."""
        found = []
        version = str(self._redis.info("server").get("redis_version", ""))
        major = version.partition(".")[0]
        if major.isdigit() and int(major) < _OLDEST_MAJOR_VERSION:
            found.append(f"Redis {version} is too old: take Redis {_OLDEST_MAJOR_VERSION} or newer, or Valkey")
        memory = self._redis.info("memory")
        policy = str(memory.get("maxmemory_policy", "noeviction"))
        if int(memory.get("maxmemory", 0)) > 0 and policy.startswith("allkeys"):
            found.append(f"Redis evicts keys (maxmemory-policy {policy}), so games can be lost: set it to noeviction")
        if int(self._redis.info("persistence").get("aof_enabled", 1)) == 0:
            found.append("Redis keeps no append-only file (appendonly no): if it dies, games in the stream are lost")
        for group in self._foreign_groups():
            found.append(
                f"consumer group {group!r} on the episode stream is not ours; entries go without waiting for it"
            )
        return found

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Raise everything to the snapshot's; see `RunStore.restore`."""
        keys = [self._keys.epochs, self._keys.games, self._keys.wish, self._keys.weights]
        wish = ("", "") if snapshot.wish is None else (snapshot.wish.actors, snapshot.wish.sequence)
        weights = snapshot.weights
        newest = ("", "", "") if weights is None else (weights.version, weights.step, weights.sha256)
        epochs = [value for pair in snapshot.epochs.items() for value in pair]
        self._redis.script(scripts.RESTORE, keys, snapshot.next_game, snapshot.ceiling, *wish, *newest, *epochs)

    def acquire_epoch(self, role: str, floor: int, persist: Callable[[int], None]) -> int:
        """Take over a role; see `RunStore.acquire_epoch`."""
        for _attempt in range(MAX_EPOCH_RACES):
            held = self.epoch(role)
            floor = max(held or 0, floor) + 1
            persist(floor)
            if self._redis.script(scripts.TAKE_EPOCH, [self._keys.epochs], role, "" if held is None else held, floor):
                return floor
        raise StreamUnavailableError(f"lost the race for the {role}'s epoch {MAX_EPOCH_RACES} times")

    def epoch(self, role: str) -> int | None:
        """Return the present epoch of `role`."""
        held = self._redis.command("HGET", self._keys.epochs, role)
        return None if held is None else int(held)

    def take_game_numbers(self, count: int) -> range:
        """Take fresh game numbers; see `RunStore.take_game_numbers`."""
        first = int(self._redis.script(scripts.TAKE_GAMES, [self._keys.games], count, needs_ceiling_text(count)))
        return range(first, first + count)

    def set_ceiling(self, ceiling: int, epoch: int) -> None:
        """Raise the ceiling; see `RunStore.set_ceiling`."""
        self._redis.script(scripts.SET_CEILING, [self._keys.epochs, self._keys.games], ceiling, epoch, NO_COUNTER)

    def game_counter(self) -> GameCounter | None:
        """Return where the game numbers stand."""
        return _game_counter(self._redis.command("HMGET", self._keys.games, "next", "ceiling"))

    def wish(self) -> int | None:
        """Return how many actors are wished."""
        record = self.wish_record()
        return None if record is None else record.actors

    def wish_record(self) -> WishRecord | None:
        """Return the wish with its sequence number."""
        return _wish(self._redis.command("HMGET", self._keys.wish, "actors", "sequence"))

    def set_wish(self, actors: int, epoch: int | None = None) -> int:
        """Wish for so many actors; see `RunStore.set_wish`."""
        keys = [self._keys.epochs, self._keys.wish]
        return int(self._redis.script(scripts.SET_WISH, keys, actors, _optional(epoch)))

    def publish_weights(self, version: int, step: int, sha256: str, epoch: int) -> None:
        """Announce weights; see `RunStore.publish_weights`."""
        keys = [self._keys.epochs, self._keys.weights]
        in_the_way = self._redis.script(scripts.PUBLISH_WEIGHTS, keys, version, step, sha256, epoch)
        if in_the_way:
            check_weights(_weights(in_the_way), WeightsRecord(version, step, sha256))

    def weights(self) -> WeightsRecord | None:
        """Return the last published weights."""
        return _weights(self._redis.command("HMGET", self._keys.weights, "version", "step", "sha256"))

    def register(self, record: RoleRecord, lease_s: float) -> None:
        """Put a process into its slot; see `RunStore.register`."""
        self._beat(record, lease_s, "1")

    def heartbeat(self, record: RoleRecord, lease_s: float) -> bool:
        """Renew a lease; see `RunStore.heartbeat`."""
        return self._beat(record, lease_s, "")

    def unregister(self, role: str, index: int, incarnation: str | None = None) -> bool:
        """Empty a slot; see `RunStore.unregister`."""
        keys = [self._keys.roles, self._keys.leases]
        return bool(self._redis.script(scripts.UNREGISTER, keys, f"{role}/{index}", incarnation or ""))

    def roles(self) -> list[LeasedRole]:
        """Return all registered roles, by role and index."""
        return _roles(self._redis.script(scripts.ROLES, [self._keys.roles, self._keys.leases]))

    def set_state(self, state: Mapping[str, Any], epoch: int | None = None) -> None:
        """Write the run's state; see `RunStore.set_state`."""
        text = json.dumps(dict(state), allow_nan=False)
        self._redis.script(scripts.SET_STATE, [self._keys.epochs, self._keys.state], text, _optional(epoch))

    def state(self) -> dict[str, Any] | None:
        """Return the run's state."""
        text = self._redis.command("GET", self._keys.state)
        if text is None:
            return None
        try:
            return dict(json.loads(text))
        except (ValueError, TypeError) as error:
            raise StreamError(f"the run's state is no JSON object: {error}") from error

    def request_stop(self) -> None:
        """Ask for the end of the run."""
        self._redis.command("HSET", self._keys.commands, "stop", 1)

    def clear_stop(self) -> None:
        """Take the request back."""
        self._redis.command("HDEL", self._keys.commands, "stop")

    def stop_requested(self) -> bool:
        """Return whether somebody asked for the end."""
        return bool(self._redis.command("HEXISTS", self._keys.commands, "stop"))

    def set_paused(self, paused: bool) -> None:
        """Pause the learner, or let it go on."""
        if paused:
            self._redis.command("HSET", self._keys.commands, "paused", 1)
        else:
            self._redis.command("HDEL", self._keys.commands, "paused")

    def paused(self) -> bool:
        """Return whether the learner is paused."""
        return bool(self._redis.command("HEXISTS", self._keys.commands, "paused"))

    def overview(self) -> Overview:
        """Return what a controller looks at, in one call."""
        keys = self._keys
        roles, server_id, epoch, games, wish, weights, commands = self._redis.script(
            scripts.OVERVIEW,
            [keys.roles, keys.leases, keys.epochs, keys.games, keys.wish, keys.weights, keys.commands],
        )
        return Overview(
            epoch=None if epoch is None else int(epoch),
            server_id=server_id.decode(),
            roles=_roles(roles),
            game_counter=_game_counter(games),
            wish=_wish(wish),
            weights=_weights(weights),
            paused=commands[0] is not None,
            stop_requested=commands[1] is not None,
        )

    def close(self) -> None:
        """Close all connections; the next call opens a new one."""
        self._redis.close()

    def _beat(self, record: RoleRecord, lease_s: float, takeover: str) -> bool:
        keys = [self._keys.roles, self._keys.leases]
        arguments = (f"{record.role}/{record.index}", record.incarnation, encode_role(record), int(1000 * lease_s))
        return bool(self._redis.script(scripts.HEARTBEAT, keys, *arguments, takeover))

    def _foreign_groups(self) -> list[str]:
        if not self._redis.command("EXISTS", self._keys.episodes):
            return []
        groups = self._redis.command("XINFO GROUPS", self._keys.episodes)
        return [group["name"].decode() for group in groups if group["name"] != GROUP.encode()]


def _optional(epoch: int | None) -> str | int:
    return "" if epoch is None else epoch


def _game_counter(fields: list[Any]) -> GameCounter | None:
    return None if None in fields else GameCounter(int(fields[0]), int(fields[1]))


def _wish(fields: list[Any]) -> WishRecord | None:
    return None if None in fields else WishRecord(int(fields[0]), int(fields[1]))


def _weights(fields: list[Any]) -> WeightsRecord | None:
    return None if None in fields else WeightsRecord(int(fields[0]), int(fields[1]), fields[2].decode())


def _roles(flat: list[Any]) -> list[LeasedRole]:
    """Return roles in order, from (record, ms that are left of its lease)..."""
    found = [LeasedRole(decode_role(flat[i]), int(flat[i + 1]) / 1000) for i in range(0, len(flat), 2)]
    return sorted(found, key=lambda leased: (leased.record.role, leased.record.index))
