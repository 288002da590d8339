"""How inference servers and their clients behave; imports no torch."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from zerofleet.config import check_values


@dataclass(frozen=True, slots=True, kw_only=True)
class InferenceConfig:
    """The server's batches, what it keeps, and how long a client is patient."""

    max_batch_size: int = 256
    """Positions in one forward pass.  Past the device's knee a larger one costs latency and buys nothing."""

    dtype: Literal["auto", "fp32", "bf16"] = "auto"
    """`auto`: bf16 on a GPU and on CPUs that multiply bf16 in hardware, else fp32."""

    device: str = "auto"
    """`auto`: the first GPU that the process sees, else the CPU; or any name that torch knows, such as `cuda:1`."""

    form: Literal["auto", "torch", "onednn", "onnxruntime"] = "auto"
    """How a CPU computes a network in fp32; `auto`: onednn or onnxruntime, the faster in a short trial when the first
    weights are loaded.  In torch's own form a row's last bits may depend on its place in the batch."""

    num_threads: int = 1
    """Threads of one server's forward pass on a CPU; more than one collapses beside busy neighbours."""

    resident_versions: int = 4
    """Weights versions held at once, at least 2; the one unused for longest makes room, never the newest."""

    max_queued_positions: int = 16_384
    """Positions that wait in one server.  Beyond it the server stops reading, and clients wait in their send."""

    deadline_s: float = 10.0
    """A server that was silent for so long, though asked, is given up: its requests go to another one."""

    total_deadline_s: float = 60.0
    """A request that no server answered for so long is an error."""

    def __post_init__(self) -> None:
        laws = (
            (1 <= self.max_batch_size <= 65_536, "max_batch_size", "must lie in [1, 65536]"),
            (self.dtype in ("auto", "fp32", "bf16"), "dtype", "must be auto, fp32 or bf16"),
            (
                self.form in ("auto", "torch", "onednn", "onnxruntime"),
                "form",
                "must be auto, torch, onednn or onnxruntime",
            ),
            (self.device != "", "device", "must be auto, cpu, cuda or cuda:<index>"),
            (self.num_threads >= 1, "num_threads", "must be 1 or more"),
            (self.resident_versions >= 2, "resident_versions", "must be 2 or more"),
            (
                self.max_queued_positions >= self.max_batch_size,
                "max_queued_positions",
                f"must be at least max_batch_size ({self.max_batch_size})",
            ),
            (0.0 < self.deadline_s < 1e6, "deadline_s", "must be above 0"),
            (
                self.deadline_s <= self.total_deadline_s < 1e9,
                "total_deadline_s",
                f"must be at least deadline_s ({self.deadline_s})",
            ),
        )
        check_values("inference", self, laws)
