from __future__ import annotations

from collections import Counter
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from zerofleet.actors.config import SelfPlaySetup
from zerofleet.actors.selfplay import SelfPlayGroup
from zerofleet.games.position_crc import position_crc
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig
from zerofleet.search.evaluators import UniformEvaluator
from zerofleet.search.pool import SearchPool
from zerofleet.search.reference import ReferencePool
from zerofleet.streams.codec import encode_episode
from zerofleet.streams.records import Episode

EXAMPLE = "examples/domineering.py:Domineering"

MakeSetup = Callable[..., SelfPlaySetup]


def _play(group: SelfPlayGroup, numbers: range, evaluator: Any = None) -> list[Episode]:
    """Play the games with these numbers, as many at once as the group holds."""
    evaluator = evaluator or UniformEvaluator()
    waiting = list(numbers)[::-1]
    episodes: list[Episode] = []
    while waiting or group.num_games:
        while waiting and group.num_idle:
            group.begin(waiting.pop())
        batch = group.collect()
        if len(batch) > 0:
            group.expand(evaluator.evaluate(batch))
        episodes += group.play_moves()
    return sorted(episodes, key=lambda episode: episode.game_number)


def _positions(setup: SelfPlaySetup, episode: Episode) -> list[Any]:
    """Return the positions of an episode, the final one included."""
    game = setup.game
    states = [game.initial_state()]
    for move in episode.moves:
        states.append(game.next_state(states[-1], game.legal_moves(states[-1])[move.ordinal]))
    return states


class _SpyPool:
    """A pool that notes which noise was set for which root."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._pool = SearchPool(*args, **kwargs)
        self.noises: list[npt.NDArray[np.float32]] = []
        self.roots = 0
        self.results: list[Any] = []

    def reset(self, tree: int, state: Any, num_simulations: int | None = None) -> None:
        self.roots += 1
        self._pool.reset(tree, state, num_simulations)

    def advance(self, tree: int, ordinal: int, num_simulations: int | None = None) -> None:
        self.roots += 1
        self._pool.advance(tree, ordinal, num_simulations)

    def set_root_noise(self, tree: int, noise: npt.NDArray[np.float32]) -> None:
        assert len(noise) == self._pool.num_legal(tree)
        self.noises.append(noise)
        self._pool.set_root_noise(tree, noise)

    def result(self, tree: int) -> Any:
        self.results.append(self._pool.result(tree))
        return self.results[-1]

    def __getattr__(self, name: str) -> Any:
        return getattr(self._pool, name)


@pytest.mark.parametrize("game", ["tictactoe", "connect4", EXAMPLE])
def test_an_episode_replays_to_its_final_position_and_outcome(make_setup: MakeSetup, game: str) -> None:
    """Faults 15 and 58: plies are contiguous from 0, one game each, and the outcome is player 0's."""
    setup = make_setup(game)
    episodes = _play(SelfPlayGroup(setup, 4), range(24))
    assert [episode.game_number for episode in episodes] == list(range(24))
    for episode in episodes:
        states = _positions(setup, episode)
        assert all(setup.game.terminal_value(state) is None for state in states[:-1])
        value = setup.game.terminal_value(states[-1])
        assert value is not None
        assert episode.outcome == (value if setup.game.to_play(states[-1]) == 0 else -value)
        assert episode.final_crc == position_crc(setup.game, states[-1])
        assert episode.termination == setup.game.termination(states[-1])
    assert len({episode.outcome for episode in episodes}) >= 2, "both players win now and then"


def test_records_say_which_game_purpose_and_settings_they_belong_to(make_setup: MakeSetup) -> None:
    """Fault 100: self-play records are told from match records."""
    setup = make_setup()
    (episode,) = _play(SelfPlayGroup(setup, 1), range(5, 6))
    assert (episode.id, episode.actor, episode.purpose) == ("test-5", "actor-0", "self-play")
    assert (episode.game, episode.rules_version) == (setup.game.spec, setup.game.rules_version)
    assert all(move.full_search for move in episode.moves)


