"""Batches on their way: while one group's leaves are away, the actor searches another.

An inference client takes a batch and gives a ticket for it; an evaluator in this process answers when asked.  Both are
the same to the actor.  A request is pure, so one whose servers went away is simply sent again.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, Protocol, TypeVar

from zerofleet.actors.selfplay import SelfPlayGroup
from zerofleet.actors.waiting import Backoff
from zerofleet.errors import InferenceUnavailableError
from zerofleet.search.base import Evaluation, Evaluator, LeafBatch

_log = logging.getLogger(__name__)

Ticket = TypeVar("Ticket")


class PipelinedEvaluator(Protocol[Ticket]):
    """An evaluator that may hold several batches at once; `InferenceClient` is one."""

    def submit(self, batch: LeafBatch) -> Ticket:
        """Send a batch; its arrays stay as they are until it is collected."""

    def collect(self, ticket: Ticket) -> Evaluation:
        """Wait for the answer.

        Raises:
            InferenceUnavailableError: nobody answered; the batch may be submitted again.
        """


class InProcess:
    """An evaluator of this process, asked when its answer is collected."""

    def __init__(self, evaluator: Evaluator) -> None:
        self._evaluator = evaluator

    def submit(self, batch: LeafBatch) -> LeafBatch:
        """Keep the batch for later."""
        return batch

    def collect(self, ticket: LeafBatch) -> Evaluation:
        """Evaluate it now."""
        return self._evaluator.evaluate(ticket)


class Flight:
    """One group, and the batch of its leaves that is being evaluated."""

    def __init__(self, group: SelfPlayGroup, evaluator: PipelinedEvaluator[Any]) -> None:
        self.group = group
        self._evaluator = evaluator
        self._batch: LeafBatch | None = None
        self._ticket: Any = None

    @property
    def is_away(self) -> bool:
        """Whether the group waits for an answer."""
        return self._batch is not None

    def launch(self, batch: LeafBatch) -> None:
        """Send a batch; should nobody take it now, `land` sends it again."""
        self._batch = batch
        try:
            self._ticket = self._evaluator.submit(batch)
        except InferenceUnavailableError as error:
            _log.warning("no inference server takes a batch: %s", error)
            self._ticket = None

    def land(self, backoff: Backoff, pause: Callable[[float], bool]) -> Evaluation | None:
        """Wait for the answer, for as long as it takes; None when `pause` says that the actor must stop.

        `pause(seconds)` waits and returns whether to stop.
        """
        assert self._batch is not None, "no batch is away"
        while True:
            try:
                if self._ticket is None:
                    self._ticket = self._evaluator.submit(self._batch)
                evaluation = self._evaluator.collect(self._ticket)
            except InferenceUnavailableError as error:
                _log.warning("no answer from an inference server: %s", error)
                self._ticket = None
                backoff.failed()
                if pause(backoff.remaining_s):
                    return None
                continue
            backoff.succeeded()
            self._batch = self._ticket = None
            return evaluation
