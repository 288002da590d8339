"""The network in torch, on a CPU or a GPU: the one module of this folder that loads torch.

Shape letters: `B` rows, padded to a bucket; `K` bytes of a packed row; `C`, `H`, `W` planes and board; `A` actions; `L`
legal moves of the whole batch.  Batches are padded so that a device sees few shapes, and so that in one padded shape a
row gives the same bits whatever stands beside it.
"""

from __future__ import annotations

import hashlib
import logging
import threading
from dataclasses import dataclass

import numpy as np
import torch
from torch import Tensor

from zerofleet.errors import ConfigError, InferenceError, StorageError
from zerofleet.games.base import Game, PackedPlanes
from zerofleet.inference.batching import bucket_for, bucket_sizes
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.priors import LegalMoves
from zerofleet.inference.wire import Dimensions
from zerofleet.network.inference_form import Forward, choose_form, make_form
from zerofleet.network.net import PolicyValueNet, fold_batch_norm
from zerofleet.network.precision import pick_dtype
from zerofleet.network.weights import load_weights, network_from_weights
from zerofleet.search.base import ActionArray, Evaluation, FloatArray, IntArray

_log = logging.getLogger(__name__)

_TRIAL_ROWS = 64  # of the batch by which the forms of a network are compared
_BIT_VALUES = (128, 64, 32, 16, 8, 4, 2, 1)  # np.packbits puts the first plane square into the highest bit


@dataclass(slots=True, kw_only=True)
class _Resident:
    """One weights version, ready to run."""

    version: int
    digest: str
    forward: Forward
    last_used: int = 0  # by the backend's count of forward passes


