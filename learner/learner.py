"""The learner role: a loop of reading, logging, acknowledging, training and publishing.

It is a plain class with `run(stop)`; who starts it, takes its epoch and sends its heartbeats is not its business.  What
it waits for stands in `waiting_for`, in words, and in a metric.
"""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict
from pathlib import Path
from typing import Any

from zerofleet.errors import DamagedRunError, StreamUnavailableError
from zerofleet.games.base import Game
from zerofleet.learner.checkpoint import Checkpoint, Identity, load_newest, plain_values, save_checkpoint
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.intake import Intake
from zerofleet.learner.log import EpisodeLog
from zerofleet.learner.publisher import WeightsPublisher
from zerofleet.learner.replay import Batch
from zerofleet.learner.trainer import StepReport
from zerofleet.learner.training import Training
from zerofleet.network.config import NetworkConfig
from zerofleet.network.files import sweep
from zerofleet.streams.store import RunStore
from zerofleet.streams.stream import EpisodeStream
from zerofleet.telemetry import Metrics

STEPS_PER_TURN = 4  # steps between two looks at the stream
BLOCK_S = 0.2  # longest wait inside one read, and so for a stop
GATHER_S = 0.2  # while it waits: between a read that found less than it asked for and the next
PAUSE_POLL_S = 1.0
BACKOFF_S = (0.1, 2.0)
_log = logging.getLogger(__name__)


