"""Names of games: `load_game("connect4")`, `load_game("go(size=9,komi=7)")`, `load_game("path/to/file.py:MyGame")`."""

from __future__ import annotations

import difflib
import re
from collections.abc import Callable
from typing import Any

from zerofleet.errors import GameError
from zerofleet.games.base import Game
from zerofleet.games.connect4 import Connect4
from zerofleet.games.tictactoe import TicTacToe

_BUILT_IN: dict[str, Callable[..., Game]] = {"connect4": Connect4, "tictactoe": TicTacToe}

_SPEC = re.compile(r"(?P<name>[^()]+?)\s*(?:\((?P<options>[^()]*)\))?")


def built_in_games() -> list[str]:
    """Return the names of the games that need no file."""
    return sorted(_BUILT_IN)


def parse_spec(spec: str) -> tuple[str, dict[str, Any]]:
    """Split "name(k=v,...)" into the name and its options; values are numbers, true, false or words.

    Raises:
        GameError: the text has another form.
    """
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        raise GameError(f"cannot read the game {spec!r}; write a name, or name(option=value,...)")
    options: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in (match["options"] or "").split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key.isidentifier() or not value:
            raise GameError(f"cannot read the option {part!r} of the game {spec!r}; write option=value")
        if key in options:
            raise GameError(f"the game {spec!r} gives the option {key!r} twice")
        options[key] = _option_value(value)
    return match["name"], options


def _option_value(text: str) -> int | float | bool | str:
    if text in ("true", "false"):
        return text == "true"
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text


def load_game(spec: str) -> Game:
    """Return the game that `spec` names.

    Raises:
        GameError: there is no such game, or it breaks the protocol.
    """
    name, options = parse_spec(spec)
    if name not in _BUILT_IN:
        close = difflib.get_close_matches(name.lower(), _BUILT_IN, n=2, cutoff=0.5)
        hint = f"; did you mean {' or '.join(close)}?" if close else ""
        raise GameError(
            f"there is no game {name!r}{hint} There are: {', '.join(built_in_games())}; a game of your own is file.py:ClassName"
        )
    if options:
        raise GameError(f"the game {name} has no options, got {', '.join(options)}")
    return _BUILT_IN[name]()


__all__ = ["built_in_games", "load_game", "parse_spec"]
