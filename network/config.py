"""The size of the network.  This module imports no torch, so that every process can read a config."""

from __future__ import annotations

from dataclasses import dataclass

from zerofleet.config import check_values


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkConfig:
    """A residual tower (Silver et al. 2017) and its two heads."""

    channels: int = 64
    """Width of the tower.  Time per position grows with its square."""

    blocks: int = 5
    """Residual blocks of two 3x3 convolutions each; 0 leaves the first convolution alone."""

    policy_channels: int = 16
    """Channels that the policy head flattens into its last layer."""

    value_channels: int = 4
    """Channels that the value head flattens into its hidden layer."""

    value_hidden: int = 64
    """Width of the value head's hidden layer."""

    def __post_init__(self) -> None:
        least = {"channels": 1, "blocks": 0, "policy_channels": 1, "value_channels": 1, "value_hidden": 1}
        laws = (
            (bound <= getattr(self, field) <= 65_536, field, f"must be {bound} to 65,536")
            for field, bound in least.items()
        )
        check_values("network", self, laws)
