"""Which game a name means: a built-in one, or a class in a user's file."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

from zerofleet.errors import GameError
from zerofleet.games.base import Game
from zerofleet.games.connect4 import Connect4
from zerofleet.games.python_game import load_game_file
from zerofleet.games.spec import close_matches, parse_spec
from zerofleet.games.tictactoe import TicTacToe

_BUILT_IN: dict[str, Callable[..., Game]] = {"connect4": Connect4, "tictactoe": TicTacToe}


def built_in_games() -> list[str]:
    """Return the names of the games that need no file."""
    return sorted(_BUILT_IN)


def load_game(spec: str) -> Game:
    """Return the game that `spec` names: "connect4", "go(size=9,komi=7)" or "path/to/file.py:MyGame".

    Raises:
        GameError: there is no such game, or it breaks the protocol.
    """
    name, options = parse_spec(spec)
    path, colon, class_name = name.rpartition(":")
    if colon and path.endswith(".py"):
        return load_game_file(Path(path), class_name, options)
    if name not in _BUILT_IN:
        raise GameError(
            f"there is no game {name!r}{close_matches(name, _BUILT_IN)}; one of your own is path/to/file.py:ClassName"
        )
    if options:
        raise GameError(f"the game {name} has no options, got {', '.join(options)}")
    return _BUILT_IN[name]()


__all__ = ["built_in_games", "load_game"]
