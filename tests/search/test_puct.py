"""The score of an edge, worked out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest

from zerofleet.search.base import SearchConfig
from zerofleet.search.reference import puct_parts


def scores(
    visits: list[int], totals: list[float], virtual: list[int], prior: float, config: SearchConfig
) -> list[float]:
    size = len(visits)
    q, u = puct_parts(
        np.array(visits, np.int32),
        np.array(totals, np.float32),
        np.array(virtual, np.int32),
        np.full(size, prior, np.float32),
        np.float32(0.25),  # the node's mean value
        config,
    )
    found: list[float] = (q + u).tolist()
    return found


def test_exploration_and_value_add_up() -> None:
    """Nine moves of prior 1/9, c = 1.5, eight visits: U = 1.5 / 9 * sqrt(8) = 0.4714 where nothing was visited."""
    config = SearchConfig(exploration="constant", c_init=1.5, first_play_urgency="value", fpu_value=0.0)
    got = scores([0, 4, 4, 0, 0, 0, 0, 0, 0], [0.0, 0.8, -0.8] + [0.0] * 6, [0] * 9, 1 / 9, config)
    u = 1.5 / 9 * math.sqrt(8)
    assert u == pytest.approx(0.47, abs=0.005)
    assert got[0] == pytest.approx(u)
    assert got[1] == pytest.approx(0.2 + u / 5)
    assert got[1] == pytest.approx(0.29, abs=0.005)
    assert got[2] == pytest.approx(-0.2 + u / 5)


def test_exploration_grows_with_the_logarithm_of_the_visits() -> None:
    """C = log((1 + 29 + 10) / 10) + 1.25 = log 4 + 1.25 with c_base = 10 and 29 visits."""
    config = SearchConfig(c_init=1.25, c_base=10.0, first_play_urgency="value", fpu_value=0.0)
    got = scores([0, 29], [0.0, 0.0], [0, 0], 0.5, config)
    c = math.log(4.0) + 1.25
    assert got == pytest.approx([c * math.sqrt(29) * 0.5, c * math.sqrt(29) * 0.5 / 30])


def test_the_papers_constants_are_the_defaults() -> None:
    config = SearchConfig()
    assert (config.exploration, config.c_init, config.c_base) == ("log", 1.25, 19652.0)


def test_an_unvisited_move_is_worth_the_parents_mean_less_the_reduction() -> None:
    """0.25 - 0.2 = 0.05, with no exploration at all; the constant form gives the constant."""
    assert scores([0, 2], [0.0, 1.0], [0, 0], 0.5, SearchConfig(exploration="constant", c_init=0.0)) == pytest.approx(
        [0.05, 0.5]
    )
    config = SearchConfig(exploration="constant", c_init=0.0, first_play_urgency="value", fpu_value=-0.75)
    assert scores([0, 2], [0.0, 1.0], [0, 0], 0.5, config) == [-0.75, 0.5]


def test_a_visit_in_flight_counts_as_a_loss_for_the_chooser() -> None:
    """Two visits worth 1.0 together and one in flight: Q = (1 - 1) / 3; one in flight alone: Q = -1."""
    config = SearchConfig(exploration="constant", c_init=3.0, first_play_urgency="value", fpu_value=0.0)
    got = scores([2, 0, 0], [1.0, 0.0, 0.0], [1, 1, 0], 0.25, config)
    scale = 3.0 * math.sqrt(4.0) * 0.25  # the total counts what is in flight: 2 + 1 + 1
    assert got == pytest.approx([0.0 + scale / 4, -1.0 + scale / 2, scale])


def test_without_visits_the_priors_still_decide() -> None:
    """Fault 31: the square root is of max(1, total)."""
    config = SearchConfig(exploration="constant", c_init=2.0, first_play_urgency="value", fpu_value=0.0)
    assert scores([0, 0], [0.0, 0.0], [0, 0], 0.5, config) == [1.0, 1.0]
