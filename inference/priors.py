"""From the network's logits to priors: a softmax over the legal actions of each position.  Numpy alone."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from zerofleet.search.base import ActionArray, FloatArray, IntArray

IndexArray: TypeAlias = npt.NDArray[np.intp]


@dataclass(frozen=True, slots=True, kw_only=True)
class LegalMoves:
    """Where the `L` legal moves of `B` positions stand in the network's answer, logits `[B, A]`."""

    starts: IndexArray  # [B] each position's first legal move
    rows: IndexArray  # [L] the position of each move
    flat: IndexArray  # [L] the place of each move's action in the flattened logits

    @classmethod
    def of(cls, legal_offsets: IntArray, legal_actions: ActionArray, num_actions: int) -> LegalMoves:
        """Return it for the offsets and actions of a batch; every position has a legal move."""
        offsets = legal_offsets.astype(np.intp)
        rows = np.repeat(np.arange(len(offsets) - 1), offsets[1:] - offsets[:-1])
        return cls(starts=offsets[:-1], rows=rows, flat=rows * num_actions + legal_actions)

    def priors(self, logits: FloatArray) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return (priors `[L]`, is_finite `[B]`) for the logits `[L]` of the legal moves.

        Illegal actions have no part in it, however large their logits.  Moves that share an action share its prior
        equally.  A position whose logits hold a nan or +inf, or -inf alone, is given equal ones.  A position's priors
        depend on no other one in the batch, bit for bit.
        """
        peaks = np.maximum.reduceat(logits, self.starts)
        is_finite = np.isfinite(peaks)
        if not is_finite.all():
            logits = np.where(is_finite[self.rows], logits, np.float32(0.0))
            peaks = np.where(is_finite, peaks, np.float32(0.0))
        with np.errstate(over="ignore", under="ignore"):  # what overflows is as unlikely as -inf: its weight is 0
            weights = np.exp(logits - peaks[self.rows])
        if not (self.flat[1:] > self.flat[:-1]).all():  # increasing everywhere: no action comes twice
            _, index, multiplicity = np.unique(self.flat, return_inverse=True, return_counts=True)
            weights /= multiplicity[index].astype(np.float32)
        weights /= np.add.reduceat(weights, self.starts)[self.rows]
        return weights, is_finite
