"""From visit counts to a move: probabilities in proportion to N^(1 / temperature)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from zerofleet.errors import UsageError
from zerofleet.search.base import FloatArray, IntArray


def move_probabilities(visit_counts: IntArray, priors: FloatArray, temperature: float) -> npt.NDArray[np.float64]:
    """Return the probability of each move, [M]: a higher temperature is flatter, 0 is uniform over the most visited.

    Where nothing was visited the priors take the place of the visits.  Counts are divided by the greatest before they
    are raised to a power, so no temperature overflows.
    """
    if not 0.0 <= temperature < np.inf:
        raise UsageError(f"temperature must be 0 or more and finite, got {temperature}")
    greatest = visit_counts.max()
    shares = visit_counts / max(1, greatest)
    if greatest == 0:
        weights = np.asarray(priors, np.float64)
        if not weights.max() > 0.0:
            return np.full(len(weights), 1.0 / len(weights))
        shares = weights / weights.max()
    # 1 / temperature may reach infinity: then a share of 1 stays 1, and every smaller one becomes 0
    powers = shares == 1.0 if temperature == 0.0 else shares ** (1.0 / temperature)
    probabilities: npt.NDArray[np.float64] = powers / powers.sum()
    return probabilities


def choose_move(probabilities: npt.NDArray[np.float64], rng: np.random.Generator) -> int:
    """Draw a move; one draw from `rng` each, and never a move of probability 0."""
    cumulative = probabilities.cumsum()
    # random() < 1, so the product stays below the last step up, and a move of probability 0 has no step of its own
    return int(cumulative.searchsorted(rng.random() * cumulative[-1], side="right"))
