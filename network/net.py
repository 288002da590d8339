"""The residual tower with its policy and value head.

Shape letters: `B` rows of a batch, `C` planes or channels, `H` and `W` the board, `A` actions.  The policy comes as
logits over all actions, legal or not: masking is the business of who knows the legal ones.  The value is for the player
to move, in [-1, 1].
"""

from __future__ import annotations

import copy
from typing import cast

import torch
from torch import Tensor, nn
from torch.nn.utils.fusion import fuse_conv_bn_eval

from zerofleet.network.config import NetworkConfig


class ConvNorm(nn.Module):
    """A convolution without bias and its batch norm; once folded, a convolution with bias and nothing behind it."""

    def __init__(self, num_in: int, num_out: int, kernel: int) -> None:
        super().__init__()
        self.conv = nn.Conv2d(num_in, num_out, kernel, padding=kernel // 2, bias=False)
        self.norm: nn.Module = nn.BatchNorm2d(num_out)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the normalised convolution, before any ReLU."""
        return cast(Tensor, self.norm(self.conv(x_BCHW)))

    def fold(self) -> None:
        """Move the batch norm's running statistics into the convolution; only right in evaluation mode."""
        if isinstance(self.norm, nn.BatchNorm2d):
            self.conv = fuse_conv_bn_eval(self.conv, self.norm)
            self.norm = nn.Identity()


class ResidualBlock(nn.Module):
    """Two convolutions and a way around them."""

    def __init__(self, channels: int) -> None:
        super().__init__()
        self.first = ConvNorm(channels, channels, 3)
        self.second = ConvNorm(channels, channels, 3)

    def forward(self, x_BCHW: Tensor) -> Tensor:
        """Return the block's output, of the shape of its input."""
        branch_BCHW: Tensor = self.second(self.first(x_BCHW).relu_())
        return (x_BCHW + branch_BCHW).relu_()


class PolicyValueNet(nn.Module):
    """Planes in, policy logits and value out."""

    def __init__(self, observation_shape: tuple[int, int, int], num_actions: int, config: NetworkConfig) -> None:
        super().__init__()
        planes, height, width = observation_shape
        squares = height * width
        self.stem = ConvNorm(planes, config.channels, 3)
        self.blocks = nn.Sequential(*(ResidualBlock(config.channels) for _ in range(config.blocks)))
        self.policy_conv = ConvNorm(config.channels, config.policy_channels, 1)
        self.policy_out = nn.Linear(config.policy_channels * squares, num_actions)
        self.value_conv = ConvNorm(config.channels, config.value_channels, 1)
        self.value_hidden = nn.Linear(config.value_channels * squares, config.value_hidden)
        self.value_out = nn.Linear(config.value_hidden, 1)

    def forward(self, planes_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return (policy logits `[B, A]`, value `[B]` for the player to move)."""
        body_BCHW = self.blocks(self.stem(planes_BCHW).relu_())
        policy_BA = self.policy_out(self.policy_conv(body_BCHW).relu_().flatten(1))
        hidden_BC = self.value_hidden(self.value_conv(body_BCHW).relu_().flatten(1)).relu_()
        return policy_BA, torch.tanh(self.value_out(hidden_BC)).squeeze(1)


def build_network(
    observation_shape: tuple[int, int, int], num_actions: int, config: NetworkConfig, *, seed: int = 0
) -> PolicyValueNet:
    """Build an untrained network; the same arguments give the same weights.

    Weights are drawn after He et al. 2015.  The last layer of each head starts near zero, so that an untrained network
    says "every move alike, and even": the first games explore, and the first steps do not blow up.
    """
    with torch.random.fork_rng(devices=[]):  # torch's own initialisation must not advance anyone's random numbers
        net = PolicyValueNet(observation_shape, num_actions, config)
    generator = torch.Generator().manual_seed(seed)
    heads = (net.policy_out, net.value_out)
    for module in net.modules():
        if isinstance(module, nn.Conv2d):
            nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
        elif isinstance(module, nn.Linear):
            nn.init.zeros_(module.bias)
            if module in heads:
                nn.init.normal_(module.weight, std=0.01, generator=generator)
            else:
                nn.init.kaiming_normal_(module.weight, nonlinearity="relu", generator=generator)
    return net


def fold_batch_norm(net: PolicyValueNet) -> PolicyValueNet:
    """Return a copy for inference whose batch norms are folded into the convolutions; `net` stays as it was."""
    folded = copy.deepcopy(net).eval()
    for module in folded.modules():
        if isinstance(module, ConvNorm):
            module.fold()
    return folded.requires_grad_(False)
