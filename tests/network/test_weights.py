"""Weights files: whole, of the right kind and game, or refused."""

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any, Never

import pytest
import torch

from zerofleet.errors import StorageError
from zerofleet.network.config import NetworkConfig
from zerofleet.network.files import write_durably
from zerofleet.network.net import PolicyValueNet, build_network
from zerofleet.network.tensor_file import encode_tensors
from zerofleet.network.weights import (
    WeightsMeta,
    encode_weights,
    find_weights,
    load_weights,
    network_from_weights,
    save_weights,
    weights_path,
)

CONFIG = NetworkConfig(channels=4, blocks=1, value_hidden=4)
META = WeightsMeta(
    run="r",
    version=3,
    step=70,
    game="tictactoe",
    rules_version=1,
    observation_shape=(2, 3, 3),
    num_actions=9,
    network=CONFIG,
)


def _net(seed: int = 0) -> PolicyValueNet:
    return build_network((2, 3, 3), 9, CONFIG, seed=seed)


def test_weights_come_back_as_they_were(tmp_path: Path) -> None:
    net = _net().eval()
    saved = save_weights(tmp_path / "w.safetensors", net, META)
    again, meta = network_from_weights(tmp_path / "w.safetensors")
    assert meta == saved
    assert replace(meta, sha256="") == META
    assert not again.training
    planes = torch.rand(4, 2, 3, 3)
    for wanted, got in zip(net(planes), again(planes), strict=True):
        assert torch.equal(wanted, got)


def test_the_same_weights_give_the_same_bytes_in_every_process() -> None:
    code = (
        "import sys; from zerofleet.network.weights import *; from zerofleet.network.config import NetworkConfig\n"
        "from zerofleet.network.net import build_network; c=NetworkConfig(channels=4,blocks=1,value_hidden=4)\n"
        "m=WeightsMeta(run='r',version=3,step=70,game='tictactoe',rules_version=1,observation_shape=(2,3,3),"
        "num_actions=9,network=c)\n"
        "sys.stdout.buffer.write(encode_weights(build_network((2,3,3),9,c),m)[0])"
    )
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    other = subprocess.run([sys.executable, "-c", code], capture_output=True, check=True, env=environment).stdout
    assert other == encode_weights(_net(), META)[0]


@pytest.mark.parametrize("cut", [0, 7, 8, 200, -1])
def test_a_torn_file_is_refused(cut: int) -> None:
    """Fault 88."""
    data, _ = encode_weights(_net(), META)
    with pytest.raises(StorageError, match="expected a"):
        load_weights(data[:cut])


def test_a_flipped_byte_anywhere_is_refused() -> None:
    """Fault 88: header, record and tensors are all under the checksum."""
    data, _ = encode_weights(_net(), META)
    for place in [*range(0, 1200, 23), *range(1200, len(data), 397)]:
        changed = bytearray(data)
        changed[place] ^= 1
        with pytest.raises(StorageError):
            load_weights(bytes(changed))


def test_a_file_of_another_kind_is_refused_by_name(tmp_path: Path) -> None:
    """Fault 74."""
    checkpoint, _ = encode_tensors("checkpoint", {"a": torch.zeros(2)}, {})
    with pytest.raises(StorageError, match="expected a weights file, got a checkpoint file"):
        load_weights(checkpoint)
    torch.save({"a": torch.zeros(2)}, tmp_path / "w.safetensors")
    with pytest.raises(StorageError, match="expected a weights file"):
        load_weights(tmp_path / "w.safetensors")
    with pytest.raises(StorageError, match="cannot be read"):
        load_weights(tmp_path / "missing.safetensors")


@pytest.mark.parametrize(
    ("field", "value"), [("game", "connect4"), ("observation_shape", (2, 6, 7)), ("num_actions", 7)]
)
def test_weights_of_another_game_are_refused_with_both_named(field: str, value: Any) -> None:
    """Fault 74."""
    data, meta = encode_weights(_net(), META)
    with pytest.raises(StorageError) as caught:
        load_weights(data, **{field: value})
    assert f"expected weights with {field} {value}, got {getattr(meta, field)}" in str(caught.value)


def test_a_write_that_fails_leaves_the_old_file_and_no_litter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "w.safetensors"
    save_weights(path, _net(), META)
    before = path.read_bytes()

    def full(_descriptor: int) -> Never:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(StorageError, match="No space left on device"):
        save_weights(path, _net(1), META)
    assert path.read_bytes() == before
    assert [p.name for p in tmp_path.iterdir()] == ["w.safetensors"]


def test_a_version_is_found_by_its_checksum_and_torn_candidates_are_passed_over(tmp_path: Path) -> None:
    first = save_weights(weights_path(tmp_path, 3, 1), _net(), META)
    second = save_weights(weights_path(tmp_path, 3, 2), _net(1), META)
    assert find_weights(tmp_path, 3, first.sha256) == weights_path(tmp_path, 3, 1)
    assert find_weights(tmp_path, 3, second.sha256) == weights_path(tmp_path, 3, 2)
    write_durably(weights_path(tmp_path, 3, 3), b"torn")
    assert find_weights(tmp_path, 3) == weights_path(tmp_path, 3, 2)
    with pytest.raises(StorageError, match="no file of that version"):
        find_weights(tmp_path, 4)
    with pytest.raises(StorageError, match="expected weights version 3"):
        find_weights(tmp_path, 3, "0" * 64)


def test_a_config_is_readable_without_torch() -> None:
    code = "import sys, zerofleet.network.config; sys.exit('torch' in sys.modules)"
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    assert subprocess.run([sys.executable, "-c", code], check=False, env=environment).returncode == 0
