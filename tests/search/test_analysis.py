"""The open search: the same numbers as the closed one, and lines that can be played."""

from __future__ import annotations

import pytest

from zerofleet.errors import TerminalStateError
from zerofleet.games import load_game
from zerofleet.games.notation import play_line
from zerofleet.search.analysis import analyse, draw_tree
from zerofleet.search.base import SearchConfig
from zerofleet.search.evaluators import RolloutEvaluator, UniformEvaluator
from zerofleet.search.search import search

GAME = load_game("connect4")
CONFIG = SearchConfig(num_simulations=200, leaves_per_tree=1)


@pytest.mark.parametrize("line", ["", "4453", "112233"])
def test_it_says_what_the_search_says(line: str) -> None:
    state = play_line(GAME, line)
    analysis = analyse(GAME, state, RolloutEvaluator(GAME, 1), CONFIG)
    result = search(GAME, state, RolloutEvaluator(GAME, 1), CONFIG)
    assert [branch.visits for branch in analysis.branches] == result.visit_counts.tolist()
    assert analysis.value == pytest.approx(result.root_value)
    for branch, q, prior in zip(analysis.branches, result.q_values, result.priors, strict=True):
        assert branch.prior == pytest.approx(prior)
        if branch.visits:
            assert branch.q == pytest.approx(q)


def test_a_win_at_hand_leads_the_line_and_ends_it() -> None:
    analysis = analyse(GAME, play_line(GAME, "112233"), UniformEvaluator(), CONFIG)
    assert analysis.best.text == "4"
    assert [branch.text for branch in analysis.principal_variation] == ["4"]
    assert analysis.best.q == 1.0


def test_replies_are_the_opponents_moves_and_the_line_is_legal() -> None:
    state = play_line(GAME, "44")
    analysis = analyse(GAME, state, RolloutEvaluator(GAME, 2), CONFIG)
    line = analysis.principal_variation
    assert len(line) >= 3
    play_line(GAME, "44" + "".join(branch.text for branch in line))  # raises where a move is not legal
    for branch in analysis.branches:
        if branch.replies:
            assert sum(reply.visits for reply in branch.replies) == branch.visits - 1  # its own evaluation aside


def test_u_is_worked_by_hand() -> None:
    """One simulation from a root with 7 equal priors: C = 1.25 + log(19654 / 19652), N = 1."""
    analysis = analyse(GAME, GAME.initial_state(), UniformEvaluator(), SearchConfig(num_simulations=1))
    first, second = analysis.branches[:2]
    assert (first.visits, second.visits) == (1, 0)
    assert first.u == pytest.approx(1.2501 / 7 / 2, abs=1e-4)
    assert second.u == pytest.approx(1.2501 / 7, abs=1e-4)
    assert second.q == pytest.approx(-0.2)  # first-play urgency: the parent's mean, 0, less 0.2
    assert second.score == pytest.approx(second.q + second.u)


def test_the_drawing_shows_the_main_branches() -> None:
    analysis = analyse(GAME, play_line(GAME, "112233"), UniformEvaluator(), CONFIG)
    lines = draw_tree(analysis, min_visits=1, max_depth=2, max_width=2)
    assert lines[0].startswith("├─ 4  ")
    assert lines[0].endswith("+1.00")
    assert lines[1].startswith("└─ ")
    assert all(line.startswith("   ") for line in lines[2:])
    assert draw_tree(analysis, min_visits=10_000) == []


def test_a_finished_position_is_refused() -> None:
    with pytest.raises(TerminalStateError):
        analyse(GAME, play_line(GAME, "1122334"), UniformEvaluator(), CONFIG)
