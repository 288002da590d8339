"""Rows from episodes: values, policies, and what is refused."""

from collections.abc import Callable
from dataclasses import replace

import numpy as np
import numpy.typing as npt
import pytest

from zerofleet.errors import DecodeError
from zerofleet.games.base import Game
from zerofleet.games.position_crc import position_crc
from zerofleet.games.python_game import adapt
from zerofleet.learner.targets import rows_from_episode
from zerofleet.streams.records import Episode, MoveRecord

Play = Callable[..., Episode]


def _record(ordinal: int, visits: dict[int, int], full_search: bool = True) -> MoveRecord:
    return MoveRecord(
        ordinal=ordinal,
        visited=np.array(sorted(visits), np.uint16),
        visit_counts=np.array([visits[key] for key in sorted(visits)], np.uint32),
        root_value=0.0,
        weights_version=1,
        full_search=full_search,
    )


def _episode(game: Game, ordinals: list[int], outcome: int, termination: str = "line") -> Episode:
    state = game.initial_state()
    for ordinal in ordinals:
        state = game.next_state(state, game.legal_moves(state)[ordinal])
    return Episode(
        id="test-7",
        game=game.spec,
        rules_version=game.rules_version,
        actor="actor-0",
        game_number=7,
        purpose="self-play",
        moves=tuple(_record(ordinal, {ordinal: 3}) for ordinal in ordinals),
        outcome=outcome,
        termination=termination,
        final_crc=position_crc(game, state),
    )


def test_values_are_for_the_player_to_move_and_alternate(tictactoe: Game) -> None:
    """Fault 1: player 0 takes the top row with its third stone."""
    # cells 0, 3, 1, 4, 2 as ordinals among the empty cells: 0; 2 of (1 2 3 ...); 0 of (1 2 4 ...); 1 of (2 4 ...); 0
    rows = rows_from_episode(tictactoe, _episode(tictactoe, [0, 2, 0, 1, 0], 1))
    assert rows.values.tolist() == [1, -1, 1, -1, 1]
    assert rows.planes.shape == (5, tictactoe.packed_size)
    assert np.diff(rows.offsets).tolist() == [9, 8, 7, 6, 5]


def test_a_win_of_the_second_player_turns_every_sign(tictactoe: Game) -> None:
    """Fault 1: cells 0, 3, 1, 4, 8, 5; player 1 has the middle row."""
    rows = rows_from_episode(tictactoe, _episode(tictactoe, [0, 2, 0, 1, 4, 1], -1))
    assert rows.values.tolist() == [-1, 1, -1, 1, -1, 1]


def test_a_draw_is_zero_for_both(tictactoe: Game) -> None:
    """Fault 6: x o x / x o o / o x x, a full board without a line."""
    # cells 0 1 2 4 3 5 7 6 8
    episode = _episode(tictactoe, [0, 0, 0, 1, 0, 0, 1, 0, 0], 0, "full board")
    assert rows_from_episode(tictactoe, episode).values.tolist() == [0] * 9


def test_a_ply_cap_is_a_draw_whatever_the_position(tictactoe: Game, play: Play) -> None:
    """Fault 8."""
    capped = play(tictactoe, 1, max_plies=3)
    assert capped.termination == "ply cap"
    assert rows_from_episode(tictactoe, capped).values.tolist() == [0, 0, 0]


def test_a_random_opening_gives_no_rows(tictactoe: Game) -> None:
    whole = _episode(tictactoe, [0, 2, 0, 1, 0], 1)
    opened = rows_from_episode(tictactoe, replace(whole, opening_plies=2))
    assert opened.values.tolist() == [1, -1, 1]  # player 0, who wins, moves at the third ply
    assert np.diff(opened.offsets).tolist() == [7, 6, 5]
    rest = rows_from_episode(tictactoe, whole).slice(2, 5)
    for name in ("planes", "offsets", "actions", "probabilities", "values", "has_policy"):
        assert np.array_equal(getattr(opened, name), getattr(rest, name)), name


