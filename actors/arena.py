"""Matches between two players: paired openings, colours swapped, many games side by side.

Game `k` of a match depends on the seed and on `k` alone, not on the games beside it.  Games `2j` and `2j + 1` begin
with the same opening and swapped colours: such a pair is what the statistics count.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from zerofleet.actors.match_result import MatchGame, MatchResult
from zerofleet.actors.players import Player
from zerofleet.errors import ConfigError, IllegalMoveError
from zerofleet.games.base import Game, State

PLY_CAP = "ply cap"
"""The termination of a game that was cut short: a draw, and named apart from the draws of the rules."""

_MAX_OPENING_TRIES = 1000
_OPENING, _PLAYER_A, _PLAYER_B = 1, 2, 3  # what a stream of random numbers is for


@dataclass(slots=True)
class _Running:
    """A game of the match that goes on."""

    number: int
    a_plays: int  # the player, 0 or 1, that A is
    state: State
    rngs: tuple[np.random.Generator, np.random.Generator]  # A's and B's
    ordinals: list[int] = field(default_factory=list)
    actions: list[tuple[int, int]] = field(default_factory=list)


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
            waiting = [g for g in running if (g.a_plays != game.to_play(g.state)) == side]
            if waiting:
                _play_moves(game, players[side], side, waiting)
            done += [_record(game, g) for g in running if _is_over(game, g, max_plies)]
            running = [g for g in running if not _is_over(game, g, max_plies)]
    done.sort(key=lambda g: g.number)
    return MatchResult(
        game=game.spec,
        player_a=player_a.name,
        player_b=player_b.name,
        seed=seed,
        games=tuple(done),
        num_distinct_games=_num_distinct(game, done),
    )


def _check(num_games: int, opening_plies: int, max_plies: int) -> None:
    if num_games < 2 or num_games % 2 == 1:
        raise ConfigError(f"num_games must be even and at least 2, so that colours can be swapped, got {num_games}")
    if opening_plies < 0 or max_plies < 0 or 0 < max_plies <= opening_plies:
        raise ConfigError(f"max_plies ({max_plies}) must be 0 or above opening_plies ({opening_plies})")


def _begin(game: Game, number: int, seed: int, opening_plies: int) -> _Running:
    running = _Running(
        number=number,
        a_plays=number % 2,
        state=game.initial_state(),
        rngs=(np.random.default_rng([seed, _PLAYER_A, number]), np.random.default_rng([seed, _PLAYER_B, number])),
    )
    for ordinal in _opening(game, np.random.default_rng([seed, _OPENING, number // 2]), opening_plies):
        _play(game, running, ordinal)
    return running


def _opening(game: Game, rng: np.random.Generator, num_plies: int) -> list[int]:
    """Draw moves that leave the game unfinished."""
    for _ in range(_MAX_OPENING_TRIES):
        state, ordinals = game.initial_state(), list[int]()
        while game.terminal_value(state) is None and len(ordinals) < num_plies:
            moves = game.legal_moves(state)
            ordinals.append(int(rng.integers(len(moves))))
            state = game.next_state(state, moves[ordinals[-1]])
        if game.terminal_value(state) is None:
            return ordinals
    raise ConfigError(f"opening_plies={num_plies} ends nearly every game of {game.spec}: choose fewer")


def _play_moves(game: Game, player: Player, side: int, waiting: Sequence[_Running]) -> None:
    chosen = player.choose_many([g.state for g in waiting], [g.rngs[side] for g in waiting])
    for running, ordinal in zip(waiting, chosen, strict=True):
        _play(game, running, ordinal)


def _play(game: Game, running: _Running, ordinal: int) -> None:
    moves = game.legal_moves(running.state)
    if not 0 <= ordinal < len(moves):
        raise IllegalMoveError(f"move {ordinal} of {len(moves)} legal moves does not exist, in game {running.number}")
    actions = game.legal_actions(running.state)
    running.actions.append((actions[ordinal], actions[:ordinal].count(actions[ordinal])))
    running.ordinals.append(ordinal)
    running.state = game.next_state(running.state, moves[ordinal])


def _is_over(game: Game, running: _Running, max_plies: int) -> bool:
    return game.terminal_value(running.state) is not None or len(running.ordinals) == max_plies > 0


def _record(game: Game, running: _Running) -> MatchGame:
    value = game.terminal_value(running.state)
    is_a_to_play = game.to_play(running.state) == running.a_plays
    return MatchGame(
        number=running.number,
        a_plays=running.a_plays,
        ordinals=tuple(running.ordinals),
        actions=tuple(running.actions),
        outcome=0 if value is None else value if is_a_to_play else -value,
        termination=PLY_CAP if value is None else game.termination(running.state),
    )


def _num_distinct(game: Game, games: Sequence[MatchGame]) -> int:
    """Count the games that differ in colours or moves; games that a symmetry maps to each other are one."""
    maps = [symmetry.actions.tolist() for symmetry in game.symmetries()]
    return len(
        {(g.a_plays, min(tuple((image[action], twin) for action, twin in g.actions) for image in maps)) for g in games}
    )
