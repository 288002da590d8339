"""Games written in Python: a user's file becomes a `Game` with every optional member filled in.

What a user's methods return is checked where it enters: here for planes, symmetries and the class's own members, in the
tree for moves, values and players, in `laws` for the rest.
"""

from __future__ import annotations

import hashlib
import linecache
import sys
import types
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, cast

import numpy as np

from zerofleet.errors import GameError
from zerofleet.games.base import Game, GameRules, Move, PackedPlanes, Planes, PlaneType, State, Symmetry
from zerofleet.games.packing import pack_planes, packed_size, plane_dtype
from zerofleet.games.spec import close_matches, format_spec

_METHODS = ("initial_state", "to_play", "legal_moves", "next_state", "terminal_value", "encode", "move_index")
_VALUES = ("name", "num_actions", "observation_shape", "rules_version")
_PLANE_TYPES: tuple[PlaneType, ...] = ("bits", "uint8", "float32")


class PythonGame:
    """A game over somebody's rules.  The rules' own methods are called directly, for speed."""

    def __init__(self, rules: GameRules, spec: str) -> None:
        """Fill in the optional members of `rules`; `spec` is the game's canonical name."""
        _check_members(rules, spec)
        self.spec = spec
        self.rules = rules
        self.name = rules.name
        self.num_actions = rules.num_actions
        self.observation_shape = rules.observation_shape
        self.rules_version = rules.rules_version
        self.plane_type: PlaneType = getattr(rules, "plane_type", "bits")
        self.packed_size = packed_size(self.observation_shape, self.plane_type)
        self.initial_state: Callable[[], State] = rules.initial_state
        self.to_play: Callable[[State], int] = rules.to_play
        self.legal_moves: Callable[[State], Sequence[Move]] = rules.legal_moves
        self.next_state: Callable[[State, Move], State] = rules.next_state
        self.terminal_value: Callable[[State], int | None] = rules.terminal_value
        self._encode_batch: Callable[[Sequence[State]], Planes] | None = getattr(rules, "encode_batch", None)
        self._symmetries = _checked_symmetries(rules, spec)

    def __repr__(self) -> str:
        return f"load_game({self.spec!r})"

    def encode(self, state: State) -> Planes:
        """Return the planes of one position.

        Raises:
            GameError: the rules' `encode` returned something else.
        """
        return self._checked(self.rules.encode(state), self.observation_shape, "encode")

    def encode_batch(self, states: Sequence[State]) -> Planes:
        """Return the planes of several positions.

        Raises:
            GameError: the rules' `encode_batch` or `encode` returned something else.
        """
        if self._encode_batch is not None:
            return self._checked(self._encode_batch(states), (len(states), *self.observation_shape), "encode_batch")
        if not states:
            return np.zeros((0, *self.observation_shape), plane_dtype(self.plane_type))
        rows = [np.asarray(self.rules.encode(state)) for state in states]
        for row in rows:
            if row.shape != self.observation_shape:
                self._reject("encode", f"an array of shape {self.observation_shape}", f"shape {row.shape}")
        return self._checked(np.stack(rows), (len(states), *self.observation_shape), "encode")

    def pack(self, states: Sequence[State]) -> PackedPlanes:
        """Return the packed planes of several positions."""
        return pack_planes(self.encode_batch(states), self.plane_type)

    def move_index(self, move: Move) -> int:
        """Return the move's action.

        Raises:
            GameError: the rules' `move_index` returned no action.
        """
        index = self.rules.move_index(move)
        if not isinstance(index, (int, np.integer)) or not 0 <= index < self.num_actions:
            self._reject("move_index", f"a number in [0, {self.num_actions})", f"{index!r} for the move {move!r}")
        return int(index)

    def legal_actions(self, state: State) -> list[int]:
        """Return the action of each legal move."""
        return [self.move_index(move) for move in self.legal_moves(state)]

    def symmetries(self) -> Sequence[Symmetry]:
        """Return the rules' symmetries, the identity first."""
        return self._symmetries

    def move_text(self, state: State, move: Move) -> str:
        """Return the move as the rules write it, else its `str`."""
        write = getattr(self.rules, "move_text", None)
        return str(move) if write is None else str(write(state, move))

    def state_text(self, state: State) -> str | None:
        """Return the position as the rules write it, or None where they do not."""
        write = getattr(self.rules, "state_text", None)
        return None if write is None else str(write(state))

    def termination(self, state: State) -> str:
        """Return why the game ended: the rules' words, else "win" or "draw"."""
        explain = getattr(self.rules, "termination", None)
        if explain is not None:
            return str(explain(state))
        value = self.terminal_value(state)
        if value is None:
            raise GameError(f"{self.name}: the game goes on in {state!r}")
        return "draw" if value == 0 else "win"

    def _checked(self, planes: Planes, shape: tuple[int, ...], method: str) -> Planes:
        planes = np.asarray(planes)
        if planes.shape != shape:
            self._reject(method, f"an array of shape {shape}", f"shape {planes.shape}")
        if planes.dtype.kind not in ("buif" if self.plane_type == "float32" else "bui"):
            kinds = "numbers" if self.plane_type == "float32" else "integers or booleans"
            self._reject(method, f"{kinds} (plane_type is {self.plane_type!r})", f"dtype {planes.dtype}")
        if self.plane_type == "float32":
            planes = planes.astype(np.float32)
            if not np.isfinite(planes).all():
                self._reject(method, "finite numbers", "nan or infinity")
        elif planes.dtype != np.bool_ and planes.size:
            most = 1 if self.plane_type == "bits" else 255
            if planes.max() > most or planes.min() < 0:
                self._reject(method, f"numbers in [0, {most}] (plane_type is {self.plane_type!r})",
                             f"numbers in [{planes.min()}, {planes.max()}]")  # fmt: skip
        return planes.astype(plane_dtype(self.plane_type))

    def _reject(self, method: str, expected: str, got: str) -> None:
        raise GameError(f"{self.spec}: {method} must return {expected}, got {got}")


