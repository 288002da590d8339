"""A run's game as it travels: a built-in name, or the bytes of a user's file."""

from __future__ import annotations

import traceback
from dataclasses import dataclass
from pathlib import Path

from zerofleet.games import load_game, load_game_source
from zerofleet.games.base import Game
from zerofleet.games.python_game import name_in_tracebacks
from zerofleet.games.spec import parse_spec


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSource:
    """Enough to load the same game on any node, whatever lies on its disk."""

    spec: str  # canonical: "connect4", or "file.py:MyGame" where the file's bytes come along
    filename: str = ""
    source: bytes | None = None

    @classmethod
    def given(cls, spec: str) -> GameSource:
        """Take the game that a user named, reading their file if it is one.

        Raises:
            GameError: there is no such game, or it breaks the protocol.
        """
        path = _file_of(spec)
        canonical = load_game(spec).spec
        if path is None:
            return cls(spec=canonical)
        return cls(spec=canonical, filename=path.name, source=path.read_bytes())

    @classmethod
    def stored(cls, spec: str, folder: Path) -> GameSource:
        """Take the game of an existing run, whose file, if any, was copied into `folder`."""
        path = _file_of(spec)
        if path is None:
            return cls(spec=spec)
        return cls(spec=spec, filename=path.name, source=(folder / path.name).read_bytes())

    def load(self) -> Game:
        """Return the game itself."""
        if self.source is None:
            return load_game(self.spec)
        name, options = parse_spec(self.spec)
        return load_game_source(self.filename, self.source, name.rpartition(":")[2], options)


def where_it_failed(error: BaseException, filename: str) -> str | None:
    """Return the innermost place of a user's game file that an error went through, None where it went through none."""
    if not filename or isinstance(error, MemoryError | OSError | KeyboardInterrupt | SystemExit):
        return None  # nothing that the rules did
    places = [
        f"{filename}, line {frame.lineno}, in {frame.name}"
        for frame in traceback.extract_tb(error.__traceback__)
        if frame.filename == name_in_tracebacks(filename)
    ]
    return places[-1] if places else None


def _file_of(spec: str) -> Path | None:
    """Return the file that a game's name leads to, None for built-in games."""
    path, colon, _class_name = parse_spec(spec)[0].rpartition(":")
    return Path(path) if colon and path.endswith(".py") else None
