"""A network rearranged for inference on a CPU in float32: the same numbers in less time.

`onednn`: each convolution, its bias, its ReLU and the sum before it in one call.  oneDNN computes all four in one pass
over memory, and takes weights that were laid out for it once instead of at each call; torch has the entry points, but
keeps them for its own compiler.
`onnxruntime`: the whole network as one call of ONNX Runtime, which plans its memory and its kernels once; so a call
costs next to nothing beside its arithmetic, which tells with small networks and small batches.

Which one is the faster depends on the CPU and the net: `choose_form` tries both, `benchmarks/inference.py` shows them.
A form that is missing, or gives anything but the network's own numbers, is left out.  Where both are, torch's own calls
serve (`torch`): MKL, behind its linear layers, may give a row other last bits in another place of a batch.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

import onnxruntime
import torch
from torch import Tensor, nn

from zerofleet.network.net import ConvNorm, PolicyValueNet, ResidualBlock
from zerofleet.network.onnx_graph import INPUT, OUTPUTS, onnx_bytes

Forward: TypeAlias = Callable[[Tensor], tuple[Tensor, Tensor]]

_log = logging.getLogger(__name__)

_PLAIN = "torch"  # the name of the network itself as a form
_TOLERANCE = 1e-3  # far above rounding, far below any mistake
_TRIES = 5


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


class OnnxNet:
    """The forward pass of a network in ONNX Runtime, on float32 batches."""

    def __init__(self, net: PolicyValueNet, board: tuple[int, int], num_threads: int) -> None:
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = num_threads
        options.inter_op_num_threads = 1
        options.add_session_config_entry("session.intra_op.allow_spinning", "0")  # the cores have other work
        providers = ["CPUExecutionProvider"]
        self._session = onnxruntime.InferenceSession(onnx_bytes(net, board), options, providers=providers)

    def __call__(self, planes_BCHW: Tensor) -> tuple[Tensor, Tensor]:
        """Return (policy logits `[B, A]`, value `[B]`)."""
        policy, value = self._session.run(OUTPUTS, {INPUT: planes_BCHW.contiguous().numpy()})
        return torch.from_numpy(policy), torch.from_numpy(value)


_Make: TypeAlias = Callable[[PolicyValueNet, tuple[int, int, int, int], int], Forward]

_FORMS: Mapping[str, _Make] = {
    "onnxruntime": lambda net, shape, num_threads: OnnxNet(net, shape[2:], num_threads),
    "onednn": lambda net, shape, _num_threads: FusedNet(net, shape),
}


@dataclass(frozen=True, slots=True)
class Choice:
    """The fastest form of a network, and the seconds that each one took for a batch."""

    form: str
    forward: Forward
    seconds: dict[str, float]

    def __str__(self) -> str:
        taken = ", ".join(f"{name} {1e3 * taken:.2f} ms" for name, taken in sorted(self.seconds.items()))
        return f"inference by {self.form}: a batch took {taken}"


def choose_form(net: PolicyValueNet, input_shape: tuple[int, int, int, int], num_threads: int = 1) -> Choice:
    """Try the forms of a folded float32 network on a batch, in turns, and return the fastest.

    By CPU time where one thread does it all, so that busy neighbours have no say.  The network itself is no candidate
    where another form works: a row's bits would depend on its place in the batch.
    """
    clock = time.thread_time if num_threads == 1 else time.perf_counter
    batch_BCHW = _trial_batch(input_shape)
    made = {name: make_form(name, net, input_shape, num_threads) for name in _FORMS}
    forwards = {name: forward for name, forward in made.items() if forward is not net} or {_PLAIN: net}
    seconds = dict.fromkeys(forwards, float("inf"))
    with torch.inference_mode():
        for _ in range(_TRIES):
            for name, forward in forwards.items():
                began = clock()
                forward(batch_BCHW)
                seconds[name] = min(seconds[name], clock() - began)
    fastest = min(seconds, key=seconds.__getitem__)
    return Choice(fastest, forwards[fastest], seconds)


def make_form(name: str, net: PolicyValueNet, input_shape: tuple[int, int, int, int], num_threads: int = 1) -> Forward:
    """Return a form of a folded float32 network; the network itself where that form is missing or wrong.

    `input_shape` is the batch shape to prepare for; every other batch size works too.
    """
    if name not in _FORMS:
        return net
    batch_BCHW = _trial_batch(input_shape)
    try:
        forward = _FORMS[name](net, input_shape, num_threads)
        with torch.inference_mode():
            is_same = all(_close(*pair) for pair in zip(forward(batch_BCHW), net(batch_BCHW), strict=True))
    except Exception as error:  # whatever another version of torch or ONNX Runtime raises, the network is there
        _log.info("no inference by %s: %s", name, error)
        return net
    if not is_same:
        _log.warning("no inference by %s: it gives other numbers than the network", name)
        return net
    return forward


def _trial_batch(input_shape: tuple[int, int, int, int]) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return torch.rand(input_shape, generator=generator).round_().contiguous(memory_format=torch.channels_last)


def _blocks(net: PolicyValueNet) -> list[ResidualBlock]:
    return [block for block in net.blocks.children() if isinstance(block, ResidualBlock)]


def _close(got: Tensor, wanted: Tensor) -> bool:
    scale = 1.0 + float(wanted.abs().max())
    return bool(torch.isfinite(wanted).all()) and float((got - wanted).abs().max()) <= _TOLERANCE * scale


__all__ = ["Choice", "Forward", "FusedNet", "OnnxNet", "choose_form", "make_form"]