def _check_members(rules: GameRules, spec: str) -> None:
    missing = [member for member in (*_VALUES, *_METHODS) if not hasattr(rules, member)]
    if missing:
        raise GameError(f"{spec} lacks {', '.join(missing)}; a game needs {', '.join((*_VALUES, *_METHODS))}")
    shape = rules.observation_shape
    plane_type = getattr(rules, "plane_type", "bits")
    checks = (
        (isinstance(rules.name, str) and bool(rules.name), "name", rules.name, "a word"),
        (_is_int(rules.num_actions) and 1 <= rules.num_actions <= 65536, "num_actions", rules.num_actions,
         "a number from 1 to 65536"),
        (isinstance(shape, tuple) and len(shape) == 3 and all(_is_int(n) and n > 0 for n in shape), "observation_shape",
         shape, "a tuple (planes, height, width) of positive numbers"),
        (_is_int(rules.rules_version), "rules_version", rules.rules_version, "a whole number"),
        (plane_type in _PLANE_TYPES, "plane_type", plane_type, "one of " + ", ".join(_PLANE_TYPES)),
    )  # fmt: skip
    for holds, member, value, expected in checks:
        if not holds:
            raise GameError(f"{spec}: {member} must be {expected}, got {value!r}")


def _is_int(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _checked_symmetries(rules: GameRules, spec: str) -> list[Symmetry]:
    num_squares = rules.observation_shape[1] * rules.observation_shape[2]
    identity = Symmetry(name="identity", squares=np.arange(num_squares), actions=np.arange(rules.num_actions))
    declared = getattr(rules, "symmetries", None)
    found = [identity]
    for symmetry in [] if declared is None else declared():
        for field, length in (("squares", num_squares), ("actions", rules.num_actions)):
            permutation = np.asarray(getattr(symmetry, field))
            if permutation.shape != (length,) or not np.array_equal(np.sort(permutation), np.arange(length)):
                raise GameError(
                    f"{spec}: symmetries: {field} of {symmetry.name!r} must be a permutation of 0..{length - 1}"
                )
        is_identity = np.array_equal(symmetry.squares, identity.squares)
        if not (is_identity and np.array_equal(symmetry.actions, identity.actions)):
            found.append(symmetry)
    return found


def adapt(rules: GameRules, spec: str) -> Game:
    """Return `rules` with every optional member filled in, under the canonical name `spec`.

    Raises:
        GameError: a member is missing or impossible.
    """
    return cast("Game", PythonGame(rules, spec))


def load_game_file(path: Path, class_name: str, options: dict[str, Any]) -> Game:
    """Return the game that the class `class_name` in the file `path` makes.

    Raises:
        GameError: the file cannot be read or run, has no such class, or the class is no game.
    """
    try:
        source = path.read_bytes()
    except OSError as error:
        raise GameError(f"cannot read the game file {path}: {error.strerror}") from error
    return load_game_source(path.name, source, class_name, options, shown_as=str(path))


def name_in_tracebacks(filename: str) -> str:
    """Return how tracebacks name a game's file that travelled as bytes."""
    return f"<game {filename}>"


def load_game_source(
    filename: str, source: bytes, class_name: str, options: dict[str, Any] | None = None, *, shown_as: str | None = None
) -> Game:
    """Return the game that `class_name` makes in a file of these bytes, wherever they came from.  Writes no file.

    Raises:
        GameError: the source cannot be run, has no such class, or the class is no game.
    """
    options = options or {}
    module = _load_module(filename, source, shown_as or name_in_tracebacks(filename))
    made = getattr(module, class_name, None)
    if not isinstance(made, type):
        members = vars(module).items()
        classes = [name for name, value in members if isinstance(value, type) and value.__module__ == module.__name__]
        raise GameError(f"{filename} has no class {class_name!r}{close_matches(class_name, classes)}")
    spec = format_spec(f"{filename}:{class_name}", options)
    try:
        rules = made(**options)
    except Exception as error:
        raise GameError(f"{spec} cannot be made: {type(error).__name__}: {error}") from error
    return adapt(rules, spec)


def _load_module(filename: str, source: bytes, shown_as: str) -> types.ModuleType:
    """Run the source as a module; its name holds its hash, so that two versions never mix."""
    digest = hashlib.sha256(filename.encode() + bytes([0]) + source).hexdigest()
    name = f"zerofleet_game_{digest}"
    if name in sys.modules:
        return sys.modules[name]
    module = types.ModuleType(name)
    module.__file__ = shown_as
    sys.modules[name] = module  # before it runs: dataclasses and pickle look it up
    try:
        text = source.decode("utf-8")
        exec(compile(text, shown_as, "exec"), module.__dict__)  # a user's own game is code
    except Exception as error:
        del sys.modules[name]
        raise GameError(f"{filename} cannot be run: {type(error).__name__}: {error}") from error
    linecache.cache[shown_as] = (len(text), None, text.splitlines(keepends=True), shown_as)  # tracebacks show its lines
    return module


__all__ = ["PythonGame", "adapt", "load_game_file", "load_game_source"]
