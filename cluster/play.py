"""`zerofleet play`: a person against a player, in the terminal."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

import numpy as np
import typer

from zerofleet.actors.play_style import PLAIN, PlayStyle
from zerofleet.actors.players import Choice, best_move
from zerofleet.cluster.trained import find_searcher
from zerofleet.errors import IllegalMoveError
from zerofleet.games.base import Game, State
from zerofleet.games.board import draw_board
from zerofleet.games.notation import find_move
from zerofleet.search.base import MAX_SIMULATIONS, Evaluator, SearchConfig, SearchResult
from zerofleet.search.pondering import Ponderer
from zerofleet.search.pool import SearchPool
from zerofleet.search.search import search
from zerofleet.search.timed import Clock, TimeControl, run_until

_HELP = "a move, or: hint, back (take your last move back), moves (list the legal ones), quit"
_MAX_NODES = 2_000_000
"""A search by the clock ends early when its tree is so large."""


class Terminal(Protocol):
    """Where the person sits."""

    def say(self, text: str) -> None:
        """Show a line."""

    def ask(self, prompt: str) -> str | None:
        """Return what the person writes, None where nothing more will come."""


class ConsoleTerminal:
    """Standard input and output."""

    def say(self, text: str) -> None:
        """Print a line."""
        typer.echo(text)

    def ask(self, prompt: str) -> str | None:
        """Read a line; the end of the input and Ctrl-C are the end."""
        try:
            return input(prompt)
        except (EOFError, KeyboardInterrupt):
            typer.echo("")
            return None


@dataclass(frozen=True, slots=True, kw_only=True)
class Thinking:
    """How the player searches: so many simulations, or as long as it may."""

    evaluator: Evaluator
    search: SearchConfig
    time_for: Callable[[], Callable[[], bool]] | None = None
    """Begins a move's time and returns what says that it is over; None: so many simulations, whatever they take."""

    ponderer: Ponderer | None = None
    """Searches while the person thinks."""

    choice: Choice = "visits"

    def think(self, game: Game, state: State, after: int | None = None) -> SearchResult:
        """Search a position afresh.

        Where the move of ordinal `after` led here from the position that was pondered, what was found there is kept.
        """
        budget = self.search.num_simulations if self.time_for is None else MAX_SIMULATIONS
        pool = None
        if self.ponderer is not None and after is not None:
            pool = self.ponderer.follow(after, budget)
        if pool is None and self.time_for is None:
            return search(game, state, self.evaluator, self.search)
        if pool is None:
            pool = SearchPool(game, 1, replace(self.search, num_simulations=budget, max_nodes=_MAX_NODES))
            pool.reset(0, state)
        run_until(pool, self.evaluator, (lambda: False) if self.time_for is None else self.time_for())
        return pool.result(0)

    @contextmanager
    def pondering(self, state: State) -> Iterator[None]:
        """Search while the person thinks, if that is wanted."""
        if self.ponderer is not None:
            self.ponderer.begin(state)
        yield
        if self.ponderer is not None:
            self.ponderer.end()


def seconds_each(seconds: float) -> Callable[[], Callable[[], bool]]:
    """Return what gives every move so many seconds."""

    def begin() -> Callable[[], bool]:
        deadline = time.monotonic() + seconds
        return lambda: time.monotonic() >= deadline

    return begin


def make_thinking(
    game_spec: str,
    run: str | None,
    storage: Path,
    *,
    simulations: int,
    seconds: float | None = None,
    clock_s: float | None = None,
    ponders: bool = False,
    style: PlayStyle = PLAIN,
    seed: int,
) -> tuple[Game, Thinking]:
    """Return the game and how its player thinks: with a run's newest weights, or without a run with rollouts.

    It has `simulations` a move, or `seconds` a move, or `clock_s` for all its moves, hints included; and with `ponders`
    also the time that the person thinks.

    Raises:
        UsageError: the run plays another game.
        ConfigError: a clock without time.
        StorageError: it has published no weights.
    """
    game, config, evaluator = find_searcher(game_spec, run, storage, style=style, seed=seed)
    time_for = None
    if clock_s is not None:
        time_for = Clock(TimeControl(total_s=clock_s)).think
    elif seconds is not None:
        time_for = seconds_each(seconds)
    config = replace(config, num_simulations=simulations)
    ponderer = Ponderer(game, evaluator, config, max_nodes=_MAX_NODES) if ponders else None
    return game, Thinking(evaluator=evaluator, search=config, time_for=time_for, ponderer=ponderer, choice=style.choice)


