"""One leaf at a time is the plain sequential search: an independent statement of it, written from the formula alone.

The statement below keeps every value from player 0's view and turns it round only where an edge is chosen; the trees
keep values for the player to move.  Both must visit the same edges.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

from zerofleet.games.base import Game, State
from zerofleet.search.base import SearchConfig
from zerofleet.search.search import run_searches

F = np.float32


class Plain:
    """AlphaZero's search as the paper tells it: select, evaluate, back up; one simulation after another."""

    def __init__(self, game: Game, answer: Any, config: SearchConfig) -> None:
        self.game, self.answer, self.config = game, answer, config
        self.edges: dict[tuple[Any, ...], list[dict[str, Any]]] = {}  # by the moves that lead to the position
        self.seen: dict[tuple[Any, ...], list[Any]] = {}  # every value seen at a position, for player 0

    def run(self, root: State) -> list[int]:
        self.open((), root)
        for _ in range(self.config.num_simulations):
            self.simulate(root)
        return [edge["n"] for edge in self.edges[()]]

    def open(self, line: tuple[Any, ...], state: State) -> Any:
        priors, value = self.answer(state)
        self.edges[line] = [{"p": F(p), "n": 0, "w0": F(0)} for p in priors]
        value0 = F(value) if self.game.to_play(state) == 0 else -F(value)
        self.seen[line] = [value0]
        return value0

    def simulate(self, state: State) -> None:
        line: tuple[Any, ...] = ()
        chosen = []
        while line in self.edges and self.game.terminal_value(state) is None:
            best = self.choose(line, self.game.to_play(state))
            chosen.append((line, best))
            move = self.game.legal_moves(state)[best]
            state, line = self.game.next_state(state, move), (*line, best)
        if (value := self.game.terminal_value(state)) is not None:
            value0 = F(value) if self.game.to_play(state) == 0 else F(-value)
        else:
            value0 = self.open(line, state)
        for parent, ordinal in chosen:
            edge = self.edges[parent][ordinal]
            edge["n"] += 1
            edge["w0"] = F(edge["w0"] + value0)
            self.seen[parent].append(value0)

    def choose(self, line: tuple[Any, ...], player: int) -> int:
        edges, config = self.edges[line], self.config
        sign = F(1) if player == 0 else F(-1)
        total = sum(edge["n"] for edge in edges)
        c = F(config.c_init)
        if config.exploration == "log":
            c = F(F(math.log((1 + total + config.c_base) / config.c_base)) + c)
        fpu = F(config.fpu_value)
        if config.first_play_urgency == "parent":
            mean0 = F(0)
            for value0 in self.seen[line]:
                mean0 = F(mean0 + value0)
            fpu = F(sign * F(mean0 / F(len(self.seen[line]))) - fpu)
        root_total = F(math.sqrt(max(1, total)))
        scores = []
        for edge in edges:
            q = F(sign * edge["w0"] / F(edge["n"])) if edge["n"] else fpu
            scores.append(F(q + F(F(F(c * root_total) * edge["p"]) / F(1 + edge["n"]))))
        return scores.index(max(scores))


@pytest.mark.parametrize("name", ["tictactoe", "race", "twins", "walk"])
@pytest.mark.parametrize("seed", range(8))
def test_one_leaf_at_a_time_equals_the_sequential_search(
    pool_type: Any, toy_games: dict[str, Game], function_evaluator: Any, name: str, seed: int
) -> None:
    game = toy_games[name]
    rng = np.random.default_rng([seed, 7])
    answers: dict[State, tuple[list[float], float]] = {}

    def answer(state: State) -> tuple[list[float], float]:
        if state not in answers:
            priors = rng.dirichlet(np.full(len(game.legal_moves(state)), 0.5)).astype(np.float32)
            answers[state] = priors.tolist(), float(np.float32(rng.uniform(-1, 1)))
        return answers[state]

    config = SearchConfig(
        num_simulations=int(rng.integers(0, 90)),
        leaves_per_tree=1,
        exploration="log" if seed % 2 else "constant",
        c_init=float(rng.uniform(0.2, 4)),
        c_base=float(rng.choice([19652.0, 20.0])),
        first_play_urgency="parent" if seed % 4 < 2 else "value",
        fpu_value=float(rng.uniform(-1, 1)),
    )
    pool = pool_type(game, 1, config)
    pool.reset(0, game.initial_state())
    run_searches(pool, function_evaluator(answer))
    plain = Plain(game, answer, config)
    assert pool.result(0).visit_counts.tolist() == plain.run(game.initial_state())
    mean = float(np.mean(np.array(plain.seen[()], np.float64)))
    assert pool.result(0).root_value == pytest.approx(mean, abs=1e-5)  # the opening player is player 0; float32 sums
