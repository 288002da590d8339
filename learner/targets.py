"""Rows from an episode: what the network is asked and what it should answer, position by position.

Each position is rebuilt by replaying the moves through the rules, so generator and trainer cannot disagree about it.
Moves drawn at random as an opening give no rows.  The policy target is the share of the search's visits among the legal
actions; moves that share an action add up.

The value target of a row is for the player to move there: the game's outcome, 0 for a draw, as AlphaZero has it; or a
trace.  A trace goes back from the outcome and at each move takes in what the search said there:
G(t) = (1 - c(t)) q(t) + c(t) G(t+1), with G(t+1) turned where the player changes and c(t) = λ N(played) / max N.  So
the later game counts as far as its moves were the searches' own choice, and what follows a move drawn against a search
does not: the cut of Watkins's Q(λ) (1989), by degrees as in Retrace(λ) (Munos et al. 2016).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import accumulate, chain
from typing import TypeAlias

import numpy as np
import numpy.typing as npt

from zerofleet.errors import DecodeError
from zerofleet.games.base import Game, PackedPlanes, State
from zerofleet.games.position_crc import position_crc
from zerofleet.streams.records import Episode

PLY_CAP = "ply cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Rows:
    """Training rows, `N` of them, with `L` legal moves in all."""

    planes: PackedPlanes  # [N, packed_size] from the view of the player to move
    offsets: npt.NDArray[np.int64]  # [N + 1] row i owns [offsets[i], offsets[i + 1]) of the next two
    actions: npt.NDArray[np.uint16]  # [L] the action of each legal move; may repeat within a row
    probabilities: npt.NDArray[np.float32]  # [L] policy target; each row adds up to 1, or to 0 where it has none
    values: npt.NDArray[np.float32]  # [N] value target for the player to move, in [-1, 1]
    has_policy: npt.NDArray[np.bool_]  # [N] whether the policy target is worth learning

    def __len__(self) -> int:
        return len(self.values)

    def slice(self, start: int, stop: int) -> Rows:
        """Return rows `start` to `stop`, sharing memory."""
        first, last = self.offsets[start], self.offsets[stop]
        return Rows(
            planes=self.planes[start:stop],
            offsets=self.offsets[start : stop + 1] - first,
            actions=self.actions[first:last],
            probabilities=self.probabilities[first:last],
            values=self.values[start:stop],
            has_policy=self.has_policy[start:stop],
        )


RowMaker: TypeAlias = Callable[[Episode], Rows]
"""`rows_from_episode` of one run: its game, and its choice of targets."""


def rows_from_episode(game: Game, episode: Episode, trace_lambda: float | None = None) -> Rows:
    """Replay `episode` and return a row for each of its moves but those of a random opening.

    Value targets are outcomes, or with `trace_lambda`, in [0, 1], traces of that λ.

    Raises:
        DecodeError: the episode is not one of this game's, or does not replay to its own end; the message says where.
    """
    _check_kind(game, episode)
    try:
        return _replay(game, episode, trace_lambda).slice(episode.opening_plies, len(episode.moves))
    except (ArithmeticError, AttributeError, LookupError, TypeError, ValueError) as error:
        # A user's rules may raise anything for an episode that is not theirs.  It must not end the learner.
        raise DecodeError(
            f"episode {episode.id}: the rules refuse to replay it: {type(error).__name__}: {error}"
        ) from error


def _check_kind(game: Game, episode: Episode) -> None:
    wanted = {"game": game.spec, "rules_version": game.rules_version, "purpose": "self-play"}
    for field, expected in wanted.items():
        got = getattr(episode, field)
        if got != expected:
            raise DecodeError(f"episode {episode.id}: expected {field} {expected!r}, got {got!r}")
    if len(episode.moves) <= episode.opening_plies:
        raise DecodeError(f"episode {episode.id}: a game without moves that were searched teaches nothing")


def _replay(game: Game, episode: Episode, trace_lambda: float | None) -> Rows:
    states: list[State] = []
    players: list[int] = []
    actions: list[list[int]] = []
    state = game.initial_state()
    for ply, move in enumerate(episode.moves):
        moves = game.legal_moves(state)
        if not 0 <= move.ordinal < len(moves):
            raise _no_such_move(episode, ply, len(moves))
        states.append(state)
        players.append(game.to_play(state))
        actions.append(game.legal_actions(state))
        state = game.next_state(state, moves[move.ordinal])
    _check_end(game, episode, state)
    offsets = np.array([0, *accumulate(map(len, actions))], np.int64)
    probabilities, has_visits = _policies(episode, offsets)
    values = np.array([episode.outcome if player == 0 else -episode.outcome for player in players], np.float32)
    if trace_lambda is not None:
        weights = trace_lambda * _preferences(episode, offsets, probabilities)
        values = _traces(np.array([move.root_value for move in episode.moves]), weights, players, values[-1])
    return Rows(
        planes=game.pack(states),
        offsets=offsets,
        actions=np.fromiter(chain.from_iterable(actions), np.uint16, offsets[-1]),
        probabilities=probabilities,
        values=values,
        has_policy=has_visits & np.array([move.full_search for move in episode.moves], np.bool_),
    )


def _policies(
    episode: Episode, offsets: npt.NDArray[np.int64]
) -> tuple[npt.NDArray[np.float32], npt.NDArray[np.bool_]]:
    """Return (the share of visits of each legal move `[L]`, whether each row has visits `[N]`).

    Row i owns the legal moves `[offsets[i], offsets[i + 1])`.  All visits go in one array: one search at a time costs
    many times as much.

    Raises:
        DecodeError: they do not fit the legal moves.
    """
    moves = episode.moves
    lengths = [len(move.visited) for move in moves]
    if lengths != [len(move.visit_counts) for move in moves]:
        ply = next(k for k, move in enumerate(moves) if len(move.visited) != len(move.visit_counts))
        raise DecodeError(f"{_where(episode, ply)}: expected a visit count for each visited move")
    owner = np.arange(len(moves)).repeat(lengths)
    visited = np.concatenate([move.visited for move in moves]).astype(np.int64)
    counts = np.concatenate([move.visit_counts for move in moves]).astype(np.float64)
    places = offsets[owner] + visited
    is_legal = (visited >= 0) & (places < offsets[owner + 1])
    is_legal[1:] &= places[1:] > places[:-1]
    if not is_legal.all():
        ply = int(owner[is_legal.argmin()])
        raise DecodeError(
            f"{_where(episode, ply)}: expected increasing ordinals below {offsets[ply + 1] - offsets[ply]} "
            f"as visited, got {moves[ply].visited.tolist()}"
        )
    if not (counts >= 1.0).all():
        ply = int(owner[np.argmin(counts >= 1.0)])
        raise DecodeError(f"{_where(episode, ply)}: expected a positive visit count for each visited move")
    totals = np.bincount(owner, weights=counts, minlength=len(moves))
    shares = np.zeros(offsets[-1], np.float32)
    shares[places] = counts / totals[owner]
    return shares, totals > 0


def _preferences(
    episode: Episode, offsets: npt.NDArray[np.int64], shares: npt.NDArray[np.float32]
) -> npt.NDArray[np.float64]:
    """Return [N]: N(played) / max N of each row, from the shares of visits `[L]`; 1 where nothing was visited."""
    played = shares[offsets[:-1] + [move.ordinal for move in episode.moves]].astype(np.float64)
    most = np.maximum.reduceat(shares, offsets[:-1])
    preferences = np.ones(len(played))
    np.divide(played, most, out=preferences, where=most > 0.0)
    return preferences


def _traces(
    root_values: npt.NDArray[np.float64],
    weights: npt.NDArray[np.float64],
    players: Sequence[int],
    last_outcome: float,
) -> npt.NDArray[np.float32]:
    """Return G of each row, [N], for its player; see the module.

    `root_values` are q and `weights` c, [N] each; `last_outcome` is the game's for the last row's player.
    """
    traces = np.empty(len(players), np.float32)
    later, later_player = float(last_outcome), players[-1]
    for row in range(len(players) - 1, -1, -1):
        if players[row] != later_player:
            later = -later
        later, later_player = float((1.0 - weights[row]) * root_values[row] + weights[row] * later), players[row]
        traces[row] = later
    return traces


def _where(episode: Episode, ply: int) -> str:
    return f"episode {episode.id}, move {ply}"


def _no_such_move(episode: Episode, ply: int, num_legal: int) -> DecodeError:
    if num_legal == 0:
        left = len(episode.moves) - ply
        return DecodeError(f"{_where(episode, ply)}: the game is over there, but {left} moves follow")
    ordinal = episode.moves[ply].ordinal
    return DecodeError(f"{_where(episode, ply)}: expected an ordinal below {num_legal}, got {ordinal}")


def _check_end(game: Game, episode: Episode, state: State) -> None:
    value = game.terminal_value(state)
    if value is None and episode.termination != PLY_CAP:
        raise DecodeError(f"episode {episode.id}: expected a finished game after its last move, got one that goes on")
    outcome = 0 if value is None else int(value) * (1 if game.to_play(state) == 0 else -1)
    if outcome != episode.outcome:
        raise DecodeError(f"episode {episode.id}: expected outcome {outcome} for player 0, got {episode.outcome}")
    crc = position_crc(game, state)
    if crc != episode.final_crc:
        raise DecodeError(
            f"episode {episode.id}: expected a final position with CRC {episode.final_crc:#010x}, got {crc:#010x}: "
            "it was played by other rules"
        )
