"""Weights from the learner to everybody: a file in storage first, then its number in the store.

A version never has two contents.  Numbers only rise, above every file in the folder and above the store's; a file's
name carries the epoch, so no late writer replaces it; and the store, guarded by the epoch, says whose contents count.
"""

from __future__ import annotations

import logging
from pathlib import Path

from zerofleet.errors import StorageError
from zerofleet.learner.checkpoint import Identity
from zerofleet.network.files import write_durably
from zerofleet.network.net import PolicyValueNet
from zerofleet.network.weights import WeightsMeta, encode_weights, find_weights, list_weights, weights_path
from zerofleet.streams.store import RunStore, WeightsRecord

_log = logging.getLogger(__name__)


class WeightsPublisher:
    """Writes and announces the versions of one learner."""

    def __init__(self, folder: Path, epoch: int, store: RunStore, identity: Identity, keep: int) -> None:
        self._folder = folder
        self._epoch = epoch
        self._store = store
        self._identity = identity
        self._keep = keep
        self._unannounced: WeightsRecord | None = None
        self._held_by_store = 0  # as far as known; nobody else of this epoch publishes

    @property
    def has_files(self) -> bool:
        """Tell whether any weights were ever written for this run."""
        return bool(list_weights(self._folder))

    def next_version(self, last: int) -> int:
        """Return a number that no weights have had: above `last`, every file, and what the store holds."""
        in_folder = max((version for version, _epoch, _path in list_weights(self._folder)), default=0)
        return max(last, in_folder, self._held_by_store) + 1

    def free_version(self, version: int, step: int, net: PolicyValueNet) -> int:
        """Return `version` where these weights may have it, else a fresh number.

        A resumed learner asks it about the version that its checkpoint names.  It may not where the store holds another
        content under that number, or a later number (the checkpoints that belonged to it are lost).
        """
        held = self._store.weights()
        if held is None:
            return version
        self._held_by_store = held.version
        _data, meta = encode_weights(net, self._meta(version, step))
        if held.version < version or (held.version == version and held.sha256 == meta.sha256):
            return version
        _log.warning("the store holds weights version %d, not of this checkpoint (version %d)", held.version, version)
        return self.next_version(version)

    def write(self, version: int, step: int, net: PolicyValueNet) -> None:
        """Put the weights into storage; `announce` makes them count."""
        data, meta = encode_weights(net, self._meta(version, step))
        try:
            find_weights(self._folder, version, meta.sha256)
        except StorageError:
            write_durably(weights_path(self._folder, version, self._epoch), data)
        self._unannounced = WeightsRecord(version, step, meta.sha256)

    def announce(self) -> bool:
        """Tell the store about the weights written last; return whether there was anything to tell.

        Raises:
            StreamUnavailableError: the store does not answer; call again.
            StaleEpochError: a successor publishes now.
        """
        record = self._unannounced
        if record is None:
            return False
        self._store.publish_weights(record.version, record.step, record.sha256, self._epoch)
        self._held_by_store, self._unannounced = record.version, None
        self._prune(record.version)
        return True

    def _prune(self, announced: int) -> None:
        """Remove the files of all but the newest versions."""
        versions = sorted({version for version, _epoch, _path in list_weights(self._folder)} | {announced})
        kept = set(versions[-self._keep :]) | {announced}
        for version, _epoch, path in list_weights(self._folder):
            if version not in kept:
                path.unlink(missing_ok=True)

    def _meta(self, version: int, step: int) -> WeightsMeta:
        identity = self._identity
        return WeightsMeta(
            run=identity.run,
            version=version,
            step=step,
            game=identity.game,
            rules_version=identity.rules_version,
            observation_shape=identity.observation_shape,
            num_actions=identity.num_actions,
            network=identity.network,
        )
