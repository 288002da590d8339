"""Checkpoints: everything that the next step depends on, in one file that a crash cannot tear.

    checkpoints/<epoch>-<step>.safetensors    weights, batch-norm statistics, optimiser, average, and a record in JSON

The random numbers of a step follow from `[seed, step]`, and its rows from the log, so neither is in the file.  Epoch
first, then step, says which is newest: a learner saves the state it resumed from under its own epoch before it does
anything else, so what a stopped predecessor writes when it wakes is older than that, whatever its step.
"""

from __future__ import annotations

import logging
import re
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from zerofleet.errors import DamagedRunError, StorageError
from zerofleet.games.base import Game
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.rate import SampleToInsert
from zerofleet.network.config import NetworkConfig
from zerofleet.network.files import read_file, write_durably
from zerofleet.network.tensor_file import Tensors, decode_tensors, encode_tensors

KIND = "checkpoint"
_NAME = re.compile(r"(\d{6})-(\d{10})\.safetensors")
_log = logging.getLogger(__name__)


@dataclass(frozen=True, slots=True, kw_only=True)
class Identity:
    """What must be the same for a checkpoint to be gone on from."""

    run: str
    game: str
    rules_version: int
    observation_shape: tuple[int, int, int]
    num_actions: int
    seed: int
    network: NetworkConfig

    @classmethod
    def of(cls, game: Game, network: NetworkConfig, seed: int, run: str) -> Identity:
        """Return the identity of a run's learner."""
        return cls(
            run=run,
            game=game.spec,
            rules_version=game.rules_version,
            observation_shape=game.observation_shape,
            num_actions=game.num_actions,
            seed=seed,
            network=network,
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class Checkpoint:
    """A learner between two steps."""

    step: int
    version: int  # weights with these contents are, or are about to be, published under this number
    rows: int  # n(step)
    rows_sampled: int  # over the whole run
    anchor_step: int
    anchor_rows: int
    precision: str
    config: Mapping[str, Any]  # the LearnerConfig of the last step, as `plain_values`
    tensors: Tensors
    run_config: Mapping[str, Any] = field(default_factory=dict)  # all settings of the run, to be read by people

    def rate(self, config: LearnerConfig) -> SampleToInsert:
        """Return the law to go on with: the same one, or the config's anchored here where its proportion changed."""
        unchanged = all(self.config.get(name) == getattr(config, name) for name in ("batch_size", "samples_per_insert"))
        if unchanged:
            return SampleToInsert.from_config(config, self.anchor_step, self.anchor_rows)
        return SampleToInsert.from_config(config, self.step, self.rows if self.step else 0)

    def changes(self, config: LearnerConfig) -> list[str]:
        """Name the settings in which `config` differs from the one of the last step."""
        now = plain_values(asdict(config))
        return [
            f"learner.{key}: {self.config.get(key)!r} -> {now[key]!r}"
            for key in now
            if self.config.get(key) != now[key]
        ]


def save_checkpoint(folder: Path, epoch: int, identity: Identity, checkpoint: Checkpoint, keep: int) -> Path:
    """Write a checkpoint, and remove all but the newest `keep`."""
    record = {name: getattr(checkpoint, name) for name in _SCALARS}
    record["config"], record["identity"] = dict(checkpoint.config), plain_values(asdict(identity))
    record["run_config"] = plain_values(checkpoint.run_config)
    data, _digest = encode_tensors(KIND, checkpoint.tensors, record)
    path = folder / f"{epoch:06d}-{checkpoint.step:010d}.safetensors"
    write_durably(path, data)
    for old in _newest_first(folder)[keep:]:
        old.unlink(missing_ok=True)
    return path


def load_checkpoint(path: Path, identity: Identity) -> Checkpoint:
    """Read a checkpoint.

    Raises:
        StorageError: it is torn, changed, of another kind, or of another run, game, network or seed.
    """
    tensors, record, _digest = decode_tensors(read_file(path), KIND, str(path))
    wanted, got = plain_values(asdict(identity)), record.get("identity", {})
    for name, expected in wanted.items():
        if got.get(name) != expected:
            raise WrongIdentityError(f"{path}: expected a checkpoint with {name} {expected}, got {got.get(name)}")
    try:
        scalars = {name: record[name] for name in (*_SCALARS, "config")}
        return Checkpoint(**scalars, tensors=tensors, run_config=record.get("run_config", {}))
    except (KeyError, TypeError) as error:
        raise StorageError(f"{path}: written by another version of Zerofleet: {error}") from error


def load_newest(folder: Path, identity: Identity) -> Checkpoint | None:
    """Return the newest checkpoint that is whole, or None where there is no file at all.

    Raises:
        DamagedRunError: none of the files is whole, or the newest whole one is of another run, game, network or seed.
    """
    refused = []
    for path in _newest_first(folder):
        try:
            return load_checkpoint(path, identity)
        except WrongIdentityError:
            raise
        except StorageError as error:
            refused.append(str(error))
            _log.warning("passing over a checkpoint: %s", error)
    if refused:
        raise DamagedRunError(f"{folder}: no checkpoint is whole: {'; '.join(refused)}")
    return None


class WrongIdentityError(DamagedRunError):
    """A whole checkpoint, but not this run's; passing over it would lose the run."""


_SCALARS = ("step", "version", "rows", "rows_sampled", "anchor_step", "anchor_rows", "precision")


def _newest_first(folder: Path) -> list[Path]:
    if not folder.is_dir():
        return []
    return sorted((path for path in folder.iterdir() if _NAME.fullmatch(path.name)), reverse=True)


def plain_values(values: Mapping[str, Any]) -> dict[str, Any]:
    """Return values as JSON gives them back: tuples as lists."""
    return {
        key: plain_values(value) if isinstance(value, Mapping) else list(value) if isinstance(value, tuple) else value
        for key, value in values.items()
    }
