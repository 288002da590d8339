"""The final match of `train --match`: the trained player against a search that knows no network."""

from __future__ import annotations

from dataclasses import replace

from zerofleet.actors.arena import play_match
from zerofleet.actors.match_result import MatchResult
from zerofleet.actors.players import SearchPlayer, UctPlayer
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.errors import StorageError

NUM_GAMES = 200
NUM_SIMULATIONS = 100
NUM_UCT_SIMULATIONS = 600
OPENING_PLIES = 2

_MATCH_SEED = 2**32  # added to the run's: no game of the match shares its random numbers with one of self-play


def final_match(folder: RunFolder, *, num_games: int = NUM_GAMES) -> MatchResult:
    """Play the run's newest weights against the UCB1 rollout player.

    Raises:
        StorageError: the run has published no weights.
    """
    from zerofleet.inference.local import BackendEvaluator
    from zerofleet.inference.torch_backend import TorchBackend

    published = folder.published()
    if published is None:
        raise StorageError(f"run {folder.run!r} has published no weights yet: there is nobody to play the match")
    config = folder.config()
    game = folder.game_source(config.game).load()
    backend = TorchBackend(game, config.inference)
    backend.load(published.version, folder.read_weights(published))
    trained = SearchPlayer(
        game,
        BackendEvaluator(backend),
        replace(config.search, num_simulations=NUM_SIMULATIONS, leaves_per_tree=1),  # 200 games fill the batches
        name=f"trained-{NUM_SIMULATIONS} (weights version {published.version})",
    )
    opponent = UctPlayer(game, NUM_UCT_SIMULATIONS)
    return play_match(game, trained, opponent, num_games, seed=config.seed + _MATCH_SEED, opening_plies=OPENING_PLIES)
