"""A network rearranged for inference on a CPU: each convolution, its bias, its ReLU and the sum before it in one call.

oneDNN computes all four in one pass over memory, and takes weights that were laid out for it once instead of at each
call; torch has the entry points, but keeps them for its own compiler.  The form is therefore tried on a batch when it
is made, and where it is missing, or gives anything but the network's own numbers, the network itself is used.  Measured
against the folded network on two AVX-512 cores: 0.95 to 1.28 times the positions/s, by net and batch (the result of
`benchmarks/inference.py`).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

import torch
from torch import Tensor, nn

from zerofleet.network.net import ConvNorm, PolicyValueNet, ResidualBlock

Forward: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]

_TOLERANCE = 1e-3  # far above rounding, far below any mistake


class FusedNet:
    """The forward pass of a folded network, on channels-last float32 batches."""

    def __init__(self, net: PolicyValueNet, input_shape: tuple[int, int, int, int]) -> None:
        self._net = net
        rows, _planes, height, width = input_shape
        body_shape = (rows, net.stem.conv.out_channels, height, width)
        self._stem = _Conv(net.stem, input_shape)
        blocks = [(block.first, block.second) for block in _blocks(net)]
        self._blocks = [(_Conv(first, body_shape), _Conv(second, body_shape)) for first, second in blocks]
        self._policy_conv = _Conv(net.policy_conv, body_shape)
        self._value_conv = _Conv(net.value_conv, body_shape)

    def __call__(self, planes_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return (policy logits `[B, A]`, value `[B]`)."""
        net = self._net
        body_BCHW = self._stem.relu(planes_BCHW)
        for first, second in self._blocks:
            body_BCHW = second.add_relu_(first.relu(body_BCHW), body_BCHW)
        policy_BA = _linear(net.policy_out, self._policy_conv.relu(body_BCHW).flatten(1), "none")
        hidden_BC = _linear(net.value_hidden, self._value_conv.relu(body_BCHW).flatten(1), "relu")
        return policy_BA, torch.tanh(_linear(net.value_out, hidden_BC, "none")).squeeze(1)


class _Conv:
    """A folded convolution with its weights laid out for oneDNN."""

    def __init__(self, layer: ConvNorm, input_shape: tuple[int, int, int, int]) -> None:
        conv = layer.conv
        self._padding = list(conv.padding)
        self._bias = conv.bias
        weight = conv.weight.contiguous(memory_format=torch.channels_last)
        ones = [1, 1]
        reorder = torch.ops.mkldnn._reorder_convolution_weight
        self._weight = reorder(weight, self._padding, ones, ones, 1, list(input_shape))
        self._unary = torch.ops.mkldnn._convolution_pointwise.default
        self._binary = torch.ops.mkldnn._convolution_pointwise_.binary

    def relu(self, x_BCHW: Tensor) -> Tensor:
        """Return the ReLU of the convolution."""
        out: Tensor = self._unary(x_BCHW, self._weight, self._bias, self._padding, [1, 1], [1, 1], 1, "relu", [], "")
        return out

    def add_relu_(self, x_BCHW: Tensor, sum_BCHW: Tensor) -> Tensor:
        """Return the ReLU of `sum` plus the convolution, written over `sum`."""
        out: Tensor = self._binary(
            sum_BCHW, x_BCHW, self._weight, self._bias, self._padding, [1, 1], [1, 1], 1, "add", 1.0, "relu", [], None
        )
        return out


def _linear(layer: nn.Linear, x_BC: Tensor, activation: str) -> Tensor:
    """Return the layer's output by oneDNN, which gives a row the same bits in every place of a batch; MKL does not."""
    out: Tensor = torch.ops.mkldnn._linear_pointwise(x_BC, layer.weight, layer.bias, activation, [], "")
    return out


def fastest_forward(net: PolicyValueNet, input_shape: tuple[int, int, int, int]) -> Forward:
    """Return the fastest forward pass for a folded float32 network on a CPU: fused where that works, else the network.

    `input_shape` is the batch shape to prepare for; every other batch size works too.
    """
    if not torch.backends.mkldnn.is_available():  # type: ignore[no-untyped-call]
        return net
    generator = torch.Generator().manual_seed(0)
    batch = torch.rand(input_shape, generator=generator).round_().contiguous(memory_format=torch.channels_last)
    try:
        fused = FusedNet(net, input_shape)
        with torch.inference_mode():
            is_same = all(_close(got, wanted) for got, wanted in zip(fused(batch), net(batch), strict=True))
    except (AttributeError, RuntimeError, NotImplementedError, TypeError):  # this torch has other entry points
        return net
    return fused if is_same else net


def _blocks(net: PolicyValueNet) -> list[ResidualBlock]:
    return [block for block in net.blocks.children() if isinstance(block, ResidualBlock)]


def _close(got: Tensor, wanted: Tensor) -> bool:
    scale = 1.0 + float(wanted.abs().max())
    return bool(torch.isfinite(wanted).all()) and float((got - wanted).abs().max()) <= _TOLERANCE * scale


__all__ = ["Forward", "FusedNet", "fastest_forward"]
