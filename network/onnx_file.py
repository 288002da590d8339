"""A network as an ONNX model, checked against the one it was made from.

Needs `onnx`, `onnxscript` and `onnxruntime`, the packages of `zerofleet[export]`.
"""

from __future__ import annotations

import importlib.util
import logging
import tempfile
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import numpy.typing as npt
import torch

from zerofleet.errors import StorageError, UsageError
from zerofleet.network.net import PolicyValueNet, fold_batch_norm

TOLERANCE = 1e-4
"""By how much a policy logit or a value of the ONNX model may differ from the network's, in float32."""

PACKAGES = ("onnx", "onnxscript", "onnxruntime")


def encode_onnx(net: PolicyValueNet, planes_BCHW: npt.NDArray[np.float32]) -> tuple[bytes, float]:
    """Return the network's ONNX model, batch norms folded in, and its greatest difference of outputs on `planes_BCHW`.

    Input `planes` `[B, C, H, W]` float32, any B; outputs `policy_logits` `[B, A]` over all actions, legal or not, and
    `value` `[B]` for the player to move.

    Raises:
        UsageError: a package is missing.
        StorageError: the outputs differ by more than `TOLERANCE`.
    """
    missing = [name for name in PACKAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise UsageError(
            f"ONNX needs {', '.join(missing)}: pip install 'zerofleet[export]', or leave it out: --no-onnx"
        )
    data = _encode(fold_batch_norm(net), torch.from_numpy(planes_BCHW[:2]))
    difference = _difference(data, net.eval(), planes_BCHW)
    if not difference <= TOLERANCE:
        raise StorageError(f"the ONNX model's outputs differ by {difference:g} from the network's, over {TOLERANCE:g}")
    return data, difference


@contextmanager
def _quiet_exporter() -> Iterator[None]:
    """Keep torch's exporter from warning of its own parts, and of packages that this network has no use for."""
    logger = logging.getLogger("torch.onnx")
    level = logger.level
    logger.setLevel(logging.ERROR)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        logger.setLevel(level)


def _encode(net: PolicyValueNet, example_BCHW: torch.Tensor) -> bytes:
    with tempfile.TemporaryDirectory() as folder, _quiet_exporter():
        path = Path(folder) / "model.onnx"
        torch.onnx.export(
            net,
            (example_BCHW,),
            path,
            input_names=["planes"],
            output_names=["policy_logits", "value"],
            dynamic_shapes=({0: torch.export.Dim("batch")},),
            external_data=False,
            verbose=False,
        )
        return path.read_bytes()


def _difference(data: bytes, net: PolicyValueNet, planes_BCHW: npt.NDArray[np.float32]) -> float:
    import onnxruntime

    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    found = session.run(["policy_logits", "value"], {"planes": planes_BCHW})
    with torch.inference_mode():
        wanted = net(torch.from_numpy(planes_BCHW))
    return max(float(np.abs(got - tensor.numpy()).max()) for got, tensor in zip(found, wanted, strict=True))