def test_an_error_after_an_opening_names_the_move_of_the_game(tictactoe: Game) -> None:
    whole = _episode(tictactoe, [0, 2, 0, 1, 0], 1)
    wrong = replace(whole, opening_plies=2, moves=(*whole.moves[:3], _record(1, {9: 1}), whole.moves[4]))
    with pytest.raises(DecodeError, match="move 3: expected increasing ordinals below 6"):
        rows_from_episode(tictactoe, wrong)


def test_a_game_that_was_opening_alone_is_refused(tictactoe: Game) -> None:
    with pytest.raises(DecodeError, match="without moves that were searched"):
        rows_from_episode(tictactoe, replace(_episode(tictactoe, [0, 2, 0, 1, 0], 1), opening_plies=5))


def test_policy_targets_are_shares_of_visits_over_all_legal_moves(tictactoe: Game) -> None:
    episode = _episode(tictactoe, [0, 2, 0, 1, 0], 1)
    moves = (_record(0, {0: 30, 4: 10}), *episode.moves[1:])
    rows = rows_from_episode(tictactoe, replace(episode, moves=moves))
    assert rows.probabilities[:9].tolist() == [0.75, 0, 0, 0, 0.25, 0, 0, 0, 0]
    assert rows.actions[9:17].tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
    assert rows.has_policy.all()


def test_a_fast_search_or_none_teaches_its_value_alone(tictactoe: Game) -> None:
    episode = _episode(tictactoe, [0, 2, 0, 1, 0], 1)
    moves = (_record(0, {0: 3}, full_search=False), _record(2, {}), *episode.moves[2:])
    rows = rows_from_episode(tictactoe, replace(episode, moves=moves))
    assert rows.has_policy.tolist() == [False, False, True, True, True]


def _searched(episode: Episode, searches: list[tuple[float, dict[int, int]]]) -> Episode:
    """Return the episode with these root values and visits of its moves' searches."""
    moves = zip(episode.moves, searches, strict=True)
    return replace(
        episode,
        moves=tuple(_record(move.ordinal, visits)._replace(root_value=value) for move, (value, visits) in moves),
    )


def test_a_trace_mixes_in_what_each_later_search_said(tictactoe: Game) -> None:
    """λ = 0.5, every move its search's own choice; by hand, from the end, each for its own player to move.

    G4 = (0.8 + 1) / 2 = 0.9, G3 = (-0.5 - 0.9) / 2 = -0.7, G2 = (0.1 + 0.7) / 2 = 0.4, G1 = (0 - 0.4) / 2 = -0.2,
    G0 = (0.2 + 0.2) / 2 = 0.2.
    """
    game = _episode(tictactoe, [0, 2, 0, 1, 0], 1)
    episode = _searched(game, [(q, {m.ordinal: 3}) for m, q in zip(game.moves, [0.2, 0, 0.1, -0.5, 0.8], strict=True)])
    rows = rows_from_episode(tictactoe, episode, trace_lambda=0.5)
    np.testing.assert_allclose(rows.values, [0.2, -0.2, 0.4, -0.7, 0.9], rtol=1e-6)
    whole = rows_from_episode(tictactoe, episode, trace_lambda=1.0)
    assert whole.values.tolist() == [1, -1, 1, -1, 1]
    none = rows_from_episode(tictactoe, episode, trace_lambda=0.0)
    np.testing.assert_allclose(none.values, [0.2, 0, 0.1, -0.5, 0.8], rtol=1e-6)


