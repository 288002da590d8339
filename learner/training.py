"""The learner as a function of its log: same log, same weights.

Step k samples rows below n(k) of the log with random numbers from `[seed, k]`, and nothing else goes into it.  So it
does not matter when rows arrived, in how large reads, or whether the process was killed in between: the learner role, a
resumed one, and `replay_log` (which trains offline) all make the same steps.
"""

from __future__ import annotations

from functools import partial

import numpy as np

from zerofleet.errors import DamagedRunError
from zerofleet.games.base import Game
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.feed import ReplayFeed
from zerofleet.learner.log import EpisodeLog
from zerofleet.learner.rate import SampleToInsert
from zerofleet.learner.replay import Batch, ReplayBuffer
from zerofleet.learner.targets import RowMaker, Rows, rows_from_episode
from zerofleet.learner.trainer import StepReport, Trainer
from zerofleet.network.config import NetworkConfig
from zerofleet.network.tensor_file import Tensors


class Training:
    """Trainer, replay buffer and the law that says which step may come when."""

    def __init__(self, game: Game, config: LearnerConfig, network: NetworkConfig, seed: int, log: EpisodeLog) -> None:
        self._config = config
        self._seed = seed
        self._log = log
        self.rate = SampleToInsert.from_config(config)
        self.trainer = Trainer(game, config, network, seed)
        self.buffer = ReplayBuffer(game, config.replay_rows + config.max_rows_ahead)
        self.rows_of: RowMaker = partial(rows_from_episode, game, trace_lambda=config.trace_lambda)
        self._feed = ReplayFeed(self.rows_of, log, self.buffer)
        self.rows_sampled = 0

    @property
    def step(self) -> int:
        """Return how many steps were made."""
        return self.trainer.step

    @property
    def rows_needed(self) -> int:
        """Return how many rows must be logged for the next step."""
        return self.rate.rows_needed(self.step + 1)

    @property
    def may_step(self) -> bool:
        """Tell whether the next step may be made."""
        return self.rate.may_step(self.step + 1, self._log.num_rows)

    @property
    def may_read(self) -> bool:
        """Tell whether more of the stream may be logged."""
        return self.rate.may_read(self.step + 1, self._log.num_rows)

    @property
    def samples_per_insert(self) -> float:
        """Return rows sampled per row logged, over the whole run."""
        return self.rows_sampled / max(1, self._log.num_rows)

    def restore(self, tensors: Tensors, step: int, rate: SampleToInsert, rows_sampled: int) -> None:
        """Go on behind `step`; the rows for the next one are read from the log when it is made.

        Raises:
            DamagedRunError: `step` was made with more rows than the log has: they do not belong together.
        """
        if rate.rows_needed(step) > self._log.num_rows and step > 0:
            raise DamagedRunError(
                f"the checkpoint of step {step:,} was made with {rate.rows_needed(step):,} positions, but the log has "
                f"{self._log.num_rows:,}: acknowledged games are missing, or the log is another run's"
            )
        self.trainer.load_state(tensors, step)
        self.rate = rate
        self.rows_sampled = rows_sampled
        self._feed.start_at(rate.window(step + 1)[0])

    def offer(self, rows: Rows, first_row: int) -> None:
        """Take rows that were just logged."""
        self._feed.offer(rows, first_row, self.rate.window(self.step + 1)[0])

    def make_step(self) -> tuple[StepReport, Batch]:
        """Make the next step, which must be allowed."""
        step = self.step + 1
        first, last = self.rate.window(step)
        self._feed.fill(last, first)
        rng = np.random.default_rng(np.random.SeedSequence([self._seed, step]))
        batch = self.buffer.sample(rng, self._config.batch_size, first, last)
        report = self.trainer.train_step(batch)
        self.rows_sampled += len(batch)
        return report, batch


def replay_log(
    game: Game, config: LearnerConfig, network: NetworkConfig, seed: int, log: EpisodeLog, *, num_steps: int
) -> Training:
    """Train offline from `log`: `num_steps` steps, or as many as it allows."""
    training = Training(game, config, network, seed, log)
    while training.step < num_steps and training.may_step:
        training.make_step()
    return training
