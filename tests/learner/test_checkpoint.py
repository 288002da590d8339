"""Checkpoints: whole, this run's, and the newest."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
import torch

from zerofleet.errors import DamagedRunError, StorageError
from zerofleet.games.base import Game
from zerofleet.learner.checkpoint import Checkpoint, Identity, load_checkpoint, load_newest, save_checkpoint
from zerofleet.learner.config import LearnerConfig
from zerofleet.network.config import NetworkConfig
from zerofleet.network.net import build_network
from zerofleet.network.weights import WeightsMeta, load_weights, save_weights

Save = Callable[..., Path]


@pytest.fixture
def identity(tictactoe: Game) -> Identity:
    return Identity.of(tictactoe, NetworkConfig(channels=4, blocks=0), 3, "test")


@pytest.fixture
def save(tmp_path: Path, identity: Identity) -> Save:
    def saved(epoch: int, step: int, keep: int = 3) -> Path:
        checkpoint = Checkpoint(
            step=step,
            version=step // 10 + 1,
            rows=step * 4,
            rows_sampled=step * 8,
            anchor_step=0,
            anchor_rows=0,
            precision="float32",
            config={"batch_size": 8, "samples_per_insert": 2.0},
            tensors={"model.w": torch.full((2, 2), float(step))},
        )
        return save_checkpoint(tmp_path, epoch, identity, checkpoint, keep)

    return saved


def test_a_checkpoint_comes_back_as_it_was(save: Save, identity: Identity) -> None:
    checkpoint = load_checkpoint(save(1, 20), identity)
    assert (checkpoint.step, checkpoint.version, checkpoint.rows, checkpoint.rows_sampled) == (20, 3, 80, 160)
    assert checkpoint.tensors["model.w"].tolist() == [[20.0, 20.0], [20.0, 20.0]]


def test_the_newest_epoch_comes_first_then_the_step(save: Save, tmp_path: Path, identity: Identity) -> None:
    """A predecessor that wakes up and writes a later step is older all the same."""
    save(1, 10)
    save(2, 10)
    save(1, 500)
    found = load_newest(tmp_path, identity)
    assert found is not None
    assert found.step == 10
    save(2, 30)
    assert [path.name for path in sorted(tmp_path.iterdir())][-1] == "000002-0000000030.safetensors"


def test_only_the_newest_are_kept(save: Save, tmp_path: Path) -> None:
    for step in range(10, 80, 10):
        save(1, step, keep=2)
    assert sorted(path.name for path in tmp_path.iterdir()) == [
        "000001-0000000060.safetensors",
        "000001-0000000070.safetensors",
    ]


def test_a_torn_newest_is_passed_over(save: Save, tmp_path: Path, identity: Identity) -> None:
    """Fault 69."""
    save(1, 10)
    path = save(1, 20)
    path.write_bytes(path.read_bytes()[:-5])
    (tmp_path / ".000001-0000000030.safetensors.77.tmp").write_bytes(b"half")
    found = load_newest(tmp_path, identity)
    assert found is not None
    assert found.step == 10


def test_without_a_whole_one_the_run_does_not_quietly_begin_again(
    save: Save, tmp_path: Path, identity: Identity
) -> None:
    """Fault 71."""
    assert load_newest(tmp_path, identity) is None
    assert load_newest(tmp_path / "nowhere", identity) is None
    path = save(1, 10)
    path.write_bytes(b"")
    with pytest.raises(DamagedRunError, match="no checkpoint is whole"):
        load_newest(tmp_path, identity)


@pytest.mark.parametrize(
    ("field", "value", "got"),
    [("seed", 4, "3"), ("game", "connect4", "tictactoe"), ("run", "other", "test"), ("num_actions", 7, "9")],
)
def test_another_runs_checkpoint_is_refused_with_both_named(
    save: Save, tmp_path: Path, identity: Identity, field: str, value: object, got: str
) -> None:
    """Faults 71 and 74: a changed game, network or seed is refused."""
    save(1, 10)
    with pytest.raises(DamagedRunError, match=rf"expected a checkpoint with {field} {value}, got {got}"):
        load_newest(tmp_path, replace(identity, **{field: value}))  # type: ignore[arg-type]


def test_another_network_is_refused(save: Save, tmp_path: Path, identity: Identity) -> None:
    save(1, 10)
    with pytest.raises(DamagedRunError, match="expected a checkpoint with network"):
        load_newest(tmp_path, replace(identity, network=NetworkConfig(channels=8)))


def test_weights_and_checkpoints_are_not_taken_for_each_other(save: Save, tmp_path: Path, identity: Identity) -> None:
    """Fault 74."""
    with pytest.raises(StorageError, match="expected a weights file, got a checkpoint file"):
        load_weights(save(1, 10))
    meta = WeightsMeta(
        run="test",
        version=1,
        step=0,
        game="tictactoe",
        rules_version=1,
        observation_shape=(2, 3, 3),
        num_actions=9,
        network=identity.network,
    )
    path = tmp_path / "000009-0000000001.safetensors"
    save_weights(path, build_network((2, 3, 3), 9, identity.network), meta)
    with pytest.raises(StorageError, match="expected a checkpoint file, got a weights file"):
        load_checkpoint(path, identity)


def test_a_changed_proportion_is_anchored_at_the_checkpoint(save: Save, identity: Identity) -> None:
    """Fault 72."""
    checkpoint = load_checkpoint(save(1, 100), identity)
    same = checkpoint.rate(LearnerConfig(batch_size=8, samples_per_insert=2.0))
    assert (same.anchor_step, same.anchor_rows) == (0, 0)
    changed = checkpoint.rate(LearnerConfig(batch_size=8, samples_per_insert=8.0, min_rows=1))
    assert (changed.anchor_step, changed.anchor_rows) == (100, 400)
    assert changed.rows_needed(101) == 401
    assert "learner.samples_per_insert: 2.0 -> 8.0" in checkpoint.changes(
        LearnerConfig(batch_size=8, samples_per_insert=8.0)
    )
