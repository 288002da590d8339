"""The network behind inference servers, as an evaluator."""

from __future__ import annotations

from zerofleet.inference.client import InferenceClient
from zerofleet.search.base import Evaluation, LeafBatch


class RemoteEvaluator:
    """Evaluates through a client, one request at a time; `version` 0 follows the newest weights."""

    def __init__(self, client: InferenceClient, version: int = 0) -> None:
        self.client = client
        self.version = version

    def evaluate(self, batch: LeafBatch) -> Evaluation:
        """Evaluate unfinished positions."""
        return self.client.evaluate(batch, self.version)
