"""Which number format the network computes in."""

from __future__ import annotations

from typing import Literal, TypeAlias

import torch

Precision: TypeAlias = Literal["auto", "bf16", "fp32"]


def pick_dtype(precision: Precision, device: torch.device) -> torch.dtype:
    """Return the dtype to compute in; "auto" takes bf16 where the device has instructions for it.

    A processor without them emulates bf16 many times slower than float32 runs, so there "auto" is float32.
    """
    if precision == "fp32":
        return torch.float32
    if precision == "bf16":
        return torch.bfloat16
    if device.type == "cuda":
        return torch.bfloat16 if torch.cuda.is_bf16_supported(including_emulation=False) else torch.float32
    return torch.bfloat16 if _cpu_has_bf16() else torch.float32


def _cpu_has_bf16() -> bool:
    """Tell whether this processor multiplies bf16 in hardware (AVX512_BF16 or AMX)."""
    checks = ("_is_avx512_bf16_supported", "_is_amx_tile_supported")
    return any(bool(getattr(torch.cpu, name)()) for name in checks if hasattr(torch.cpu, name))
