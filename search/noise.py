"""Root noise: the Dirichlet draw that makes self-play try moves its network would not."""

from __future__ import annotations

import numpy as np

from zerofleet.errors import UsageError
from zerofleet.search.base import FloatArray

_LEAST_ALPHA = 0.1  # below it all gamma variates of a root may be too small for a float, and numpy goes another way


def root_noise(rng: np.random.Generator, num_legal: int, alpha: float) -> FloatArray:
    """Draw Dirichlet(alpha) over the legal moves alone, [M]; call it once per root and move.

    A root with one legal move gets [1.0], without a draw.
    """
    if num_legal < 1 or not 0.0 < alpha < np.inf:
        raise UsageError(f"noise needs a legal move and an alpha above 0, got {num_legal} moves and alpha {alpha}")
    if num_legal == 1:
        return np.ones(1, np.float32)
    if alpha < _LEAST_ALPHA:
        return rng.dirichlet(np.full(num_legal, alpha)).astype(np.float32)
    gammas = rng.standard_gamma(alpha, num_legal)  # Dirichlet's own draws and numbers, without its checks
    noise: FloatArray = (gammas / np.add.reduce(gammas)).astype(np.float32)
    return noise
