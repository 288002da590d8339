"""Searching while the other player thinks."""

from __future__ import annotations

import threading
from dataclasses import replace

from zerofleet.games.base import Game, State
from zerofleet.search.base import MAX_SIMULATIONS, Evaluator, SearchConfig
from zerofleet.search.pool import SearchPool
from zerofleet.search.timed import run_until

_KEEPS_EVERYTHING = 999_999.0  # the greatest `reuse_limit`: whatever was found, it is kept


class Ponderer:
    """Searches a position in a thread of its own until told to stop; what it found serves the answer to any move there.

    The evaluator is used by one thread at a time: by this one between `begin` and `end`, by the caller otherwise.
    """

    def __init__(self, game: Game, evaluator: Evaluator, config: SearchConfig, *, max_nodes: int) -> None:
        self._game = game
        self._evaluator = evaluator
        self._config = replace(
            config, num_simulations=MAX_SIMULATIONS, max_nodes=max_nodes, reuse_limit=_KEEPS_EVERYTHING
        )
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._pool: SearchPool | None = None
        self._error: BaseException | None = None

    def begin(self, state: State) -> None:
        """Start to search an unfinished position in which the other player is to move."""
        self.end()
        self._stop.clear()
        self._error = None
        self._pool = SearchPool(self._game, 1, self._config)
        self._thread = threading.Thread(target=self._search, args=(self._pool, state), name="ponder", daemon=True)
        self._thread.start()

    def end(self) -> None:
        """Stop, and wait until the batch in progress is done.

        Raises whatever the game or the evaluator raised meanwhile.
        """
        if self._thread is not None:
            self._stop.set()
            self._thread.join()
            self._thread = None
        if self._error is not None:
            error, self._error, self._pool = self._error, None, None
            raise error

    def follow(self, ordinal: int, num_simulations: int) -> SearchPool | None:
        """Return a pool whose tree 0 goes on after a legal move, with so many new simulations; None where none began.

        The move must not end the game.  What was found is handed over: the next call returns None.
        """
        self.end()
        pool, self._pool = self._pool, None
        if pool is not None:
            pool.advance(0, ordinal, num_simulations)
        return pool

    def _search(self, pool: SearchPool, state: State) -> None:
        try:
            pool.reset(0, state)
            run_until(pool, self._evaluator, self._stop.is_set)
        except BaseException as error:  # told to whoever waits for the result
            self._error = error


__all__ = ["Ponderer"]
