"""The replay buffer: numbers, symmetries, memory."""

import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pytest

from zerofleet.games.base import Game
from zerofleet.games.packing import pack_planes
from zerofleet.games.python_game import adapt
from zerofleet.learner.replay import Batch, ReplayBuffer
from zerofleet.learner.targets import Rows, rows_from_episode
from zerofleet.streams.records import Episode

Play = Callable[..., Episode]


def _rows(
    game: Game, planes: npt.NDArray[np.float64], actions: list[list[int]], probabilities: list[list[float]]
) -> Rows:
    """Make rows by hand; row i has the value i % 3 - 1."""
    count = len(planes)
    return Rows(
        planes=pack_planes(planes.astype(np.uint8), game.plane_type),
        offsets=np.cumsum([0, *map(len, actions)]).astype(np.int64),
        actions=np.concatenate(actions).astype(np.uint16),
        probabilities=np.concatenate(probabilities).astype(np.float32),
        values=(np.arange(count) % 3 - 1).astype(np.int8),
        has_policy=np.ones(count, np.bool_),
    )


def _numbered(game: Game, first: int, count: int) -> Rows:
    """Rows whose planes spell their number, the same way when mirrored, with one to seven legal moves each."""
    bits = (np.arange(first, first + count)[:, None] >> np.arange(18)) & 1
    planes = np.zeros((count, 2, 6, 7))
    planes[:, 0, :, :3] = bits.reshape(count, 6, 3)
    planes[:, 0, :, 4:] = planes[:, 0, :, 2::-1]
    actions = [list(range(number % 7 + 1)) for number in range(first, first + count)]
    return _rows(game, planes, actions, [[1.0 / len(row)] * len(row) for row in actions])


def _read_numbers(batch: Batch) -> npt.NDArray[np.int64]:
    return batch.planes[:, 0, :, :3].reshape(len(batch), 18).astype(np.int64) @ (1 << np.arange(18))


def test_rows_keep_their_numbers_through_many_turns_of_the_ring(connect4: Game) -> None:
    buffer = ReplayBuffer(connect4, 50)
    for first in range(0, 700, 7):
        buffer.append(_numbered(connect4, first, 7))
    assert (buffer.next_row, len(buffer)) == (700, 50)
    batch = buffer.sample(np.random.default_rng(0), 1000, 660, 690)
    numbers = _read_numbers(batch)
    assert set(numbers) == set(range(660, 690))
    assert np.array_equal(batch.legal.sum(1), numbers % 7 + 1)
    assert np.allclose(batch.policy.max(1), 1 / (numbers % 7 + 1))


def test_rows_outside_the_buffer_are_never_sampled(connect4: Game) -> None:
    buffer = ReplayBuffer(connect4, 50)
    buffer.append(_numbered(connect4, 0, 40))
    buffer.append(_numbered(connect4, 40, 40))
    rng = np.random.default_rng(0)
    for first, last in ((29, 80), (30, 81), (50, 50)):
        with pytest.raises(AssertionError):
            buffer.sample(rng, 4, first, last)
    buffer.sample(rng, 4, 30, 80)


@pytest.mark.parametrize("name", ["tictactoe", "connect4"])
def test_a_symmetry_moves_position_and_policy_together(request: pytest.FixtureRequest, play: Play, name: str) -> None:
    """Faults 63, 66 and 67: in the image, exactly the empty cells (or the columns with room) are legal."""
    game = request.getfixturevalue(name)
    buffer = ReplayBuffer(game, 2000)
    for number in range(40):
        buffer.append(rows_from_episode(game, play(game, number)))
    batch = buffer.sample(np.random.default_rng(1), 1500, 0, buffer.next_row)
    taken = batch.planes.sum(1)
    room = (taken == 0).reshape(1500, -1) if name == "tictactoe" else taken[:, 0, :] == 0
    assert np.array_equal(batch.legal, room)
    assert not batch.policy[~batch.legal].any()
    np.testing.assert_allclose(batch.policy.sum(1), 1.0, rtol=1e-6)


