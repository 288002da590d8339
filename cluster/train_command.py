"""What `zerofleet train` prints, and the exit code it gives."""

from __future__ import annotations

import logging
from typing import Any

from zerofleet.actors.match_result import MatchResult
from zerofleet.cluster.evaluate import evaluate_run, print_evaluation
from zerofleet.cluster.launch import TrainOptions, TrainResult, seconds_to_first_weights, train
from zerofleet.cluster.limits import ExitReason
from zerofleet.cluster.match import NUM_SIMULATIONS, final_match
from zerofleet.cluster.progress import ClosingWatcher, make_watcher, write_json, write_line
from zerofleet.cluster.run_folder import STRENGTH, RunFolder
from zerofleet.errors import UsageError
from zerofleet.games.solvers import has_solver

_EXIT_CODES = {"failed": 1, "interrupted": 130}


def run_train(options: TrainOptions, *, with_match: bool, as_json: bool) -> int:
    """Train, show it, play the final match if asked for, and return the exit code."""
    logging.getLogger("zerofleet").addHandler(logging.NullHandler())
    watcher = make_watcher(as_json=as_json, began=options.began)
    summary: dict[str, object] = {}
    try:
        try:
            result = train(options, watcher)
        finally:
            watcher.close()
        summary = _summary(result)
        if not as_json:
            _print_summary(result)
        if with_match and result.exit_reason not in _EXIT_CODES:
            summary |= {"match": _match_record(_play(result, as_json=as_json))}
            summary |= {"evaluation": _count_errors(result, as_json=as_json)}
            _keep_strength(result.folder, match=summary["match"], evaluation=summary["evaluation"])
    except KeyboardInterrupt:
        _tell_end(options, watcher, summary, "interrupted", "ended at once", as_json=as_json)
        return _EXIT_CODES["interrupted"]
    except Exception as error:
        if watcher.prepared_run or not isinstance(error, UsageError):
            _tell_end(options, watcher, summary, "failed", f"{type(error).__name__}: {error}", as_json=as_json)
        raise
    if as_json:
        write_json(summary)
    return _EXIT_CODES.get(result.exit_reason, 0)


def _play(result: TrainResult, *, as_json: bool) -> MatchResult:
    if as_json:
        return final_match(result.folder)
    write_line("playing the final match")
    match = final_match(result.folder)
    write_line(match.summary())
    return match


def _count_errors(result: TrainResult, *, as_json: bool) -> dict[str, Any] | None:
    """Return what `evaluate` says of the run; None of a game that nobody can solve."""
    if not has_solver(result.folder.game_source(result.folder.config().game).load()):
        return None
    found = evaluate_run(result.folder, positions_file=None, num_simulations=NUM_SIMULATIONS, seed=0)
    if not as_json:
        print_evaluation(found)
    return found


def _keep_strength(folder: RunFolder, **found: object) -> None:
    """Keep what was found of the newest weights, which nobody replaces any more once the training has ended."""
    published = folder.published()
    if published is not None:
        folder.write_record(STRENGTH, {"weights_version": published.version, **found})


def _tell_end(
    options: TrainOptions,
    watcher: ClosingWatcher,
    summary: dict[str, object],
    exit_reason: ExitReason,
    error: str,
    *,
    as_json: bool,
) -> None:
    """Say how a `train` ended that raised; the last JSON line has the run's summary where it had ended before that."""
    if not as_json:
        if exit_reason == "interrupted" and watcher.prepared_run and not summary:
            run = RunFolder(options.storage, watcher.prepared_run)
            resume = f"zerofleet train {options.game} --run {run.as_arguments}"
            write_line(f"run {run.run} was {error}; `{resume}` resumes it")
        return
    seen = watcher.last_state
    known = summary or {
        "run": watcher.prepared_run or options.run,
        "seconds_to_first_weights": seconds_to_first_weights(seen, options.began),
        "games": seen.games,
        "steps": seen.step,
        "weights_version": seen.weights_version,
    }
    write_json({**known, "exit_reason": exit_reason, "error": error})


def _summary(result: TrainResult) -> dict[str, object]:
    return {
        "run": result.run,
        "seconds_to_first_weights": result.seconds_to_first_weights,
        "games": result.games,
        "steps": result.steps,
        "weights_version": result.weights_version,
        "exit_reason": result.exit_reason,
        "error": result.error,
    }


def _print_summary(result: TrainResult) -> None:
    first = result.seconds_to_first_weights
    weights = f"first new weights after {first:.1f} s" if first is not None else "no new weights"
    error = f": {result.error}" if result.error else ""
    write_line(
        f"run {result.run} ended ({result.exit_reason}){error}: {result.games:,} games, {result.steps:,} steps, "
        f"weights version {result.weights_version}, {weights}"
    )


def _match_record(match: MatchResult) -> dict[str, object]:
    low, high = match.interval()
    players = {"player": match.player_a, "opponent": match.player_b}
    return {**players, "score": match.score, "low": low, "high": high, "games": match.total.num_games}
