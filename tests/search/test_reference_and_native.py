"""The tree in Python and the tree in C++ agree bit for bit, on random games, parameters and evaluations."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import TerminalStateError
from zerofleet.games import load_game
from zerofleet.games.base import Game, State
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig, SearchResult
from zerofleet.search.pool import SearchPool
from zerofleet.search.reference import ReferencePool

CASES = {
    "connect4": 160,
    "tictactoe": 250,
    "toy tictactoe": 120,
    "toy race": 220,
    "toy twins": 220,
    "toy walk": 80,
}  # each about four searches: 4,000 in all


def random_config(rng: np.random.Generator) -> SearchConfig:
    return SearchConfig(
        num_simulations=int(rng.choice([0, 1, 2, 7, 16, 33, 64], p=[0.03, 0.04, 0.08, 0.25, 0.25, 0.25, 0.1])),
        leaves_per_tree=int(rng.integers(1, 17)),
        exploration="log" if rng.random() < 0.7 else "constant",
        c_init=float(rng.choice([0.0, 0.3, 1.25, 4.0, 50.0])),
        c_base=float(rng.choice([1.0, 19.7, 19652.0])),
        first_play_urgency="parent" if rng.random() < 0.5 else "value",
        fpu_value=float(rng.choice([-1.0, 0.0, 0.2, 1.0])),
        reuse_limit=float(rng.choice([0.0, 0.5, 1.0, 4.0])),
        max_nodes=int(rng.choice([0, 0, 0, 0, 2, 9, 40])),
    )


def random_evaluation(rng: np.random.Generator, batch: LeafBatch) -> Evaluation:
    """Spiky, flat and repeated priors, some rows of none at all; values with many ties, some of them no number."""
    rows = []
    for count in np.diff(batch.legal_offsets):
        kind = rng.random()
        row = rng.dirichlet(np.full(count, 0.3)) if kind < 0.6 else np.full(count, 1 / count)
        if kind > 0.97:
            row = np.full(count, rng.choice([0.0, np.nan, np.inf, -1.0]))
        rows.append(row.astype(np.float32))
    values = rng.uniform(-1, 1, len(batch))
    is_tied = rng.random(len(batch)) < 0.4
    values[is_tied] = rng.choice([-1.0, 0.0, 0.5, 1.0, np.nan], int(is_tied.sum()), p=[0.3, 0.3, 0.1, 0.25, 0.05])
    return Evaluation(priors=np.concatenate(rows), values=values.astype(np.float32))


def random_position(rng: np.random.Generator, game: Game) -> State:
    state = game.initial_state()
    for _ in range(int(rng.integers(0, 12))):
        moves = game.legal_moves(state)
        after = game.next_state(state, moves[int(rng.integers(len(moves)))])
        if game.terminal_value(after) is not None:
            break
        state = after
    return state


def assert_same_batch(one: LeafBatch, two: LeafBatch) -> None:
    assert np.array_equal(one.planes, two.planes)
    assert np.array_equal(one.legal_offsets, two.legal_offsets)
    assert np.array_equal(one.legal_actions, two.legal_actions)
    assert one.source.leaf_states() == two.source.leaf_states()


def assert_same_result(one: SearchResult, two: SearchResult) -> None:
    for field in ("visit_counts", "q_values", "priors"):
        a, b = getattr(one, field), getattr(two, field)
        assert a.dtype == b.dtype
        assert a.tobytes() == b.tobytes(), field
    assert (one.root_value, one.num_simulations, one.num_reused) == (
        two.root_value,
        two.num_simulations,
        two.num_reused,
    )


class Pair:
    """The same pool twice; every call goes to both, and they must agree."""

    def __init__(self, rng: np.random.Generator, game: Game) -> None:
        self.rng, self.game = rng, game
        self.num_trees = int(rng.integers(1, 4))
        config, fraction = random_config(rng), float(rng.choice([0.0, 0.25, 1.0]))
        self.pools: Sequence[Any] = [
            kind(game, self.num_trees, config, dirichlet_fraction=fraction) for kind in (ReferencePool, SearchPool)
        ]
        self.active: set[int] = set()

    def reset(self, tree: int) -> None:
        state = random_position(self.rng, self.game)
        for pool in self.pools:
            pool.reset(tree, state)
        self.active.add(tree)

    def set_noise(self, tree: int) -> None:
        noise = self.rng.dirichlet(np.full(self.pools[0].num_legal(tree), 0.4)).astype(np.float32)
        for pool in self.pools:
            pool.set_root_noise(tree, noise)

    def search(self) -> None:
        while True:
            batches = [pool.collect() for pool in self.pools]
            assert_same_batch(*batches)
            if len(batches[0]) == 0:
                break
            if self.rng.random() < 0.2:
                self.compare()  # in flight
            evaluation = random_evaluation(self.rng, batches[0])
            for pool in self.pools:
                pool.expand(evaluation)
        self.compare()

    def compare(self) -> None:
        reference, native = self.pools
        assert reference.finished().tolist() == native.finished().tolist()
        assert reference.num_simulations_total == native.num_simulations_total
        assert reference.num_uniform_rows == native.num_uniform_rows
        for tree in range(self.num_trees):
            assert reference.num_nodes(tree) == native.num_nodes(tree)
            assert reference.num_in_flight(tree) == native.num_in_flight(tree)
            if reference.finished()[tree]:
                assert_same_result(reference.result(tree), native.result(tree))

    def advance(self, tree: int) -> None:
        """Play a move, mostly a visited one; a tree whose game is over begins anew or rests."""
        visits = self.pools[0].result(tree).visit_counts
        ordinal = int(visits.argmax() if self.rng.random() < 0.7 else self.rng.integers(len(visits)))
        budget = None if self.rng.random() < 0.7 else int(self.rng.integers(0, 50))
        refusals = 0
        for pool in self.pools:
            try:
                pool.advance(tree, ordinal, budget)
            except TerminalStateError:
                refusals += 1
        assert refusals in (0, 2)
        if refusals and self.rng.random() < 0.5:
            for pool in self.pools:
                pool.release(tree)
            self.active.discard(tree)
        elif refusals:
            self.reset(tree)


@pytest.mark.parametrize("name", CASES)
def test_both_trees_agree_bit_for_bit(toy_games: dict[str, Game], name: str) -> None:
    """Every batch of leaves, every visit, every sum, over several moves with subtree reuse and noise."""
    game = toy_games[name.removeprefix("toy ")] if name.startswith("toy ") else load_game(name)
    for case in range(CASES[name]):
        rng = np.random.default_rng([list(CASES).index(name), case])
        pair = Pair(rng, game)
        for tree in range(pair.num_trees):
            if rng.random() < 0.9:
                pair.reset(tree)
        for _ in range(int(rng.integers(1, 4))):
            for tree in sorted(pair.active):
                if rng.random() < 0.5:
                    pair.set_noise(tree)
            pair.search()
            for tree in sorted(pair.active):
                pair.advance(tree)


def test_a_deep_line_is_the_same_in_both(toy_games: dict[str, Game]) -> None:
    """Hundreds of plies in one line: sums of many values, rounded alike."""
    rng = np.random.default_rng(5)
    game = toy_games["walk"]
    config = SearchConfig(
        num_simulations=250, leaves_per_tree=1, c_init=0.0, first_play_urgency="value", fpu_value=-2.0
    )
    pools: Sequence[Any] = [ReferencePool(game, 1, config), SearchPool(game, 1, config)]
    for pool in pools:
        pool.reset(0, (0, 0))
    while not pools[0].finished().all():
        for batch in [pool.collect() for pool in pools]:
            assert len(batch) == 1
        evaluation = Evaluation(priors=np.full(2, 0.5, np.float32), values=rng.uniform(-1, 1, 1).astype(np.float32))
        for pool in pools:
            pool.expand(evaluation)
    assert pools[0].num_nodes(0) == 251
    assert_same_result(pools[0].result(0), pools[1].result(0))
