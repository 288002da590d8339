"""The final match of `train --match`: the trained player against a search that knows no network."""

from __future__ import annotations

from zerofleet.actors.arena import play_match
from zerofleet.actors.match_result import MatchResult
from zerofleet.actors.players import UctPlayer
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.trained import load_trained

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
    net = load_trained(folder)
    trained, opponent = net.player(NUM_SIMULATIONS), UctPlayer(net.game, NUM_UCT_SIMULATIONS)
    seed = folder.config().seed + _MATCH_SEED
    return play_match(net.game, trained, opponent, num_games, seed=seed, opening_plies=OPENING_PLIES)
