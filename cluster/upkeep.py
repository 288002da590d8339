"""What the controller keeps in the run folder, so that a store that lost it, or went back, can be brought up to it."""

from __future__ import annotations

import logging

from zerofleet.cluster.role_spec import RunSpec
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.streams.store import GameCounter, RunStore, StoreSnapshot, WeightsRecord, WishRecord

_log = logging.getLogger(__name__)

CEILING_STEP = 2**20
"""Game numbers that are made durable at once."""


class Upkeep:
    """The run folder and the store, kept in step: the folder first, then the store."""

    def __init__(self, spec: RunSpec, folder: RunFolder, store: RunStore) -> None:
        self._redis_is_embedded = spec.redis_is_embedded
        self._folder = folder
        self._store = store
        self._published = folder.published()

    def take_epoch(self) -> int:
        """Become the run's controller in the store."""
        return self._store.acquire_epoch(
            "controller", self._folder.epoch("controller"), lambda new: self._folder.persist_epoch("controller", new)
        )

    def begin(self) -> None:
        """Bring the store up to the folder where it may be behind; a fresh run begins this way too."""
        server_id = self._store.server_id()
        if self._store.game_counter() is None or self.may_have_gone_back(server_id):
            self.restore(server_id)
        else:
            self._see_to(server_id)
        for warning in self._store.warnings():
            _log.warning("the store: %s", warning)

    def may_have_gone_back(self, server_id: str) -> bool:
        """Whether the server was started anew since, and may have come back with numbers of a moment before it died.

        The embedded server does not: every write is on disk before it is answered.
        """
        return not self._redis_is_embedded and self._folder.server_id() not in ("", server_id)

    def look_at_server(self, server_id: str) -> None:
        """See to a server that was started anew and has not gone back: until then it gives out no game number."""
        if self._folder.server_id() != server_id:
            self._see_to(server_id)

    def _see_to(self, server_id: str) -> None:
        self._store.restore(StoreSnapshot())  # raises nothing
        self._folder.persist_server_id(server_id)

    def restore(self, server_id: str) -> None:
        """Bring an empty, lost or older store up to what the run folder knows."""
        ceiling = self._folder.ceiling()
        if ceiling > 0:
            what = "was started anew" if self.may_have_gone_back(server_id) else "has lost its data"
            _log.warning("the store %s: wish, epochs and counters are written back from the run folder", what)
        self._store.restore(
            StoreSnapshot(
                epochs={
                    role: self._folder.epoch(role) for role in ("controller", "learner") if self._folder.epoch(role)
                },
                next_game=ceiling,
                ceiling=ceiling,
                wish=self._folder.wish(),
                weights=self._folder.published(),
            )
        )
        self._folder.persist_server_id(server_id)

    def raise_ceiling(self, games: GameCounter, epoch: int) -> None:
        """Allow more game numbers before they run out."""
        if games.ceiling - games.next < CEILING_STEP // 2:
            ceiling = games.ceiling + CEILING_STEP
            self._folder.persist_ceiling(ceiling)
            self._store.set_ceiling(ceiling, epoch)

    def note_published(self, weights: WeightsRecord | None) -> None:
        """Keep what weights the store holds."""
        if weights is not None and weights != self._published:
            self._folder.persist_published(weights)
            self._published = weights

    def note_wish(self, wish: WishRecord) -> None:
        """Keep the wish."""
        if wish != self._folder.wish():
            self._folder.persist_wish(wish)
            _log.info("%d actors are wished for", wish.actors)
