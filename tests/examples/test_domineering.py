from __future__ import annotations

from pathlib import Path

import pytest

from zerofleet.games import load_game
from zerofleet.games.laws import check_laws
from zerofleet.games.perft import perft
from zerofleet.games.solvers import minimax_value

EXAMPLE = Path(__file__).resolve().parents[2] / "examples" / "domineering.py"


@pytest.mark.parametrize("size", [2, 3, 4, 5])
def test_the_example_obeys_the_laws(size: int) -> None:
    check_laws(load_game(f"{EXAMPLE}:Domineering(size={size})"), num_games=30, seed=1)


@pytest.mark.parametrize("size", [2, 3, 4])
def test_the_first_player_wins_on_small_boards(size: int) -> None:
    """As solved by Breuker, Uiterwijk and van den Herik (2000): 2x2, 3x3 and 4x4 go to whoever begins."""
    game = load_game(f"{EXAMPLE}:Domineering(size={size})")
    assert minimax_value(game, game.initial_state()) == 1


def test_moves_are_counted_by_hand() -> None:
    """Upright on 4x4: 3 rows times 4 columns; flat as many, less those that the first domino blocks."""
    game = load_game(f"{EXAMPLE}:Domineering")
    assert perft(game, 1) == 12
    # an upright domino in an outer column covers one end square in two rows and blocks 2 places; in an inner one 4
    assert perft(game, 2) == 6 * (12 - 2) + 6 * (12 - 4)


def test_the_example_stays_short() -> None:
    assert len(EXAMPLE.read_text().splitlines()) <= 100