def test_the_policy_target_holds_all_new_and_reused_visits(make_setup: MakeSetup) -> None:
    """A fresh root's visits add up to the simulations; reuse adds at most `reuse_limit` times as many (fault 33)."""
    search = SearchConfig(num_simulations=32, leaves_per_tree=2, reuse_limit=0.5)
    spies: list[_SpyPool] = []

    def factory(*args: Any, **kwargs: Any) -> _SpyPool:
        spies.append(_SpyPool(*args, **kwargs))
        return spies[-1]

    episodes = _play(SelfPlayGroup(make_setup(search=search), 1, pool_factory=factory), range(6))
    records = [move for episode in episodes for move in episode.moves]
    results = spies[0].results
    assert len(records) == len(results)
    for record, result in zip(records, results, strict=True):
        assert int(record.visit_counts.sum()) == 32 + result.num_reused
        assert result.num_reused <= 16
        assert record.visited.tolist() == np.flatnonzero(result.visit_counts).tolist()
    assert all(int(episode.moves[0].visit_counts.sum()) == 32 for episode in episodes)
    assert any(result.num_reused > 0 for result in results)


def test_a_game_depends_on_seed_and_number_alone(make_setup: MakeSetup) -> None:
    """Fault 46: the same number gives the same game, whichever games are beside it; another number another one."""
    setup = make_setup("connect4")
    alone = _play(SelfPlayGroup(setup, 1), range(8))
    together = _play(SelfPlayGroup(setup, 5), range(8))
    assert [encode_episode(episode) for episode in alone] == [encode_episode(episode) for episode in together]
    other_seed = _play(SelfPlayGroup(make_setup("connect4", seed=8), 5), range(8))
    assert [_line(episode) for episode in alone] != [_line(episode) for episode in other_seed]


def test_many_actors_with_one_seed_play_different_games(make_setup: MakeSetup) -> None:
    """Fault 46: 8 actors, one seed, 20 games each, are 160 games."""
    setup = make_setup("connect4")
    episodes = [
        episode for actor in range(8) for episode in _play(SelfPlayGroup(setup, 20), range(20 * actor, 20 * actor + 20))
    ]
    assert len({_line(episode) for episode in episodes}) == 160


def test_openings_do_not_collapse(make_setup: MakeSetup) -> None:
    """Fault 99: of 200 games the most common beginning of eight plies has no more than a tenth."""
    episodes = _play(SelfPlayGroup(make_setup("connect4"), 50), range(200))
    beginnings = Counter(_line(episode)[:8] for episode in episodes)
    assert max(beginnings.values()) <= 20
    assert len(beginnings) >= 100


def test_native_and_reference_trees_play_the_same_games(make_setup: MakeSetup) -> None:
    setup = make_setup(search=SearchConfig(num_simulations=48, leaves_per_tree=3))
    native = _play(SelfPlayGroup(setup, 2, pool_factory=SearchPool), range(4))
    reference = _play(SelfPlayGroup(setup, 2, pool_factory=ReferencePool), range(4))
    assert [encode_episode(episode) for episode in native] == [encode_episode(episode) for episode in reference]


def test_each_root_gets_noise_once_over_its_legal_moves(make_setup: MakeSetup) -> None:
    """Faults 32, 34 and 35: at every ply, reused root or not; one draw a move; legal moves alone, adding up to 1."""
    spies: list[_SpyPool] = []

    def factory(*args: Any, **kwargs: Any) -> _SpyPool:
        assert kwargs == {"dirichlet_fraction": 0.25}
        spies.append(_SpyPool(*args, **kwargs))
        return spies[-1]

    episodes = _play(SelfPlayGroup(make_setup("connect4"), 3, pool_factory=factory), range(6))
    num_moves = sum(len(episode.moves) for episode in episodes)
    assert spies[0].roots == len(spies[0].noises) == num_moves
    assert all(noise.sum() == pytest.approx(1.0, abs=1e-6) for noise in spies[0].noises)
    distinct = {noise.tobytes() for noise in spies[0].noises if len(noise) > 1}
    assert len(distinct) == sum(len(noise) > 1 for noise in spies[0].noises)


