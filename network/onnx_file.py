"""A network as an ONNX file, checked against the one it was made from."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import onnxruntime
import torch

from zerofleet.errors import StorageError
from zerofleet.network.net import PolicyValueNet, fold_batch_norm
from zerofleet.network.onnx_graph import INPUT, OUTPUTS, onnx_bytes

TOLERANCE = 1e-4
"""By how much a policy logit or a value of the ONNX model may differ from the network's, in float32."""


def encode_onnx(net: PolicyValueNet, planes_BCHW: npt.NDArray[np.float32]) -> tuple[bytes, float]:
    """Return the network's ONNX model (see `onnx_graph`) and its greatest difference of outputs on `planes_BCHW`.

    Raises:
        StorageError: the outputs differ by more than `TOLERANCE`.
    """
    _rows, _planes, height, width = planes_BCHW.shape
    data = onnx_bytes(fold_batch_norm(net), (height, width))
    difference = _difference(data, net.eval(), planes_BCHW)
    if not difference <= TOLERANCE:
        raise StorageError(f"the ONNX model's outputs differ by {difference:g} from the network's, over {TOLERANCE:g}")
    return data, difference


def _difference(data: bytes, net: PolicyValueNet, planes_BCHW: npt.NDArray[np.float32]) -> float:
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found = session.run(OUTPUTS, {INPUT: planes_BCHW})
    with torch.inference_mode():
        wanted = net(torch.from_numpy(planes_BCHW))
    return max(float(np.abs(got - tensor.numpy()).max()) for got, tensor in zip(found, wanted, strict=True))
