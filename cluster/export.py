"""`zerofleet export`: a run's newest weights for others, with a model card, and as ONNX."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from zerofleet.cluster.evaluate import evaluation_rows
from zerofleet.cluster.run_folder import STRENGTH, RunFolder
from zerofleet.config import to_toml
from zerofleet.errors import StorageError, UsageError
from zerofleet.games.base import Game
from zerofleet.games.positions import random_positions
from zerofleet.network.files import write_durably
from zerofleet.network.onnx_file import TOLERANCE, encode_onnx
from zerofleet.network.weights import WeightsMeta, network_from_weights

_NUM_CHECKED = 256
"""Positions of random games on which the ONNX model has to agree with the network."""


@dataclass(frozen=True, slots=True, kw_only=True)
class Exported:
    """What was written, and by how much the ONNX model's outputs differ from the network's."""

    folder: Path
    files: list[str]
    meta: WeightsMeta
    onnx_difference: float

    def record(self) -> dict[str, Any]:
        """Return what `export --json` prints."""
        return {
            "run": self.meta.run,
            "weights_version": self.meta.version,
            "folder": str(self.folder),
            "files": self.files,
            "onnx_difference": self.onnx_difference,
        }


def export_run(run: RunFolder, output: Path | None = None) -> Exported:
    """Write `weights.safetensors`, `README.md` and `model.onnx` into a fresh folder; nothing where one cannot be made.

    Raises:
        UsageError: the folder is there and not empty.
        StorageError: the run has published no weights, a file cannot be written, or the ONNX model does not agree.
    """
    published = run.published()
    if published is None:
        raise StorageError(f"run {run.run!r} has published no weights yet: there is nothing to export")
    data = run.read_weights(published)
    net, meta = network_from_weights(data)
    game = run.game_source(run.config().game).load()
    planes = game.encode_batch(random_positions(game, _NUM_CHECKED, seed=0)).astype(np.float32)
    onnx, difference = encode_onnx(net, planes)
    card = model_card(run, game, meta, difference).encode()
    files = {"weights.safetensors": data, "model.onnx": onnx, "README.md": card}
    folder = output or Path(f"{run.run}-v{meta.version}")
    _make_fresh(folder)
    for name, contents in files.items():
        write_durably(folder / name, contents)
    return Exported(folder=folder, files=sorted(files), meta=meta, onnx_difference=difference)


def model_card(run: RunFolder, game: Game, meta: WeightsMeta, onnx_difference: float) -> str:
    """Return the card: what the network is, how it was trained, and how it is used."""
    config = run.config()
    planes, height, width = meta.observation_shape
    seen = run.record("summary")
    trained = f"{meta.step:,} optimiser steps"
    if seen.get("weights_version") == meta.version and "games" in seen:
        trained += f" on {seen['games']:,} games of self-play"
    strength = run.record(STRENGTH)
    return _CARD.format(
        run=meta.run,
        game=meta.game,
        rules_version=meta.rules_version,
        version=meta.version,
        sha256=meta.sha256,
        channels=meta.network.channels,
        blocks=meta.network.blocks,
        dtype="float32 zeros and ones" if game.plane_type == "bits" else "float32",
        shape=f"{planes} planes of {height} x {width}",
        num_actions=meta.num_actions,
        trained=trained,
        seed=config.seed,
        strength=_strength(strength) if strength.get("weights_version") == meta.version else "",
        difference=onnx_difference,
        tolerance=TOLERANCE,
        config=to_toml(config).strip(),
    )


def _strength(record: dict[str, Any]) -> str:
    """Return the card's part on how these weights played when their training had ended."""
    match, evaluation = record["match"], record["evaluation"]
    lines = [
        "## Strength",
        "",
        f"{match['player']} against {match['opponent']}: {match['score']:.1%} of {match['games']} games "
        f"(95 % interval {match['low']:.1%} to {match['high']:.1%}), openings paired, colours swapped.",
        "",
    ]
    if evaluation is not None:
        head, *rows = (f"| {' | '.join(row)} |" for row in evaluation_rows(evaluation))
        lines += ["Moves that give game value away, on solved positions:", "", head, "|---|--:|--:|--:|--:|", *rows, ""]
    return "\n".join(lines) + "\n"


def _make_fresh(folder: Path) -> None:
    try:
        folder.mkdir(parents=True, exist_ok=True)
        if any(folder.iterdir()):
            raise UsageError(f"{folder} holds files already; --output names another folder")
    except OSError as error:
        raise UsageError(f"{folder}: {error.strerror}") from error


_CARD = """\
---
library_name: zerofleet
tags: [reinforcement-learning, alphazero, board-game, "{game}"]
---

# {run}: a player of {game}

A network with a policy and a value head, trained from nothing by self-play: AlphaZero's loop, without games of people.

- Game: `{game}`, rules version {rules_version}
- Weights version {version}, sha256 `{sha256}`
- Residual tower: {blocks} blocks of {channels} channels
- Trained: {trained}, seed {seed}

## In and out

- In: `planes` `[B, C, H, W]`, {dtype}, the position as its player to move sees it: {shape}.
- Out: `policy_logits` `[B, {num_actions}]` over all actions, legal or not: mask the illegal ones before a softmax.
- Out: `value` `[B]` in [-1, 1]: the expected result for the player to move.

## Use

    zerofleet arena weights.safetensors uct:600     # of a game that needs no file

`model.onnx` is the same network with its batch norms folded in.  On positions of random games its outputs differ from
the network's by {difference:.1g} at most (allowed: {tolerance:g}).

{strength}## Settings of the run

```toml
{config}
```
"""
