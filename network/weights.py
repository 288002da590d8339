"""Weights files: what the learner publishes and the inference servers load.

A file carries everything that is needed to build its network again, and is refused where it is torn, changed, of
another kind, or of another game than expected.  Its name carries version and epoch, so that a learner that wakes up
late can never replace what its successor published; its contents do not depend on the epoch.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import torch
from torch import nn

from zerofleet.errors import ConfigError, StorageError
from zerofleet.network.config import NetworkConfig
from zerofleet.network.files import read_file, write_durably
from zerofleet.network.net import PolicyValueNet, build_network
from zerofleet.network.tensor_file import Tensors, decode_tensors, encode_tensors

KIND = "weights"
_NAME = re.compile(r"(\d+)-(\d+)\.safetensors")


@dataclass(frozen=True, slots=True, kw_only=True)
class WeightsMeta:
    """What a weights file says of itself."""

    run: str
    version: int  # 1 is the untrained network
    step: int  # optimiser steps made
    game: str  # canonical name with options
    rules_version: int
    observation_shape: tuple[int, int, int]
    num_actions: int
    network: NetworkConfig
    sha256: str = ""  # over the tensors and everything above; known once encoded


def encode_weights(module: nn.Module | Mapping[str, torch.Tensor], meta: WeightsMeta) -> tuple[bytes, WeightsMeta]:
    """Return the file's bytes, and `meta` with its checksum.  The same weights and meta give the same bytes."""
    tensors = module.state_dict() if isinstance(module, nn.Module) else module
    record = asdict(meta)
    del record["sha256"]
    data, digest = encode_tensors(KIND, tensors, record)
    return data, replace(meta, sha256=digest)


def save_weights(path: Path, module: nn.Module | Mapping[str, torch.Tensor], meta: WeightsMeta) -> WeightsMeta:
    """Write a weights file aside, fsync it and move it into place; return `meta` with its checksum."""
    data, complete = encode_weights(module, meta)
    write_durably(path, data)
    return complete


def load_weights(
    source: Path | bytes,
    *,
    game: str | None = None,
    observation_shape: tuple[int, int, int] | None = None,
    num_actions: int | None = None,
) -> tuple[Tensors, WeightsMeta]:
    """Return a weights file's tensors and meta; what is given besides `source` must be what the file says.

    Raises:
        StorageError: the file is torn, changed, of another kind, or of another game or shape.
    """
    name = "weights" if isinstance(source, bytes) else str(source)
    data = source if isinstance(source, bytes) else read_file(source)
    tensors, record, digest = decode_tensors(data, KIND, name)
    meta = _meta_from_record(record, digest, name)
    wanted = {"game": game, "observation_shape": observation_shape, "num_actions": num_actions}
    for field, expected in wanted.items():
        got = getattr(meta, field)
        if expected is not None and got != expected:
            raise StorageError(f"{name}: expected weights with {field} {expected}, got {got}")
    return tensors, meta


def network_from_weights(source: Path | bytes) -> tuple[PolicyValueNet, WeightsMeta]:
    """Return the network of a weights file, in evaluation mode, and what the file says of itself."""
    tensors, meta = load_weights(source)
    net = build_network(meta.observation_shape, meta.num_actions, meta.network)
    try:
        net.load_state_dict(tensors)
    except RuntimeError as error:
        raise StorageError(f"weights version {meta.version} do not fit their own network config: {error}") from error
    return net.eval(), meta


def weights_path(folder: Path, version: int, epoch: int) -> Path:
    """Return where the learner of `epoch` writes `version`."""
    return folder / f"{version:08d}-{epoch:06d}.safetensors"


def list_weights(folder: Path) -> list[tuple[int, int, Path]]:
    """Return (version, epoch, path) of each weights file by name, oldest version first; contents are not looked at."""
    found = [(match, path) for path in folder.glob("*.safetensors") if (match := _NAME.fullmatch(path.name))]
    return sorted((int(match[1]), int(match[2]), path) for match, path in found)


def find_weights(folder: Path, version: int, sha256: str | None = None) -> Path:
    """Return the whole file of `version`; with `sha256`, the one with that checksum, else that of the latest epoch.

    Raises:
        StorageError: there is no such file; the message says why each candidate was refused.
    """
    refused = []
    for candidate, _epoch, path in reversed(list_weights(folder)):
        if candidate != version:
            continue
        try:
            _tensors, meta = load_weights(path)
        except StorageError as error:
            refused.append(str(error))
            continue
        if meta.version == version and sha256 in (None, meta.sha256):
            return path
        refused.append(f"{path}: holds version {meta.version} with sha256 {meta.sha256}")
    reasons = "; ".join(refused) if refused else "no file of that version"
    raise StorageError(f"{folder}: expected weights version {version} (sha256 {sha256 or 'any'}): {reasons}")


def _meta_from_record(record: dict[str, Any], digest: str, name: str) -> WeightsMeta:
    try:
        planes, height, width = record["observation_shape"]
        fields = {**record, "network": NetworkConfig(**record["network"]), "observation_shape": (planes, height, width)}
        return WeightsMeta(**fields, sha256=digest)
    except (KeyError, TypeError, ValueError, ConfigError) as error:
        raise StorageError(f"{name}: written by another version of Zerofleet: {error}") from error
