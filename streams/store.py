"""The run store: what a run keeps in Redis beside its episodes, readable by everybody who knows its URL.

Epochs, game numbers, the wish, published weights, the registry of roles with their leases, the run's state and the
commands to it.  Everything `status` shows can be read here, without Ray.

Two rules keep a run right whatever is killed.  Numbers that must never repeat (epochs, game numbers) are written to the
run folder *before* they are used, so a store that was lost is restored from there, above all that was ever given out.
And a write that only one process may make carries that process's epoch, checked in the same step as the write.

This module knows no Redis.  `MemoryRunStore` is the whole contract within one process.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from zerofleet.errors import NeedsCeilingError, StreamError, StreamUnavailableError
from zerofleet.streams.records import RoleRecord
from zerofleet.streams.stream import check_epoch

MAX_EPOCH_RACES = 100
"""How often `acquire_epoch` loses a race before it gives up."""


@dataclass(frozen=True, slots=True)
class WeightsRecord:
    """The last published weights."""

    version: int
    step: int
    sha256: str


@dataclass(frozen=True, slots=True)
class WishRecord:
    """How many actors are wished, and how many wishes there have been: of two wishes the later one counts."""

    actors: int
    sequence: int


@dataclass(frozen=True, slots=True)
class GameCounter:
    """Where the game numbers stand: `next` is the next to be given out, `ceiling` the first that may not be yet."""

    next: int
    ceiling: int


@dataclass(frozen=True, slots=True)
class LeasedRole:
    """A registered role and what is left of its lease; 0 or less: it has said nothing for too long."""

    record: RoleRecord
    lease_left_s: float


@dataclass(frozen=True, slots=True, kw_only=True)
class Overview:
    """What a controller looks at again and again, as of one moment; each part is as the call of its name says."""

    epoch: int | None  # of the controller
    server_id: str
    roles: list[LeasedRole]
    game_counter: GameCounter | None
    wish: WishRecord | None
    weights: WeightsRecord | None
    paused: bool
    stop_requested: bool


@dataclass(frozen=True, slots=True, kw_only=True)
class StoreSnapshot:
    """What the run folder knows and a fresh or lost store does not."""

    epochs: Mapping[str, int] = field(default_factory=dict)
    next_game: int = 0  # above every number ever given out: the ceiling as the folder has it, 0 for a new run
    ceiling: int = 0
    wish: WishRecord | None = None
    weights: WeightsRecord | None = None


class RunStore(Protocol):
    """One run's control data.  Every call may raise StreamUnavailableError; each one is bounded in time."""

    def ping(self) -> None:
        """Return if the store answers."""

    def server_id(self) -> str:
        """Return a text that changes when the server has been restarted.

        A server that does not fsync every write may have lost its last second then: the controller calls `restore`,
        and until it has, no game number is given out.
        """

    def warnings(self) -> list[str]:
        """Return what is wrong with the server's settings for this use, in words for the user."""

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Begin a run, or bring a lost store back: raise epochs, counter, wish and weights to the snapshot's.

        Nothing ever goes down, so that it may be called at any time and by several at once.
        """

    def acquire_epoch(self, role: str, floor: int, persist: Callable[[int], None]) -> int:
        """Take over `role` and return its new epoch, above both `floor` and the store's.

        `persist` must make the number durable (in the run folder) and is called before the store holds it; after a
        lost race it is called again with a higher one.
        """

    def epoch(self, role: str) -> int | None:
        """Return the present epoch of `role`, or None where the store holds none."""

    def take_game_numbers(self, count: int) -> range:
        """Take `count` fresh game numbers, never given to anybody else.

        Raises NeedsCeilingError (a StreamUnavailableError) while the controller has not raised the ceiling enough.
        """

    def set_ceiling(self, ceiling: int, epoch: int) -> None:
        """Allow game numbers below `ceiling`, which must already be durable; guarded by the controller's epoch.

        Never goes down.  The counter itself comes from `restore`, for a new run too: StreamUnavailableError without.
        """

    def game_counter(self) -> GameCounter | None:
        """Return where the game numbers stand, or None where the store has no counter."""

    def wish(self) -> int | None:
        """Return how many actors are wished."""

    def wish_record(self) -> WishRecord | None:
        """Return the wish with its sequence number."""

    def set_wish(self, actors: int, epoch: int | None = None) -> int:
        """Wish for so many actors and return the wish's sequence number.

        A user's wish (`scale`) has no epoch; the controller's own is guarded by its epoch.
        """

    def publish_weights(self, version: int, step: int, sha256: str, epoch: int) -> None:
        """Announce weights that are in storage already; guarded by the learner's epoch.

        The same version again with the same content does nothing; a lower version, or another content, is StreamError.
        """

    def weights(self) -> WeightsRecord | None:
        """Return the last published weights."""

    def register(self, record: RoleRecord, lease_s: float) -> None:
        """Put a starting process into its slot (role and index), whoever held it before."""

    def heartbeat(self, record: RoleRecord, lease_s: float) -> bool:
        """Renew the lease and the record; False, having written nothing, when another incarnation holds the slot.

        An empty slot is taken: after a loss of the store the roles come back by themselves.
        """

    def unregister(self, role: str, index: int, incarnation: str | None = None) -> bool:
        """Empty a slot, with an incarnation only if that one holds it; return whether it did."""

    def roles(self) -> list[LeasedRole]:
        """Return all registered roles by role and index, with leases as of one moment by the store's clock."""

    def set_state(self, state: Mapping[str, Any], epoch: int | None = None) -> None:
        """Write the run's state (JSON values only); with an epoch, guarded by the controller's."""

    def state(self) -> dict[str, Any] | None:
        """Return the run's state, or None where there is none yet."""

    def request_stop(self) -> None:
        """Ask the controller to end the run."""

    def clear_stop(self) -> None:
        """Take the request back; whoever starts or resumes the run does so first."""

    def stop_requested(self) -> bool:
        """Return whether somebody asked for the end of the run."""

    def set_paused(self, paused: bool) -> None:
        """Pause the learner (it reads, logs and acknowledges, but takes no step), or let it go on."""

    def paused(self) -> bool:
        """Return whether the learner is paused."""

    def overview(self) -> Overview:
        """Return what a controller looks at, in one call and as of one moment."""

    def close(self) -> None:
        """Let go of connections; the store can be used again afterwards."""


