"""How much must be logged before which step: the control law that keeps learning and playing in step.

Step k (the first is 1) needs n(k) logged rows and samples only those below n(k), so what it may sample follows from k
alone, whenever it runs:

    n(k) = max(min_rows, anchor_rows + ceil((k - anchor_step) * batch_size / samples_per_insert))

The anchor is (0, 0) until the proportion is changed on a run that has steps already; from then on it is the step of the
change and its n, so that a change neither asks for a burst of steps nor makes the learner wait for a long time.

Who waits for whom (fault 61): with too few rows logged, the *learner* waits, and says how many it has.  With
`max_rows_ahead` rows more than the next step needs, the learner stops reading, the stream backs up to its bound, and
the *actors* wait.

The error: after step k, k * batch_size rows were sampled and R >= n(k) logged, so samples per insert, over the whole
run, never exceed the wish; a learner that keeps up is below it by less than batch_size / R once past `min_rows`, and
one that is always busy by at most samples_per_insert * (max_rows_ahead + one read) / R.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from zerofleet.learner.config import LearnerConfig


@dataclass(frozen=True, slots=True, kw_only=True)
class SampleToInsert:
    """The law for one config and anchor.  It keeps no state: everything follows from step and rows logged."""

    batch_size: int
    samples_per_insert: float
    min_rows: int
    replay_rows: int
    max_rows_ahead: int
    anchor_step: int = 0
    anchor_rows: int = 0

    @classmethod
    def from_config(cls, config: LearnerConfig, anchor_step: int = 0, anchor_rows: int = 0) -> SampleToInsert:
        """Return the law of a config."""
        return cls(
            batch_size=config.batch_size,
            samples_per_insert=config.samples_per_insert,
            min_rows=config.min_rows,
            replay_rows=config.replay_rows,
            max_rows_ahead=config.max_rows_ahead,
            anchor_step=anchor_step,
            anchor_rows=anchor_rows,
        )

    def rows_needed(self, step: int) -> int:
        """Return n(step): rows that must be logged before `step`."""
        # A float such as 0.1 stands for the decimal that the user wrote: a fraction keeps ceil exact.
        per_step = Fraction(self.batch_size) / Fraction(str(self.samples_per_insert))
        return max(self.min_rows, self.anchor_rows + math.ceil((step - self.anchor_step) * per_step))

    def window(self, step: int) -> tuple[int, int]:
        """Return the rows that `step` samples from, first and one past the last."""
        last = self.rows_needed(step)
        return max(0, last - self.replay_rows), last

    def may_step(self, step: int, logged: int) -> bool:
        """Tell whether enough rows are logged for `step`."""
        return logged >= self.rows_needed(step)

    def may_read(self, step: int, logged: int) -> bool:
        """Tell whether the stream may be read while `step` is the next one; where `may_step` is false it may."""
        return logged < self.rows_needed(step) + self.max_rows_ahead

    def steps_allowed(self, logged: int) -> int:
        """Return the greatest step that `logged` rows allow; 0 where they allow none."""
        if logged < self.min_rows:
            return 0
        per_row = Fraction(str(self.samples_per_insert)) / self.batch_size
        return max(0, self.anchor_step + math.floor((logged - self.anchor_rows) * per_row))
