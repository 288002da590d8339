"""Matches: pairs of openings, colours, caps, and what the numbers mean."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from zerofleet.actors.arena import _num_distinct, play_match
from zerofleet.actors.match_result import MatchGame, MatchResult, score_interval, tally
from zerofleet.actors.players import Player, RandomPlayer, SearchPlayer, SolverPlayer, UctPlayer
from zerofleet.errors import ConfigError, IllegalMoveError
from zerofleet.games import load_game
from zerofleet.games.base import Game, State
from zerofleet.games.python_game import adapt
from zerofleet.games.solvers import Minimax
from zerofleet.search.base import SearchConfig
from zerofleet.search.evaluators import UniformEvaluator


class Odds:
    """Player 0 may take 0 or 1, player 1 only 2 or 3; four plies long; who took the larger sum of (move mod 2) wins.

    State: the moves so far.
    """

    name = "odds"
    num_actions = 4
    observation_shape = (1, 1, 8)
    rules_version = 1

    def initial_state(self) -> State:
        return ()

    def to_play(self, state: State) -> int:
        return len(state) % 2

    def legal_moves(self, state: State) -> list[int]:
        return [] if len(state) == 4 else [2, 3] if len(state) % 2 else [0, 1]

    def next_state(self, state: State, move: Any) -> State:
        assert move in self.legal_moves(state)
        return (*state, move)

    def terminal_value(self, state: State) -> int | None:
        if len(state) < 4:
            return None
        lead = sum(move % 2 for move in state[::2]) - sum(move % 2 for move in state[1::2])
        return int(np.sign(lead))  # player 0 is to move at ply 4

    def encode(self, state: State) -> Any:
        return np.array([*(m % 2 for m in state), *[0] * (8 - len(state))], np.uint8).reshape(1, 1, 8)

    def move_index(self, move: Any) -> int:
        return int(move)


class Walk:
    """A token on an endless line: nobody ever wins.  State: (place, ply)."""

    name = "walk"
    num_actions = 2
    observation_shape = (1, 1, 8)
    rules_version = 1

    def initial_state(self) -> State:
        return (0, 0)

    def to_play(self, state: State) -> int:
        return int(state[1]) % 2

    def legal_moves(self, state: State) -> list[int]:
        return [-1, 1]

    def next_state(self, state: State, move: Any) -> State:
        return (state[0] + move, state[1] + 1)

    def terminal_value(self, state: State) -> int | None:
        return None

    def encode(self, state: State) -> Any:
        return np.zeros((1, 1, 8), np.uint8)

    def move_index(self, move: Any) -> int:
        return 0 if move == -1 else 1


class Last(Player):
    """Always plays the last legal move."""

    def __init__(self, game: Game) -> None:
        self.name = "last"
        self._game = game

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        return [len(self._game.legal_moves(state)) - 1 for state in states]


class First(Player):
    """Always plays the first legal move."""

    name = "first"

    def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
        return [0] * len(states)


@pytest.fixture(scope="module")
def odds() -> Game:
    return adapt(Odds(), "toys.py:Odds")


def test_each_opening_is_played_twice_with_colours_swapped() -> None:
    game = load_game("connect4")
    result = play_match(game, RandomPlayer(game), RandomPlayer(game), 20, seed=3, opening_plies=4)
    openings = [played.ordinals[:4] for played in result.games]
    assert openings[::2] == openings[1::2]
    assert len(set(openings)) > 5
    assert [played.a_plays for played in result.games] == [0, 1] * 10
    assert [played.number for played in result.games] == list(range(20))


def test_a_game_depends_on_the_seed_and_its_number_alone() -> None:
    """Fault 93: alone or as one of forty, the same moves; no tree is carried along."""
    game = load_game("tictactoe")

    def play(num_games: int, seed: int = 1) -> tuple[MatchGame, ...]:
        search = SearchPlayer(game, UniformEvaluator(), SearchConfig(num_simulations=30))
        return play_match(game, search, UctPlayer(game, 20), num_games, seed=seed, opening_plies=1).games

    forty = play(40)
    assert play(2) == forty[:2]
    assert play(14) == forty[:14]
    assert play(40, seed=2) != forty


def test_outcomes_are_for_a_whatever_its_colour(odds: Game) -> None:
    """Faults 1 and 98: the last legal move always scores, for either player, and is legal for its own player alone."""
    won = play_match(odds, Last(odds), First(), 6, seed=0)
    assert [played.outcome for played in won.games] == [1] * 6
    lost = play_match(odds, First(), Last(odds), 6, seed=0)
    assert [played.outcome for played in lost.games] == [-1] * 6
    drawn = play_match(odds, Last(odds), Last(odds), 6, seed=0)
    assert [played.outcome for played in drawn.games] == [0] * 6
    assert (won.score, lost.score, drawn.score) == (1.0, 0.0, 0.5)


def test_perfect_play_never_loses_and_random_play_is_even() -> None:
    game = load_game("tictactoe")
    result = play_match(game, SolverPlayer(game, Minimax(game)), RandomPlayer(game), 100, seed=5)
    assert result.total.losses == 0
    assert result.as_first.wins > result.as_second.wins > 20
    perfect = play_match(game, SolverPlayer(game, Minimax(game)), SolverPlayer(game, Minimax(game)), 20, seed=5)
    assert perfect.total.draws == 20
    low, high = play_match(game, RandomPlayer(game), RandomPlayer(game), 400, seed=6).interval()
    assert low < 0.5 < high


def test_a_ply_cap_is_a_draw_with_a_name_of_its_own() -> None:
    """Fault 8."""
    game = adapt(Walk(), "toys.py:Walk")
    result = play_match(game, RandomPlayer(game), First(), 4, seed=0, opening_plies=3, max_plies=9)
    assert [(len(g.ordinals), g.outcome, g.termination) for g in result.games] == [(9, 0, "ply cap")] * 4
    assert result.num_ply_caps == 4
    assert "4 of the draws are games cut short by the ply cap" in result.summary()


def test_a_game_that_ends_by_itself_at_the_cap_keeps_its_own_ending(odds: Game) -> None:
    result = play_match(odds, Last(odds), First(), 2, seed=0, max_plies=4)
    assert [played.outcome for played in result.games] == [1, 1]
    assert result.num_ply_caps == 0


def test_openings_never_end_the_game(odds: Game) -> None:
    game = load_game("tictactoe")
    result = play_match(game, RandomPlayer(game), RandomPlayer(game), 40, seed=0, opening_plies=8)
    assert all(len(played.ordinals) == 9 for played in result.games)
    with pytest.raises(ConfigError, match="opening_plies=4"):
        play_match(odds, First(), First(), 2, seed=0, opening_plies=4)


@pytest.mark.parametrize(
    ("num_games", "opening_plies", "max_plies"), [(0, 0, 0), (3, 0, 0), (2, -1, 0), (2, 4, 4), (2, 0, -1)]
)
def test_matches_that_cannot_be_are_refused(odds: Game, num_games: int, opening_plies: int, max_plies: int) -> None:
    with pytest.raises(ConfigError):
        play_match(odds, First(), First(), num_games, seed=0, opening_plies=opening_plies, max_plies=max_plies)


def test_an_illegal_choice_names_the_game(odds: Game) -> None:
    class Wrong(First):
        def choose_many(self, states: Sequence[State], rngs: Sequence[np.random.Generator]) -> list[int]:
            return [2] * len(states)

    with pytest.raises(IllegalMoveError, match="game 0"):
        play_match(odds, Wrong(), First(), 2, seed=0)


def test_duplicate_games_are_counted(odds: Game) -> None:
    """Fault 95: without openings two deterministic players play the same two games again and again."""
    result = play_match(odds, Last(odds), First(), 10, seed=0)
    assert result.num_distinct_games == 2  # one for each colour
    assert "only 2 of 10 games are distinct" in result.summary()


def test_mirrored_games_with_colours_swapped_are_two() -> None:
    """Fault 95: one player drops its stones at the left edge, the other at the right."""
    game = load_game("connect4")
    left = play_match(game, First(), Last(game), 2, seed=0)
    assert [g.ordinals[:2] for g in left.games] == [(0, 6), (6, 0)]
    assert left.num_distinct_games == 2  # mirrored, and colours differ
    mixed = MatchResult(game="connect4", player_a="a", player_b="b", seed=0, games=left.games, num_distinct_games=2)
    assert "distinct" not in mixed.summary()


def test_a_game_and_its_mirror_image_are_counted_once() -> None:
    """Fault 95: modulo symmetry, and only where the colours are the same."""
    game = load_game("connect4")

    def played(number: int, a_plays: int, columns: tuple[int, ...]) -> MatchGame:
        actions = tuple((column, 0) for column in columns)
        return MatchGame(
            number=number, a_plays=a_plays, ordinals=columns, actions=actions, outcome=0, termination="line"
        )

    left, right, other = (0, 1, 0, 2), (6, 5, 6, 4), (6, 5, 6, 3)
    assert _num_distinct(game, [played(0, 0, left), played(1, 0, right)]) == 1
    assert _num_distinct(game, [played(0, 0, left), played(1, 1, right)]) == 2
    assert _num_distinct(game, [played(0, 0, left), played(1, 0, other)]) == 2


def test_the_summary_says_everything() -> None:
    """Fault 97: games, wins by colour, score, interval."""
    outcomes = [1, 1, 1, 0, 1, -1, 1, 1]
    games = tuple(
        MatchGame(number=k, a_plays=k % 2, ordinals=(k,), actions=((k, 0),), outcome=outcome, termination="line")
        for k, outcome in enumerate(outcomes)
    )
    result = MatchResult(game="g", player_a="net", player_b="uct-600", seed=7, games=games, num_distinct_games=8)
    assert str(result.total) == "6 won, 1 drawn, 1 lost"
    assert result.score == 6.5 / 8
    low, high = result.interval()
    assert 0.0 < low < 6.5 / 8 < high < 1.0
    assert result.summary().splitlines() == [
        "net against uct-600, g, 8 games in pairs, seed 7",
        f"  score 81.2% (95 % interval {low:.1%} to {high:.1%}): 6 won, 1 drawn, 1 lost",
        "  moving first: 4 won, 0 drawn, 0 lost; moving second: 2 won, 1 drawn, 1 lost",
    ]


def test_the_interval_is_wilsons_where_pairs_are_all_or_nothing() -> None:
    """5 of 10: 0.2366 to 0.7634; 20 of 20: 0.8389 to 1 (Wilson 1927, as tabled everywhere)."""
    assert score_interval([1.0] * 5 + [0.0] * 5) == pytest.approx((0.2366, 0.7634), abs=1e-4)
    assert score_interval([1.0] * 20) == pytest.approx((0.8389, 1.0), abs=1e-4)
    assert score_interval([0.0] * 20) == pytest.approx((0.0, 0.1611), abs=1e-4)


def test_pairs_that_vary_less_give_a_narrower_interval() -> None:
    split = score_interval([0.25, 0.75] * 50)
    wild = score_interval([0.0, 1.0] * 50)
    assert wild[0] < split[0] < 0.5 < split[1] < wild[1]
    # variance with one lost and one won pair added: (100 / 16 + 2 / 4) / 102 = 0.0662; 100 * 0.25 / 0.0662 = 377.8
    assert split == pytest.approx((0.4498, 0.5502), abs=1e-4)


@pytest.mark.parametrize(
    "outcomes",
    [[0] * 40, [1] + [0] * 39, [1] * 22 + [-1] * 18, [-1] * 40],
    ids=["0/40/0", "1/39/0", "22/0/18", "0/0/40"],
)
def test_draws_have_a_verdict(outcomes: list[int]) -> None:
    """Fault 96: no division by zero, and an interval around the score."""
    counted = tally(outcomes)
    low, high = score_interval([(2 + a + b) / 4 for a, b in zip(outcomes[::2], outcomes[1::2], strict=True)])
    assert 0.0 <= low <= counted.score <= high <= 1.0
    assert low < high
    assert counted.num_games == 40


def test_the_interval_covers_what_it_says() -> None:
    """2,000 matches of 50 pairs with a true score of 0.6: about 95 % of the intervals hold it."""
    rng = np.random.default_rng(8)
    pairs = rng.choice([0.0, 0.5, 0.75, 1.0], size=(2000, 50), p=[0.2, 0.3, 0.2, 0.3])
    truth = 0.2 * 0 + 0.3 * 0.5 + 0.2 * 0.75 + 0.3
    hits = [low <= truth <= high for low, high in (score_interval(row.tolist()) for row in pairs)]
    assert 0.93 < np.mean(hits) < 0.975
