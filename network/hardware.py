"""What torch can compute with on this machine."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from zerofleet.network.precision import pick_dtype


@dataclass(frozen=True, slots=True, kw_only=True)
class TorchHardware:
    """Torch, and the devices that it finds."""

    version: str
    cpu_dtype: str  # what networks compute in on the CPU, such as "float32"
    gpus: tuple[str, ...]
    built_for_cuda: str | None  # None: built for CPUs alone


def torch_hardware() -> TorchHardware:
    """Ask torch."""
    num_gpus = torch.cuda.device_count() if torch.cuda.is_available() else 0
    return TorchHardware(
        version=torch.__version__,
        cpu_dtype=str(pick_dtype("auto", torch.device("cpu"))).removeprefix("torch."),
        gpus=tuple(torch.cuda.get_device_name(index) for index in range(num_gpus)),
        built_for_cuda=torch.version.cuda,
    )
