"""How planes are packed for travel and rest: bits eight to a byte, or the bytes of their numbers."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from zerofleet.games.base import PackedPlanes, Planes, PlaneType

_DTYPES: dict[PlaneType, npt.DTypeLike] = {"bits": np.uint8, "uint8": np.uint8, "float32": np.float32}


def plane_dtype(plane_type: PlaneType) -> np.dtype[np.generic]:
    """Return the dtype of unpacked planes; bits unpack to zeros and ones of one byte."""
    return np.dtype(_DTYPES[plane_type])


def packed_size(observation_shape: tuple[int, int, int], plane_type: PlaneType) -> int:
    """Return the bytes of one packed observation."""
    squares = math.prod(observation_shape)
    if plane_type == "bits":
        return (squares + 7) // 8
    return squares * plane_dtype(plane_type).itemsize


def pack_planes(planes: Planes, plane_type: PlaneType) -> PackedPlanes:
    """Pack `planes`, `[B, planes, height, width]`, into `[B, packed_size]`."""
    flat = np.ascontiguousarray(planes, dtype=plane_dtype(plane_type)).reshape(len(planes), math.prod(planes.shape[1:]))
    if plane_type == "bits":
        return np.packbits(flat, axis=1)
    return flat.view(np.uint8)


def unpack_planes(packed: PackedPlanes, observation_shape: tuple[int, int, int], plane_type: PlaneType) -> Planes:
    """Undo `pack_planes`."""
    count = len(packed)
    if plane_type == "bits":
        flat = np.unpackbits(packed, axis=1, count=math.prod(observation_shape))
    else:
        flat = np.ascontiguousarray(packed).view(plane_dtype(plane_type))
    return flat.reshape(count, *observation_shape)
