"""Self-play of games that pass, that never end, and that leave no choice at first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import numpy.typing as npt

from zerofleet.actors.config import SelfPlaySetup
from zerofleet.actors.selfplay import SelfPlayGroup
from zerofleet.games.base import GameRules
from zerofleet.games.laws import check_laws
from zerofleet.games.python_game import adapt
from zerofleet.learner.targets import rows_from_episode
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.search.search import search
from zerofleet.streams.records import Episode

MakeSetup = Callable[..., SelfPlaySetup]
State = tuple[int, int, int]
PASS = 3


class Lanes:
    """Player 0 walks a lane of five steps, two at a time; player 1 one of six, one or two at a time.

    Who has no step left passes, so player 0 is stuck on square 4 while player 1 goes on.  The game is over when both
    are stuck; who came further wins, which is player 1.  State: (player 0's square, player 1's, player to move).
    """

    name = "lanes"
    num_actions = 4
    observation_shape = (2, 1, 9)
    rules_version = 1
    lengths = (5, 6)

    def initial_state(self) -> State:
        return (0, 0, 0)

    def to_play(self, state: State) -> int:
        return state[2]

    def steps(self, state: State, player: int) -> list[int]:
        room = self.lengths[player] - state[player]
        return [step for step in ((2,) if player == 0 else (1, 2)) if step <= room]

    def legal_moves(self, state: State) -> list[int]:
        if self.terminal_value(state) is not None:
            return []
        return self.steps(state, state[2]) or [PASS]

    def next_state(self, state: State, move: Any) -> State:
        step = 0 if move == PASS else move
        one, two, player = state
        return (one + step, two, 1) if player == 0 else (one, two + step, 0)

    def terminal_value(self, state: State) -> int | None:
        if self.steps(state, 0) or self.steps(state, 1):
            return None
        lead = (state[0] > state[1]) - (state[0] < state[1])
        return lead if state[2] == 0 else -lead

    def encode(self, state: State) -> npt.NDArray[np.uint8]:
        planes = np.zeros((2, 1, 9), np.uint8)
        planes[0, 0, state[state[2]]] = 1
        planes[1, 0, state[1 - state[2]]] = 1
        planes[:, 0, 8] = state[2]
        return planes

    def move_index(self, move: Any) -> int:
        return int(move)


class Walk:
    """A token steps left or right for ever.  State: (place, ply)."""

    name = "walk"
    num_actions = 2
    observation_shape = (1, 1, 17)
    rules_version = 1

    def initial_state(self) -> tuple[int, int]:
        return (0, 0)

    def to_play(self, state: tuple[int, int]) -> int:
        return state[1] % 2

    def legal_moves(self, state: tuple[int, int]) -> list[int]:
        return [-1, 1]

    def next_state(self, state: tuple[int, int], move: Any) -> tuple[int, int]:
        return (state[0] + move, state[1] + 1)

    def terminal_value(self, state: tuple[int, int]) -> int | None:
        return None

    def encode(self, state: tuple[int, int]) -> npt.NDArray[np.uint8]:
        return (np.arange(17) == 8 + max(-8, min(8, state[0]))).astype(np.uint8).reshape(1, 1, 17)

    def move_index(self, move: Any) -> int:
        return 0 if move == -1 else 1


class OneWayIn:
    """Five cells; player 0 must begin in cell 4, then the players fill the rest.  State: the cells."""

    name = "one-way-in"
    num_actions = 5
    observation_shape = (1, 1, 5)
    rules_version = 1

    def initial_state(self) -> tuple[int, ...]:
        return (0,) * 5

    def to_play(self, state: tuple[int, ...]) -> int:
        return sum(state) % 2

    def legal_moves(self, state: tuple[int, ...]) -> list[int]:
        return [cell for cell in range(5) if not state[cell]] if sum(state) else [4]

    def next_state(self, state: tuple[int, ...], move: Any) -> tuple[int, ...]:
        return (*state[:move], 1, *state[move + 1 :])

    def terminal_value(self, state: tuple[int, ...]) -> int | None:
        return 0 if all(state) else None

    def encode(self, state: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        return np.array(state, np.uint8).reshape(1, 1, 5)

    def move_index(self, move: Any) -> int:
        return int(move)


def set_up(make_setup: MakeSetup, rules: GameRules, **changes: Any) -> SelfPlaySetup:
    return replace(make_setup(**changes), game=adapt(rules, f"toys.py:{type(rules).__name__}"))


def play(setup: SelfPlaySetup, num_games: int, evaluator: Any = None) -> list[Episode]:
    evaluator = evaluator or UniformEvaluator()
    group = SelfPlayGroup(setup, num_games)
    for number in range(num_games):
        group.begin(number)
    episodes: list[Episode] = []
    while group.num_games:
        batch = group.collect()
        if len(batch) > 0:
            group.expand(evaluator.evaluate(batch))
        episodes += group.play_moves()
    return episodes


def test_a_player_who_is_stuck_passes_and_the_other_one_goes_on(make_setup: MakeSetup) -> None:
    """Faults 11, 12 and 14: one legal move, which hands over the turn alone; tree, record and targets go on over it.

    Player 0 is stuck after two moves; player 1 needs three to six, so every game has a pass.
    """
    search_config = SearchConfig(num_simulations=16, leaves_per_tree=1, reuse_limit=10.0)
    setup = set_up(make_setup, Lanes(), search=search_config)
    game = setup.game
    check_laws(game, num_games=20, seed=1)
    assert game.terminal_value((4, 1, 0)) is None
    assert game.legal_moves((4, 1, 0)) == [PASS]
    assert game.next_state((4, 1, 0), PASS) == (4, 1, 1)
    assert game.terminal_value((4, 6, 0)) == -1
    num_passes = 0
    for episode in play(setup, 12):
        rows = rows_from_episode(game, episode)
        state = game.initial_state()
        for ply, move in enumerate(episode.moves):
            first, last = rows.offsets[ply : ply + 2]
            legal = game.legal_moves(state)
            assert rows.values[ply] == episode.outcome * (1 if game.to_play(state) == 0 else -1)
            if legal == [PASS]:
                num_passes += 1
                assert rows.actions[first:last].tolist() == [PASS]
                assert rows.probabilities[first:last].tolist() == [1.0]
                assert int(move.visit_counts.sum()) >= 16
            state = game.next_state(state, legal[move.ordinal])
        assert (episode.outcome, episode.termination) == (-1, "win")
    assert num_passes >= 12


def test_a_pass_does_not_turn_a_value(make_setup: MakeSetup) -> None:
    """Fault 11: before and after the pass the same player wins, so the values are opposite."""
    game = set_up(make_setup, Lanes()).game
    config = SearchConfig(num_simulations=64, leaves_per_tree=1)
    before = search(game, (4, 5, 0), UniformEvaluator(), config)
    after = search(game, (4, 5, 1), UniformEvaluator(), config)
    assert before.q_values[0] < -0.9
    assert after.root_value > 0.9


def test_a_game_that_goes_to_and_fro_is_searched_and_ends_at_its_cap(make_setup: MakeSetup) -> None:
    """Fault 20: 2,000 simulations of an endless game, and one whole game of it, without recursion."""
    config = SearchConfig(num_simulations=2000, leaves_per_tree=8)
    setup = set_up(make_setup, Walk(), search=SearchConfig(num_simulations=8), max_plies=60)
    result = search(setup.game, setup.game.initial_state(), UniformEvaluator(), config)
    assert int(result.visit_counts.sum()) == 2000
    (episode,) = play(setup, 1)
    assert (len(episode.moves), episode.outcome, episode.termination) == (60, 0, "ply cap")


def test_the_first_move_keeps_to_what_is_legal(make_setup: MakeSetup) -> None:
    """Fault 28: of five actions one is legal at first; 1,000 games begin with it, whatever else the evaluator likes."""
    asked: set[tuple[int, ...]] = set()

    class Spy(UniformEvaluator):
        def evaluate(self, batch: LeafBatch) -> Evaluation:
            for start, end in zip(batch.legal_offsets[:-1], batch.legal_offsets[1:], strict=True):
                asked.add(tuple(batch.legal_actions[start:end].tolist()))
            return super().evaluate(batch)

    setup = set_up(make_setup, OneWayIn(), search=SearchConfig(num_simulations=2), max_plies=2)
    episodes = play(setup, 1000, Spy())
    assert len(episodes) == 1000
    assert {(move.ordinal, tuple(move.visited.tolist())) for move in (e.moves[0] for e in episodes)} == {(0, (0,))}
    assert (4,) in asked
    assert all(0 <= episode.moves[1].ordinal < 4 for episode in episodes)
    assert all(4 not in actions for actions in asked - {(4,)})
