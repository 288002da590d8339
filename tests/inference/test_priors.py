from __future__ import annotations

import math
from itertools import pairwise
from typing import Any

import numpy as np
import pytest

from zerofleet.inference.priors import LegalMoves


def priors(logits: list[list[float]], legal: list[list[int]]) -> tuple[list[list[float]], list[bool]]:
    """Priors of each row's legal moves, from logits over all actions."""
    table = np.array(logits, dtype=np.float32)
    offsets = np.concatenate([[0], np.cumsum([len(row) for row in legal])]).astype(np.int32)
    actions = np.concatenate([np.array(row) for row in legal]).astype(np.uint16)
    moves = LegalMoves.of(offsets, actions, table.shape[1])
    with np.errstate(all="raise", under="ignore"):
        flat, is_finite = moves.priors(table.reshape(-1)[moves.flat])
    return [flat[a:b].tolist() for a, b in pairwise(offsets)], is_finite.tolist()


def test_priors_are_a_softmax_over_the_legal_moves() -> None:
    rows, is_finite = priors([[0.0, math.log(3.0), 50.0], [1.0, 1.0, 1.0]], [[0, 1], [0, 1, 2]])
    np.testing.assert_allclose(rows[0], [0.25, 0.75], rtol=1e-6)
    np.testing.assert_allclose(rows[1], [1 / 3] * 3, rtol=1e-6)
    assert is_finite == [True, True]


def test_all_mass_on_an_illegal_move_leaves_a_softmax_of_the_legal_ones() -> None:
    """Fault 23: a logit of 1e4 on an illegal move; the legal ones still add up to 1, and none is nan."""
    rows, is_finite = priors([[1e4, 0.0, 0.0]], [[1, 2]])
    assert rows == [[0.5, 0.5]]
    assert is_finite == [True]


def test_huge_logits_neither_overflow_nor_give_zero_everywhere() -> None:
    """Fault 27: the largest logit is subtracted first."""
    rows, _ = priors([[3e38, 3e38, -3e38]], [[0, 1, 2]])
    assert rows == [[0.5, 0.5, 0.0]]


@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_a_row_that_is_not_finite_is_uniform_and_said_so(bad: float) -> None:
    """Fault 23: a nan prior never leaves; the row beside it is not touched."""
    rows, is_finite = priors([[bad, 5.0, 1.0], [0.0, 0.0, 9.0]], [[0, 1], [0, 1]])
    assert rows == [[0.5, 0.5], [0.5, 0.5]]
    assert is_finite == [False, True]


def test_moves_that_share_an_action_share_its_prior_equally() -> None:
    """A draughts capture by two ways: logits 0, 0 for two actions; the first action's half goes to two moves."""
    rows, _ = priors([[0.0, 0.0, 7.0]], [[0, 1, 0]])
    np.testing.assert_allclose(rows[0], [0.25, 0.5, 0.25], rtol=1e-6)


def test_an_action_of_another_row_is_not_shared() -> None:
    rows, _ = priors([[0.0, 0.0], [0.0, 0.0]], [[1, 0], [1, 0]])
    assert rows == [[0.5, 0.5], [0.5, 0.5]]


def test_one_legal_move_has_prior_one() -> None:
    """Fault 28: with one legal action nothing else can be chosen."""
    assert priors([[-80.0, 4.0]], [[0]])[0] == [[1.0]]


def test_no_legal_move_is_lost_and_no_illegal_one_is_named() -> None:
    """Fault 29: priors are as many as legal moves and at least 0, in 1,000 random rows; each adds up to 1."""
    rng = np.random.default_rng(3)
    legal = [np.flatnonzero(rng.random(40) < 0.3).tolist() or [0] for _ in range(1000)]
    rows, _ = priors(rng.normal(0, 20, (1000, 40)).tolist(), legal)
    for row, moves in zip(rows, legal, strict=True):
        assert len(row) == len(moves)
        assert min(row) >= 0.0
        assert sum(row) == pytest.approx(1.0, abs=1e-5)


def test_a_row_gives_the_same_bits_alone_and_in_company() -> None:
    rng = np.random.default_rng(4)
    logits: Any = rng.normal(0, 5, (64, 40))
    legal = [np.sort(rng.permutation(40)[: rng.integers(1, 41)]).tolist() for _ in range(64)]
    together, _ = priors(logits.tolist(), legal)
    for index in range(64):
        alone, _ = priors([logits[index].tolist()], [legal[index]])
        assert alone[0] == together[index]