class TorchBackend:
    """Runs a game's positions through the resident networks, in bf16 or float32."""

    def __init__(self, game: Game, config: InferenceConfig) -> None:
        self.dimensions = Dimensions.of(game)
        self.max_batch_size = config.max_batch_size
        self.num_non_finite_rows = 0
        self.device = _pick_device(config.device)
        self.dtype = pick_dtype(config.dtype, self.device)
        self._game = game
        self._num_resident = config.resident_versions
        self._num_threads = config.num_threads
        self._form: str = "" if config.form == "auto" else config.form  # "" until it is chosen
        self._buckets = bucket_sizes(config.max_batch_size)
        self._residents: dict[int, _Resident] = {}  # replaced as a whole, so that a reader needs no lock
        self._versions: tuple[int, ...] = ()
        self._lock = threading.Lock()  # one load at a time
        self._num_forwards = 0
        planes, height, width = game.observation_shape
        squares = np.arange(planes * height * width).reshape(planes, height * width)
        self._channels_last = squares.T.reshape(-1)  # [H * W * C] where the game's planes hold each of them
        self._bits = torch.tensor(_BIT_VALUES, dtype=torch.uint8, device=self.device)
        self._rows = torch.zeros((config.max_batch_size, game.packed_size), dtype=torch.uint8)
        if self.device.type == "cuda":
            self._rows = self._rows.pin_memory()
        else:
            torch.set_num_threads(config.num_threads)
        self._rows_array: PackedPlanes = self._rows.numpy()

    def versions(self) -> tuple[int, ...]:
        """Return the resident versions, increasing."""
        return self._versions

    def load(self, version: int, weights: bytes) -> None:
        """Make `version` resident; see `Backend.load`."""
        digest = hashlib.sha256(weights).hexdigest()
        with self._lock:
            old = self._residents.get(version)
            if old is not None and old.digest == digest:
                return
            if old is not None:
                raise StorageError(f"weights version {version} has two contents: {old.digest[:12]} and {digest[:12]}")
            resident = self._prepare(version, digest, weights)
            resident.last_used = self._num_forwards
            residents = {**self._residents, version: resident}
            newest = max(residents)
            while len(residents) > self._num_resident:
                candidates = [other for other in residents.values() if other.version not in (newest, version)]
                del residents[min(candidates, key=lambda other: (other.last_used, other.version)).version]
            self._residents = residents
            self._versions = tuple(sorted(residents))

    def forward(
        self, planes: PackedPlanes, legal_offsets: IntArray, legal_actions: ActionArray, version: int = 0
    ) -> Evaluation:
        """Evaluate packed positions; see `Backend.forward`."""
        resident = self._resident(version)
        num_rows = len(legal_offsets) - 1
        if num_rows <= self.max_batch_size:
            priors, values = self._evaluate(resident.forward, planes, legal_offsets, legal_actions)
            return Evaluation(priors=priors, values=values, weights_version=resident.version)
        parts = []
        for begin in range(0, num_rows, self.max_batch_size):
            offsets = legal_offsets[begin : begin + self.max_batch_size + 1]
            actions = legal_actions[offsets[0] : offsets[-1]]
            rows = planes[begin : begin + self.max_batch_size]
            parts.append(self._evaluate(resident.forward, rows, offsets - offsets[0], actions))
        priors, values = (np.concatenate(arrays) for arrays in zip(*parts, strict=True))
        return Evaluation(priors=priors, values=values, weights_version=resident.version)

    def _resident(self, version: int) -> _Resident:
        residents = self._residents
        if not residents:
            raise InferenceError("no weights are loaded yet")
        resident = residents.get(version or max(residents))
        if resident is None:
            names = ", ".join(str(known) for known in sorted(residents))
            raise InferenceError(f"weights version {version} is not resident here; these are: {names}")
        self._num_forwards += 1
        resident.last_used = self._num_forwards
        return resident

    def _evaluate(
        self, forward: Forward, planes: PackedPlanes, legal_offsets: IntArray, legal_actions: ActionArray
    ) -> tuple[FloatArray, FloatArray]:
        """Return (priors `[L]`, values `[B]`) of a batch that fits."""
        num_rows = len(planes)
        bucket = bucket_for(num_rows, self._buckets)
        self._rows_array[:num_rows] = planes
        self._rows_array[num_rows:bucket] = 0
        moves = LegalMoves.of(legal_offsets, legal_actions, self.dimensions.num_actions)
        with torch.inference_mode():
            policy_BA, value_B = forward(self._unpack(self._rows[:bucket]))
            logits, values = self._fetch(policy_BA, value_B[:num_rows], moves)
        priors, is_finite = moves.priors(logits)
        is_finite &= np.isfinite(values)
        if not is_finite.all():
            self.num_non_finite_rows += int(num_rows - np.count_nonzero(is_finite))
            values = np.nan_to_num(values, nan=0.0)
        return priors, values

    def _fetch(self, policy_BA: Tensor, value_B: Tensor, moves: LegalMoves) -> tuple[FloatArray, FloatArray]:
        """Return (logits of the legal moves, values) on the host, in float32; from a GPU those alone travel."""
        if self.device.type == "cpu":
            return policy_BA.float().numpy().reshape(-1)[moves.flat], value_B.float().numpy()
        index = torch.from_numpy(moves.flat).pin_memory().to(self.device, non_blocking=True)
        answer = torch.cat((policy_BA.reshape(-1)[index].float(), value_B.float())).cpu().numpy()
        return answer[: len(moves.flat)], answer[len(moves.flat) :]

    def _unpack(self, rows_BK: Tensor) -> Tensor:
        """Return packed rows as channels-last planes on the device, in the dtype that the network computes in."""
        num_planes, height, width = self._game.observation_shape
        num_squares = num_planes * height * width
        is_bits = self._game.plane_type == "bits"
        if is_bits and self.device.type == "cpu":
            bits = np.unpackbits(rows_BK.numpy()).reshape(len(rows_BK), -1).take(self._channels_last, axis=1)
            planes_BHWC = torch.from_numpy(bits.astype(np.float32)).view(-1, height, width, num_planes)
            return planes_BHWC.permute(0, 3, 1, 2).to(self.dtype)
        rows_BK = rows_BK.to(self.device, non_blocking=True)
        if is_bits:
            bits_BK8 = rows_BK.unsqueeze(2).bitwise_and(self._bits).ne(0)
            flat = bits_BK8.flatten(1)[:, :num_squares]
        elif self._game.plane_type == "uint8":
            flat = rows_BK
        else:
            flat = rows_BK.view(torch.float32)
        planes_BCHW = flat.reshape(-1, num_planes, height, width)
        return planes_BCHW.to(self.dtype, memory_format=torch.channels_last)

    def _prepare(self, version: int, digest: str, weights: bytes) -> _Resident:
        game = self._game
        load_weights(weights, game=game.spec, observation_shape=game.observation_shape, num_actions=game.num_actions)
        net, meta = network_from_weights(weights)
        if meta.version != version:
            raise StorageError(f"expected weights version {version}, the file says {meta.version}")
        folded = fold_batch_norm(net).to(self.device, self.dtype)
        folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
        return _Resident(version=version, digest=digest, forward=self._fastest(folded))

    def _fastest(self, folded: PolicyValueNet) -> Forward:
        """Return the form of the network that is the fastest here, chosen when the first one is loaded."""
        if self.device.type != "cpu" or self.dtype != torch.float32:
            return folded
        shape = (min(_TRIAL_ROWS, self.max_batch_size), *self._game.observation_shape)
        if not self._form:
            choice = choose_form(folded, shape, self._num_threads)
            self._form = choice.form
            _log.info("%s", choice)
            return choice.forward
        return make_form(self._form, folded, shape, self._num_threads)


def _pick_device(name: str) -> torch.device:
    if name == "auto":
        return torch.device("cuda" if torch.cuda.is_available() else "cpu")
    try:
        device = torch.device(name)
    except RuntimeError:
        raise ConfigError(f"inference.device must be auto, cpu, cuda or cuda:<index>, got {name!r}") from None
    if device.type == "cuda" and not torch.cuda.is_available():
        raise ConfigError(f"inference.device is {name}, and this process sees no GPU: use auto or cpu")
    return device