class Learner:
    """Trains one run's network.  One thread runs it; any thread may read `waiting_for` and `numbers()`."""

    def __init__(  # noqa: PLR0913 - a role is put together from all of its parts, by name
        self,
        *,
        game: Game,
        config: LearnerConfig,
        network: NetworkConfig,
        seed: int,
        run: str,
        folder: Path,
        stream: EpisodeStream,
        store: RunStore,
        epoch: int,
        metrics: Metrics,
        run_config: Mapping[str, Any] | None = None,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        """Open the run's log in `folder` and build the network; `epoch` must have been taken from `store` for this one.

        Raises:
            StorageError: the log is damaged, of another run or game, or cannot be written.
        """
        self._config, self._epoch, self._store, self._metrics, self._clock = config, epoch, store, metrics, clock
        self._run_config = run_config or {}
        self._identity = Identity.of(game, network, seed, run)
        self._checkpoints = folder / "checkpoints"
        for own in (self._checkpoints, folder / "weights"):
            sweep(own)  # a predecessor that is still at it has lost its place
        self.log = EpisodeLog.open_epoch(folder / "log", epoch, run=run, game=game, segment_bytes=config.segment_bytes)
        self.training = Training(game, config, network, seed, self.log)
        self._publisher = WeightsPublisher(folder / "weights", epoch, store, self._identity, config.weights_keep)
        self._intake = Intake(self.training.rows_of, run, stream, self.log, epoch, metrics, clock)
        self.version = 0
        self.waiting_for = ""
        self.paused = False
        self.last_report: StepReport | None = None
        self._published_step = 0
        self._backoff_s = 0.0  # above 0 while the store does not answer
        self._pause_poll_at = clock()

    def run(self, stop: threading.Event) -> None:
        """Work until `stop` is set; then publish what was learned and return.

        Raises:
            StaleEpochError: a successor has taken over; nothing more may be done.
            FatalRoleError: a loss was not finite; nothing of it was published.
            StorageError: the disk is full, or a file is damaged.
        """
        try:
            self._resume(stop)
            while not stop.is_set():
                self._take_in(stop)
                self._make_steps(stop)
            if self.training.step > self._published_step:
                self._publish()
        finally:
            self.log.close()

    def numbers(self) -> dict[str, float]:
        """Return what the registry should show of this learner."""
        numbers = {
            "step": self.training.step,
            "weights_version": self.version,
            "games": self.log.num_episodes,
            "positions": self.log.num_rows,
            "positions_needed": self.training.rows_needed,
            "samples_per_insert": self.training.samples_per_insert,
            "samples_per_insert_wanted": self._config.samples_per_insert,
            "replay_positions": len(self.training.buffer),
            "replay_bytes": self.training.buffer.num_bytes,
            "log_bytes": self.log.num_bytes,
            "duplicates": self._intake.num_duplicates,
            "dead_letters": self._intake.num_dead_letters,
        }
        if self.last_report is not None:
            numbers |= {f"loss_{name}": value for name, value in asdict(self.last_report).items()}
        return {name: float(value) for name, value in numbers.items()}

    # Reading and waiting

    def _take_in(self, stop: threading.Event) -> None:
        """Log what the stream holds, waiting for it only where no step can be made; name what is waited for."""
        self.waiting_for, reason = self._wait()
        began, logged = self._clock(), self.log.num_episodes
        if self._when_store_answers(self._talk_to_store, BLOCK_S if reason else 0.0):
            self._backoff_s = 0.0
        else:
            self._backoff_s = min(max(BACKOFF_S[0], 2 * self._backoff_s), BACKOFF_S[1])
            if reason:
                stop.wait(self._backoff_s)
        if reason and 0 < self.log.num_episodes - logged < self._config.read_episodes and self._wait()[1]:
            stop.wait(GATHER_S)  # games that come one by one are logged and acknowledged several at a time
        if reason:
            self._metrics.learner_waiting_seconds.labels(reason).inc(max(0.0, self._clock() - began))

    def _talk_to_store(self, block_s: float) -> None:
        self._publisher.announce()
        self._poll_pause()
        if self.training.may_read or self.paused:
            for rows, first_row in self._intake.take_in(self._config.read_episodes, block_s):
                self.training.offer(rows, first_row)
            self._metrics.learner_replay_positions.set(len(self.training.buffer))

    def _wait(self) -> tuple[str, str]:
        """Return what the learner waits for, in words and as a metric's label; empty while it can make a step."""
        if self.paused:
            return "the end of the pause", "paused"
        if self.training.may_step:
            return "", ""
        if self._backoff_s:
            return "the store, which does not answer", "store"
        return f"has {self.log.num_rows:,} of {self.training.rows_needed:,} positions", "positions"

    def _poll_pause(self) -> None:
        if self._clock() >= self._pause_poll_at:
            self._pause_poll_at = self._clock() + PAUSE_POLL_S
            self.paused = self._store.paused()

    def _when_store_answers(self, call: Callable[..., object], *arguments: object) -> bool:
        """Call and return True, or False where the store does not answer: everything is safe, try again later."""
        try:
            call(*arguments)
        except StreamUnavailableError as error:
            if not self._backoff_s:
                _log.warning("the store does not answer, waiting: %s", error)
            return False
        return True

    # Training and publishing

    def _make_steps(self, stop: threading.Event) -> None:
        """Make the steps that the log allows, a few at most, and publish where an interval ends."""
        for _ in range(STEPS_PER_TURN):
            if stop.is_set() or self.paused or not self.training.may_step:
                return
            report, batch = self.training.make_step()
            self._show(report, batch)
            if self.training.step % self._config.publish_interval_steps == 0:
                self._publish()

    def _publish(self) -> None:
        """Publish the present weights under a new number."""
        self.version = self._publisher.next_version(self.version)
        self._publish_version()

    def _publish_version(self) -> None:
        """Write the checkpoint first, then the weights file, then the number (later, where the store is away)."""
        training = self.training
        self._save_checkpoint()
        self._publisher.write(self.version, training.step, training.trainer.published_net)
        self._when_store_answers(self._publisher.announce)
        self._published_step = training.step
        self._metrics.learner_weights_version.set(self.version)
        _log.info("weights version %d: step %d, %d positions", self.version, training.step, self.log.num_rows)

    def _save_checkpoint(self) -> None:
        training, rate = self.training, self.training.rate
        training.trainer.require_finite()
        checkpoint = Checkpoint(
            step=training.step,
            version=self.version,
            rows=rate.rows_needed(training.step),
            rows_sampled=training.rows_sampled,
            anchor_step=rate.anchor_step,
            anchor_rows=rate.anchor_rows,
            precision=training.trainer.precision,
            config=plain_values(asdict(self._config)),
            tensors=training.trainer.state(),
            run_config=self._run_config,
        )
        save_checkpoint(self._checkpoints, self._epoch, self._identity, checkpoint, self._config.checkpoint_keep)

    # Starting

    def _resume(self, stop: threading.Event) -> None:
        """Go on from the newest checkpoint, or begin with the untrained network as version 1."""
        checkpoint = load_newest(self._checkpoints, self._identity)
        if checkpoint is None:
            if self._publisher.has_files:
                raise DamagedRunError(
                    f"{self._checkpoints}: no checkpoint, though weights were published; restore the folder"
                )
            self._publish()
            return
        changes = checkpoint.changes(self._config)
        if checkpoint.precision != self.training.trainer.precision:
            changes.append(f"steps compute in {self.training.trainer.precision}, not in {checkpoint.precision}")
        for change in changes:
            _log.warning("from step %d on, %s", checkpoint.step + 1, change)
        self.training.restore(
            checkpoint.tensors, checkpoint.step, checkpoint.rate(self._config), checkpoint.rows_sampled
        )
        self.version = self._free_version(checkpoint.version, stop)
        self._publish_version()  # under this epoch, before anything else counts
        lost = max(0, self.training.rate.steps_allowed(self.log.num_rows) - checkpoint.step)
        self._metrics.learner_lost_steps.set(lost)
        self._metrics.learner_step.set(checkpoint.step)
        _log.info(
            "resumed at step %d, version %d, with %d positions logged; %d steps to catch up",
            *(checkpoint.step, self.version, self.log.num_rows, lost),
        )

    def _free_version(self, version: int, stop: threading.Event) -> int:
        """Ask, as long as it takes, whether the store knows the checkpoint's version as these weights."""
        training = self.training
        while not stop.is_set():
            try:
                return self._publisher.free_version(version, training.step, training.trainer.published_net)
            except StreamUnavailableError as error:
                _log.warning("the store does not answer, waiting: %s", error)
                self.waiting_for = "the store, which does not answer"
                stop.wait(BACKOFF_S[1])
        return version

    def _show(self, report: StepReport, batch: Batch) -> None:
        metrics = self._metrics
        self.last_report = report
        self.waiting_for = ""
        metrics.learner_steps.inc()
        metrics.learner_step.set(self.training.step)
        for part in ("total", "policy", "value", "target_entropy"):
            metrics.learner_loss.labels(part).set(getattr(report, part))
        metrics.learner_samples_per_insert.set(self.training.samples_per_insert)
        metrics.learner_replay_distinct_share.set(batch.num_distinct / len(batch))
