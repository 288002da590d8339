"""Files of tensors: safetensors with one JSON record and a checksum over both.

A file says of which kind it is, so that a checkpoint is never taken for weights.  It holds no pickle.  The bytes of a
file follow from its contents alone: the same tensors and record give the same file, in every process.
"""

from __future__ import annotations

import hashlib
import json
import struct
from collections.abc import Mapping
from typing import Any, TypeAlias

import torch
from safetensors import SafetensorError
from safetensors.torch import load as decode_safetensors
from safetensors.torch import save as encode_safetensors

from zerofleet.errors import StorageError

Tensors: TypeAlias = dict[str, torch.Tensor]

_KEY = "zerofleet"  # one key alone: safetensors keeps several in no fixed order
_MAX_HEADER_BYTES = 64 << 20


def encode_tensors(kind: str, tensors: Mapping[str, torch.Tensor], record: Mapping[str, Any]) -> tuple[bytes, str]:
    """Return the file's bytes and its checksum.  `record` is stored as JSON."""
    plain = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
    text = json.dumps(record, sort_keys=True)
    digest = _digest(kind, plain, text)
    head = json.dumps({"kind": kind, "sha256": digest, "record": text}, sort_keys=True)
    return encode_safetensors(plain, {_KEY: head}), digest


def decode_tensors(data: bytes, kind: str, source: str) -> tuple[Tensors, dict[str, Any], str]:
    """Return (tensors, record, checksum) of a file of `kind`; `source` names it in messages.

    Raises:
        StorageError: the bytes are torn or changed, or are a file of another kind.
    """
    head = _read_head(data, kind, source)
    if head["kind"] != kind:
        raise StorageError(f"{source}: expected a {kind} file, got a {head['kind']} file")
    try:
        tensors = decode_safetensors(data)
    except (SafetensorError, ValueError) as error:
        raise StorageError(f"{source}: expected a whole {kind} file, got a torn one ({error})") from error
    digest = _digest(kind, tensors, head["record"])
    if digest != head["sha256"]:
        raise StorageError(f"{source}: changed: expected contents with sha256 {head['sha256']}, got {digest}")
    return tensors, json.loads(head["record"]), digest


def _read_head(data: bytes, kind: str, source: str) -> dict[str, str]:
    """Return kind, checksum and record, before any tensor is looked at."""
    wrong = f"{source}: expected a {kind} file, got"
    if len(data) < 8:
        raise StorageError(f"{wrong} {len(data)} bytes")
    (size,) = struct.unpack_from("<Q", data)
    if size > min(len(data) - 8, _MAX_HEADER_BYTES):
        raise StorageError(f"{wrong} a torn file, or one that is no safetensors file ({len(data)} bytes)")
    try:
        head = json.loads(json.loads(data[8 : 8 + size])["__metadata__"][_KEY])
        fields = {field: head[field] for field in ("kind", "sha256", "record")}
    except (ValueError, KeyError, TypeError) as error:
        raise StorageError(f"{wrong} a file that Zerofleet did not write, or a changed one") from error
    if not all(isinstance(value, str) for value in fields.values()):
        raise StorageError(f"{wrong} a file with a malformed header")
    return fields


def _digest(kind: str, tensors: Mapping[str, torch.Tensor], record: str) -> str:
    """Hash everything that the file says: kind, record, and each tensor's name, type, shape and bytes."""
    sha = hashlib.sha256(f"{kind}\n{record}\n".encode())
    for name in sorted(tensors):
        tensor = tensors[name]
        sha.update(f"{name} {tensor.dtype} {tuple(tensor.shape)}\n".encode())
        sha.update(tensor.reshape(-1).view(torch.uint8).numpy().tobytes())
    return sha.hexdigest()
