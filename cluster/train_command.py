"""What `zerofleet train` prints, and the exit code it gives."""

from __future__ import annotations

import logging

from zerofleet.actors.match_result import MatchResult
from zerofleet.cluster.launch import TrainOptions, TrainResult, train
from zerofleet.cluster.match import final_match
from zerofleet.cluster.progress import make_watcher, write_json, write_line

_EXIT_CODES = {"failed": 1, "interrupted": 130}


def run_train(options: TrainOptions, *, with_match: bool, as_json: bool) -> int:
    """Train, show it, play the final match if asked for, and return the exit code."""
    logging.getLogger("zerofleet").addHandler(logging.NullHandler())
    watcher = make_watcher(as_json=as_json, began=options.began)
    try:
        result = train(options, watcher)
    finally:
        watcher.close()
    match = None
    if with_match and result.exit_reason not in _EXIT_CODES:
        if not as_json:
            write_line("playing the final match")
        match = final_match(result.folder)
    if as_json:
        write_json({**_summary(result), **({"match": _match_record(match)} if match is not None else {})})
    else:
        _print_summary(result)
        if match is not None:
            write_line(match.summary())
    return _EXIT_CODES.get(result.exit_reason, 0)


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
    return {"score": match.score, "low": low, "high": high, "games": match.total.num_games}
