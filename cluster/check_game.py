"""`zerofleet check-game`: a game against the laws, and what its games are like."""

from __future__ import annotations

from typing import Any

from zerofleet.games import load_game
from zerofleet.games.laws import Survey, check_laws


def check_game(spec: str, *, num_games: int, seed: int) -> dict[str, Any]:
    """Load a game, check every law in random games, and describe it.

    Raises:
        GameError: the game cannot be loaded, or breaks a law; the message names method and position.
    """
    game = load_game(spec)
    survey = check_laws(game, num_games, seed)
    return {
        "game": game.spec,
        "games": survey.num_games,
        "plies": {"mean": survey.mean_plies, "most": survey.most_plies},
        "legal_moves": {"mean": survey.mean_moves, "most": survey.most_moves},
        "outcomes": {"first": survey.wins_of_first, "draw": survey.num_draws, "second": survey.wins_of_second},
        "terminations": survey.terminations,
        "symmetries": len(game.symmetries()),
        "observation_shape": list(game.observation_shape),
        "num_actions": game.num_actions,
        "notes": _notes(survey),
    }


def _notes(survey: Survey) -> list[str]:
    """Return what is allowed, and often not meant."""
    notes = []
    decided = survey.wins_of_first + survey.wins_of_second
    if decided > 0 and survey.wins_of_player_to_move == decided:
        notes.append(
            "terminal_value: every decided game was won by the player to move at its end; most games are lost by them, "
            "since the move before has won: is the value for the player to move?"
        )
    if survey.shares_actions:
        notes.append("move_index: moves of one position share an index; they will share its prior evenly")
    if decided == 0:
        notes.append("terminal_value: no random game was decided, all were draws")
    return notes


def describe_check(found: dict[str, Any]) -> list[str]:
    """Return what `check-game --json` holds as lines for people."""
    outcomes, plies, moves = found["outcomes"], found["plies"], found["legal_moves"]
    ends = ", ".join(f"{text} {count}" for text, count in sorted(found["terminations"].items()))
    return [
        f"{found['game']}: every law holds in {found['games']} random games",
        f"  plies {plies['mean']:.1f}, at most {plies['most']}",
        f"  legal moves {moves['mean']:.1f}, at most {moves['most']}",
        f"  won by the first player {outcomes['first']}, drawn {outcomes['draw']}, by the second {outcomes['second']}",
        f"  ends: {ends}",
        f"  planes {'x'.join(map(str, found['observation_shape']))}, {found['num_actions']} actions, "
        f"{found['symmetries']} symmetries with the identity",
        *(f"  note: {note}" for note in found["notes"]),
    ]
