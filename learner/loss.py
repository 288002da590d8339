"""The loss: (z - v)² + cross-entropy(π, p) + c‖θ‖².

The third part is not computed here: its gradient is 2 c θ, which is what SGD's weight decay adds.

The policy is compared over the legal actions alone.  Illegal logits are taken out before the softmax, so they change
neither the loss nor the gradient of a legal one, and their own gradient is exactly 0: what is illegal somewhere says
nothing about that place.  Logits go in, never probabilities: the softmax is part of this loss.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass(frozen=True, slots=True, kw_only=True)
class Targets:
    """What the network should have said; see `replay.Batch`."""

    policy: Tensor  # [B, A]
    legal: Tensor  # [B, A]
    value: Tensor  # [B]
    policy_weight: Tensor  # [B]


@dataclass(frozen=True, slots=True, kw_only=True)
class Losses:
    """Scalars; `total` is what is minimised."""

    total: Tensor
    policy: Tensor  # mean cross-entropy over the rows that have a policy target; never below `target_entropy`
    value: Tensor  # mean squared error over all rows
    target_entropy: Tensor  # mean entropy of the policy targets: what the cross-entropy of a perfect network would be


def compute_losses(logits_BA: Tensor, value_B: Tensor, targets: Targets, value_weight: float = 1.0) -> Losses:
    """Return the losses of a batch, computed in float32 whatever the network computed in."""
    masked_BA = logits_BA.float().masked_fill(~targets.legal, -torch.inf)
    log_policy_BA = torch.log_softmax(masked_BA, dim=1).masked_fill(~targets.legal, 0.0)
    weight_B = targets.policy_weight
    num_weighted = weight_B.sum().clamp_min(1.0)
    policy = -((targets.policy * log_policy_BA).sum(1) * weight_B).sum() / num_weighted
    entropy = -(torch.xlogy(targets.policy, targets.policy).sum(1) * weight_B).sum() / num_weighted
    value = (targets.value - value_B.float()).square().mean()
    return Losses(total=policy + value_weight * value, policy=policy, value=value, target_entropy=entropy)
