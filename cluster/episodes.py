"""What `episodes` lists: the log of a run, game by game."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

from zerofleet.cluster.progress import write_line
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.streams.codec import decode_episode


def list_episodes(folder: RunFolder) -> Iterator[dict[str, Any]]:
    """Yield what `episodes --json` prints of each logged game, in the order of the log."""
    from zerofleet.learner.log import EpisodeLog

    for logged in EpisodeLog.read_only(folder.log).episodes():
        episode = decode_episode(logged.payload)
        yield {
            "id": episode.id,
            "game_number": episode.game_number,
            "actor": episode.actor,
            "moves": [move.ordinal for move in episode.moves],
            "opening_plies": episode.opening_plies,
            "outcome": episode.outcome,
            "termination": episode.termination,
            "weights_versions": [move.weights_version for move in episode.moves],
            "crc": episode.final_crc,
        }


def print_episodes(listed: Iterable[dict[str, Any]]) -> None:
    """Print one line a game, for people."""
    for episode in listed:
        versions = episode["weights_versions"][episode["opening_plies"] :]
        span = f"{min(versions)}-{max(versions)}" if versions else "-"
        moves = " ".join(map(str, episode["moves"]))
        write_line(
            f"{episode['id']}  outcome {episode['outcome']:+d}  {episode['termination']}  weights {span}  moves {moves}"
        )
