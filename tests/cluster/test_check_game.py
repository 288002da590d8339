"""`check-game`: what it says of sound games, and of each mistake."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerofleet.cluster.cli import run_command

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "domineering.py"

COUNTDOWN = '''
import numpy as np


class Countdown:
    """Take one or two of seven; who takes the last one wins."""

    name = "countdown"
    num_actions = 2
    observation_shape = (1, 1, 8)
    rules_version = 1

    def initial_state(self):
        return (7, 0)

    def to_play(self, state):
        return state[1]

    def legal_moves(self, state):
        return [n for n in (1, 2) if n <= state[0]]

    def next_state(self, state, move):
        return (state[0] - move, 1 - state[1])

    def terminal_value(self, state):
        return -1 if state[0] == 0 else None

    def encode(self, state):
        return np.arange(8).reshape(1, 1, 8) == state[0]

    def move_index(self, move):
        return move - 1
'''


def check(tmp_path: Path, source: str, *options: str) -> int:
    path = tmp_path / "countdown.py"
    path.write_text(source)
    return run_command(["check-game", f"{path}:Countdown", "--games", "40", *options])


@pytest.mark.parametrize("spec", ["connect4", "tictactoe", f"{EXAMPLE}:Domineering"])
def test_sound_games_pass_and_are_described(spec: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert run_command(["check-game", spec, "--games", "20", "--json"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert sum(found["outcomes"].values()) == sum(found["terminations"].values()) == 20
    assert found["plies"]["most"] >= found["plies"]["mean"] > 0
    assert found["notes"] == []


def test_a_description_for_people(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert check(tmp_path, COUNTDOWN) == 0
    out = capsys.readouterr().out
    assert "every law holds in 40 random games" in out
    assert "drawn 0" in out


@pytest.mark.parametrize(
    ("right", "wrong", "words"),
    [
        ("return state[1]\n", "return state[1] + 1\n", "to_play: player 0 moves first"),
        ("return move - 1", "return move", "move_index must return a number in [0, 2)"),
        ("return move - 1", "return move - 2", "move_index must return a number in [0, 2)"),
        ("return move - 1", "return (move - 1) / 1", "move_index must return a number in [0, 2)"),
        ("return move - 1", "return None", "move_index must return a number in [0, 2)"),
        ("return -1 if state[0] == 0 else None", "return -1 if state[0] <= 1 else None", "legal_moves: must be empty"),
        ("return np.arange(8).reshape(1, 1, 8)", "return np.arange(7).reshape(1, 1, 7)", "encode must return"),
        ("return [n for n in (1, 2) if n <= state[0]]", "return [1, 2, 3][: state[0]][:state[0] - 9]", "legal_moves"),
        ("return move - 1", "return {1: 0}[move]", "raised KeyError: 2"),
        ("return (7, 0)", "return (0, 0)", "initial_state: the game must not be over"),
        ("num_actions = 2", "num_actions = 0", "num_actions must be a number from 1"),
        ("return (state[0] - move, 1 - state[1])", "return (state[0], 1 - state[1])", "must end within"),
    ],
)
def test_each_mistake_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], right: str, wrong: str, words: str
) -> None:
    """Faults 160 and 161: planes and indices of a wrong kind, with the method and what it should have returned."""
    assert right in COUNTDOWN
    assert check(tmp_path, COUNTDOWN.replace(right, wrong)) != 0
    error = capsys.readouterr().err
    assert words in error
    assert "Traceback" not in error


def test_a_broken_law_comes_with_the_position(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    source = COUNTDOWN.replace("return move - 1", "return {1: 0}[move]")
    check(tmp_path, source)
    error = capsys.readouterr().err
    assert "position: (7, 0)" in error
    assert "after the moves: none" in error


def test_a_symmetry_that_moves_the_board_and_not_the_moves_is_named(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    """Fault 162."""
    path = tmp_path / "turned.py"
    path.write_text(
        "import numpy as np\n"
        "from dataclasses import replace\n"
        "from zerofleet.games.connect4 import Connect4\n"
        "class Turned(Connect4):\n"
        "    def symmetries(self):\n"
        "        identity, mirror = super().symmetries()\n"
        "        return [identity, replace(mirror, actions=np.arange(7))]\n"
    )
    assert run_command(["check-game", f"{path}:Turned", "--games", "5"]) != 0
    error = capsys.readouterr().err
    assert "symmetries" in error
    assert "does not commute with the action" in error


@pytest.mark.parametrize(
    ("right", "wrong", "note"),
    [
        ("return -1 if", "return 1 if", "is the value for the player to move?"),
        ("return move - 1", "return 0", "share an index"),
        ("return -1 if", "return 0 if", "all were draws"),
    ],
)
def test_what_is_allowed_and_often_not_meant_is_noted(
    tmp_path: Path, capsys: pytest.CaptureFixture[str], right: str, wrong: str, note: str
) -> None:
    assert check(tmp_path, COUNTDOWN.replace(right, wrong)) == 0
    assert note in capsys.readouterr().out
