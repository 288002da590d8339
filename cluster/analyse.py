"""`zerofleet analyse`: what the search thinks of a position, move by move."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from zerofleet.actors.play_style import PLAIN, PlayStyle
from zerofleet.cluster.trained import find_searcher
from zerofleet.errors import UsageError
from zerofleet.games.notation import play_line
from zerofleet.search.analysis import Analysis, analyse, draw_tree

_TREE_SHARE = 50
"""Branches with fewer than one in so many visits are not drawn."""


def analyse_position(
    game_spec: str,
    run: str | None,
    storage: Path,
    *,
    position: str,
    num_simulations: int,
    seed: int,
    style: PlayStyle = PLAIN,
) -> Analysis:
    """Search a position with a run's newest weights, or without a run with random rollouts.

    Raises:
        UsageError: the run plays another game, or the position's moves are not there.
        StorageError: the run has published no weights.
    """
    game, search, evaluator = find_searcher(game_spec, run, storage, style=style, seed=seed)
    state = play_line(game, position)
    if game.terminal_value(state) is not None:
        raise UsageError(f"the game is over in that position: {game.termination(state)}")
    return analyse(game, state, evaluator, replace(search, num_simulations=num_simulations))


def analysis_record(analysis: Analysis) -> dict[str, Any]:
    """Return what `analyse --json` prints; arrays follow the legal moves, values are for the player to move."""
    branches = analysis.branches
    return {
        "move": analysis.best.text,
        "value": analysis.value,
        "moves": [branch.text for branch in branches],
        "visits": [branch.visits for branch in branches],
        "priors": [branch.prior for branch in branches],
        "q": [branch.q if branch.visits else None for branch in branches],
        "pv": [branch.text for branch in analysis.principal_variation],
        "weights_version": analysis.weights_version,
    }


def print_analysis(analysis: Analysis, board: str | None) -> None:
    """Print board, verdict, a table of the moves and the tree's main branches."""
    console = Console(highlight=False, soft_wrap=True)
    if board:
        console.print(board, markup=False)
    total = sum(branch.visits for branch in analysis.branches)
    console.print(
        f"best {analysis.best.text}, value {analysis.value:+.3f} for the player to move, {total} simulations, "
        f"weights version {analysis.weights_version}",
        markup=False,
    )
    console.print("line " + " ".join(branch.text for branch in analysis.principal_variation), markup=False)
    table = Table(box=None, pad_edge=False)
    table.add_column("move")
    for column in ("P", "N", "Q", "U", "Q + U"):
        table.add_column(column, justify="right")
    for branch in sorted(analysis.branches, key=lambda branch: (-branch.visits, -branch.prior)):
        q = f"{branch.q:+.3f}" if branch.visits else "-"
        table.add_row(
            branch.text, f"{branch.prior:.3f}", str(branch.visits), q, f"{branch.u:.3f}", f"{branch.score:+.3f}"
        )
    console.print(table)
    for line in draw_tree(analysis, min_visits=total // _TREE_SHARE):
        console.print(line, markup=False)
