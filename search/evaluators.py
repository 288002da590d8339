"""Evaluators that need no network: uniform priors with a value of 0, or with the outcome of one random game."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from zerofleet import _native
from zerofleet.games.base import Game, State
from zerofleet.search.base import Evaluation, FloatArray, LeafBatch
from zerofleet.search.rollouts import rollout_outcomes


def uniform_priors(batch: LeafBatch) -> FloatArray:
    """Return the same prior for each legal move of a row, [L]."""
    priors: FloatArray = _native.uniform_priors(batch.legal_offsets)
    return priors


class UniformEvaluator:
    """Knows nothing: every move is as likely as the next, and every position is even."""

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Return uniform priors and values of 0."""
        return Evaluation(priors=uniform_priors(batch), values=np.zeros(len(batch), np.float32))


class RolloutEvaluator:
    """Uniform priors; a position's value is the outcome of one game of uniformly random moves from it.

    The same seed and the same sequence of batches give the same values.
    """

    def __init__(self, game: Game, seed: int) -> None:
        self._game = game
        self._seeds = np.random.default_rng(seed)

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Return uniform priors and one rollout's outcome per row, for the row's player to move."""
        outcomes = self._outcomes(batch.source.leaf_states())
        return Evaluation(priors=uniform_priors(batch), values=outcomes.astype(np.float32))

    def _outcomes(self, states: Sequence[State]) -> npt.NDArray[np.int8]:
        return rollout_outcomes(self._game, states, seed=int(self._seeds.integers(2**63)))