class Session:
    """One game between a person and a player."""

    def __init__(self, game: Game, thinking: Thinking, terminal: Terminal, *, person_plays: int) -> None:
        self._game = game
        self._thinking = thinking
        self._terminal = terminal
        self._person = person_plays
        self._states: list[State] = [game.initial_state()]
        self._moves: list[str] = []
        self._answered: int | None = None  # the person's move that led here, as its ordinal; None: something else did

    @property
    def state(self) -> State:
        """Return the position on the board."""
        return self._states[-1]

    def run(self) -> int | None:
        """Play to the end and return the outcome for the person, None where they left before it."""
        self._terminal.say(_HELP)
        self._show()
        while self._game.terminal_value(self.state) is None:
            if self._game.to_play(self.state) != self._person:
                self._reply()
            elif not self._ask():
                self._list_moves()
                return None
        return self._tell_end()

    def _ask(self) -> bool:
        """Let the person do one thing; False where they leave."""
        with self._thinking.pondering(self.state):
            answer = self._terminal.ask("your move: ")
        if answer is None:
            return False
        word = answer.strip()
        texts = [self._game.move_text(self.state, move) for move in self._game.legal_moves(self.state)]
        commands: dict[str, Callable[[], None]] = {
            "hint": self._hint,
            "back": self._take_back,
            "moves": lambda: self._terminal.say(" ".join(texts)),
            "help": lambda: self._terminal.say(_HELP),
        }
        meant = [name for name in (*commands, "quit") if word and word not in texts and name.startswith(word.lower())]
        if meant == ["quit"]:
            return False
        if len(meant) == 1:
            commands[meant[0]]()
        elif word:
            self._play(word)
        return True

    def _play(self, word: str) -> None:
        try:
            move = find_move(self._game, self.state, word)
        except IllegalMoveError as error:
            self._terminal.say(str(error))
            return
        self._move_on(move, answered=list(self._game.legal_moves(self.state)).index(move))

    def _reply(self) -> None:
        result = self._thinking.think(self._game, self.state, self._answered)
        move = self._game.legal_moves(self.state)[best_move(result, self._thinking.choice)]
        self._terminal.say(
            f"plays {self._game.move_text(self.state, move)}, {result.num_simulations} simulations, value "
            f"{result.root_value:+.2f} for itself"
        )
        self._move_on(move)

    def _hint(self) -> None:
        result = self._thinking.think(self._game, self.state)
        moves = self._game.legal_moves(self.state)
        ranked = np.lexsort((-result.priors, -result.visit_counts))[:3]
        said = [
            f"{self._game.move_text(self.state, moves[k])} ({result.visit_counts[k]} visits"
            + (f", value {result.q_values[k]:+.2f})" if result.visit_counts[k] else ")")
            for k in ranked.tolist()
        ]
        self._terminal.say("hint: " + ", then ".join(said))

    def _take_back(self) -> None:
        """Go back to the person's last decision."""
        earlier = [k for k in range(len(self._moves)) if self._game.to_play(self._states[k]) == self._person]
        if not earlier:
            self._terminal.say("there is no move of yours to take back")
            return
        del self._states[earlier[-1] + 1 :]
        del self._moves[earlier[-1] :]
        self._answered = None
        self._show()

    def _move_on(self, move: object, *, answered: int | None = None) -> None:
        self._moves.append(self._game.move_text(self.state, move))
        self._states.append(self._game.next_state(self.state, move))
        self._answered = answered
        self._show()

    def _show(self) -> None:
        board = draw_board(self._game, self.state)
        if board:
            self._terminal.say(f"\n{board}\n")

    def _tell_end(self) -> int:
        value = self._game.terminal_value(self.state) or 0
        outcome = value if self._game.to_play(self.state) == self._person else -value
        verdict = {1: "you win", 0: "a draw", -1: "you lose"}[outcome]
        self._terminal.say(f"{verdict} ({self._game.termination(self.state)})")
        self._list_moves()
        return outcome

    def _list_moves(self) -> None:
        if self._moves:
            self._terminal.say("moves: " + " ".join(self._moves))
