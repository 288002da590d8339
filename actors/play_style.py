"""What a network's player adds to plain search: looks at symmetric images, random games, another choice of the move."""

from __future__ import annotations

from dataclasses import dataclass, fields

from zerofleet.actors.players import Choice
from zerofleet.config import check_values
from zerofleet.games.base import Game
from zerofleet.search.base import Evaluator
from zerofleet.search.evaluators import MixedEvaluator, RolloutEvaluator, SymmetryAveragedEvaluator


@dataclass(frozen=True, slots=True, kw_only=True)
class PlayStyle:
    """How a network plays a match, a person or a test; self-play knows none of it."""

    symmetries: bool = False
    """A position is judged by the mean over its images under the game's symmetries: dearer by as many evaluations."""

    rollouts: float = 0.0
    """AlphaGo's λ (Silver et al. 2016): the share of a random game's outcome in a leaf's value; the paper's is 0.5."""

    choice: Choice = "visits"
    """Which move is played: the most visited, or by visits * (1 + Q) (`visits_q`)."""

    def __post_init__(self) -> None:
        laws = (
            (0.0 <= self.rollouts <= 1.0, "rollouts", "must lie in [0, 1]"),
            (self.choice in ("visits", "visits_q"), "choice", "must be visits or visits_q"),
        )
        check_values("player", self, laws)

    def judge(self, game: Game, evaluator: Evaluator, seed: int) -> Evaluator:
        """Return the evaluator that the search asks instead of `evaluator`; `seed` is of the random games."""
        if self.symmetries:
            evaluator = SymmetryAveragedEvaluator(evaluator, game)
        if self.rollouts > 0.0:
            evaluator = MixedEvaluator(evaluator, RolloutEvaluator(game, seed), self.rollouts)
        return evaluator

    def __str__(self) -> str:
        """Return what differs from plain search, such as "rollouts=0.5,symmetries=true"; "" where nothing does."""
        changed = {it.name: getattr(self, it.name) for it in fields(PlayStyle)}
        return ",".join(
            f"{name}={str(value).lower()}" for name, value in sorted(changed.items()) if value != getattr(PLAIN, name)
        )


PLAIN = PlayStyle()

__all__ = ["PLAIN", "PlayStyle"]
