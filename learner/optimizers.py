"""Optimisers, as torch's own do it, number for number: SGD with momentum, and AdamW.

Written out because torch.optim loads torch's compiler with it: three seconds and a hundred megabytes at every start of
a learner.  It also keeps their state under the parameters' names, which is how checkpoints hold it.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence

import torch
from torch import Tensor, nn


class Optimizer(ABC):
    """Changes `parameters` in place.  `state` is all that it remembers, by name; tensors that a checkpoint may fill."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, weight_decay: float) -> None:
        self._parameters = dict(parameters)
        self._weight_decay = weight_decay
        self.state: dict[str, Tensor] = {}

    def clear_gradients(self) -> None:
        """Forget the gradients of the step before."""
        for parameter in self._parameters.values():
            parameter.grad = None

    def gradients(self) -> list[Tensor]:
        """Return the gradients, one for each parameter; zeros where the loss does not depend on it."""
        return [torch.zeros_like(it) if it.grad is None else it.grad for it in self._parameters.values()]

    @abstractmethod
    def step(self, learning_rate: float) -> None:
        """Follow the gradients."""

    def _zeros(self, name: str) -> list[Tensor]:
        """Make a part of the state that has the parameters' shapes, and return its tensors in their order."""
        part = {f"{name}.{key}": torch.zeros_like(it) for key, it in self._parameters.items()}
        self.state |= part
        return list(part.values())


class Sgd(Optimizer):
    """Stochastic gradient descent with momentum; weight decay is part of the gradient."""

    def __init__(self, parameters: Mapping[str, nn.Parameter], *, momentum: float, weight_decay: float) -> None:
        super().__init__(parameters, weight_decay=weight_decay)
        self._momentum = momentum
        self._momenta = self._zeros("momentum")

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Follow the gradients: m = momentum m + gradient + weight_decay w, then w = w - learning_rate m."""
        weights: list[Tensor] = list(self._parameters.values())
        changes: Sequence[Tensor] = torch._foreach_add(self.gradients(), weights, alpha=self._weight_decay)
        torch._foreach_mul_(self._momenta, self._momentum)
        torch._foreach_add_(self._momenta, list(changes), alpha=1)
        torch._foreach_add_(weights, self._momenta, alpha=-learning_rate)


class AdamW(Optimizer):
    """Adam with weight decay apart from the gradient (Loshchilov & Hutter 2019)."""

    _EPSILON = 1e-8

    def __init__(
        self, parameters: Mapping[str, nn.Parameter], *, betas: tuple[float, float], weight_decay: float
    ) -> None:
        super().__init__(parameters, weight_decay=weight_decay)
        self._betas = betas
        self._means = self._zeros("adam_mean")
        self._squares = self._zeros("adam_square")
        self.state["adam_steps"] = self._steps = torch.zeros((), dtype=torch.int64)

    @torch.no_grad()
    def step(self, learning_rate: float) -> None:
        """Follow the gradients.

        m = b1 m + (1 - b1) g, v = b2 v + (1 - b2) g^2, w = (1 - rate decay) w - rate (m / c1) / (sqrt(v / c2) + 1e-8),
        with c = 1 - b^t.
        """
        self._steps += 1
        steps, (beta1, beta2) = int(self._steps), self._betas
        weights, gradients = list[Tensor](self._parameters.values()), self.gradients()
        torch._foreach_mul_(weights, 1.0 - learning_rate * self._weight_decay)
        torch._foreach_lerp_(self._means, gradients, 1.0 - beta1)
        torch._foreach_mul_(self._squares, beta2)
        torch._foreach_addcmul_(self._squares, gradients, gradients, 1.0 - beta2)
        spread = list(torch._foreach_sqrt(self._squares))
        torch._foreach_div_(spread, math.sqrt(1.0 - beta2**steps))
        torch._foreach_add_(spread, self._EPSILON)
        torch._foreach_addcdiv_(weights, self._means, spread, -learning_rate / (1.0 - beta1**steps))
