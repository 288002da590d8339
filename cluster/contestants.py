"""Who may play in `arena`, `play` and `analyse`, from the words a user writes.

RUN            a run's newest weights
FILE           a weights file, `*.safetensors`
uct:N          UCB1 with N random rollouts a move
random         each legal move with the same probability
solver         perfect play, where the game has a solver
"""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from zerofleet.actors.players import Player, RandomPlayer, SolverPlayer, UctPlayer
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.trained import TrainedNet, load_trained, load_weights_file
from zerofleet.errors import UsageError
from zerofleet.games import load_game
from zerofleet.games.base import Game
from zerofleet.games.solvers import solver_for

_WITHOUT_GAME = ("random", "solver")


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestants:
    """Two players of one game."""

    game: Game
    players: tuple[Player, Player]


def find_contestants(
    names: tuple[str, str], storage: Path, *, game_spec: str | None, num_simulations: int
) -> Contestants:
    """Return the players that two names stand for; networks search with `num_simulations`.

    Raises:
        UsageError: a name stands for nobody, or the two do not play the same game, or none says which.
        GameError: the game has no solver.
        StorageError: weights cannot be read.
    """
    nets = [_net(name, storage) for name in names]
    specs = {net.game.spec for net in nets if net is not None} | ({game_spec} if game_spec else set())
    if len(specs) != 1:
        raise UsageError(
            f"{names[0]} and {names[1]} play different games: {' and '.join(sorted(specs))}"
            if specs
            else f"neither {names[0]} nor {names[1]} says which game is played; give --game"
        )
    game = next((net.game for net in nets if net is not None), None) or load_game(specs.pop())
    players = [
        _plain_player(name, game) if net is None else net.player(num_simulations)
        for name, net in zip(names, nets, strict=True)
    ]
    return Contestants(game=game, players=(players[0], players[1]))


def _net(name: str, storage: Path) -> TrainedNet | None:
    if name in _WITHOUT_GAME or name.startswith("uct:"):
        return None
    if name.endswith(".safetensors"):
        return load_weights_file(Path(name))
    folder = RunFolder(storage, name)
    if not folder.exists:
        raise UsageError(
            f"{name!r} is no player: expected a run in {storage}, a file of weights (*.safetensors), uct:N, random or "
            "solver"
        )
    return load_trained(folder)


def _plain_player(name: str, game: Game) -> Player:
    if name == "random":
        return RandomPlayer(game)
    if name == "solver":
        return SolverPlayer(game, solver_for(game))
    count = name.removeprefix("uct:")
    if not count.isdigit() or int(count) < 1:
        raise UsageError(f"{name!r}: expected uct: and a number of rollouts of 1 or more, such as uct:600")
    return UctPlayer(game, int(count))
