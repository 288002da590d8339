"""Who may play in `arena`, from the words a user writes.

RUN            a run's newest weights
FILE           a weights file, `*.safetensors`
uct:N          UCB1 with N random rollouts a move
random         each legal move with the same probability
solver         perfect play, where the game has a solver

A network may have options, such as RUN(simulations=600,symmetries=true): its own number of simulations, and what
`actors.play_style` knows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from zerofleet.actors.play_style import PlayStyle
from zerofleet.actors.players import Player, RandomPlayer, SolverPlayer, UctPlayer
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.trained import TrainedNet, load_trained, load_weights_file
from zerofleet.config import build, check_values
from zerofleet.errors import UsageError
from zerofleet.games import load_game
from zerofleet.games.base import Game
from zerofleet.games.solvers import solver_for
from zerofleet.games.spec import parse_spec
from zerofleet.search.base import MAX_SIMULATIONS

_WITHOUT_GAME = ("random", "solver")


@dataclass(frozen=True, slots=True, kw_only=True)
class _NetOptions(PlayStyle):
    """What may stand in parentheses behind a network's name."""

    simulations: int

    def __post_init__(self) -> None:
        PlayStyle.__post_init__(self)
        law = (0 <= self.simulations <= MAX_SIMULATIONS, "simulations", f"must lie in [0, {MAX_SIMULATIONS:,}]")
        check_values("player", self, [law])


@dataclass(frozen=True, slots=True, kw_only=True)
class Contestants:
    """Two players of one game."""

    game: Game
    players: tuple[Player, Player]


def find_contestants(
    names: tuple[str, str], storage: Path, *, game_spec: str | None, num_simulations: int, seed: int = 0
) -> Contestants:
    """Return the players that two names stand for; networks search with `num_simulations` where they name no number.

    Raises:
        UsageError: a name stands for nobody, or has options that are not there, or the two do not play the same game,
            or none says which.
        GameError: the game has no solver.
        StorageError: weights cannot be read.
    """
    parsed = [parse_spec(name, "player") for name in names]
    nets = [_net(name, storage) for name, _options in parsed]
    specs = {net.game.spec for net in nets if net is not None} | ({game_spec} if game_spec else set())
    if len(specs) != 1:
        raise UsageError(
            f"{names[0]} and {names[1]} play different games: {' and '.join(sorted(specs))}"
            if specs
            else f"neither {names[0]} nor {names[1]} says which game is played; give --game"
        )
    game = next((net.game for net in nets if net is not None), None) or load_game(specs.pop())
    players = [
        _plain_player(name, options, game)
        if net is None
        else _net_player(net, {"simulations": num_simulations, **options}, seed)
        for (name, options), net in zip(parsed, nets, strict=True)
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


def _net_player(net: TrainedNet, options: Mapping[str, object], seed: int) -> Player:
    wanted = build(_NetOptions, options, "player")
    return net.player(wanted.simulations, wanted, seed=seed)


def _plain_player(name: str, options: Mapping[str, object], game: Game) -> Player:
    if options:
        raise UsageError(f"{name} is no network and has no options, got {', '.join(options)}")
    if name == "random":
        return RandomPlayer(game)
    if name == "solver":
        return SolverPlayer(game, solver_for(game))
    count = name.removeprefix("uct:")
    if not count.isdigit() or int(count) < 1:
        raise UsageError(f"{name!r}: expected uct: and a number of rollouts of 1 or more, such as uct:600")
    return UctPlayer(game, int(count))