def test_every_symmetry_occurs_and_turns_the_policy_the_way_it_turns_the_board(tictactoe: Game) -> None:
    """Fault 66: a stone in a corner and the policy on the next cell clockwise tell a turn from its inverse."""
    planes = np.zeros((1, 2, 3, 3))
    planes[0, 0, 0, 0] = 1  # own stone in the top left corner
    planes[0, 1, 0, 2] = 1  # the opponent's in the top right one
    buffer = ReplayBuffer(tictactoe, 10)
    buffer.append(_rows(tictactoe, planes, [[1, 3, 4, 5, 6, 7, 8]], [[0, 1, 0, 0, 0, 0, 0]]))  # all on cell 3, left
    batch = buffer.sample(np.random.default_rng(0), 400, 0, 1)
    # the move is next to the own corner, on the side away from the opponent's
    away = {(0, 2): 3, (2, 0): 3, (0, 6): 1, (6, 0): 1, (2, 8): -1, (8, 2): -1, (6, 8): -3, (8, 6): -3}
    seen = set()
    for board, policy in zip(batch.planes, batch.policy, strict=True):
        own, other, move = int(board[0].argmax()), int(board[1].argmax()), int(policy.argmax())
        assert move == own + away[own, other]
        seen.add((own, other))
    assert len(seen) == 8


def test_moves_that_share_an_action_add_up(tictactoe: Game) -> None:
    buffer = ReplayBuffer(tictactoe, 4)
    buffer.append(_rows(tictactoe, np.zeros((1, 2, 3, 3)), [[4, 4, 4]], [[0.25, 0.5, 0.25]]))
    batch = buffer.sample(np.random.default_rng(0), 3, 0, 1)
    assert batch.policy[0].tolist() == [0, 0, 0, 0, 1, 0, 0, 0, 0]
    assert batch.legal[0].tolist() == [False] * 4 + [True] + [False] * 4


def test_the_same_generator_gives_the_same_batch(connect4: Game) -> None:
    buffer = ReplayBuffer(connect4, 100)
    buffer.append(_numbered(connect4, 0, 100))
    first, second = (buffer.sample(np.random.default_rng(5), 32, 10, 90) for _ in range(2))
    assert np.array_equal(first.planes, second.planes)
    assert np.array_equal(first.policy, second.policy)


