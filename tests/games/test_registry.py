"""Names of games, and loading a game of one's own."""

from __future__ import annotations

import pickle
import sys
import traceback
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from zerofleet.errors import GameError
from zerofleet.games import load_game, load_game_source
from zerofleet.games.spec import format_spec, parse_spec

SOURCE = '''
from dataclasses import dataclass
import numpy as np

@dataclass(frozen=True)
class Pile:
    stones: int
    player: int

class Nim:
    """Take one to three stones; who takes the last one wins."""
    name = "nim"
    rules_version = 1
    num_actions = 3

    def __init__(self, stones=7, misere=False):
        self.stones = stones
        self.misere = misere
        self.observation_shape = (1, 1, stones)

    def initial_state(self):
        return Pile(self.stones, 0)

    def to_play(self, state):
        return state.player

    def legal_moves(self, state):
        return list(range(1, min(3, state.stones) + 1))

    def next_state(self, state, move):
        return Pile(state.stones - move, 1 - state.player)

    def terminal_value(self, state):
        return None if state.stones else (1 if self.misere else -1)

    def encode(self, state):
        return (np.arange(self.stones) < state.stones).reshape(self.observation_shape)

    def move_index(self, move):
        return move - 1
'''


@pytest.fixture
def nim_file(tmp_path: Path) -> Path:
    path = tmp_path / "nim.py"
    path.write_text(SOURCE)
    return path


@pytest.mark.parametrize(
    ("spec", "name", "options"),
    [
        ("connect4", "connect4", {}),
        (" go(size=9,komi=7.5) ", "go", {"size": 9, "komi": 7.5}),
        ("go( size = 9 )", "go", {"size": 9}),
        ("chess960()", "chess960", {}),
        ("a/b.py:Nim(stones=5,misere=true,mode=fast)", "a/b.py:Nim", {"stones": 5, "misere": True, "mode": "fast"}),
    ],
)
def test_one_syntax_for_options_everywhere(spec: str, name: str, options: dict[str, Any]) -> None:
    assert parse_spec(spec) == (name, options)


def test_a_spec_is_written_with_its_options_sorted() -> None:
    assert format_spec("go", {"size": 9, "komi": 7.5, "ko": True}) == "go(ko=true,komi=7.5,size=9)"


@pytest.mark.parametrize("spec", ["go(size)", "go(size=)", "go(=9)", "go(size=9,size=13)", ""])
def test_a_spec_of_another_form_is_refused(spec: str) -> None:
    with pytest.raises(GameError):
        load_game(spec)


def test_an_unknown_game_names_the_close_ones() -> None:
    with pytest.raises(GameError, match=r"no game 'conect4'; did you mean connect4\? There are: connect4, tictactoe"):
        load_game("conect4")


def test_options_that_a_game_lacks_are_refused() -> None:
    with pytest.raises(GameError, match="connect4 has no options, got size"):
        load_game("connect4(size=9)")


def test_a_users_file_becomes_a_game_named_without_its_folder(nim_file: Path) -> None:
    game = load_game(f"{nim_file}:Nim(stones=5)")
    assert game.spec == "nim.py:Nim(stones=5)"
    assert game.legal_actions(game.initial_state()) == [0, 1, 2]
    assert game.plane_type == "bits"
    assert game.packed_size == 1
    assert [s.name for s in game.symmetries()] == ["identity"]
    assert game.pack([game.initial_state()]).tolist() == [[0b11111000]]


def test_states_of_a_users_file_can_be_pickled(nim_file: Path) -> None:
    """Fault 104: a game from a file travels to other processes."""
    game = load_game(f"{nim_file}:Nim")
    state = game.initial_state()
    assert pickle.loads(pickle.dumps(state)) == state


def test_two_versions_of_a_file_never_mix() -> None:
    one = load_game_source("nim.py", SOURCE.encode(), "Nim")
    two = load_game_source("nim.py", SOURCE.replace("stones=7", "stones=9").encode(), "Nim")
    assert (one.initial_state().stones, two.initial_state().stones) == (7, 9)
    assert type(one.initial_state()) is not type(two.initial_state())
    assert one.spec == two.spec == "nim.py:Nim"


