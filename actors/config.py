"""How games are played for training: exploration, length, and how many at a time.

This module knows no process and no machine; the composition says how many actors and servers there are.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from zerofleet.config import check_values
from zerofleet.errors import ConfigError
from zerofleet.games.base import Game
from zerofleet.search.base import SearchConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfPlayConfig:
    """Self-play as AlphaZero (Silver et al. 2018) runs it."""

    games_per_actor: int = 0
    """Games an actor plays at once; 0 derives the number (see `derive_games_per_actor`)."""

    num_groups: int = 2
    """Groups that an actor's games are split into: while one group's leaves are evaluated, another is searched."""

    dirichlet_alpha: float = 0.0
    """Parameter of the noise at the root; 0 derives 10 / (legal moves there), the rule behind the paper's values."""

    dirichlet_fraction: float = 0.25
    """Share of the noise in the priors of the root; 0 turns it off."""

    temperature: float = 1.0
    """Moves are drawn with probability proportional to visits ** (1 / temperature) in the first plies of a game."""

    temperature_plies: int = 30
    """Plies played with `temperature`; from then on `final_temperature` holds."""

    final_temperature: float = 0.0
    """Temperature of the later plies; 0 plays the most visited move, ties drawn at random."""

    random_opening_fraction: float = 0.0
    """Share of the games that begin with moves drawn uniformly, without a search, which the learner does not learn."""

    random_opening_plies: int = 0
    """Most such moves; a game's number of them is drawn uniformly from 1 to this."""

    max_plies: int = 0
    """A game that is not over after so many plies ends as a draw with the termination "ply cap"; 0 sets no cap."""

    game_number_block: int = 32
    """Game numbers taken from the store at once."""

    max_unpublished_episodes: int = 256
    """Finished games kept while the store is away; with so many in hand the actor waits."""

    drain_s: float = 10.0
    """How long an actor that was told to stop tries to publish the games it has finished."""

    def __post_init__(self) -> None:
        laws = (
            (self.games_per_actor >= 0, "games_per_actor", "must be 0 (derived) or more"),
            (self.num_groups >= 1, "num_groups", "must be 1 or more"),
            (0.0 <= self.dirichlet_alpha < 1e6, "dirichlet_alpha", "must be 0 (derived) or more and finite"),
            (0.0 <= self.dirichlet_fraction <= 1.0, "dirichlet_fraction", "must lie in [0, 1]"),
            (0.0 <= self.temperature < 1e6, "temperature", "must be 0 or more and finite"),
            (self.temperature_plies >= 0, "temperature_plies", "must be 0 or more"),
            (0.0 <= self.final_temperature < 1e6, "final_temperature", "must be 0 or more and finite"),
            (0.0 <= self.random_opening_fraction <= 1.0, "random_opening_fraction", "must lie in [0, 1]"),
            (
                self.random_opening_plies >= (1 if self.random_opening_fraction > 0.0 else 0),
                "random_opening_plies",
                "must be 0 or more, and 1 or more where games begin with random moves",
            ),
            (
                not 0 < self.max_plies <= self.random_opening_plies,
                "random_opening_plies",
                "must be less than max_plies, where that sets a cap",
            ),
            (self.max_plies >= 0, "max_plies", "must be 0 (no cap) or more"),
            (1 <= self.game_number_block <= 2**16, "game_number_block", "must lie in [1, 65536]"),
            (self.max_unpublished_episodes >= 1, "max_unpublished_episodes", "must be 1 or more"),
            (0.0 <= self.drain_s < math.inf, "drain_s", "must be 0 or more and finite"),
        )
        check_values("self_play", self, laws)

    def temperature_at(self, ply: int) -> float:
        """Return the temperature that the move after `ply` moves is drawn with."""
        return self.temperature if ply < self.temperature_plies else self.final_temperature

    def alpha_for(self, num_legal: int) -> float:
        """Return the Dirichlet parameter for a root with so many legal moves."""
        return self.dirichlet_alpha if self.dirichlet_alpha > 0.0 else 10.0 / num_legal


@dataclass(frozen=True, slots=True, kw_only=True)
class SelfPlaySetup:
    """All that fixes what an actor plays: with it, a game's number determines that game's random draws."""

    run: str
    actor: str  # the role's name, such as "actor-3"
    seed: int
    game: Game
    search: SearchConfig
    self_play: SelfPlayConfig
    num_games: int  # games at once

    def __post_init__(self) -> None:
        if self.num_games < 1:
            raise ConfigError(f"an actor plays at least 1 game at once, got {self.num_games}")


def derive_games_per_actor(
    config: SelfPlayConfig, search: SearchConfig, *, num_actors: int, num_servers: int, batch_size: int = 64
) -> int:
    """Return `config.games_per_actor`, or where it is 0 the fewest games that keep the inference servers busy.

    One group of every actor together fills one batch of `batch_size` on every server, so that each server has a full
    batch in hand while the other groups are searched:

        games = num_groups * ceil(batch_size * num_servers / (num_actors * leaves)),
        leaves = min(leaves_per_tree, max(1, num_simulations // 16)).

    Fewer games starve a server; more only make each one take longer, and with it the first weights: a game of `p` plies
    takes about `num_actors * games * num_simulations * p / (positions per second)`.
    """
    if config.games_per_actor > 0:
        return config.games_per_actor
    leaves = min(search.leaves_per_tree, max(1, search.num_simulations // 16))
    return config.num_groups * math.ceil(batch_size * max(1, num_servers) / (max(1, num_actors) * leaves))
