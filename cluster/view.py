"""What the store says of a run, as of one look."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.streams.records import RoleRecord
from zerofleet.streams.store import GameCounter, LeasedRole, RunStore, WeightsRecord, WishRecord
from zerofleet.streams.stream import EpisodeStream, StreamCounts


@dataclass(frozen=True, slots=True, kw_only=True)
class View:
    """One look at the store."""

    epoch: int | None  # of the controller
    server_id: str  # another after each restart of the server
    roles: dict[tuple[str, int], LeasedRole]
    counts: StreamCounts
    games: GameCounter | None
    wish: WishRecord | None
    weights: WeightsRecord | None
    is_paused: bool
    must_stop: bool

    def alive(self, role: str | None = None) -> list[RoleRecord]:
        """Return the records of the roles whose lease holds."""
        return [
            leased.record
            for leased in self.roles.values()
            if leased.lease_left_s > 0.0 and role in (None, leased.record.role)
        ]

    def learner_number(self, name: str) -> float:
        """Return a number of the learner that lives, 0 where none does: a record may be left of an earlier launch."""
        return next((record.numbers.get(name, 0.0) for record in self.alive("learner")), 0.0)


def look(store: RunStore, stream: EpisodeStream) -> View:
    """Look at the store once.

    Raises:
        StreamUnavailableError: it does not answer.
    """
    seen = store.overview()
    return View(
        epoch=seen.epoch,
        server_id=seen.server_id,
        roles={(leased.record.role, leased.record.index): leased for leased in seen.roles},
        counts=stream.counts(),
        games=seen.game_counter,
        wish=seen.wish,
        weights=seen.weights,
        is_paused=seen.paused,
        must_stop=seen.stop_requested,
    )
