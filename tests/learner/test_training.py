"""Same log, same learner: whenever rows came, however often the process died."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
import torch

from zerofleet.errors import DamagedRunError
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.learner import Learner
from zerofleet.learner.log import EpisodeLog
from zerofleet.learner.training import Training, replay_log

Same = Callable[[Any, Any], bool]


def _same(first: Training, second: Training) -> bool:
    ours, theirs = first.trainer.state(), second.trainer.state()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_online_in_odd_reads_and_offline_from_the_log_are_the_same_learner(bench: Any, small_config: Any) -> None:
    learner = bench.learner()
    for first in range(0, 30, 6):  # some arrive while it trains, some while it waits
        bench.publish(range(first, first + 6))
        learner.log  # noqa: B018
    bench.run_dry(learner)
    log = EpisodeLog.read_only(bench.folder / "log")
    offline = replay_log(bench.game, small_config, bench.network, bench.seed, log, num_steps=10_000)
    assert offline.step == learner.training.step > 20
    assert _same(offline, learner.training)
    other = replay_log(bench.game, small_config, bench.network, bench.seed + 1, log, num_steps=10_000)
    assert not _same(other, learner.training)


@pytest.mark.parametrize("value_lambda", [0.5, 1.0])
def test_traces_are_the_same_online_and_offline_and_not_outcomes(
    bench: Any, small_config: Any, value_lambda: float
) -> None:
    config = replace(small_config, value_target="trace", value_lambda=value_lambda)
    bench.publish(range(20))
    learner = bench.run_dry(bench.learner(config))
    log = EpisodeLog.read_only(bench.folder / "log")
    offline = replay_log(bench.game, config, bench.network, bench.seed, log, num_steps=10_000)
    assert offline.step == learner.training.step > 10
    assert _same(offline, learner.training)
    outcomes = replay_log(bench.game, small_config, bench.network, bench.seed, log, num_steps=10_000)
    assert not _same(outcomes, offline)


@pytest.mark.parametrize("kill_at", [1, 7, 10, 33])
def test_killed_and_resumed_is_the_same_learner_as_never_stopped(bench: Any, small_config: Any, kill_at: int) -> None:
    """Fault 69: resume is exact, also where steps since the last checkpoint have to be repeated."""
    bench.publish(range(25))
    first = bench.learner()
    killed = RuntimeError("kill -9")
    make_step = first.training.make_step

    def dying_step() -> Any:
        if first.training.step == kill_at:
            raise killed
        return make_step()

    first.training.make_step = dying_step
    with pytest.raises(RuntimeError, match="kill -9"):
        bench.run_dry(first)
    second = bench.run_dry(bench.learner())
    log = EpisodeLog.read_only(bench.folder / "log")
    whole = replay_log(bench.game, small_config, bench.network, bench.seed, log, num_steps=10_000)
    assert second.training.step == whole.step
    assert _same(second.training, whole)
    assert second.training.rows_sampled == whole.rows_sampled


def test_a_resumed_learner_makes_no_more_steps_than_the_log_allows(bench: Any) -> None:
    """Fault 72: what is to catch up is what was lost since the checkpoint, and it is counted."""
    bench.publish(range(25))
    first = bench.run_dry(bench.learner())
    step, rows = first.training.step, first.log.num_rows
    steps = []
    second = bench.learner()
    make_step = second.training.make_step
    second.training.make_step = lambda: steps.append(1) or make_step()
    bench.run_dry(second)
    assert (second.training.step, second.log.num_rows) == (step, rows)
    assert steps == []
    assert bench.metrics.learner_lost_steps._value.get() == 0


def test_a_raised_proportion_asks_for_no_burst(bench: Any, small_config: LearnerConfig) -> None:
    """Fault 72."""
    bench.publish(range(25))
    first = bench.run_dry(bench.learner())
    eager = replace(small_config, samples_per_insert=16.0)
    second = bench.run_dry(bench.learner(eager))
    # from n(step) on, half a row a step: what is logged beyond n(step) is less than one step of the old proportion
    assert second.training.step - first.training.step <= 8
    bench.publish(range(25, 30))
    third = bench.run_dry(bench.learner(eager))
    new_rows = third.log.num_rows - second.log.num_rows
    assert third.training.step - second.training.step in (2 * new_rows, 2 * new_rows - 1, 2 * new_rows + 1)


def test_a_pause_overfills_nothing_and_loses_nothing(bench: Any, small_config: LearnerConfig) -> None:
    """While paused the log grows beyond what the buffer holds; afterwards the same steps are made."""
    bench.store.set_paused(True)
    learner = bench.learner()
    learner.paused = True
    bench.publish(range(60))
    bench.run_until(learner, lambda it: bench.stream.counts().backlog == 0 and bench.stream.counts().pending == 0)
    assert learner.training.step == 0
    assert learner.log.num_rows > learner.training.buffer.capacity == 100
    bench.store.set_paused(False)
    resumed = bench.run_dry(bench.learner())
    assert resumed.training.step > 90
    log = EpisodeLog.read_only(bench.folder / "log")
    offline = replay_log(bench.game, small_config, bench.network, bench.seed, log, num_steps=10_000)
    assert _same(offline, resumed.training)


def test_a_log_that_is_shorter_than_its_checkpoint_is_refused(bench: Any) -> None:
    """Fault 87: a learner does not go on from data that are not its own."""
    bench.publish(range(25))
    bench.run_dry(bench.learner())
    for path in (bench.folder / "log").iterdir():
        path.unlink()
    learner = bench.learner()
    with pytest.raises(DamagedRunError, match="acknowledged games are missing"):
        bench.run_dry(learner)


def test_steps_sample_only_rows_below_their_need(bench: Any) -> None:
    learner: Learner = bench.learner()
    bench.publish(range(10))
    bench.run_dry(learner)
    windows = [learner.training.rate.window(step) for step in (1, 5, 6, 20)]
    assert windows == [(0, 20), (0, 20), (0, 24), (20, 80)]  # 4 rows a step, at least 20, at most the newest 60
