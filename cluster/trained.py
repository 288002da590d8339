"""A trained player in this process: from a run's newest weights, or from a weights file."""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from zerofleet.actors.play_style import PLAIN, PlayStyle
from zerofleet.actors.players import SearchPlayer
from zerofleet.cluster.run_config import resolve_config
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.errors import StorageError, UsageError
from zerofleet.games import load_game
from zerofleet.games.base import Game
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.local import BackendEvaluator
from zerofleet.search.base import Evaluator, SearchConfig
from zerofleet.search.evaluators import RolloutEvaluator


@dataclass(frozen=True, slots=True, kw_only=True)
class TrainedNet:
    """A network that can evaluate, and the search that it was trained with."""

    run: str
    game: Game
    search: SearchConfig
    evaluator: BackendEvaluator
    version: int

    def player(self, num_simulations: int, style: PlayStyle = PLAIN, *, seed: int = 0) -> SearchPlayer:
        """Return a player with so many simulations a move; 0 plays the move with the greatest prior.

        It searches leaf by leaf: the many positions that it is asked for fill the batches.  `seed` is of the random
        games that the style may ask for.
        """
        search = replace(self.search, num_simulations=num_simulations, leaves_per_tree=1)
        words = ", ".join(filter(None, (f"weights version {self.version}", str(style))))
        evaluator = style.judge(self.game, self.evaluator, seed)
        name = f"{self.run}-{num_simulations} ({words})"
        return SearchPlayer(self.game, evaluator, search, name=name, choice=style.choice)


def load_trained(folder: RunFolder, previous: TrainedNet | None = None) -> TrainedNet:
    """Load the run's newest weights; `previous`, an older network of the same run, lends its backend.

    Raises:
        StorageError: the run has published none, or they cannot be read.
    """
    published = folder.published()
    if published is None:
        raise StorageError(f"run {folder.run!r} has published no weights yet: there is nobody to play")
    weights = folder.read_weights(published)
    if previous is not None:
        backend = previous.evaluator.backend
        backend.load(published.version, weights)
        evaluator = BackendEvaluator(backend, published.version)
        return replace(previous, evaluator=evaluator, version=published.version)
    config = folder.config()
    game = folder.game_source(config.game).load()
    return _load(folder.run, game, config.search, config.inference, published.version, weights)


def load_weights_file(path: Path) -> TrainedNet:
    """Load a weights file of a built-in game, to be searched as the game's preset says.

    Raises:
        StorageError: the file cannot be read, or is torn or of another kind.
        GameError: its game is not built in.
    """
    from zerofleet.network.files import read_file
    from zerofleet.network.weights import load_weights

    data = read_file(path)
    _tensors, meta = load_weights(data)
    config = resolve_config(meta.game, ())
    return _load(f"{meta.run}/{path.stem}", load_game(meta.game), config.search, config.inference, meta.version, data)


def find_searcher(
    game_spec: str, run: str | None, storage: Path, *, style: PlayStyle = PLAIN, seed: int
) -> tuple[Game, SearchConfig, Evaluator]:
    """Return a game, how it is searched and who evaluates: a run's newest weights, or without a run random rollouts.

    Raises:
        UsageError: there is no such run, or it plays another game; or there is no network for the style to refine.
        StorageError: it has published no weights.
    """
    game = load_game(game_spec)
    if run is None:
        if style.symmetries or style.rollouts > 0.0:
            raise UsageError("without --run there is no network, whose looks --symmetries and --rollouts would refine")
        return game, resolve_config(game.spec, ()).search, RolloutEvaluator(game, seed)
    net = load_trained(RunFolder(storage, run).require())
    if net.game.spec != game.spec:
        raise UsageError(f"run {run!r} plays {net.game.spec}, not {game_spec}")
    return net.game, net.search, style.judge(net.game, net.evaluator, seed)


def _load(
    run: str, game: Game, search: SearchConfig, inference: InferenceConfig, version: int, weights: bytes
) -> TrainedNet:
    from zerofleet.inference.torch_backend import TorchBackend

    backend = TorchBackend(game, inference)
    backend.load(version, weights)
    evaluator = BackendEvaluator(backend, version)
    return TrainedNet(run=run, game=game, search=search, evaluator=evaluator, version=version)
