"""A run's game as it travels: a built-in name, or the bytes of a user's file."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zerofleet.errors import GameError
from zerofleet.games import load_game
from zerofleet.games.base import Game


@dataclass(frozen=True, slots=True, kw_only=True)
class GameSource:
    """Enough to load the same game on any node, whatever lies on its disk."""

    spec: str  # canonical: "connect4", or "file.py:MyGame" where the file's bytes come along
    filename: str = ""
    source: bytes | None = None

    @classmethod
    def given(cls, spec: str) -> GameSource:
        """Take the game that a user named, reading their file if it is one."""
        path_text, is_file, class_name = spec.rpartition(":")
        path = Path(path_text)
        if not is_file or path.suffix != ".py":
            return cls(spec=load_game(spec).spec)
        try:
            source = path.read_bytes()
        except OSError as error:
            raise GameError(f"cannot read the game file {path}: {error.strerror}") from error
        return cls(spec=f"{path.name}:{class_name}", filename=path.name, source=source)

    @classmethod
    def stored(cls, spec: str, folder: Path) -> GameSource:
        """Take the game of an existing run, whose file, if any, was copied into `folder`."""
        filename, is_file, _class_name = spec.rpartition(":")
        if not is_file or not filename.endswith(".py"):
            return cls(spec=spec)
        return cls(spec=spec, filename=filename, source=(folder / filename).read_bytes())

    def load(self) -> Game:
        """Return the game itself."""
        if self.source is None:
            return load_game(self.spec)
        from zerofleet.games import load_game_source

        return load_game_source(self.filename, self.source, self.spec.rpartition(":")[2])
