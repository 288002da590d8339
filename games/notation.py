"""Positions as people write them: the moves that lead there."""

from __future__ import annotations

from zerofleet.errors import IllegalMoveError
from zerofleet.games.base import Game, Move, State


def find_move(game: Game, state: State, text: str) -> Move:
    """Return the legal move that is written `text`.

    Raises:
        IllegalMoveError: there is none; the message lists those that there are.
    """
    moves = game.legal_moves(state)
    texts = [game.move_text(state, move) for move in moves]
    if text not in texts:
        if not texts:
            raise IllegalMoveError(f"there is no move {text!r}: the game is over ({game.termination(state)})")
        raise IllegalMoveError(f"there is no move {text!r} here; there are {', '.join(texts)}")
    return moves[texts.index(text)]


def split_line(game: Game, text: str) -> list[str]:
    """Split moves at blanks and commas; where all first moves are one character long, they may stand together."""
    words = text.replace(",", " ").split()
    first = game.initial_state()
    if all(len(game.move_text(first, move)) == 1 for move in game.legal_moves(first)):
        return [character for word in words for character in word]
    return words


def play_line(game: Game, text: str) -> State:
    """Return the position after moves as people write them, such as "4453" or "d3 c5"; "" is the initial one.

    Raises:
        IllegalMoveError: a move is not there; the message says the how-many-eth.
    """
    state = game.initial_state()
    for number, word in enumerate(split_line(game, text), 1):
        try:
            state = game.next_state(state, find_move(game, state, word))
        except IllegalMoveError as error:
            raise IllegalMoveError(f"move {number}: {error}") from None
    return state


__all__ = ["find_move", "play_line", "split_line"]