def test_without_noise_none_is_drawn(make_setup: MakeSetup) -> None:
    spies: list[_SpyPool] = []

    def factory(*args: Any, **kwargs: Any) -> _SpyPool:
        spies.append(_SpyPool(*args, **kwargs))
        return spies[-1]

    _play(SelfPlayGroup(make_setup(dirichlet_fraction=0.0), 2, pool_factory=factory), range(2))
    assert spies[0].noises == []


def test_after_the_temperature_plies_the_most_visited_move_is_played(make_setup: MakeSetup) -> None:
    """Fault 44, both ways: before them others are played too."""
    setup = make_setup("connect4", temperature_plies=6, final_temperature=0.0)
    episodes = _play(SelfPlayGroup(setup, 10), range(30))
    late = [move for episode in episodes for move in episode.moves[6:]]
    early = [move for episode in episodes for move in episode.moves[:6]]
    assert late
    assert all(_is_most_visited(move) for move in late)
    assert sum(not _is_most_visited(move) for move in early) > len(early) // 10


def test_a_share_of_the_games_begins_at_a_random_position(make_setup: MakeSetup) -> None:
    """Their openings are of every length, uniform over the moves, never over, and without a search."""
    setup = make_setup("connect4", random_opening_fraction=0.5, random_opening_plies=12)
    episodes = _play(SelfPlayGroup(setup, 20), range(300))
    opened = [episode for episode in episodes if episode.opening_plies > 0]
    assert 115 <= len(opened) <= 185  # 150 expected, standard deviation 8.7: four of them
    assert {episode.opening_plies for episode in opened} == set(range(1, 13))
    first = Counter(episode.moves[0].ordinal for episode in opened)
    assert set(first) == set(range(7))
    assert max(first.values()) < 2.5 * len(opened) / 7
    for episode in opened:
        drawn, searched = episode.moves[: episode.opening_plies], episode.moves[episode.opening_plies :]
        assert all(len(move.visited) == 0 and not move.full_search for move in drawn)
        assert searched
        assert all(move.full_search for move in searched)
        assert episode.final_crc == position_crc(setup.game, _positions(setup, episode)[-1])


def test_openings_depend_on_seed_and_game_number_alone(make_setup: MakeSetup) -> None:
    setup = make_setup("connect4", random_opening_fraction=0.5, random_opening_plies=12)
    together = _play(SelfPlayGroup(setup, 20), range(20))
    one_by_one = _play(SelfPlayGroup(setup, 1), range(20))
    assert [encode_episode(episode) for episode in together] == [encode_episode(episode) for episode in one_by_one]


def test_where_random_moves_end_every_game_it_begins_at_its_beginning(make_setup: MakeSetup) -> None:
    """After nine moves tic-tac-toe is over: no opening can be that long, and none is."""
    setup = make_setup("tictactoe", random_opening_fraction=1.0, random_opening_plies=9)
    episodes = _play(SelfPlayGroup(setup, 20), range(100))
    lengths = {episode.opening_plies for episode in episodes}
    assert 0 in lengths
    assert lengths <= set(range(9))


def test_a_ply_cap_ends_a_game_as_a_draw_and_says_so(make_setup: MakeSetup) -> None:
    """Fault 8: a game that a cap cut is not taken for one that the rules drew."""
    setup = make_setup("connect4", max_plies=5)
    for episode in _play(SelfPlayGroup(setup, 4), range(8)):
        assert (len(episode.moves), episode.outcome, episode.termination) == (5, 0, "ply cap")
        assert episode.final_crc == position_crc(setup.game, _positions(setup, episode)[-1])


def test_a_game_that_ends_at_the_cap_keeps_its_own_result(make_setup: MakeSetup) -> None:
    """Fault 8: no tic-tac-toe game takes more than nine plies, so a cap of nine changes nothing."""
    capped = _play(SelfPlayGroup(make_setup(max_plies=9), 4), range(16))
    free = _play(SelfPlayGroup(make_setup(), 4), range(16))
    assert [encode_episode(episode) for episode in capped] == [encode_episode(episode) for episode in free]


