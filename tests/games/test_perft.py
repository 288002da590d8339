"""Counts of move sequences, against published numbers."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from zerofleet.errors import UsageError
from zerofleet.games import load_game
from zerofleet.games.perft import perft

PUBLISHED = Path(__file__).resolve().parents[2] / ".." / "shared" / "data" / "perft.json"


@pytest.mark.parametrize(
    ("depth", "count"),
    [(0, 1), (1, 7), (2, 49), (3, 343), (4, 2401), (5, 16807), (6, 117649), (7, 823536), (8, 5673234)],
)
def test_connect_four(depth: int, count: int) -> None:
    assert perft(load_game("connect4"), depth) == count


@pytest.mark.parametrize(
    ("depth", "count"),
    [(1, 9), (2, 72), (3, 504), (4, 3024), (5, 15120), (6, 54720), (7, 148176), (8, 200448), (9, 127872), (10, 0)],
)
def test_tic_tac_toe(depth: int, count: int) -> None:
    # Sequences that ended earlier are not counted: 255,168 games end, 127,872 of them with the ninth stone.
    assert perft(load_game("tictactoe"), depth) == count


def test_a_negative_depth_is_refused() -> None:
    with pytest.raises(UsageError, match="depth"):
        perft(load_game("connect4"), -1)


def test_counting_in_python_gives_the_same() -> None:
    game = load_game("connect4")
    state = game.next_state(game.initial_state(), 3)
    by_hand = sum(
        len(game.legal_moves(game.next_state(game.next_state(state, a), b))) for a in range(7) for b in range(7)
    )
    assert perft(game, 3, state) == by_hand == 343


@pytest.mark.skipif(not PUBLISHED.is_file(), reason="shared/data/perft.json is not here")
@pytest.mark.parametrize("name", ["connect4", "tictactoe"])
def test_published_counts(name: str) -> None:
    lines = json.loads(PUBLISHED.read_text())[name]
    assert lines
    for line in lines:
        assert perft(load_game(name), line["depth"]) == line["nodes"], line
