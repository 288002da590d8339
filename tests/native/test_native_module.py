"""The compiled module as Python sees it: its stub, its small functions, its errors."""

from __future__ import annotations

import ast
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import zerofleet
from zerofleet import _native
from zerofleet.errors import UsageError, ZerofleetError

STUB = Path(zerofleet.__file__).parent / "_native.pyi"


def members_of(tree: ast.Module) -> dict[str, set[str]]:
    """Return the public functions and classes of the stub, with the members of each class and its bases."""
    classes = {node.name: node for node in tree.body if isinstance(node, ast.ClassDef)}

    def own(node: ast.ClassDef) -> set[str]:
        found = {item.name for item in node.body if isinstance(item, ast.FunctionDef)}
        for base in node.bases:
            found |= own(classes[ast.unparse(base)])
        return found

    functions: dict[str, set[str]] = {node.name: set() for node in tree.body if isinstance(node, ast.FunctionDef)}
    return functions | {name: own(node) for name, node in classes.items() if not name.startswith("_")}


def test_the_stub_lists_what_the_module_has() -> None:
    stub = members_of(ast.parse(STUB.read_text()))
    assert set(stub) == {name for name in vars(_native) if not name.startswith("_")}
    for name, members in stub.items():
        value = getattr(_native, name)
        if isinstance(value, type):
            public = {member for member in vars(value) if not member.startswith("_")}
            assert public == {member for member in members if not member.startswith("_")}, name
            assert all(hasattr(value, member) for member in members), name


def test_uniform_priors_are_the_float32_quotients() -> None:
    priors = _native.uniform_priors(np.array([0, 7, 7, 8, 11], np.int32))
    expected = [np.float32(1) / np.float32(7)] * 7 + [np.float32(1)] + [np.float32(1) / np.float32(3)] * 3
    assert priors.dtype == np.float32
    assert priors.tolist() == [float(prior) for prior in expected]
    assert len(_native.uniform_priors(np.zeros(1, np.int32))) == 0


@pytest.mark.parametrize("offsets", [[1, 7], [0, 7, 3], [-7, 0], [0, -1]])
def test_offsets_that_descend_are_refused(offsets: list[int]) -> None:
    with pytest.raises(UsageError, match="legal_offsets"):
        _native.uniform_priors(np.array(offsets, np.int32))


def test_native_errors_are_of_our_tree() -> None:
    with pytest.raises(ZerofleetError, match=r"depth must be 0 or more, got -1"):
        _native.Connect4State().perft(-1)
    with pytest.raises(UsageError, match="the game goes on"):
        _native.TicTacToeState().termination()


@pytest.mark.parametrize("state_type", [_native.Connect4State, _native.TicTacToeState])
def test_states_of_one_game_are_refused_by_the_other(state_type: Any) -> None:
    other = _native.TicTacToeState if state_type is _native.Connect4State else _native.Connect4State
    with pytest.raises(TypeError):
        state_type.pack([other()])
    assert state_type() != other()


def test_rollouts_and_uct_repeat_with_their_seed() -> None:
    states: list[Any] = [_native.Connect4State()] * 50
    one, two, three = (_native.rollouts(states, seed) for seed in (1, 1, 2))
    assert one.tolist() == two.tolist() != three.tolist()
    assert set(one.tolist()) <= {-1, 0, 1}
    visits = [_native.uct_search(states[0], 300, 1.4, seed)[0].tolist() for seed in (5, 5, 6)]
    assert visits[0] == visits[1] != visits[2]
    assert sum(visits[0]) == 300
