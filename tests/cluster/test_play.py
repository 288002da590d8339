"""A game in the terminal: what is asked, shown, hinted and taken back."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
import time
from pathlib import Path

import pytest

from zerofleet.cluster.cli import run_command
from zerofleet.cluster.play import Session, Thinking, make_thinking, seconds_each
from zerofleet.errors import GameError
from zerofleet.games import load_game
from zerofleet.games.base import Game, State
from zerofleet.games.notation import play_line
from zerofleet.search.base import Evaluation, LeafBatch, SearchConfig, SearchResult
from zerofleet.search.evaluators import RolloutEvaluator
from zerofleet.search.pondering import Ponderer

GAME = load_game("tictactoe")


class Script:
    """A person whose words are known beforehand."""

    def __init__(self, *words: str) -> None:
        self.words = list(words)
        self.said: list[str] = []

    def say(self, text: str) -> None:
        self.said.append(text)

    def ask(self, prompt: str) -> str | None:
        return self.words.pop(0) if self.words else None

    def heard(self, text: str) -> bool:
        return any(text in line for line in self.said)


def session(*words: str, person_plays: int = 0, seconds: float | None = None) -> tuple[Session, Script]:
    time_for = None if seconds is None else seconds_each(seconds)
    thinking = Thinking(
        evaluator=RolloutEvaluator(GAME, 1), search=SearchConfig(num_simulations=300), time_for=time_for
    )
    script = Script(*words)
    return Session(GAME, thinking, script, person_plays=person_plays), script


def test_a_player_takes_the_win_that_a_person_leaves_it() -> None:
    """The person plays in a row from the corner, and nonsense; whoever searches 300 times does not lose to that."""
    game, script = session("a3", "b3", "nine", "a2", "c2", "a1", "b1", "c1", "c3", "b2")
    assert game.run() in (-1, 0)
    assert script.heard("there is no move 'nine' here")
    assert script.said[-1].startswith("moves: a3 ")


def test_the_player_moves_first_where_the_person_does_not() -> None:
    game, script = session("quit", person_plays=1)
    assert game.run() is None
    assert script.heard("plays ")
    assert script.said[-1].startswith("moves: ")


def test_pondering_serves_the_answer_and_no_other_position() -> None:
    """The person takes their time; the reply to a move begins with what was found meanwhile, a hint does not."""
    config = SearchConfig(num_simulations=20)
    evaluator = RolloutEvaluator(GAME, 1)
    thinking = Thinking(
        evaluator=evaluator, search=config, ponderer=Ponderer(GAME, evaluator, config, max_nodes=100_000)
    )
    reused: list[int] = []

    class Watched(Thinking):
        def think(self, game: Game, state: State, after: int | None = None) -> SearchResult:
            result = thinking.think(game, state, after)
            reused.append(result.num_reused)
            assert len(result.visit_counts) == len(game.legal_moves(state))
            return result

    class Slow(Script):
        def ask(self, prompt: str) -> str | None:
            time.sleep(0.3)
            return super().ask(prompt)

    person = Slow("c3", "hint", "back", "a1", "quit")
    watched = Watched(evaluator=evaluator, search=config, ponderer=thinking.ponderer)
    assert Session(GAME, watched, person, person_plays=1).run() is None
    assert reused[0] == 0  # its first move: nobody thought before it
    assert reused[1] > 100  # its answer to c3
    assert reused[2] == 0  # the hint
    assert reused[3] > 100  # its answer to a1, after the take-back
    assert len(reused) == 4


def test_what_a_game_raises_while_pondering_reaches_the_caller() -> None:
    class Failing(RolloutEvaluator):
        def evaluate(self, batch: LeafBatch) -> Evaluation:
            raise GameError("no value")

    ponderer = Ponderer(GAME, Failing(GAME, 1), SearchConfig(), max_nodes=1000)
    ponderer.begin(GAME.initial_state())
    with pytest.raises(GameError, match="no value"):
        ponderer.end()
    assert ponderer.follow(0, 10) is None


def test_taking_back_returns_to_the_persons_last_decision() -> None:
    game, script = session("back", "a3", "back", "c1", "quit")
    assert game.run() is None
    assert script.heard("there is no move of yours to take back")
    moves = script.said[-1].removeprefix("moves: ").split()
    assert moves[0] == "c1"
    assert len(moves) == 2
    assert game.state == play_line(GAME, " ".join(moves))


def test_the_player_who_began_does_so_again_after_the_first_move_is_taken_back() -> None:
    game, script = session("moves", "quit", person_plays=1)
    game.run()
    first = script.said[-1].removeprefix("moves: ")
    free = "a3" if first != "a3" else "c1"
    game, script = session(free, "back", "quit", person_plays=1)
    game.run()
    assert script.said[-1] == f"moves: {first}"


def test_a_hint_names_the_best_moves_and_plays_none() -> None:
    game, script = session("a3", "hint", "quit")
    game.run()
    hint = next(line for line in script.said if line.startswith("hint: "))
    assert hint.count(" visits") == 3
    assert len(script.said[-1].split()) == 3  # "moves:", a3 and the reply


def test_the_end_of_the_input_ends_the_game() -> None:
    game, _script = session("a3")
    assert game.run() is None


def test_a_move_by_the_clock_takes_as_long_as_it_may() -> None:
    game, script = session("b2", "quit", seconds=0.2)
    began = time.monotonic()
    game.run()
    assert 0.2 <= time.monotonic() - began < 5.0
    assert script.heard("simulations")


def test_a_player_with_a_clock_shares_it_out(tmp_path: Path) -> None:
    """A twentieth of 4 s for the first move, less for the next; and some simulations in each."""
    game, thinking = make_thinking("connect4", None, tmp_path, simulations=1, clock_s=4.0, seed=1)
    began = time.monotonic()
    results = [thinking.think(game, game.initial_state()) for _ in range(2)]
    assert 0.2 + 0.19 <= time.monotonic() - began < 3.0
    assert all(result.num_simulations > 100 for result in results)


def test_a_word_that_could_be_two_is_a_move_that_is_not_there() -> None:
    game, script = session("h", "quit")  # hint or help
    game.run()
    assert script.heard("there is no move 'h' here")


def test_a_whole_game_on_a_terminal(tmp_path: Path) -> None:
    """The real command, on a pseudo-terminal."""
    main, terminal = pty.openpty()
    command = [sys.executable, "-m", "zerofleet", "play", "tictactoe", "--simulations", "50"]
    process = subprocess.Popen(command, stdin=terminal, stdout=terminal, stderr=terminal, cwd=tmp_path, close_fds=True)
    os.close(terminal)
    seen = ""
    for word in ("hint\n", "a3\n", "back\n", "b2\n", "quit\n"):
        while not seen.endswith("your move: "):
            seen += os.read(main, 4096).decode()
        os.write(main, word.encode())
        seen += "\n"
    assert process.wait(30.0) == 0
    while True:
        try:
            more = os.read(main, 4096).decode()
        except OSError:  # the other end is closed
            break
        if not more:
            break
        seen += more
    os.close(main)
    assert "hint: " in seen
    assert "moves: b2 " in seen


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (["play", "tictactoe", "--run", "nun"], "no run 'nun'"),
        (["play", "nothing"], "tictactoe"),
        (["analyse", "connect4", "--position", "48"], "move 2: there is no move '8' here"),
        (["analyse", "connect4", "--position", "1122334"], "the game is over"),
        (["arena", "random", "uct:50"], "give --game"),
        (["arena", "random", "uct:none", "--game", "tictactoe"], "such as uct:600"),
        (["arena", "random", "nobody", "--game", "tictactoe"], "'nobody' is no player"),
        (["arena", "random", "random", "--game", "tictactoe", "--games", "3"], "even"),
        (["evaluate", "nun"], "no run 'nun'"),
    ],
)
def test_a_mistake_is_told_in_a_line(
    arguments: list[str], words: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert run_command([*arguments, "--storage", str(tmp_path)]) == 2
    error = capsys.readouterr().err
    assert words in error
    assert len(error.strip().splitlines()) <= 2
