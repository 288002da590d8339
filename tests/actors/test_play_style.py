"""What a style adds to a network's looks."""

import numpy as np
import pytest

from zerofleet.actors.play_style import PLAIN, PlayStyle
from zerofleet.errors import ConfigError
from zerofleet.games import load_game
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig
from zerofleet.search.evaluators import UniformEvaluator, uniform_priors
from zerofleet.search.pool import SearchPool

CONNECT4 = load_game("connect4")


class Confident:
    """Says 0.5 of every position."""

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        values = np.full(len(batch), 0.5, np.float32)
        return Evaluation(priors=uniform_priors(batch), values=values, weights_version=7)


def _batch() -> LeafBatch:
    """Return one position, which is not its own mirror image."""
    pool = SearchPool(CONNECT4, 1, SearchConfig(num_simulations=1))
    pool.reset(0, CONNECT4.next_state(CONNECT4.initial_state(), 0))
    return pool.collect()


def test_plain_play_asks_the_network_itself() -> None:
    evaluator = UniformEvaluator()
    assert PLAIN.judge(CONNECT4, evaluator, 1) is evaluator
    assert str(PLAIN) == ""


def test_a_share_of_random_games_is_in_the_values_and_the_seed_is_theirs() -> None:
    batch = _batch()
    judge = PlayStyle(rollouts=0.25).judge(CONNECT4, Confident(), 3)
    answer = judge.evaluate(batch)
    assert answer.values[0] in (0.75 * 0.5 - 0.25, 0.75 * 0.5, 0.75 * 0.5 + 0.25)
    assert answer.weights_version == 7
    again = PlayStyle(rollouts=0.25).judge(CONNECT4, Confident(), 3)
    drawn = [again.evaluate(batch).values[0] for _ in range(20)]
    assert drawn[0] == answer.values[0]
    assert len(set(drawn)) > 1


def test_symmetries_ask_for_every_image() -> None:
    asked = []

    class Counting(Confident):
        def evaluate(self, batch: LeafBatch) -> Evaluation:
            asked.append(batch.planes.tobytes())
            return super().evaluate(batch)

    PlayStyle(symmetries=True).judge(CONNECT4, Counting(), 0).evaluate(_batch())
    assert len(asked) == len(set(asked)) == len(CONNECT4.symmetries()) == 2


def test_what_differs_from_plain_play_is_named() -> None:
    assert str(PlayStyle(choice="visits_q", symmetries=True)) == "choice=visits_q,symmetries=true"
    assert str(PlayStyle(rollouts=0.5)) == "rollouts=0.5"


@pytest.mark.parametrize("wrong", [{"rollouts": -0.1}, {"rollouts": 1.5}, {"choice": "best"}])
def test_impossible_styles_are_refused(wrong: dict[str, object]) -> None:
    with pytest.raises(ConfigError, match=f"player.{next(iter(wrong))}"):
        PlayStyle(**wrong)  # type: ignore[arg-type]
