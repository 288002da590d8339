"""One optimiser step after another.

What a step does follows from the network's and optimiser's state, the step's number and its batch alone, bit for bit on
one machine: no other random numbers, one thread, and no algorithm chosen by timing.
"""

from __future__ import annotations

import logging
import math
from dataclasses import dataclass

import torch
from torch import Tensor, nn

from zerofleet.errors import FatalRoleError, StorageError
from zerofleet.games.base import Game
from zerofleet.learner.averaging import WeightsAverage
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.loss import Losses, Targets, compute_losses
from zerofleet.learner.optimizers import AdamW, Optimizer, Sgd
from zerofleet.learner.replay import Batch
from zerofleet.network.config import NetworkConfig
from zerofleet.network.net import PolicyValueNet, build_network
from zerofleet.network.precision import pick_dtype
from zerofleet.network.tensor_file import Tensors

_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class StepReport:
    """What a step found: means over its batch, before its own change of the weights."""

    total: float
    policy: float
    value: float
    target_entropy: float
    value_std: float  # spread of the network's values; near 0 it says the same of everything
    gradient_norm: float


_REMEDY = "Resume from the last checkpoint with a lower learner.learning_rate"


class Trainer:
    """The network, its optimiser and its average, and how many steps they have made."""

    def __init__(self, game: Game, config: LearnerConfig, network: NetworkConfig, seed: int) -> None:
        torch.set_num_threads(config.torch_threads)
        self._config = config
        self._device = _pick_device(config.device)
        self._dtype = pick_dtype(config.precision, self._device)
        if self._device.type == "cuda":
            torch.backends.cudnn.benchmark = False
            torch.backends.cudnn.deterministic = True
        net = build_network(game.observation_shape, game.num_actions, network, seed=seed)
        self.net = net.to(self._device, memory_format=torch.channels_last).train()  # type: ignore[call-overload]
        self._optimizer = _make_optimizer(dict(self.net.named_parameters()), config)
        self._average = WeightsAverage(self.net, config.average_decay) if config.average_decay > 0.0 else None
        self.step = 0

    @property
    def published_net(self) -> PolicyValueNet:
        """The network that others are to play with: the average's, where the config asks for one."""
        return self.net if self._average is None else self._average.net

    @property
    def precision(self) -> str:
        """Return the number format that steps compute in, such as "float32"."""
        return str(self._dtype).removeprefix("torch.")

    def train_step(self, batch: Batch) -> StepReport:
        """Make the next step.

        Raises:
            FatalRoleError: the loss or a gradient is not finite; the weights are as they were.
        """
        step = self.step + 1
        losses, value_std = self._forward(batch)
        self._check_finite("loss", losses.total, step, batch)
        self._optimizer.clear_gradients()
        losses.total.backward()  # type: ignore[no-untyped-call]
        norm = torch.linalg.vector_norm(torch.stack(torch._foreach_norm(self._optimizer.gradients())))
        self._check_finite("gradient", norm, step, batch)
        self._optimizer.step(learning_rate_at(self._config, step))
        self.step = step
        if self._average is not None:
            self._average.follow(self.net, step)
        return StepReport(
            total=losses.total.item(),
            policy=losses.policy.item(),
            value=losses.value.item(),
            target_entropy=losses.target_entropy.item(),
            value_std=value_std.item(),
            gradient_norm=norm.item(),
        )

    def state(self) -> Tensors:
        """Return weights, optimiser and average by name, as they are now (not copies)."""
        tensors = {f"model.{name}": tensor for name, tensor in self.net.state_dict().items()}
        tensors |= self._optimizer.state
        if self._average is not None:
            tensors |= {f"average.{name}": tensor for name, tensor in self._average.net.state_dict().items()}
        return tensors

    def require_finite(self) -> None:
        """Return if every weight, statistic and average is a finite number: a loss can be while they are not.

        Raises:
            FatalRoleError: one is not; it must be neither stored nor published.
        """
        for name, tensor in self.state().items():
            if tensor.is_floating_point() and not bool(torch.isfinite(tensor).all()):
                rate = learning_rate_at(self._config, self.step)
                raise FatalRoleError(
                    f"{name} is not finite after step {self.step} (learning rate {rate:.3g}); nothing of it is "
                    f"published or stored.  {_REMEDY}"
                )

    def load_state(self, tensors: Tensors, step: int) -> None:
        """Go on from what `state` returned after `step`; the next step is the one that would have followed.

        An average that was not kept until now begins with the weights, another optimiser than before with nothing.
        """
        weights = _named(tensors, "model.")
        try:
            self.net.load_state_dict(weights)
            if self._average is not None:
                self._average.net.load_state_dict(_named(tensors, "average.") or weights)
            if self._optimizer.state.keys() <= tensors.keys():
                for name, tensor in self._optimizer.state.items():
                    tensor.copy_(tensors[name])
            else:
                _log.warning("the checkpoint is of another optimiser: this one begins anew")
        except (RuntimeError, KeyError) as error:
            raise StorageError(f"the checkpoint does not fit the network: {error}") from error
        self.step = step

    def _forward(self, batch: Batch) -> tuple[Losses, Tensor]:
        planes = torch.from_numpy(batch.planes).to(self._device, memory_format=torch.channels_last)
        with torch.autocast(self._device.type, torch.bfloat16, enabled=self._dtype == torch.bfloat16):
            logits, value = self.net(planes)
        targets = Targets(
            policy=torch.from_numpy(batch.policy).to(self._device),
            legal=torch.from_numpy(batch.legal).to(self._device),
            value=torch.from_numpy(batch.values).to(self._device),
            policy_weight=torch.from_numpy(batch.policy_weight).to(self._device),
        )
        losses = compute_losses(logits, value, targets, self._config.value_weight)
        return losses, value.detach().float().std(correction=0)

    def _check_finite(self, what: str, scalar: Tensor, step: int, batch: Batch) -> None:
        value = scalar.item()
        if not math.isfinite(value):
            rate = learning_rate_at(self._config, step)
            raise FatalRoleError(
                f"{what} is not finite at step {step} ({value}, {len(batch)} rows, learning rate {rate:.3g}); nothing "
                f"of this step is published.  {_REMEDY}"
            )


def _make_optimizer(parameters: dict[str, nn.Parameter], config: LearnerConfig) -> Optimizer:
    if config.optimizer == "adamw":
        return AdamW(parameters, betas=config.adam_betas, weight_decay=config.weight_decay)
    return Sgd(parameters, momentum=config.momentum, weight_decay=config.weight_decay)


def _named(tensors: Tensors, prefix: str) -> dict[str, Tensor]:
    return {name.removeprefix(prefix): tensor for name, tensor in tensors.items() if name.startswith(prefix)}


def learning_rate_at(config: LearnerConfig, step: int) -> float:
    """Return the learning rate of `step`, the first of which is 1."""
    rate = config.learning_rate
    if config.schedule == "step":
        rate *= config.decay_factor ** sum(step > boundary for boundary in config.decay_steps)
    elif config.schedule == "cosine":
        rate *= 0.5 * (1.0 + math.cos(math.pi * min(1.0, (step - 1) / config.total_steps)))
    return rate * min(1.0, step / (config.warmup_steps + 1))


def _pick_device(choice: str) -> torch.device:
    if choice == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    return torch.device(choice)
