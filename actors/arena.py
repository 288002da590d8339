"""Matches between two players: paired openings, colours swapped, many games side by side.

Game `k` of a match depends on the seed and on `k` alone, not on the games beside it.  Games `2j` and `2j + 1` begin with
the same opening and swapped colours: such a pair is what the statistics count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from zerofleet.actors.match_result import MatchGame, MatchResult
from zerofleet.actors.players import Player
from zerofleet.errors import ConfigError
from zerofleet.games.base import Game, State

PLY_CAP = "ply cap"
"""The termination of a game that was cut short: a draw, and named apart from the draws of the rules."""

_MAX_OPENING_TRIES = 1000
_OPENING, _PLAYER = 1, 2  # what a stream of random numbers is for


@dataclass(slots=True)
class _Running:
    """A game of the match that goes on."""

    number: int
    a_plays: int  # the player, 0 or 1, that A is
    state: State
    ordinals: list[int]
    rngs: tuple[np.random.Generator, np.random.Generator]  # A's and B's
    key: list[tuple[int, int]] = field(default_factory=list)  # per move its action, and its place among that action's


def play_match(
    game: Game,
    player_a: Player,
    player_b: Player,
    num_games: int,
    *,
    seed: int,
    opening_plies: int = 0,
    max_plies: int = 0,
) -> MatchResult:
    """Play `num_games` (an even number) and count them for A.

    Every opening is `opening_plies` uniformly random moves that leave the game unfinished.  A game that reaches
    `max_plies` moves, the opening's included, is a draw by "ply cap"; 0 sets no limit.
    """
    _check(num_games, opening_plies, max_plies)
    players = (player_a, player_b)
    running = [_begin(game, number, seed, opening_plies) for number in range(num_games)]
    done: list[MatchGame] = []
    while running:
        for side in (0, 1):
            waiting = [g for g in running if _side_to_move(game, g) == side]
            if waiting:
                _play_moves(game, players[side], side, waiting)
        done += [_record(game, g) for g in running if _is_over(game, g, max_plies)]
        running = [g for g in running if not _is_over(game, g, max_plies)]
    done.sort(key=lambda g: g.number)
    return MatchResult(game=game.spec, player_a=player_a.name, player_b=player_b.name, seed=seed, games=tuple(done))
