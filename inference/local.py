"""The network in the process that searches: an evaluator without a server."""

from __future__ import annotations

from zerofleet.inference.backend import Backend
from zerofleet.search.base import Evaluation, LeafBatch


class BackendEvaluator:
    """Evaluates with a backend directly; `version` 0 follows the newest weights."""

    def __init__(self, backend: Backend, version: int = 0) -> None:
        self.backend = backend
        self.version = version

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Evaluate unfinished positions."""
        return self.backend.forward(batch.planes, batch.legal_offsets, batch.legal_actions, self.version)
