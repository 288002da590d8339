"""From visit counts to a move: probabilities in proportion to N^(1 / temperature).

Lists, not arrays: this runs once per move over few legal moves, where each call of numpy costs more than it computes.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Sequence
from itertools import accumulate

import numpy as np

from zerofleet.errors import UsageError
from zerofleet.search.base import FloatArray, IntArray


def move_probabilities(visit_counts: IntArray, priors: FloatArray, temperature: float) -> list[float]:
    """Return the probability of each move, [M]: a higher temperature is flatter, 0 is uniform over the most visited.

    Where nothing was visited the priors take the place of the visits.  Counts are divided by the greatest before they
    are raised to a power, so no temperature overflows.
    """
    if not 0.0 <= temperature < math.inf:
        raise UsageError(f"temperature must be 0 or more and finite, got {temperature}")
    weights: list[float] = visit_counts.tolist()
    greatest = max(weights)
    if greatest == 0:
        weights = priors.tolist()
        greatest = max(weights)
        if not greatest > 0.0:
            return [1.0 / len(weights)] * len(weights)
    # 1 / temperature may reach infinity: then a share of 1 stays 1, and every smaller one becomes 0
    exponent = math.inf if temperature == 0.0 else 1.0 / temperature
    powers = [(weight / greatest) ** exponent for weight in weights]
    total = sum(powers)
    return [power / total for power in powers]


def choose_move(probabilities: Sequence[float], rng: np.random.Generator) -> int:
    """Draw a move; one draw from `rng` each, and never a move of probability 0."""
    cumulative = list(accumulate(probabilities))
    # random() < 1, so the product stays below the last step up, and a move of probability 0 has no step of its own
    return bisect_right(cumulative, rng.random() * cumulative[-1])
