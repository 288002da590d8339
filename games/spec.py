"""How games are named: "connect4", "go(size=9,komi=7)", "path/to/file.py:MyGame(size=5)"."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from typing import Any

from zerofleet.errors import GameError

_SPEC = re.compile(r"(?P<name>.+?)\s*(?:\((?P<options>[^()]*)\))?")


def parse_spec(spec: str, what: str = "game") -> tuple[str, dict[str, Any]]:
    """Split "name(k=v,...)" into the name of `what` and its options; values are numbers, true, false or words.

    Raises:
        GameError: the text has another form.
    """
    match = _SPEC.fullmatch(spec.strip())
    if match is None:
        raise GameError(f"cannot read the {what} {spec!r}; write a name, or name(option=value,...)")
    options: dict[str, Any] = {}
    for part in filter(None, (piece.strip() for piece in (match["options"] or "").split(","))):
        key, equals, value = (piece.strip() for piece in part.partition("="))
        if not equals or not key.isidentifier() or not value:
            raise GameError(f"cannot read the option {part!r} of the {what} {spec!r}; write option=value")
        if key in options:
            raise GameError(f"the {what} {spec!r} gives the option {key!r} twice")
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


def format_spec(name: str, options: Mapping[str, Any]) -> str:
    """Return the canonical text of a name with its options, sorted by key."""
    if not options:
        return name
    texts = {key: str(value).lower() if isinstance(value, bool) else str(value) for key, value in options.items()}
    words = (f"{key}={text}" for key, text in sorted(texts.items()))
    return f"{name}({','.join(words)})"


def close_matches(name: str, known: Iterable[str]) -> str:
    """Return the end of a message: "; did you mean a or b? There are: a, b, c"."""
    names = sorted(known)
    by_lower = {each.lower(): each for each in names}
    close = [by_lower[each] for each in difflib.get_close_matches(name.lower(), by_lower, n=2, cutoff=0.5)]
    hint = f"; did you mean {' or '.join(close)}?" if close else "."
    return f"{hint} There are: {', '.join(names) or 'none'}"


__all__ = ["close_matches", "format_spec", "parse_spec"]
