"""Counting the positions at a depth: the usual proof that rules are right."""

from __future__ import annotations

from zerofleet.errors import UsageError
from zerofleet.games.base import Game, State


def perft(game: Game, depth: int, state: State | None = None) -> int:
    """Return how many sequences of `depth` moves start at `state`, or at the beginning; built-in games count in C++.

    Raises:
        UsageError: `depth` is negative.
    """
    if depth < 0:
        raise UsageError(f"depth must be 0 or more, got {depth}")
    start = game.initial_state() if state is None else state
    native = getattr(start, "perft", None)
    if native is not None:
        return int(native(depth))
    return _count(game, start, depth)


def _count(game: Game, state: State, depth: int) -> int:
    if depth == 0:
        return 1
    moves = game.legal_moves(state)
    if depth == 1:
        return len(moves)
    return sum(_count(game, game.next_state(state, move), depth - 1) for move in moves)


__all__ = ["perft"]
