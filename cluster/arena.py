"""`zerofleet arena`: two players meet in paired games, and every game can be read afterwards."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from zerofleet.actors.arena import play_match
from zerofleet.actors.match_result import MatchGame, MatchResult
from zerofleet.cluster.contestants import find_contestants
from zerofleet.errors import StorageError
from zerofleet.games.base import Game


def run_arena(
    names: tuple[str, str],
    storage: Path,
    *,
    game_spec: str | None,
    num_games: int,
    num_simulations: int,
    opening_plies: int,
    max_plies: int,
    seed: int,
    record: Path | None,
) -> MatchResult:
    """Let two players meet; `record` is where the games are written.

    Raises:
        UsageError: a name stands for nobody, or the numbers make no match.
        StorageError: weights cannot be read, or the record cannot be written.
    """
    contestants = find_contestants(names, storage, game_spec=game_spec, num_simulations=num_simulations, seed=seed)
    result = play_match(
        contestants.game,
        *contestants.players,
        num_games,
        seed=seed,
        opening_plies=opening_plies,
        max_plies=max_plies,
    )
    if record is not None:
        try:
            record.write_text("\n".join(game_record(contestants.game, result, game) for game in result.games))
        except OSError as error:
            raise StorageError(f"cannot write {record}: {error.strerror or error}") from error
    return result


def game_record(game: Game, result: MatchResult, played: MatchGame) -> str:
    """Return a game as text in the manner of PGN: tags, then the moves, numbered in pairs, and the result."""
    names = (result.player_a, result.player_b) if played.a_plays == 0 else (result.player_b, result.player_a)
    outcome_of_first = played.outcome if played.a_plays == 0 else -played.outcome
    score = {1: "1-0", 0: "1/2-1/2", -1: "0-1"}[outcome_of_first]
    tags = {
        "Game": result.game,
        "Round": f"{played.number // 2 + 1}.{played.number % 2 + 1}",
        "First": names[0],
        "Second": names[1],
        "Seed": str(result.seed),
        "Result": score,
        "Termination": played.termination,
    }
    lines = [f'[{tag} "{_escaped(text)}"]' for tag, text in tags.items()]
    return "\n".join([*lines, "", _movetext(game, played, score), ""])


def _movetext(game: Game, played: MatchGame, score: str) -> str:
    state, words = game.initial_state(), []
    for ply, ordinal in enumerate(played.ordinals):
        move = game.legal_moves(state)[ordinal]
        if ply % 2 == 0:
            words.append(f"{ply // 2 + 1}.")
        words.append(game.move_text(state, move))
        state = game.next_state(state, move)
    return " ".join([*words, score])


def _escaped(text: str) -> str:
    return text.replace("\\", "\\\\").replace('"', '\\"')


def match_record(result: MatchResult) -> dict[str, Any]:
    """Return what `arena --json` prints."""
    low, high = result.interval()
    return {
        "game": result.game,
        "a": result.player_a,
        "b": result.player_b,
        "games": len(result.games),
        "distinct_games": result.num_distinct_games,
        "ply_caps": result.num_ply_caps,
        "wins": result.total.wins,
        "draws": result.total.draws,
        "losses": result.total.losses,
        "score": result.score,
        "ci95": [low, high],
        "seed": result.seed,
    }
