"""Packing of planes and its inverse."""

from __future__ import annotations

import numpy as np
import pytest

from zerofleet.games.base import PlaneType
from zerofleet.games.packing import pack_planes, packed_size, unpack_planes


@pytest.mark.parametrize(("plane_type", "size"), [("bits", 5), ("uint8", 36), ("float32", 144)])
def test_what_is_packed_comes_back(rng: np.random.Generator, plane_type: PlaneType, size: int) -> None:
    shape = (2, 3, 6)
    most = {"bits": 2, "uint8": 256, "float32": 1000}[plane_type]
    planes = rng.integers(most, size=(7, *shape)).astype(np.float32 if plane_type == "float32" else np.uint8)
    packed = pack_planes(planes, plane_type)
    assert packed_size(shape, plane_type) == size
    assert packed.shape == (7, size)
    assert packed.dtype == np.uint8
    again = unpack_planes(packed, shape, plane_type)
    assert again.dtype == planes.dtype
    assert np.array_equal(again, planes)
    assert unpack_planes(packed[:0], shape, plane_type).shape == (0, *shape)


def test_bits_are_packed_from_the_top_bit_down() -> None:
    planes = np.array([1, 0, 0, 0, 0, 0, 1, 1, 1], np.uint8).reshape(1, 1, 3, 3)
    assert pack_planes(planes, "bits").tolist() == [[0b10000011, 0b10000000]]