def test_source_is_run_once_and_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    one = load_game_source("nim.py", SOURCE.encode(), "Nim")
    two = load_game_source("nim.py", SOURCE.encode(), "Nim")
    assert type(one.initial_state()) is type(two.initial_state())
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("source", "class_name", "message"),
    [
        (SOURCE, "nim", r"has no class 'nim'; did you mean Nim\? There are: Nim, Pile"),
        ("def broken(:", "Nim", "nim.py cannot be run: SyntaxError"),
        ("1 / 0", "Nim", "nim.py cannot be run: ZeroDivisionError"),
        (
            "class Nim:\n    name = 'nim'",
            "Nim",
            "nim.py:Nim lacks num_actions, observation_shape, rules_version, initial_state",
        ),
        (
            SOURCE.replace("num_actions = 3", "num_actions = 0"),
            "Nim",
            "num_actions must be a number from 1 to 65536, got 0",
        ),
        (SOURCE.replace("(1, 1, stones)", "(1, stones)"), "Nim", r"observation_shape must be a tuple .* got \(1, 7\)"),
        (
            SOURCE.replace("rules_version = 1", "plane_type = 'int'; rules_version = 1"),
            "Nim",
            "plane_type must be one of",
        ),
        (
            "class Nim:\n    def __init__(self):\n        raise KeyError('x')",
            "Nim",
            "nim.py:Nim cannot be made: KeyError",
        ),
    ],
)
def test_a_file_that_is_no_game_is_refused(source: str, class_name: str, message: str) -> None:
    before = set(sys.modules)
    with pytest.raises(GameError, match=message):
        load_game_source("nim.py", source.encode(), class_name)
    if "cannot be run" in message:
        assert set(sys.modules) == before


def test_a_missing_file_is_named() -> None:
    with pytest.raises(GameError, match=r"cannot read the game file nowhere/nim\.py"):
        load_game("nowhere/nim.py:Nim")


def test_unknown_options_of_a_users_game_are_refused(nim_file: Path) -> None:
    with pytest.raises(GameError, match=r"nim.py:Nim\(pile=3\) cannot be made: TypeError.*pile"):
        load_game(f"{nim_file}:Nim(pile=3)")


def test_a_traceback_shows_the_lines_of_a_game_that_has_no_file() -> None:
    source = SOURCE.replace("return state.player", "return state.nobody")
    game = load_game_source("nim.py", source.encode(), "Nim")
    with pytest.raises(AttributeError) as caught:
        game.to_play(game.initial_state())
    assert "return state.nobody" in "".join(traceback.format_exception(caught.value))


@pytest.mark.parametrize(
    ("encode", "message"),
    [
        ("return np.zeros((1, 7, 1))", r"encode must return an array of shape \(1, 1, 7\), got shape \(1, 7, 1\)"),
        ("return np.full(self.observation_shape, 2)", r"encode must return numbers in \[0, 1\]"),
        ("return np.full(self.observation_shape, 0.5)", "encode must return integers or booleans"),
        ("return None", r"encode must return an array of shape \(1, 1, 7\), got shape \(\)"),
    ],
)
def test_planes_of_another_kind_are_refused(encode: str, message: str) -> None:
    """Fault 160: the method, what it must return and what it did."""
    source = SOURCE.replace("return (np.arange(self.stones) < state.stones).reshape(self.observation_shape)", encode)
    game = load_game_source("nim.py", source.encode(), "Nim")
    for give in (game.encode, lambda state: game.pack([state])):
        with pytest.raises(GameError, match=message):
            give(game.initial_state())


def test_float_planes_travel_as_floats_and_must_be_finite() -> None:
    source = SOURCE.replace("rules_version = 1", "rules_version = 1\n    plane_type = 'float32'")
    line = "return (np.arange(self.stones) < state.stones).reshape(self.observation_shape)"
    game = load_game_source("nim.py", source.replace(line, line + " / 2").encode(), "Nim")
    packed = game.pack([game.initial_state()])
    assert packed.shape == (1, 28)
    assert packed.view(np.float32).tolist() == [[0.5] * 7]
    broken = load_game_source("nim.py", source.replace(line, line + " * np.inf").encode(), "Nim")
    with pytest.raises(GameError, match="encode must return finite numbers"):
        broken.encode(broken.initial_state())


def test_encode_batch_is_used_where_there_is_one() -> None:
    source = (
        SOURCE
        + "    def encode_batch(self, states):\n        return np.zeros((len(states), 1, 1, self.stones), bool)\n"
    )
    game = load_game_source("nim.py", source.encode(), "Nim")
    assert game.pack([game.initial_state()] * 2).tolist() == [[0], [0]]
    wrong = load_game_source("nim.py", source.replace("len(states), 1, 1", "1, 1, 1").encode(), "Nim")
    with pytest.raises(GameError, match=r"encode_batch must return an array of shape \(2, 1, 1, 7\)"):
        wrong.pack([wrong.initial_state()] * 2)