def test_a_trace_is_cut_where_a_move_was_not_its_searchs_choice(tictactoe: Game) -> None:
    """λ = 1; by hand: move 3 got 1 visit of the best move's 4, so a quarter of what follows it counts.

    G4 = 1, G3 = 0.75 * 0.6 - 0.25 * 1 = 0.2, and before it each is the one behind it with its sign turned; move 1 was
    not visited at all, so G1 is its own search's value, and G0 the opposite.
    """
    searches = [(0.9, {0: 3}), (0.3, {0: 5, 3: 4}), (0.9, {0: 3}), (0.6, {1: 1, 4: 4}), (0.9, {0: 2, 1: 2})]
    rows = rows_from_episode(tictactoe, _searched(_episode(tictactoe, [0, 2, 0, 1, 0], 1), searches), trace_lambda=1.0)
    np.testing.assert_allclose(rows.values, [-0.3, 0.3, -0.2, 0.2, 1.0], rtol=1e-6)


def test_a_trace_runs_on_past_a_move_without_visits_and_stops_at_an_opening(tictactoe: Game) -> None:
    searches: list[tuple[float, dict[int, int]]] = [(0.0, {}), (0.0, {}), (0.4, {}), (0.2, {1: 2}), (0.0, {0: 1})]
    episode = replace(_searched(_episode(tictactoe, [0, 2, 0, 1, 0], 1), searches), opening_plies=2)
    rows = rows_from_episode(tictactoe, episode, trace_lambda=1.0)
    assert rows.values.tolist() == [1, -1, 1]


class TwiceInARow:
    """Player 0 moves twice, then player 1 once; the third move decides: move 1 wins for player 1."""

    name = "twice"
    num_actions = 2
    observation_shape = (1, 1, 3)
    rules_version = 1

    def initial_state(self) -> tuple[int, ...]:
        return ()

    def to_play(self, state: tuple[int, ...]) -> int:
        return (0, 0, 1, 0)[len(state)]

    def legal_moves(self, state: tuple[int, ...]) -> list[int]:
        return [] if len(state) == 3 else [0, 1]

    def next_state(self, state: tuple[int, ...], move: int) -> tuple[int, ...]:
        return (*state, move)

    def terminal_value(self, state: tuple[int, ...]) -> int | None:
        if len(state) < 3:
            return None
        return -1 if state[2] == 1 else 1  # player 0 is to move in the finished position

    def encode(self, state: tuple[int, ...]) -> npt.NDArray[np.uint8]:
        return np.array([[[*state, *[0] * (3 - len(state))]]], np.uint8)

    def move_index(self, move: int) -> int:
        return move


def test_values_follow_the_player_to_move_where_one_moves_twice() -> None:
    """Faults 1 and 15: the mover of each row comes from the rules, not from the number of the ply."""
    game = adapt(TwiceInARow(), "twice.py:TwiceInARow")
    rows = rows_from_episode(game, _episode(game, [0, 1, 1], -1))
    assert rows.values.tolist() == [-1, -1, 1]
    searched = _searched(_episode(game, [0, 1, 1], -1), [(0.5, {0: 1}), (-0.5, {1: 1}), (0.5, {1: 1})])
    traces = rows_from_episode(game, searched, trace_lambda=0.5)
    # G2 = (0.5 + 1) / 2, turned for player 0: G1 = (-0.5 - 0.75) / 2; the same player: G0 = (0.5 - 0.625) / 2
    np.testing.assert_allclose(traces.values, [-0.0625, -0.625, 0.75], rtol=1e-6)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"game": "connect4"}, "expected game 'tictactoe', got 'connect4'"),
        ({"rules_version": 9}, "expected rules_version 1, got 9"),
        ({"purpose": "match"}, "expected purpose 'self-play', got 'match'"),  # fault 100
        ({"moves": ()}, "without moves"),
        ({"outcome": -1}, "expected outcome 1 for player 0, got -1"),
        ({"final_crc": 1}, "expected a final position with CRC 0x00000001"),
    ],
)
def test_an_episode_that_is_not_what_it_says_is_refused(
    tictactoe: Game, change: dict[str, object], reason: str
) -> None:
    """Fault 15: a broken record is refused, with the game's id."""
    with pytest.raises(DecodeError) as caught:
        rows_from_episode(tictactoe, replace(_episode(tictactoe, [0, 2, 0, 1, 0], 1), **change))  # type: ignore[arg-type]
    assert reason in str(caught.value)
    assert "test-7" in str(caught.value)


