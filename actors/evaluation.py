"""How often a player gives game value away, on positions whose value is known.

A move errs when it loses game value: a win for a draw or a loss, a draw for a loss.  A slower win is no error.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from zerofleet.actors.match_result import score_interval
from zerofleet.actors.players import Player
from zerofleet.games.base import Game
from zerofleet.games.positions import SolvedPosition
from zerofleet.games.solvers import Solver


@dataclass(frozen=True, slots=True, kw_only=True)
class ErrorCount:
    """Errors among positions."""

    positions: int
    errors: int

    @property
    def rate(self) -> float:
        """Return errors per position."""
        return self.errors / self.positions if self.positions else 0.0

    @property
    def interval(self) -> tuple[float, float]:
        """Return Wilson's 95 % interval of the rate."""
        return score_interval([1.0] * self.errors + [0.0] * (self.positions - self.errors))


@dataclass(frozen=True, slots=True, kw_only=True)
class Errors:
    """A player's errors, in all and by stage."""

    player: str
    total: ErrorCount
    stages: dict[str, ErrorCount]


def count_errors(
    game: Game, solver: Solver, player: Player, positions: Sequence[SolvedPosition], *, seed: int
) -> Errors:
    """Let the player choose in every position and count the moves that lose value.

    Position `i` has random numbers of its own, from `[seed, i]`.  A move that does not exist is an error.
    """
    rngs = [np.random.default_rng([seed, index]) for index in range(len(positions))]
    chosen = player.choose_many([position.state for position in positions], rngs)
    errs = [_errs(game, solver, position, move) for position, move in zip(positions, chosen, strict=True)]
    by_stage: dict[str, list[bool]] = {}
    for position, err in zip(positions, errs, strict=True):
        by_stage.setdefault(position.stage, []).append(err)
    stages = {stage: ErrorCount(positions=len(found), errors=sum(found)) for stage, found in by_stage.items()}
    return Errors(player=player.name, total=ErrorCount(positions=len(positions), errors=sum(errs)), stages=stages)


def _errs(game: Game, solver: Solver, position: SolvedPosition, ordinal: int) -> bool:
    moves = game.legal_moves(position.state)
    return not 0 <= ordinal < len(moves) or not solver.keeps(position.state, moves[ordinal], position.value)
