"""The replay buffer: a ring of rows, all of its memory allocated and touched at the start.

Rows have numbers that only grow (row r of the log is row r here); row r lies in slot r mod capacity.  The legal moves
of all rows lie one behind the other in a second ring, because their number differs from row to row; that ring alone is
enlarged, rarely and for good, when the rows held have more legal moves than random games led to expect.

One thread owns a buffer.  It knows neither log nor step: who samples says between which rows.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from zerofleet.games.base import Game, PackedPlanes
from zerofleet.games.packing import unpack_planes
from zerofleet.learner.targets import Rows

FloatArray = npt.NDArray[np.float32]


@dataclass(frozen=True, slots=True, kw_only=True)
class Batch:
    """Sampled rows, `B` of them, ready for the network; one random symmetry was applied to each row as a whole."""

    planes: FloatArray  # [B, planes, height, width]
    policy: FloatArray  # [B, num_actions] target; a row adds up to 1, or is all 0 where it has none
    legal: npt.NDArray[np.bool_]  # [B, num_actions]
    values: FloatArray  # [B] for the player to move
    policy_weight: FloatArray  # [B] 1 where the policy target is worth learning, else 0
    num_distinct: int  # different positions among the rows, before the symmetry

    def __len__(self) -> int:
        return len(self.values)


class ReplayBuffer:
    """The newest rows of the log."""

    def __init__(self, game: Game, capacity: int) -> None:
        self._shape, self._plane_type, self._num_actions = game.observation_shape, game.plane_type, game.num_actions
        symmetries = game.symmetries()
        self._squares = np.stack([symmetry.squares for symmetry in symmetries]).astype(np.int64)  # [S, H * W]
        self._images = np.stack([symmetry.actions for symmetry in symmetries]).astype(np.int64)  # [S, num_actions]
        self.capacity = capacity
        self.next_row = 0  # the number of the next row to come
        self._origin = 0  # the first row that was put in since the last `start_at`
        self._planes = np.full((capacity, game.packed_size), 1, np.uint8)  # not zeros: those would not be touched
        self._values = np.full(capacity, 1.0, np.float32)
        self._has_policy = np.full(capacity, True, np.bool_)
        self._starts = np.full(capacity, 1, np.int64)  # where a row's legal moves begin, counted from the first ever
        self._num_legal = np.full(capacity, 1, np.int64)
        self._next_entry = 0
        entries = capacity * _expected_legal_moves(game)
        self._actions = np.full(entries, 1, np.uint16)
        self._probabilities = np.full(entries, 1.0, np.float32)

    def __len__(self) -> int:
        """Return the number of rows held."""
        return min(self.next_row - self._origin, self.capacity)

    def start_at(self, row: int) -> None:
        """Forget everything; the next row to come has this number."""
        self.next_row = self._origin = row
        self._next_entry = 0

    @property
    def num_bytes(self) -> int:
        """Memory that the rows take, filled or not."""
        arrays = (self._planes, self._values, self._has_policy, self._starts, self._num_legal)
        return sum(array.nbytes for array in (*arrays, self._actions, self._probabilities))

    def append(self, rows: Rows) -> None:
        """Put rows in, in the place of the oldest ones.  At most `capacity` of them at once."""
        count = len(rows)
        lengths = np.diff(rows.offsets)
        slots = (self.next_row + np.arange(count)) % self.capacity
        self._make_room(len(rows.actions), count)
        self._planes[slots] = rows.planes
        self._values[slots] = rows.values
        self._has_policy[slots] = rows.has_policy
        self._starts[slots] = self._next_entry + rows.offsets[:-1]
        self._num_legal[slots] = lengths
        entries = (self._next_entry + np.arange(len(rows.actions))) % len(self._actions)
        self._actions[entries] = rows.actions
        self._probabilities[entries] = rows.probabilities
        self._next_entry += len(rows.actions)
        self.next_row += count

    def sample(self, rng: np.random.Generator, count: int, first: int, last: int) -> Batch:
        """Draw `count` rows uniformly, with replacement, from rows `first` to `last`, all of which must be held."""
        if not self.next_row - len(self) <= first < last <= self.next_row:
            held = (self.next_row - len(self), self.next_row)
            raise AssertionError(f"rows [{first}, {last}) are not all held: the buffer has [{held[0]}, {held[1]})")
        slots = rng.integers(first, last, size=count) % self.capacity
        symmetry = rng.integers(0, len(self._squares), size=count)
        packed = self._planes[slots]
        policy, legal = self._policies(slots, symmetry)
        return Batch(
            planes=self._images_of(packed, symmetry),
            policy=policy,
            legal=legal,
            values=self._values[slots],
            policy_weight=self._has_policy[slots].astype(np.float32),
            num_distinct=len(np.unique(packed.view(np.dtype((np.void, packed.shape[1]))))),
        )

    def _images_of(self, packed: PackedPlanes, symmetry: npt.NDArray[np.int64]) -> FloatArray:
        """Unpack planes and apply a symmetry to each row."""
        planes, height, width = self._shape
        flat = unpack_planes(packed, self._shape, self._plane_type).reshape(len(packed), planes, height * width)
        image = np.take_along_axis(flat, self._squares[symmetry][:, None, :], axis=2)
        return image.astype(np.float32).reshape(len(packed), planes, height, width)

    def _policies(
        self, slots: npt.NDArray[np.int64], symmetry: npt.NDArray[np.int64]
    ) -> tuple[FloatArray, npt.NDArray[np.bool_]]:
        """Return dense policy targets and legal masks, each row under its symmetry."""
        lengths = self._num_legal[slots]
        row = np.repeat(np.arange(len(slots)), lengths)
        within = np.arange(len(row)) - np.repeat(np.cumsum(lengths) - lengths, lengths)
        entries = (np.repeat(self._starts[slots], lengths) + within) % len(self._actions)
        action = self._images[symmetry[row], self._actions[entries]]
        place = row * self._num_actions + action
        size = len(slots) * self._num_actions
        policy = np.bincount(place, self._probabilities[entries], size)  # moves that share an action add up
        legal = np.zeros(size, np.bool_)
        legal[place] = True
        return policy.astype(np.float32).reshape(len(slots), -1), legal.reshape(len(slots), -1)

    def _make_room(self, num_entries: int, num_rows: int) -> None:
        """Enlarge the ring of legal moves where the rows that stay and those that come need more than it has."""
        oldest = max(self._origin, self.next_row + num_rows - self.capacity)
        kept = self._next_entry - int(self._starts[oldest % self.capacity]) if oldest < self.next_row else 0
        if kept + num_entries <= len(self._actions):
            return
        old = np.arange(self._next_entry - kept, self._next_entry)
        size = max(kept + num_entries, len(self._actions) * 5 // 4)
        for name in ("_actions", "_probabilities"):
            array = getattr(self, name)
            larger = np.full(size, 1, array.dtype)
            larger[old % size] = array[old % len(array)]
            setattr(self, name, larger)


def _expected_legal_moves(game: Game) -> int:
    """Return a generous number of legal moves per position, from a few random games."""
    rng = np.random.default_rng(0)
    counts = []
    for _ in range(16):
        state = game.initial_state()
        for _ply in range(1000):
            moves = game.legal_moves(state)
            if not moves:
                break
            counts.append(len(moves))
            state = game.next_state(state, moves[int(rng.integers(len(moves)))])
    return max(1, int(np.ceil(1.25 * np.mean(counts)))) if counts else 1
