"""Players in evaluation: no noise, no temperature, no memory."""

from __future__ import annotations

import numpy as np
import pytest

from zerofleet.actors.players import RandomPlayer, SearchPlayer, SolverPlayer, UctPlayer, best_move
from zerofleet.errors import TerminalStateError
from zerofleet.games import load_game
from zerofleet.games.base import Game, State
from zerofleet.games.solvers import Minimax
from zerofleet.search.base import SearchConfig, SearchResult
from zerofleet.search.evaluators import RolloutEvaluator, UniformEvaluator
from zerofleet.search.noise import root_noise
from zerofleet.search.search import search_many


@pytest.fixture(scope="module")
def game() -> Game:
    return load_game("tictactoe")


def after(game: Game, moves: list[int]) -> State:
    state = game.initial_state()
    for move in moves:
        state = game.next_state(state, move)
    return state


def choose(player: object, game: Game, state: State, seed: int = 0) -> object:
    ordinal = player.choose(state, np.random.default_rng(seed))  # type: ignore[attr-defined]
    return game.legal_moves(state)[ordinal]


def test_every_player_but_the_random_one_takes_a_win_and_blocks_a_loss(game: Game) -> None:
    win, block = after(game, [0, 3, 1, 4]), after(game, [0, 4, 1])  # 2 wins; 2 blocks
    players = [
        SearchPlayer(game, UniformEvaluator(), SearchConfig(num_simulations=200)),
        SearchPlayer(game, RolloutEvaluator(game, 3), SearchConfig(num_simulations=200)),
        UctPlayer(game, 400),
        SolverPlayer(game, Minimax(game)),
    ]
    for player in players:
        for state in (win, block):
            assert choose(player, game, state) == 2, player.name


def test_a_search_player_repeats_itself_and_draws_no_random_numbers(game: Game) -> None:
    """Fault 36: the same position, the same move, whatever the generator, and the generator untouched."""
    player = SearchPlayer(game, UniformEvaluator(), SearchConfig(num_simulations=50))
    state = after(game, [0, 8])
    rng = np.random.default_rng(1)
    assert len({player.choose(state, rng) for _ in range(3)} | {player.choose(state, np.random.default_rng(2))}) == 1
    assert rng.random() == np.random.default_rng(1).random()


def test_a_search_player_plays_the_most_visited_move_of_the_bare_search(game: Game, rng: np.random.Generator) -> None:
    """Fault 36: without noise and temperature, in 60 positions whose first choices noise would change now and then."""
    config = SearchConfig(num_simulations=24)
    player = SearchPlayer(game, UniformEvaluator(), config)
    states = []
    while len(states) < 60:
        state = game.initial_state()
        for _ in range(int(rng.integers(1, 5))):
            state = game.next_state(state, game.legal_moves(state)[int(rng.integers(len(game.legal_moves(state))))])
        if game.terminal_value(state) is None:
            states.append(state)
    bare = search_many(game, states, UniformEvaluator(), config)
    noises = [root_noise(rng, len(game.legal_moves(state)), 0.5) for state in states]
    noised = search_many(game, states, UniformEvaluator(), config, noises=noises, dirichlet_fraction=0.25)
    expected = [int(result.visit_counts.argmax()) for result in bare]
    assert player.choose_many(states, [rng] * 60) == expected
    assert sum(int(result.visit_counts.argmax()) != move for result, move in zip(noised, expected, strict=True)) > 10


def test_positions_do_not_disturb_each_other(game: Game) -> None:
    """Chosen together, in any order, and again later with the same pool: the same moves."""
    player = SearchPlayer(game, UniformEvaluator(), SearchConfig(num_simulations=40))
    states = [after(game, moves) for moves in ([], [4], [0, 4], [0, 4, 8], [1, 0, 2, 5])]
    rngs = [np.random.default_rng(k) for k in range(len(states))]
    together = player.choose_many(states, rngs)
    assert player.choose_many(states[::-1], rngs) == together[::-1]
    assert [player.choose(state, rngs[0]) for state in states] == together
    assert player.choose_many([], []) == []


def test_more_positions_than_trees_are_searched_in_turn(game: Game) -> None:
    player = SearchPlayer(game, UniformEvaluator(), SearchConfig(num_simulations=8))
    states = [after(game, [k % 9]) for k in range(300)]
    chosen = player.choose_many(states, [np.random.default_rng(0)] * 300)
    assert chosen[:9] * 33 == chosen[:297]
    assert len(chosen) == 300


def test_moves_are_chosen_by_visits_or_by_visits_and_value() -> None:
    """By hand: 50 * (1 + 0.1) = 55 and 45 * (1 + 0.4) = 63; an unvisited move counts 0; of equals the prior decides."""
    result = SearchResult(
        visit_counts=np.array([50, 45, 0, 50], np.int32),
        q_values=np.array([0.1, 0.4, np.nan, 0.1], np.float32),
        priors=np.array([0.2, 0.3, 0.1, 0.4], np.float32),
        root_value=0.2,
        num_simulations=145,
        num_reused=0,
    )
    assert best_move(result) == 3
    assert best_move(result, "visits_q") == 1


def test_a_random_player_plays_every_move(game: Game) -> None:
    player, rng = RandomPlayer(game), np.random.default_rng(4)
    assert {player.choose(game.initial_state(), rng) for _ in range(200)} == set(range(9))


def test_a_perfect_player_varies_among_equals(game: Game) -> None:
    player = SolverPlayer(game, Minimax(game))
    assert {choose(player, game, game.initial_state(), seed) for seed in range(60)} == set(range(9))  # all draw
    assert {choose(player, game, after(game, [4]), seed) for seed in range(40)} == {0, 2, 6, 8}  # corners alone draw


def test_a_finished_position_is_refused(game: Game) -> None:
    over = after(game, [0, 3, 1, 4, 2])
    for player in (SearchPlayer(game, UniformEvaluator(), SearchConfig()), UctPlayer(game, 10)):
        with pytest.raises(TerminalStateError):
            player.choose(over, np.random.default_rng(0))