@pytest.mark.parametrize(
    ("place", "record", "reason"),
    [
        (1, _record(8, {0: 1}), "move 1: expected an ordinal below 8, got 8"),
        (1, _record(2, {8: 1}), "expected increasing ordinals below 8 as visited, got [8]"),
        (
            0,
            MoveRecord(
                ordinal=0,
                visited=np.array([1, 1], np.uint16),
                visit_counts=np.array([1, 1], np.uint32),
                root_value=0.0,
                weights_version=1,
                full_search=True,
            ),
            "expected increasing ordinals below 9",
        ),
        (
            1,  # a visit of the last move of the row before
            MoveRecord(
                ordinal=2,
                visited=np.array([-1, 2]),
                visit_counts=np.array([1, 1], np.uint32),
                root_value=0.0,
                weights_version=1,
                full_search=True,
            ),
            "move 1: expected increasing ordinals below 8 as visited, got [-1, 2]",
        ),
        (
            1,
            MoveRecord(
                ordinal=2,
                visited=np.array([1, 2], np.uint16),
                visit_counts=np.array([1], np.uint32),
                root_value=0.0,
                weights_version=1,
                full_search=True,
            ),
            "move 1: expected a visit count for each visited move",
        ),
        (2, _record(0, {0: 3, 1: 0}), "move 2: expected a positive visit count for each visited move"),
        (3, _record(1, {1: 3, 6: 1}), "move 3: expected increasing ordinals below 6 as visited, got [1, 6]"),
    ],
)
def test_an_impossible_move_is_refused_with_its_ply(
    tictactoe: Game, place: int, record: MoveRecord, reason: str
) -> None:
    """Fault 15."""
    episode = _episode(tictactoe, [0, 2, 0, 1, 0], 1)
    moves = list(episode.moves)
    moves[place] = record
    with pytest.raises(DecodeError) as caught:
        rows_from_episode(tictactoe, replace(episode, moves=tuple(moves)))
    assert reason in str(caught.value)


def test_moves_after_the_end_and_games_that_go_on_are_refused(tictactoe: Game) -> None:
    episode = _episode(tictactoe, [0, 2, 0, 1, 0], 1)
    with pytest.raises(DecodeError, match="move 5: the game is over there, but 1 moves follow"):
        rows_from_episode(tictactoe, replace(episode, moves=(*episode.moves, _record(0, {0: 1}))))
    with pytest.raises(DecodeError, match="expected a finished game after its last move"):
        rows_from_episode(tictactoe, replace(episode, moves=episode.moves[:-1]))


def test_rules_that_raise_do_not_end_the_learner() -> None:
    game = adapt(TwiceInARow(), "twice.py:TwiceInARow")
    episode = _episode(game, [0, 1, 1], -1)

    def broken(_state: object, _move: object) -> object:
        raise KeyError("no such square")

    game.next_state = broken  # type: ignore[assignment, method-assign]
    with pytest.raises(DecodeError, match=r"test-7: the rules refuse to replay it: KeyError: 'no such square'"):
        rows_from_episode(game, episode)


def test_random_games_give_a_row_per_move(connect4: Game, play: Play) -> None:
    """Fault 58: each position once, in order."""
    for number in range(5):
        episode = play(connect4, number)
        rows = rows_from_episode(connect4, episode)
        assert len(rows) == len(episode.moves)
        sums = np.add.reduceat(rows.probabilities, rows.offsets[:-1])
        np.testing.assert_allclose(sums, 1.0, rtol=1e-6)
        assert len(np.unique(rows.planes, axis=0)) == len(rows)
