"""The average of the weights over the steps, which plays better than those of the last step alone.

An exponential moving average of weights and batch-norm statistics: a = d a + (1 - d) w after each step (Polyak and
Juditsky 1992 for the average; Wu 2019 for publishing one in self-play).  Over the first steps d is smaller,
(1 + t) / (10 + t), so that the untrained weights are soon forgotten.
"""

from __future__ import annotations

import copy

import torch

from zerofleet.network.net import PolicyValueNet


class WeightsAverage:
    """A copy of a network that follows it."""

    def __init__(self, net: PolicyValueNet, decay: float) -> None:
        self._decay = decay
        self.net = copy.deepcopy(net).requires_grad_(False)

    @torch.no_grad()
    def follow(self, net: PolicyValueNet, step: int) -> None:
        """Take in the weights after `step`."""
        decay = min(self._decay, (1 + step) / (10 + step))
        own, latest = self.net.state_dict(), net.state_dict()
        floats = [name for name, tensor in own.items() if tensor.dtype.is_floating_point]
        torch._foreach_lerp_([own[name] for name in floats], [latest[name] for name in floats], 1.0 - decay)
        for name in own.keys() - floats:  # counters
            own[name].copy_(latest[name])
