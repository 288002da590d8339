"""`zerofleet evaluate`: how often a run's player gives game value away, beside a search that knows no network."""

from __future__ import annotations

from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from zerofleet.actors.evaluation import ErrorCount, Errors, count_errors
from zerofleet.actors.play_style import PLAIN, PlayStyle
from zerofleet.actors.players import UctPlayer
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.cluster.trained import load_trained
from zerofleet.games.positions import read_positions, solved_positions
from zerofleet.games.solvers import solver_for

NUM_EACH = 200
"""Positions drawn of each stage."""


def evaluate_run(
    folder: RunFolder,
    *,
    positions_file: Path | None,
    num_simulations: int,
    seed: int,
    num_each: int = NUM_EACH,
    style: PlayStyle = PLAIN,
) -> dict[str, Any]:
    """Count the errors of the run's newest weights, and of UCT with as many simulations, on the same positions.

    0 simulations measure the network's policy alone; there is no baseline then.

    Raises:
        GameError: the game has no solver.
        UsageError: the file of positions is wrong.
        StorageError: the run has published no weights.
    """
    net = load_trained(folder)
    game, solver = net.game, solver_for(net.game)
    if positions_file is not None:
        positions = read_positions(game, solver, positions_file)
    else:
        positions = solved_positions(game, solver, seed=seed, num_each=num_each)
    policy = count_errors(game, solver, net.player(0, style, seed=seed), positions, seed=seed)
    searched, baseline = policy, None
    if num_simulations > 0:
        searched = count_errors(game, solver, net.player(num_simulations, style, seed=seed), positions, seed=seed)
        baseline = count_errors(game, solver, UctPlayer(game, num_simulations), positions, seed=seed)
    return {
        "run": folder.run,
        "weights_version": net.version,
        "seed": seed,
        "simulations": num_simulations,
        "style": str(style),
        "positions": len(positions),
        "errors": searched.total.errors,
        "error_rate": searched.total.rate,
        "ci95": list(searched.total.interval),
        "by_stage": {stage: _describe(count) for stage, count in searched.stages.items()},
        "policy_only_error_rate": policy.total.rate,
        "policy_only_by_stage": {stage: _describe(count) for stage, count in policy.stages.items()},
        "baseline": None if baseline is None else _describe_baseline(baseline),
    }


def print_evaluation(found: dict[str, Any]) -> None:
    """Print what `evaluate --json` holds, for people."""
    console = Console(highlight=False, soft_wrap=True)
    style = f", {found['style']}" if found["style"] else ""
    console.print(
        f"{found['run']}, weights version {found['weights_version']}{style}: moves that give game value away",
        markup=False,
    )
    head, *rows = evaluation_rows(found)
    table = Table(box=None, pad_edge=False)
    for number, column in enumerate(head):
        table.add_column(column, justify="right" if number else "left")
    for row in rows:
        table.add_row(*row)
    console.print(table)
    low, high = found["ci95"]
    console.print(f"errors {found['errors']} of {found['positions']}, 95 % interval {low:.1%} to {high:.1%}")


def evaluation_rows(found: dict[str, Any]) -> list[list[str]]:
    """Return the table of an evaluation: its head, a row for each stage, and one for all positions."""
    head = ["positions", "number", "policy alone"]
    if found["baseline"] is not None:
        head += [f"{found['simulations']} simulations", f"UCT, {found['simulations']} rollouts"]
    rows = [head]
    for stage, count in [*found["by_stage"].items(), ("all", found)]:
        policy = found["policy_only_error_rate"] if stage == "all" else _rate(found["policy_only_by_stage"], stage)
        row = [stage, str(count["positions"]), f"{policy:.1%}"]
        if found["baseline"] is not None:
            uct = found["baseline"]["error_rate"] if stage == "all" else _rate(found["baseline"]["by_stage"], stage)
            row += [f"{count['error_rate']:.1%}", f"{uct:.1%}"]
        rows.append(row)
    return rows


def _rate(stages: dict[str, Any], stage: str) -> float:
    return float(stages[stage]["error_rate"])


def _describe(count: ErrorCount) -> dict[str, Any]:
    return {
        "positions": count.positions,
        "errors": count.errors,
        "error_rate": count.rate,
        "ci95": list(count.interval),
    }


def _describe_baseline(errors: Errors) -> dict[str, Any]:
    stages = {stage: _describe(count) for stage, count in errors.stages.items()}
    return {"player": errors.player, **_describe(errors.total), "by_stage": stages}
