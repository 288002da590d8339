"""Positions whose exact value is known: to count errors in, drawn at random by stage or read from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np

from zerofleet.errors import GameError, IllegalMoveError, UsageError
from zerofleet.games.base import Game, State
from zerofleet.games.random_moves import play_random_moves
from zerofleet.games.solvers import Connect4Solver, Solver, reachable_positions

NUM_SQUARES = 42

STAGES = ("begin-easy", "middle-easy", "middle-medium", "end-easy")
"""What is measured where nobody asks for other stages.  Begin, middle, end: how many stones there are; easy, medium,
hard: how far the end is.  Of these, the solver draws hundreds in seconds; of begin-medium it takes seconds for each.
"""

QUICK_STAGES = tuple(stage for stage in STAGES if not stage.startswith("begin"))
"""Those in which the solver also knows in no time whether a move errs: of a begin position that can take it seconds."""

_STONES = {"begin": (1, 14), "middle": (15, 28), "end": (29, 41)}
_EASY_PLIES, _MEDIUM_PLIES = 14, 28
_MAX_TRIES_EACH = 10_000
_POSITIONS = 3  # what a stream of random numbers is for


@dataclass(frozen=True, slots=True, kw_only=True)
class SolvedPosition:
    """An unfinished position, and what it is worth to its player to move."""

    state: State
    value: int  # 1, 0 or -1
    stage: str


def stage_of(num_stones: int, score: int) -> str:
    """Return the stage of an unfinished position of Connect Four, such as "middle-easy".

    Begin has up to 14 stones, middle 15 to 28, end 29 or more; easy ends within 14 plies under best play, medium within
    28, hard later.
    """
    part = next(name for name, (_low, high) in _STONES.items() if num_stones <= high)
    plies = plies_to_end(num_stones, score)
    return f"{part}-{'easy' if plies <= _EASY_PLIES else 'medium' if plies <= _MEDIUM_PLIES else 'hard'}"


def plies_to_end(num_stones: int, score: int) -> int:
    """Return how many moves are left under best play, from a score as `Connect4Solver.scores` gives it."""
    if score == 0:
        return NUM_SQUARES - num_stones
    winner_moves_first = (num_stones % 2 == 0) == (score > 0)
    stones_of_winner = NUM_SQUARES // 2 + 1 - abs(score)
    return 2 * stones_of_winner - (1 if winner_moves_first else 0) - num_stones


def solved_positions(
    game: Game, solver: Solver, *, seed: int, num_each: int, stages: Sequence[str] = STAGES, most: int = 0
) -> list[SolvedPosition]:
    """Return positions to measure a player with.

    Connect Four: `num_each` of each stage, all different, from uniformly random games.  Tic-tac-toe: all 4,520
    unfinished positions that can be reached, or with `most` so many of them.

    Raises:
        GameError: the game has no solver.
        UsageError: a stage is unknown, or too rare in random games.
    """
    rng = np.random.default_rng([seed, _POSITIONS])
    if game.name == "tictactoe":
        states = [state for state in reachable_positions(game) if game.terminal_value(state) is None]
        if 0 < most < len(states):
            states = [states[k] for k in sorted(rng.choice(len(states), most, replace=False))]
        return [SolvedPosition(state=state, value=solver.value(state), stage="all") for state in states]
    if not isinstance(solver, Connect4Solver):
        raise GameError(f"there are no positions of {game.spec} to measure with; give a file")
    return [found for stage in stages for found in _draw(game, solver, stage, num_each, rng)]


def read_positions(game: Game, solver: Solver, path: Path) -> list[SolvedPosition]:
    """Read a file whose lines are `moves score`: moves as digits from 1, and a score whose sign is the value.

    The score is for the player to move.  Empty lines and what follows a `#` do not count.

    Raises:
        UsageError: the file cannot be read, or a line is no position or its score is wrong; the message names the line.
    """
    try:
        lines = path.read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        raise UsageError(f"{path}: {error}") from None
    positions: list[SolvedPosition] = []
    for number, line in enumerate(lines, 1):
        words = line.partition("#")[0].split()
        if words:
            try:
                positions.append(_read_line(game, solver, words))
            except (UsageError, GameError, IllegalMoveError, ValueError) as error:
                raise UsageError(f"{path}, line {number}: {error}") from None
    if not positions:
        raise UsageError(f"{path} holds no position; a line is `moves score`, such as `4453 0`")
    return positions


def _read_line(game: Game, solver: Solver, words: list[str]) -> SolvedPosition:
    if len(words) != 2:
        raise UsageError(f"expected `moves score`, got {len(words)} words")
    state = game.initial_state()
    for digit in words[0]:
        if not digit.isdigit():
            raise UsageError(f"expected moves as digits from 1, got {digit!r}")
        state = game.next_state(state, int(digit) - 1)
    if game.terminal_value(state) is not None:
        raise UsageError(f"the game is over after {words[0]}: there is no move to choose")
    score = int(words[1])
    value = (score > 0) - (score < 0)
    if (truth := solver.value(state)) != value:
        raise UsageError(f"score {score} is wrong: the position is worth {truth:+d} to its player to move")
    stage = stage_of(len(words[0]), score) if isinstance(solver, Connect4Solver) else "all"
    return SolvedPosition(state=state, value=value, stage=stage)


def _draw(
    game: Game, solver: Connect4Solver, stage: str, num_wanted: int, rng: np.random.Generator
) -> Iterator[SolvedPosition]:
    part, _, difficulty = stage.partition("-")
    if part not in _STONES or difficulty not in ("easy", "medium"):
        raise UsageError(f"there is no stage {stage!r}: begin, middle or end, then -easy or -medium")
    found: dict[State, SolvedPosition] = {}
    for _ in range(_MAX_TRIES_EACH * num_wanted):
        if len(found) == num_wanted:
            break
        low, high = _STONES[part]
        played = play_random_moves(game, int(rng.integers(low, high + 1)), rng)
        if played is None or played[0] in found:
            continue
        position = _solve(solver, played[0], stage)
        if position is not None:
            found[position.state] = position
    else:
        raise UsageError(f"random games hold too few positions of stage {stage}: {len(found)} of {num_wanted} found")
    yield from found.values()


def _solve(solver: Connect4Solver, state: State, stage: str) -> SolvedPosition | None:
    """Return the solved position if it is of that stage."""
    score = solver.score_within(state, _MEDIUM_PLIES if stage.endswith("medium") else _EASY_PLIES)
    if score is None or stage_of(state.num_moves, score) != stage:
        return None
    return SolvedPosition(state=state, value=(score > 0) - (score < 0), stage=stage)


def random_positions(game: Game, num_positions: int, *, seed: int) -> list[State]:
    """Return unfinished positions of uniformly random games, every position of each; they may repeat."""
    rng = np.random.default_rng(seed)
    states: list[State] = []
    while True:
        state = game.initial_state()
        while moves := game.legal_moves(state):
            if len(states) == num_positions:
                return states
            states.append(state)
            state = game.next_state(state, moves[int(rng.integers(len(moves)))])


__all__ = [
    "QUICK_STAGES",
    "STAGES",
    "SolvedPosition",
    "plies_to_end",
    "random_positions",
    "read_positions",
    "solved_positions",
    "stage_of",
]
