"""The network as an ONNX graph, node by node: batch norms folded in, any number of rows.

Input `planes` `[B, C, H, W]` float32; outputs `policy_logits` `[B, A]` over all actions, legal or not, and `value`
`[B]` for the player to move.
"""

from __future__ import annotations

from typing import Any

import numpy as np
from onnx import ModelProto, TensorProto, helper, numpy_helper
from torch import nn

from zerofleet.network.net import ConvNorm, PolicyValueNet, ResidualBlock

INPUT = "planes"
OUTPUTS = ("policy_logits", "value")

_OPSET = 17  # what these operators are as of; every runtime since 2022 reads it
_IR_VERSION = 8  # the file format of that opset's time


def onnx_bytes(net: PolicyValueNet, board: tuple[int, int]) -> bytes:
    """Return the ONNX model of a folded network, for boards of so many rows and columns."""
    graph = _Graph()
    body = graph.node("Relu", graph.conv(net.stem, INPUT))
    for block in net.blocks.children():
        assert isinstance(block, ResidualBlock)
        branch = graph.conv(block.second, graph.node("Relu", graph.conv(block.first, body)))
        body = graph.node("Relu", graph.node("Add", branch, body))
    policy = graph.node("Flatten", graph.node("Relu", graph.conv(net.policy_conv, body)))
    graph.linear(net.policy_out, policy, output=OUTPUTS[0])
    value = graph.node("Flatten", graph.node("Relu", graph.conv(net.value_conv, body)))
    value = graph.linear(net.value_out, graph.node("Relu", graph.linear(net.value_hidden, value)))
    axis = graph.constant("squeezed_axis", np.array([1], np.int64))
    graph.node("Squeeze", graph.node("Tanh", value), axis, output=OUTPUTS[1])
    model: bytes = graph.model(net.stem.conv.in_channels, net.policy_out.out_features, board).SerializeToString()
    return model


class _Graph:
    """Nodes in the order in which they are computed, and the weights that they name."""

    def __init__(self) -> None:
        self._nodes: list[Any] = []
        self._weights: list[Any] = []

    def node(self, kind: str, *inputs: str, output: str = "", **attributes: Any) -> str:
        """Add a node and return the name of its output."""
        name = output or f"{kind.lower()}_{len(self._nodes)}"
        self._nodes.append(helper.make_node(kind, list(inputs), [name], name=name, **attributes))
        return name

    def conv(self, layer: ConvNorm, x: str) -> str:
        """Add a folded convolution."""
        padding = [int(size) for size in layer.conv.padding] * 2
        return self.node("Conv", x, *self._parameters(layer.conv), pads=padding)

    def linear(self, layer: nn.Linear, x: str, output: str = "") -> str:
        """Add a linear layer."""
        return self.node("Gemm", x, *self._parameters(layer), output=output, transB=1)

    def constant(self, name: str, array: Any) -> str:
        """Add a constant and return its name."""
        self._weights.append(numpy_helper.from_array(array, name))
        return name

    def model(self, num_planes: int, num_actions: int, board: tuple[int, int]) -> ModelProto:
        """Return the whole of it as a model."""
        rows = "batch"
        kind = TensorProto.FLOAT
        inputs = [helper.make_tensor_value_info(INPUT, kind, [rows, num_planes, *board])]
        outputs = [
            helper.make_tensor_value_info(OUTPUTS[0], kind, [rows, num_actions]),
            helper.make_tensor_value_info(OUTPUTS[1], kind, [rows]),
        ]
        graph = helper.make_graph(self._nodes, "policy_value_net", inputs, outputs, self._weights)
        opset = [helper.make_opsetid("", _OPSET)]
        return helper.make_model(graph, producer_name="zerofleet", opset_imports=opset, ir_version=_IR_VERSION)

    def _parameters(self, layer: nn.Conv2d | nn.Linear) -> tuple[str, str]:
        """Add a layer's weight and bias and return their names."""
        number = len(self._nodes)
        bias = layer.bias
        assert bias is not None, "a folded layer has a bias"
        return (
            self.constant(f"weight_{number}", layer.weight.detach().contiguous().numpy()),
            self.constant(f"bias_{number}", bias.detach().numpy()),
        )
