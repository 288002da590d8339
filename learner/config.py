"""The learner's settings.  This module imports no torch, so that every process can read a config."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Literal

from zerofleet.config import check_values


@dataclass(frozen=True, slots=True, kw_only=True)
class LearnerConfig:
    """How the network is trained, and how fast in proportion to play."""

    batch_size: int = 256
    """Rows per step, drawn uniformly with replacement from the replay window."""

    optimizer: Literal["sgd", "adamw"] = "sgd"
    """`sgd`: with momentum, as AlphaZero.  `adamw`: Adam with decoupled weight decay, at a rate of about 0.001."""

    learning_rate: float = 0.02
    """After the warm-up and before any decay."""

    warmup_steps: int = 50
    """The learning rate rises from near 0 over so many steps, so that the first ones do not blow up."""

    schedule: Literal["constant", "step", "cosine"] = "constant"
    """`step`: times `decay_factor` at each of `decay_steps`.  `cosine`: down to 0 at `total_steps`."""

    decay_steps: tuple[int, ...] = ()
    decay_factor: float = 0.1
    total_steps: int = 0

    momentum: float = 0.9
    """Of SGD."""

    adam_betas: tuple[float, float] = (0.9, 0.999)
    """Of AdamW: decays of the gradient's mean and of its square's."""

    weight_decay: float = 1e-4
    """SGD: the loss holds c times the sum of all squared weights; this is 2 c, what is added to a weight's gradient.
    AdamW: a weight shrinks by the learning rate times this in each step."""

    average_decay: float = 0.0
    """Published weights are an average over the steps with this decay, about 1 / (1 - d) steps long; 0 publishes the
    last step's own.  See `averaging`."""

    value_weight: float = 1.0
    """Weight of the value's squared error beside the policy's cross-entropy."""

    value_target: Literal["outcome", "trace"] = "outcome"
    """`outcome`: of the game, as AlphaZero.  `trace`: mixed with what the searches of its later moves said, as far as
    each move played was its search's own choice: less noise where moves are drawn at random.  See `targets`."""

    value_lambda: float = 0.95
    """Of `trace`: the weight of what comes later against a move's own search; 1 cuts at drawn moves alone."""

    samples_per_insert: float = 4.0
    """How often each logged position is sampled, on average over the run.  See `rate` for the law."""

    min_rows: int = 2000
    """Positions that must be logged before the first step."""

    replay_rows: int = 100_000
    """The newest positions that a step samples from."""

    max_rows_ahead: int = 4000
    """The learner stops reading the stream while it has logged so many positions more than its next step needs."""

    publish_interval_steps: int = 100
    """Steps between two published versions; publishing is checkpointing."""

    checkpoint_keep: int = 3
    weights_keep: int = 20
    """Newest files that stay on disk."""

    precision: Literal["auto", "bf16", "fp32"] = "auto"
    device: Literal["auto", "cpu", "cuda"] = "auto"

    torch_threads: int = 1
    """More than one collapses beside busy neighbours: torch's barrier spins."""

    read_episodes: int = 64
    """Episodes read, logged and acknowledged together: one fsync for all of them."""

    segment_bytes: int = 32 << 20
    """A file of the episode log is closed when it is larger."""

    def __post_init__(self) -> None:
        check_values("learner", self, self._laws())

    @property
    def trace_lambda(self) -> float | None:
        """The λ of value targets that are traces; None where they are outcomes."""
        return self.value_lambda if self.value_target == "trace" else None

    def _laws(self) -> tuple[tuple[bool, str, str], ...]:
        least_ahead = math.ceil(self.batch_size / self.samples_per_insert) if self.samples_per_insert > 0 else 1
        cosine, steps = self.schedule == "cosine", self.decay_steps
        return (
            (1 <= self.batch_size <= 1 << 20, "batch_size", "must be 1 to 1,048,576"),
            (0.0 < self.learning_rate < 100.0, "learning_rate", "must be above 0 and below 100"),
            (self.warmup_steps >= 0, "warmup_steps", "must be 0 or more"),
            (list(steps) == sorted(set(steps)), "decay_steps", "must be increasing"),
            (self.schedule != "step" or bool(steps), "decay_steps", "must name a step for the schedule step"),
            (0.0 < self.decay_factor <= 1.0, "decay_factor", "must be above 0 and at most 1"),
            (not cosine or self.total_steps >= 1, "total_steps", "must be 1 or more for the schedule cosine"),
            (0.0 <= self.momentum < 1.0, "momentum", "must be 0 or more and below 1"),
            (self.optimizer in ("sgd", "adamw"), "optimizer", "must be sgd or adamw"),
            (all(0.0 <= beta < 1.0 for beta in self.adam_betas), "adam_betas", "must be 0 or more and below 1"),
            (0.0 <= self.average_decay < 1.0, "average_decay", "must be 0 or more and below 1"),
            (0.0 <= self.weight_decay < 1.0, "weight_decay", "must be 0 or more and below 1"),
            (0.0 <= self.value_weight < 1e6, "value_weight", "must be 0 or more and finite"),
            (self.value_target in ("outcome", "trace"), "value_target", "must be outcome or trace"),
            (0.0 <= self.value_lambda <= 1.0, "value_lambda", "must lie in [0, 1]"),
            (0.0 < self.samples_per_insert < 1e6, "samples_per_insert", "must be above 0 and finite"),
            (1 <= self.min_rows <= self.replay_rows, "min_rows", f"must be 1 to replay_rows = {self.replay_rows}"),
            (self.replay_rows >= 1, "replay_rows", "must be 1 or more"),
            (
                self.max_rows_ahead >= least_ahead,
                "max_rows_ahead",
                f"must be at least batch_size / samples_per_insert = {least_ahead}, what one step needs",
            ),
            (self.publish_interval_steps >= 1, "publish_interval_steps", "must be 1 or more"),
            (self.checkpoint_keep >= 2, "checkpoint_keep", "must be 2 or more, so that a torn one can be passed over"),
            (self.weights_keep >= 2, "weights_keep", "must be 2 or more"),
            (self.torch_threads >= 1, "torch_threads", "must be 1 or more"),
            (self.read_episodes >= 1, "read_episodes", "must be 1 or more"),
            (self.segment_bytes >= 1 << 10, "segment_bytes", "must be 1,024 or more"),
        )
