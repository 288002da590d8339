"""Evaluators that need no network, and evaluators made of others.

Without a network: uniform priors with a value of 0, or with the outcome of one random game.  Made of others: the mean
over a game's symmetries, and AlphaGo's mixture of a value with a random game's outcome.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from zerofleet import _native
from zerofleet.errors import ConfigError
from zerofleet.games.base import Game, State, Symmetry
from zerofleet.games.packing import pack_planes, unpack_planes
from zerofleet.search.base import Evaluation, Evaluator, FloatArray, LeafBatch
from zerofleet.search.rollouts import rollout_outcomes


def uniform_priors(batch: LeafBatch) -> FloatArray:
    """Return the same prior for each legal move of a row, [L]."""
    priors: FloatArray = _native.uniform_priors(batch.legal_offsets)
    return priors


class UniformEvaluator:
    """Knows nothing: every move is as likely as the next, and every position is even."""

    def __init__(self) -> None:
        self._values = _zeros(0)  # of the last batch; the next one is often as large

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Return uniform priors and values of 0."""
        if len(self._values) != len(batch):
            self._values = _zeros(len(batch))
        return Evaluation(priors=uniform_priors(batch), values=self._values)


def _zeros(length: int) -> FloatArray:
    zeros = np.zeros(length, np.float32)
    zeros.flags.writeable = False  # evaluations share them
    return zeros


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


class MixedEvaluator:
    """AlphaGo's leaf value (Silver et al. 2016): (1 - λ) v + λ z, of another evaluator's v and a random game's z.

    Priors are the other evaluator's.  The paper's λ is 0.5; 0 plays no random games at all.

    Raises:
        ConfigError: λ does not lie in [0, 1].
    """

    def __init__(self, evaluator: Evaluator, rollouts: RolloutEvaluator, mix: float) -> None:
        if not 0.0 <= mix <= 1.0:
            raise ConfigError(f"the share of random games must lie in [0, 1], got {mix}")
        self._evaluator = evaluator
        self._rollouts = rollouts
        self._mix = np.float32(mix)

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Return the other evaluator's priors, and the mixed values."""
        evaluation = self._evaluator.evaluate(batch)
        if self._mix == 0.0:
            return evaluation
        outcomes = self._rollouts.evaluate(batch).values
        values = (np.float32(1) - self._mix) * evaluation.values + self._mix * outcomes
        return Evaluation(priors=evaluation.priors, values=values, weights_version=evaluation.weights_version)


class SymmetryAveragedEvaluator:
    """Evaluates every image of a position under its game's symmetries, and returns the means.

    What a network says of a position and of its mirror image differs a little; their mean errs less, and costs as many
    evaluations as there are symmetries (AlphaGo Zero, Silver et al. 2017, draws one of them instead).
    """

    def __init__(self, evaluator: Evaluator, game: Game) -> None:
        self._evaluator = evaluator
        self._game = game
        self._symmetries = list(game.symmetries())

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Return the mean priors, each move's under the name it has in the position itself, and the mean values."""
        planes = unpack_planes(batch.planes, self._game.observation_shape, self._game.plane_type)
        answers = [self._evaluator.evaluate(self._image(batch, planes, symmetry)) for symmetry in self._symmetries]
        return Evaluation(
            priors=np.mean([answer.priors for answer in answers], axis=0, dtype=np.float32),
            values=np.mean([answer.values for answer in answers], axis=0, dtype=np.float32),
            weights_version=max(answer.weights_version for answer in answers),
        )

    def _image(self, batch: LeafBatch, planes: npt.NDArray[np.generic], symmetry: Symmetry) -> LeafBatch:
        """Return the images of all positions; their moves stay in the order of the originals."""
        shape = planes.shape
        turned = planes.reshape(*shape[:2], -1)[:, :, symmetry.squares].reshape(shape)
        return LeafBatch(
            planes=pack_planes(turned, self._game.plane_type),
            legal_offsets=batch.legal_offsets,
            legal_actions=symmetry.actions[batch.legal_actions].astype(np.uint16),
            source=batch.source,
        )
