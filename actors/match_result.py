"""What a match says: every game, wins and losses by colour, and the score with its interval.

All results are for player A.  A win counts 1, a draw 1/2, a loss 0.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from statistics import fmean

_Z_95 = 1.959964


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchGame:
    """One game of a match."""

    number: int
    a_plays: int  # the player, 0 or 1, that A was
    ordinals: tuple[int, ...]  # the moves, the opening's included, as places in legal_moves
    actions: tuple[tuple[int, int], ...]  # the same moves as actions, each with its place among the moves that share it
    outcome: int  # 1, 0 or -1 for A
    termination: str  # the rules' reason, or "ply cap"


@dataclass(frozen=True, slots=True, kw_only=True)
class Tally:
    """Games by their outcome."""

    wins: int
    draws: int
    losses: int

    @property
    def num_games(self) -> int:
        """Return how many games were counted."""
        return self.wins + self.draws + self.losses

    @property
    def score(self) -> float:
        """Return the mean result, in [0, 1]; 1/2 where no game was counted."""
        return (self.wins + self.draws / 2) / self.num_games if self.num_games else 0.5

    def __str__(self) -> str:
        return f"{self.wins} won, {self.draws} drawn, {self.losses} lost"


def tally(outcomes: Sequence[int]) -> Tally:
    """Count outcomes, each 1, 0 or -1."""
    return Tally(wins=outcomes.count(1), draws=outcomes.count(0), losses=outcomes.count(-1))


@dataclass(frozen=True, slots=True, kw_only=True)
class MatchResult:
    """A finished match; games `2j` and `2j + 1` are a pair: the same opening, colours swapped."""

    game: str
    player_a: str
    player_b: str
    seed: int
    games: tuple[MatchGame, ...]  # by number
    num_distinct_games: int  # games that differ in colours or moves, symmetric ones counted once

    @property
    def total(self) -> Tally:
        """Return all games."""
        return tally([game.outcome for game in self.games])

    @property
    def as_first(self) -> Tally:
        """Return the games in which A was player 0."""
        return tally([game.outcome for game in self.games if game.a_plays == 0])

    @property
    def as_second(self) -> Tally:
        """Return the games in which A was player 1."""
        return tally([game.outcome for game in self.games if game.a_plays == 1])

    @property
    def score(self) -> float:
        """Return A's mean result, in [0, 1]."""
        return self.total.score

    @property
    def num_ply_caps(self) -> int:
        """Return how many games were cut short, and counted as draws for that reason."""
        return sum(game.termination == "ply cap" for game in self.games)

    def interval(self) -> tuple[float, float]:
        """Return the 95 % interval of the score; see `score_interval`."""
        results = [(1 + game.outcome) / 2 for game in self.games]
        return score_interval([fmean(pair) for pair in zip(results[::2], results[1::2], strict=True)])

    def summary(self) -> str:
        """Return the verdict in a few plain lines."""
        low, high = self.interval()
        lines = [
            f"{self.player_a} against {self.player_b}, {self.game}, {len(self.games)} games in pairs, seed {self.seed}",
            f"  score {self.score:.1%} (95 % interval {low:.1%} to {high:.1%}): {self.total}",
            f"  moving first: {self.as_first}; moving second: {self.as_second}",
        ]
        if self.num_distinct_games < len(self.games):
            lines.append(f"  only {self.num_distinct_games} of {len(self.games)} games are distinct")
        if self.num_ply_caps:
            lines.append(f"  {self.num_ply_caps} of the draws are games cut short by the ply cap")
        return "\n".join(lines)


def score_interval(pair_scores: Sequence[float]) -> tuple[float, float]:
    """Return Wilson's 95 % interval for the mean of pair scores, each in [0, 1].

    The two games of a pair share their opening, so pairs are the independent units.  Wilson's interval is for results
    of 0 and 1 with variance m (1 - m); pairs vary less, and the number of pairs is scaled up by how much less.  Their
    variance is taken with one lost and one won pair added, so that it is not 0 when all pairs end alike.
    """
    num_pairs = len(pair_scores)
    if num_pairs == 0:
        return 0.0, 1.0
    mean = fmean(pair_scores)
    variance = fmean((score - mean) ** 2 for score in [*pair_scores, 0.0, 1.0])
    binomial = mean * (1.0 - mean)
    n = num_pairs * max(1.0, binomial / variance)
    z2 = _Z_95**2
    centre = (mean + z2 / (2 * n)) / (1 + z2 / n)
    half = _Z_95 * math.sqrt(binomial / n + z2 / (4 * n * n)) / (1 + z2 / n)
    return max(0.0, centre - half), min(1.0, centre + half)
