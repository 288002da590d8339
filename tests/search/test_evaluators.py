"""Evaluators made of others: the mixture with random games, and the mean over symmetries."""

from __future__ import annotations

import numpy as np
import pytest

from zerofleet.errors import ConfigError
from zerofleet.games import load_game
from zerofleet.games.notation import play_line
from zerofleet.games.packing import unpack_planes
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig
from zerofleet.search.evaluators import MixedEvaluator, RolloutEvaluator, SymmetryAveragedEvaluator, UniformEvaluator
from zerofleet.search.pool import SearchPool

CONNECT4 = load_game("connect4")
TICTACTOE = load_game("tictactoe")


class Crooked:
    """Likes actions with a high number, and own stones in the left column; knows no symmetry."""

    def __init__(self, game_name: str = "connect4") -> None:
        self.game = load_game(game_name)

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        weights = batch.legal_actions.astype(np.float32) + 1
        sums = np.add.reduceat(weights, batch.legal_offsets[:-1])
        planes = unpack_planes(batch.planes, self.game.observation_shape, "bits")
        left = planes[:, 0, :, 0].sum(axis=1) / 10
        priors = weights / np.repeat(sums, np.diff(batch.legal_offsets))
        return Evaluation(priors=priors, values=left.astype(np.float32), weights_version=7)


def batch_of(game_name: str, *lines: str) -> tuple[LeafBatch, SearchPool]:
    game = load_game(game_name)
    pool = SearchPool(game, len(lines), SearchConfig(num_simulations=1))
    for tree, line in enumerate(lines):
        pool.reset(tree, play_line(game, line))
    return pool.collect(), pool


@pytest.mark.parametrize("mix", [0.0, 0.25, 1.0])
def test_the_mixture_is_alphagos(mix: float) -> None:
    """(1 - λ) v + λ z, with z one random game's outcome: of a line that ends at once it is known."""
    batch, _pool = batch_of("connect4", "112233", "444")
    outcomes = RolloutEvaluator(CONNECT4, 5).evaluate(batch).values
    mixed = MixedEvaluator(Crooked(), RolloutEvaluator(CONNECT4, 5), mix).evaluate(batch)
    plain = Crooked().evaluate(batch)
    np.testing.assert_allclose(mixed.values, (1 - mix) * plain.values + mix * outcomes, rtol=1e-6)
    np.testing.assert_array_equal(mixed.priors, plain.priors)
    assert mixed.weights_version == 7


def test_a_share_that_is_none_is_refused() -> None:
    for mix in (-0.1, 1.1, float("nan")):
        with pytest.raises(ConfigError, match=r"\[0, 1\]"):
            MixedEvaluator(UniformEvaluator(), RolloutEvaluator(CONNECT4, 1), mix)


def test_the_mean_over_the_mirror_image_worked_by_hand() -> None:
    """On the empty board priors are (1, ..., 7) / 28, the mirror's (7, ..., 1) / 28: the means are 1 / 7."""
    batch, _pool = batch_of("connect4", "", "1112")  # own stones in column 1: two of them
    mean = SymmetryAveragedEvaluator(Crooked(), CONNECT4).evaluate(batch)
    np.testing.assert_allclose(mean.priors[:7], np.full(7, 1 / 7), rtol=1e-6)
    np.testing.assert_allclose(mean.values, [0.0, 0.1], rtol=1e-6)  # 0.2 as it is, 0 in the mirror
    assert mean.weights_version == 7


@pytest.mark.parametrize(
    ("game_name", "line", "image"), [("connect4", "4412", "4476"), ("tictactoe", "a3 b3 c2", "a3 a2 b1")]
)
def test_a_position_and_its_image_get_the_same_answer(game_name: str, line: str, image: str) -> None:
    """The mirror image of Connect Four, the transposed board of tic-tac-toe: what one evaluator sees differently."""
    game = load_game(game_name)
    batch, _pool = batch_of(game_name, line, image)
    answer = SymmetryAveragedEvaluator(Crooked(game_name), game).evaluate(batch)
    assert answer.values[0] == pytest.approx(answer.values[1])
    split = int(batch.legal_offsets[1])
    by_action = [
        dict(zip(batch.legal_actions[part].tolist(), answer.priors[part].tolist(), strict=True))
        for part in (slice(0, split), slice(split, None))
    ]
    turn = (lambda a: 6 - a) if game_name == "connect4" else (lambda a: a % 3 * 3 + a // 3)
    for action, prior in by_action[0].items():
        assert by_action[1][turn(action)] == pytest.approx(prior)


def test_searches_accept_both() -> None:
    pool = SearchPool(TICTACTOE, 1, SearchConfig(num_simulations=200))
    pool.reset(0, play_line(TICTACTOE, "a3 a2 b3 b2"))  # c3 wins
    mixed = MixedEvaluator(UniformEvaluator(), RolloutEvaluator(TICTACTOE, 1), 0.5)
    evaluator = SymmetryAveragedEvaluator(mixed, TICTACTOE)
    while len(batch := pool.collect()):
        pool.expand(evaluator.evaluate(batch))
    assert pool.result(0).num_simulations == 200