def check_weights(held: WeightsRecord | None, new: WeightsRecord) -> None:
    """Raise StreamError if publishing `new` would go back, or give a version a second content."""
    if held is None or new.version > held.version or new == held:
        return
    raise StreamError(
        f"weights version {new.version} (step {new.step}, sha256 {new.sha256[:12]}) cannot be published: the store has "
        f"version {held.version} (step {held.step}, sha256 {held.sha256[:12]}); take a version above {held.version}"
    )


class MemoryRunStore:
    """The run store within one process; any thread may call it."""

    def __init__(self, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._clock = clock
        self._lock = threading.RLock()
        self._epochs: dict[str, int] = {}
        self._games: GameCounter | None = None
        self._games_of = ""  # the server for which the counter was seen to
        self._wish: WishRecord | None = None
        self._weights: WeightsRecord | None = None
        self._roles: dict[tuple[str, int], tuple[RoleRecord, float]] = {}
        self._state: str | None = None
        self._stop = False
        self._paused = False

    def ping(self) -> None:
        """Return: memory always answers."""

    def server_id(self) -> str:
        """Return the same text always."""
        return "memory"

    def warnings(self) -> list[str]:
        """Return nothing."""
        return []

    def restore(self, snapshot: StoreSnapshot) -> None:
        """Raise everything to the snapshot's; see `RunStore.restore`."""
        with self._lock:
            for role, epoch in snapshot.epochs.items():
                self._epochs[role] = max(epoch, self._epochs.get(role, 0))
            self._games_of = self.server_id()
            games = self._games or GameCounter(0, 0)
            self._games = GameCounter(max(games.next, snapshot.next_game), max(games.ceiling, snapshot.ceiling))
            if snapshot.wish is not None and (self._wish is None or self._wish.sequence < snapshot.wish.sequence):
                self._wish = snapshot.wish
            held = -1 if self._weights is None else self._weights.version
            if snapshot.weights is not None and held < snapshot.weights.version:
                self._weights = snapshot.weights

    def acquire_epoch(self, role: str, floor: int, persist: Callable[[int], None]) -> int:
        """Take over a role; see `RunStore.acquire_epoch`."""
        for _attempt in range(MAX_EPOCH_RACES):
            held = self.epoch(role)
            floor = max(held or 0, floor) + 1
            persist(floor)
            with self._lock:
                if self._epochs.get(role) == held:
                    self._epochs[role] = floor
                    return floor
        raise StreamUnavailableError(f"lost the race for the {role}'s epoch {MAX_EPOCH_RACES} times")

    def epoch(self, role: str) -> int | None:
        """Return the present epoch of `role`."""
        with self._lock:
            return self._epochs.get(role)

    def take_game_numbers(self, count: int) -> range:
        """Take fresh game numbers; see `RunStore.take_game_numbers`."""
        with self._lock:
            seen_to = self._games_of == self.server_id()
            if self._games is None or not seen_to or self._games.next + count > self._games.ceiling:
                raise NeedsCeilingError(needs_ceiling_text(count))
            first = self._games.next
            self._games = GameCounter(first + count, self._games.ceiling)
            return range(first, first + count)

    def set_ceiling(self, ceiling: int, epoch: int) -> None:
        """Raise the ceiling; see `RunStore.set_ceiling`."""
        with self._lock:
            check_epoch(self._epochs.get("controller"), epoch, "controller")
            if self._games is None:
                raise StreamUnavailableError(NO_COUNTER)
            self._games = GameCounter(self._games.next, max(ceiling, self._games.ceiling))

    def game_counter(self) -> GameCounter | None:
        """Return where the game numbers stand."""
        with self._lock:
            return self._games

    def wish(self) -> int | None:
        """Return how many actors are wished."""
        record = self.wish_record()
        return None if record is None else record.actors

    def wish_record(self) -> WishRecord | None:
        """Return the wish with its sequence number."""
        with self._lock:
            return self._wish

    def set_wish(self, actors: int, epoch: int | None = None) -> int:
        """Wish for so many actors; see `RunStore.set_wish`."""
        with self._lock:
            if epoch is not None:
                check_epoch(self._epochs.get("controller"), epoch, "controller")
            self._wish = WishRecord(actors, 1 if self._wish is None else self._wish.sequence + 1)
            return self._wish.sequence

    def publish_weights(self, version: int, step: int, sha256: str, epoch: int) -> None:
        """Announce weights; see `RunStore.publish_weights`."""
        with self._lock:
            check_epoch(self._epochs.get("learner"), epoch, "learner")
            record = WeightsRecord(version, step, sha256)
            check_weights(self._weights, record)
            self._weights = record

    def weights(self) -> WeightsRecord | None:
        """Return the last published weights."""
        with self._lock:
            return self._weights

    def register(self, record: RoleRecord, lease_s: float) -> None:
        """Put a process into its slot; see `RunStore.register`."""
        with self._lock:
            self._roles[record.role, record.index] = (record, self._clock() + lease_s)

    def heartbeat(self, record: RoleRecord, lease_s: float) -> bool:
        """Renew a lease; see `RunStore.heartbeat`."""
        with self._lock:
            held = self._roles.get((record.role, record.index))
            if held is not None and held[0].incarnation != record.incarnation:
                return False
            self.register(record, lease_s)
            return True

    def unregister(self, role: str, index: int, incarnation: str | None = None) -> bool:
        """Empty a slot; see `RunStore.unregister`."""
        with self._lock:
            held = self._roles.get((role, index))
            if held is None or incarnation not in (None, held[0].incarnation):
                return False
            del self._roles[role, index]
            return True

    def roles(self) -> list[LeasedRole]:
        """Return all registered roles, by role and index."""
        with self._lock:
            now = self._clock()
            return [LeasedRole(record, expiry - now) for _slot, (record, expiry) in sorted(self._roles.items())]

    def set_state(self, state: Mapping[str, Any], epoch: int | None = None) -> None:
        """Write the run's state; see `RunStore.set_state`."""
        with self._lock:
            if epoch is not None:
                check_epoch(self._epochs.get("controller"), epoch, "controller")
            self._state = json.dumps(dict(state), allow_nan=False)

    def state(self) -> dict[str, Any] | None:
        """Return the run's state."""
        with self._lock:
            return None if self._state is None else dict(json.loads(self._state))

    def request_stop(self) -> None:
        """Ask for the end of the run."""
        self._stop = True

    def clear_stop(self) -> None:
        """Take the request back."""
        self._stop = False

    def stop_requested(self) -> bool:
        """Return whether somebody asked for the end."""
        return self._stop

    def set_paused(self, paused: bool) -> None:
        """Pause the learner, or let it go on."""
        self._paused = paused

    def paused(self) -> bool:
        """Return whether the learner is paused."""
        return self._paused

    def overview(self) -> Overview:
        """Return what a controller looks at, in one call and as of one moment."""
        with self._lock:
            return Overview(
                epoch=self.epoch("controller"),
                server_id=self.server_id(),
                roles=self.roles(),
                game_counter=self.game_counter(),
                wish=self.wish_record(),
                weights=self.weights(),
                paused=self.paused(),
                stop_requested=self.stop_requested(),
            )

    def close(self) -> None:
        """Do nothing: there is no connection."""


NO_COUNTER = "the store has no game counter: the controller has to restore it from the run folder first"


def needs_ceiling_text(count: int) -> str:
    """Say why no game numbers can be had."""
    return f"{count} game numbers are not free yet: the controller has to raise the ceiling, or to restore the store"
