"""A checksum of a position: whether a replayed game ended where the played one did."""

from __future__ import annotations

import zlib

import numpy as np

from zerofleet.games.base import Game, State


def position_crc(game: Game, state: State) -> int:
    """Return the CRC32 of a position.

    It covers the game's own text of the position; where a game has none, the packed planes, the player to move (one
    byte) and the legal actions (two bytes each, little-endian).
    """
    text = game.state_text(state)
    if text is not None:
        return zlib.crc32(text.encode())
    actions = np.array(game.legal_actions(state), dtype="<u2")
    return zlib.crc32(game.pack([state]).tobytes() + bytes([game.to_play(state)]) + actions.tobytes())


__all__ = ["position_crc"]