def test_rows_of_one_game_meet_no_more_often_than_chance(connect4: Game) -> None:
    """Fault 57."""
    rows_per_game, games, draws, batch_size = 10, 200, 100, 64
    buffer = ReplayBuffer(connect4, rows_per_game * games)
    buffer.append(_numbered(connect4, 0, rows_per_game * games))
    pairs = 0
    for draw in range(draws):
        batch = buffer.sample(np.random.default_rng(draw), batch_size, 0, buffer.next_row)
        counts = np.bincount(_read_numbers(batch) // rows_per_game)
        pairs += int((counts * (counts - 1) // 2).sum())
        assert batch.num_distinct == len(set(_read_numbers(batch)))
    expected = draws * batch_size * (batch_size - 1) / 2 / games
    assert abs(pairs - expected) < 3 * np.sqrt(expected)


def test_memory_stays_what_it_was_at_the_start(connect4: Game, play: Play) -> None:
    """Fault 54."""
    buffer = ReplayBuffer(connect4, 500)
    at_start = buffer.num_bytes
    for number in range(150):
        buffer.append(rows_from_episode(connect4, play(connect4, number)))
    assert buffer.next_row > 2000
    assert buffer.num_bytes == at_start


def test_more_legal_moves_than_expected_enlarge_one_ring_and_lose_nothing(connect4: Game) -> None:
    buffer = ReplayBuffer(connect4, 60)
    wide = [list(range(7))] * 20
    planes = np.zeros((20, 2, 6, 7))
    many = [row * 3 for row in wide]  # 21 legal moves a row, three for each action
    for _ in range(9):
        buffer.append(_rows(connect4, planes, many, [[1 / 21] * 21] * 20))
    batch = buffer.sample(np.random.default_rng(0), 200, 120, 180)
    np.testing.assert_allclose(batch.policy, 1 / 7, rtol=1e-5)
    assert buffer.num_bytes < 60 * 21 * 6 * 1.3 + 60 * 40


def test_values_and_weights_belong_to_their_rows(connect4: Game) -> None:
    buffer = ReplayBuffer(connect4, 9)
    rows = _numbered(connect4, 0, 9)
    rows.has_policy[4] = False
    buffer.append(rows)
    batch = buffer.sample(np.random.default_rng(0), 50, 4, 5)
    assert set(batch.values) == {0.0}  # 4 % 3 - 1
    assert not batch.policy_weight.any()


def test_a_full_buffer_keeps_nothing_of_what_it_has_pushed_out(connect4: Game, play: Play) -> None:
    """Fault 54: not in its arrays, and not beside them."""
    buffer = ReplayBuffer(connect4, 200)
    games = [rows_from_episode(connect4, play(connect4, number)) for number in range(20)]
    for rows in games:
        buffer.append(rows)
    tracemalloc.start()
    try:
        sizes = []
        for _ in range(4):
            for rows in games * 5:  # about 2,000 rows: each time ten buffers full
                buffer.append(rows)
            sizes.append(tracemalloc.get_traced_memory()[0])
    finally:
        tracemalloc.stop()
    assert buffer.next_row > 8000
    assert max(sizes) < 4000  # bytes; a row has at least 11


def test_rows_that_are_all_one_position_are_counted_as_one(tictactoe: Game, play: Play) -> None:
    """Fault 59: a buffer that was fed the first position alone is seen at once."""
    buffer, healthy = ReplayBuffer(tictactoe, 1000), ReplayBuffer(tictactoe, 1000)
    for number in range(60):
        buffer.append(rows_from_episode(tictactoe, play(tictactoe, number, max_plies=1)))
        healthy.append(rows_from_episode(tictactoe, play(tictactoe, number)))
    rng = np.random.default_rng(0)
    assert buffer.sample(rng, 64, 0, buffer.next_row).num_distinct == 1
    assert healthy.sample(rng, 64, 0, healthy.next_row).num_distinct > 40


def test_a_game_without_symmetries_is_learned_as_it_was_played() -> None:
    """Fault 68: nothing is turned where the game declares no symmetry."""

    class Strip:
        """Two players fill a strip of three cells from the left."""

        name = "strip"
        num_actions = 3
        observation_shape = (1, 1, 3)
        rules_version = 1

        def initial_state(self) -> int:
            return 0

        def to_play(self, state: int) -> int:
            return state % 2

        def legal_moves(self, state: int) -> list[int]:
            return [state] if state < 3 else []

        def next_state(self, state: int, move: Any) -> int:
            return state + 1

        def terminal_value(self, state: int) -> int | None:
            return None if state < 3 else 0

        def encode(self, state: int) -> npt.NDArray[np.uint8]:
            return (np.arange(3) < state).astype(np.uint8).reshape(1, 1, 3)

        def move_index(self, move: Any) -> int:
            return int(move)

    game = adapt(Strip(), "strip")
    buffer = ReplayBuffer(game, 3)
    planes = np.stack([game.encode(state) for state in range(3)]).astype(float)
    buffer.append(_rows(game, planes, [[0], [1], [2]], [[1.0], [1.0], [1.0]]))
    batch = buffer.sample(np.random.default_rng(0), 300, 0, 3)
    stones = batch.planes.reshape(300, 3).sum(1).astype(int)
    assert np.array_equal(batch.planes.reshape(300, 3), np.arange(3) < stones[:, None])
    assert np.array_equal(batch.policy.argmax(1), stones)