def test_the_version_of_the_weights_is_recorded_for_each_move(make_setup: MakeSetup) -> None:
    class Swapped:
        """Weights that change from version 3 to 4 after five batches."""

        num_batches = 0

        def evaluate(self, batch: LeafBatch) -> Evaluation:
            self.num_batches += 1
            answer = UniformEvaluator().evaluate(batch)
            version = 3 if self.num_batches <= 5 else 4
            return Evaluation(priors=answer.priors, values=answer.values, weights_version=version)

    # no reuse: each move takes one batch for its root and four with a simulation each, unless a line ends earlier
    search = SearchConfig(num_simulations=4, leaves_per_tree=1, reuse_limit=0.0)
    (episode,) = _play(SelfPlayGroup(make_setup("connect4", search=search), 1), range(1), Swapped())
    assert [move.weights_version for move in episode.moves[:3]] == [3, 4, 4]
    assert {move.weights_version for move in episode.moves[1:]} == {4}


def test_without_simulations_the_priors_choose_and_the_record_has_no_policy(make_setup: MakeSetup) -> None:
    search = SearchConfig(num_simulations=0)
    episodes = _play(SelfPlayGroup(make_setup(search=search), 2), range(4))
    moves = [move for episode in episodes for move in episode.moves]
    assert all(len(move.visited) == 0 and not move.full_search for move in moves)


def test_what_was_done_is_counted_once(make_setup: MakeSetup) -> None:
    group = SelfPlayGroup(make_setup("connect4"), 4)
    episodes = _play(group, range(8))
    tally = group.take_tally()
    num_moves = sum(len(episode.moves) for episode in episodes)
    assert tally.moves == num_moves
    assert tally.simulations == 16 * num_moves
    assert tally.reused_visits == sum(int(m.visit_counts.sum()) for e in episodes for m in e.moves) - 16 * num_moves
    # each position is a simulation or a fresh root's own evaluation; those that end the game need no evaluation
    assert 0 < tally.positions <= tally.simulations + num_moves
    assert group.take_tally() == type(tally)()


def test_memory_stays_bounded_game_after_game(make_setup: MakeSetup) -> None:
    """Fault 50: a game takes over the memory of the one before it; the pool's bytes stop growing."""
    spies: list[_SpyPool] = []

    def factory(*args: Any, **kwargs: Any) -> _SpyPool:
        spies.append(_SpyPool(*args, **kwargs))
        return spies[-1]

    group = SelfPlayGroup(make_setup("connect4"), 8, pool_factory=factory)
    _play(group, range(60))
    after_60 = spies[0].num_bytes
    _play(group, range(60, 160))
    assert spies[0].num_bytes <= 1.1 * after_60


def test_a_place_without_a_game_gives_no_leaves_and_no_episodes(make_setup: MakeSetup) -> None:
    """Its tree keeps the last game's nodes until the next game takes it over."""
    group = SelfPlayGroup(make_setup("connect4"), 2)
    first = _play(group, range(2))
    assert len(first) == 2
    assert group.num_games == 0
    assert len(group.collect()) == 0
    assert group.play_moves() == []
    assert {episode.game_number for episode in _play(group, range(2, 3))} == {2}


def test_abandoned_games_are_counted_even_while_their_leaves_are_away(make_setup: MakeSetup) -> None:
    group = SelfPlayGroup(make_setup(), 4)
    for number in range(3):
        group.begin(number)
    assert len(group.collect()) == 3
    assert (group.num_games, group.abandon(), group.num_games) == (3, 3, 0)


def _line(episode: Episode) -> tuple[int, ...]:
    return tuple(move.ordinal for move in episode.moves)


def _is_most_visited(move: Any) -> bool:
    counts = dict(zip(move.visited.tolist(), move.visit_counts.tolist(), strict=True))
    return bool(counts[move.ordinal] == max(counts.values()))
