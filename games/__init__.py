"""Games: the protocol that every game meets, the built-in games, and the way to a game of one's own.

A game knows its rules and its planes.  It knows no search, no network and no process.
"""

from zerofleet.games.python_game import load_game_source
from zerofleet.games.registry import load_game

__all__ = ["load_game", "load_game_source"]
