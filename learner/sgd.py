"""Stochastic gradient descent with momentum and weight decay, as torch's own does it, number for number.

Written out because torch.optim loads torch's compiler with it: three seconds and a hundred megabytes at every start of
a learner.  It also keeps the momentum under the parameters' names, which is how checkpoints hold it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


class Sgd:
    """Changes `parameters` in place.  `momenta` is all of its state."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, momentum: float, weight_decay: float) -> None:
        self._parameters = dict(parameters)
        self._momentum = momentum
        self._weight_decay = weight_decay
        self.momenta: dict[str, Tensor] = {name: torch.zeros_like(it) for name, it in self._parameters.items()}

    def clear_gradients(self) -> None:
        """Forget the gradients of the step before."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def gradients(self) -> list[Tensor]:
        """Return the gradients, one for each parameter; zeros where the loss does not depend on it."""
        return [torch.zeros_like(it) if it.grad is None else it.grad for it in self._parameters.values()]

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Follow the gradients: m = momentum m + gradient + weight_decay w, then w = w - learning_rate m."""
        weights: list[Tensor] = list(self._parameters.values())
        momenta = list(self.momenta.values())
        changes: Sequence[Tensor] = torch._foreach_add(self.gradients(), weights, alpha=self._weight_decay)
        torch._foreach_mul_(momenta, self._momentum)
        torch._foreach_add_(momenta, list(changes), alpha=1)
        torch._foreach_add_(weights, momenta, alpha=-learning_rate)
