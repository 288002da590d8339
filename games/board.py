"""A position drawn for people."""

from __future__ import annotations

from zerofleet.games.base import Game, State


def draw_board(game: Game, state: State) -> str:
    """Return the position as lines of text; "" where the game has no text for it.

    Rows that the game separates with "/" stand below each other.  Where moves are columns of one character, these stand
    above; where they are squares such as "b2", letters and numbers stand at the sides.
    """
    text = game.state_text(state)
    if text is None:
        return ""
    rows = text.split("/")
    width = len(rows[0])
    if len(rows) < 2 or any(len(row) != width for row in rows):
        return text
    lines = [" ".join(row) for row in rows]
    first = game.initial_state()
    moves = [game.move_text(first, move) for move in game.legal_moves(first)]
    letters = [chr(ord("a") + column) for column in range(width)]
    squares = [f"{letter}{len(rows) - row}" for row in range(len(rows)) for letter in letters]
    if len(moves) == width and all(len(move) == 1 for move in moves):
        return "\n".join([" ".join(moves), *lines])
    if moves == squares:
        numbered = [f"{len(rows) - row} {line}" for row, line in enumerate(lines)]
        return "\n".join([*numbered, "  " + " ".join(letters)])
    return "\n".join(lines)


__all__ = ["draw_board"]
