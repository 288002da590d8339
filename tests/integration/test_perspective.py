"""What the search says and what the learner is taught are of one view: the player's who is to move."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from zerofleet.actors.config import SelfPlayConfig, SelfPlaySetup
from zerofleet.actors.selfplay import SelfPlayGroup
from zerofleet.games import load_game
from zerofleet.games.base import Game
from zerofleet.games.python_game import adapt
from zerofleet.learner.targets import rows_from_episode
from zerofleet.search.base import SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.streams.codec import decode_episode, encode_episode


class Turns:
    """Player 1 moves twice in a row; who adds 1 or 2 to reach 8 exactly wins, and 9 loses.  State: (total, ply)."""

    name = "turns"
    num_actions = 2
    observation_shape = (1, 1, 12)
    rules_version = 1

    def initial_state(self) -> tuple[int, int]:
        return (0, 0)

    def to_play(self, state: tuple[int, int]) -> int:
        return (0, 1, 1)[state[1] % 3]

    def legal_moves(self, state: tuple[int, int]) -> list[int]:
        return [] if state[0] >= 8 else [1, 2]

    def next_state(self, state: tuple[int, int], move: Any) -> tuple[int, int]:
        return (state[0] + move, state[1] + 1)

    def terminal_value(self, state: tuple[int, int]) -> int | None:
        total, ply = state
        if total < 8:
            return None
        value = 1 if total == 8 else -1  # for who moved last
        return value if self.to_play((0, ply - 1)) == self.to_play(state) else -value

    def encode(self, state: tuple[int, int]) -> npt.NDArray[np.uint8]:
        places = np.arange(12)
        return ((places == state[0]) | (places == 9 + state[1] % 3)).astype(np.uint8).reshape(1, 1, 12)

    def move_index(self, move: Any) -> int:
        return int(move) - 1


@pytest.mark.parametrize("game", [load_game("tictactoe"), adapt(Turns(), "turns.py:Turns")], ids=lambda g: g.name)
def test_the_value_of_a_decided_position_is_the_one_that_is_learned(game: Game) -> None:
    """Faults 1, 2 and 5: the last mover's search and its training row agree, for both players and every outcome.

    1,000 simulations in front of the last move, so that the mean is nearly the best move's exact value.  Moves are
    drawn almost at random, so games that did not end with the best move are left out.
    """
    setup = SelfPlaySetup(
        run="view",
        actor="actor-0",
        seed=5,
        game=game,
        search=SearchConfig(num_simulations=1000, leaves_per_tree=1, reuse_limit=0.0),
        self_play=SelfPlayConfig(temperature=4.0),
        num_games=60,
    )
    group = SelfPlayGroup(setup, setup.num_games)
    for number in range(setup.num_games):
        group.begin(number)
    seen = set()
    while group.num_games:
        if len(batch := group.collect()) > 0:
            group.expand(UniformEvaluator().evaluate(batch))
        for episode in group.play_moves():
            rows = rows_from_episode(game, decode_episode(encode_episode(episode)))
            last = episode.moves[-1]
            if last.visited[last.visit_counts.argmax()] != last.ordinal:
                continue
            value, target = last.root_value, int(rows.values[-1])
            assert abs(value - target) < 0.2, (episode.game_number, value, target)
            state = game.initial_state()
            for move in episode.moves[:-1]:
                state = game.next_state(state, game.legal_moves(state)[move.ordinal])
            seen.add((game.to_play(state), target))
    assert {(0, 1), (1, 1)} <= seen
