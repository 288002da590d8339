"""What computes priors and values: the contract that every backend meets, for any device and any file format."""

from __future__ import annotations

from typing import Protocol

from zerofleet.games.base import PackedPlanes
from zerofleet.inference.wire import Dimensions
from zerofleet.search.base import ActionArray, Evaluation, IntArray


class Backend(Protocol):
    """Holds the networks of some weights versions and runs positions through them.

    `load` may be called from another thread while `forward` runs; a forward pass uses one network from its first row to
    its last.  The same row gives the same bits whatever stands beside it in a batch that is padded to the same size.
    """

    dimensions: Dimensions
    max_batch_size: int  # larger batches are cut, and may take any number of rows
    num_non_finite_rows: int  # rows so far that the network gave no finite number for: answered uniformly, value 0

    def load(self, version: int, weights: bytes) -> None:
        """Make `version` resident, beside those that are, the least used of which may go.

        Loading the same bytes again changes nothing.

        Raises:
            StorageError: the bytes are torn, are for another game, or differ from what the version held before;
                nothing has changed.
        """

    def versions(self) -> tuple[int, ...]:
        """Return the resident versions, increasing."""

    def forward(
        self, planes: PackedPlanes, legal_offsets: IntArray, legal_actions: ActionArray, version: int = 0
    ) -> Evaluation:
        """Evaluate `planes`, [B, packed_size]; version 0 is the newest.

        Priors are finite, at least 0, and add up to 1 in each row; moves that share an action share its prior equally.
        The arrays returned are the caller's.

        Raises:
            InferenceError: the version is not resident; the message names those that are.
        """
