from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnxruntime
import pytest
import torch
from tests.cluster.test_truth import make_run, publish, run_json

from zerofleet.cluster import train_command
from zerofleet.cluster.cli import run_command
from zerofleet.cluster.export import export_run
from zerofleet.cluster.launch import TrainOptions, TrainResult
from zerofleet.cluster.match import final_match
from zerofleet.cluster.run_folder import RunFolder
from zerofleet.errors import StorageError
from zerofleet.games import load_game
from zerofleet.network import onnx_file
from zerofleet.network.config import NetworkConfig
from zerofleet.network.net import build_network
from zerofleet.network.weights import load_weights


@pytest.mark.parametrize("game_name", ["connect4", "tictactoe"])
def test_an_exported_network_says_the_same_in_onnx_at_every_batch_size(game_name: str) -> None:
    """Its batch norms have seen something and its heads have opinions, so that a wrong one would show."""
    game = load_game(game_name)
    net = build_network(game.observation_shape, game.num_actions, NetworkConfig(channels=8, blocks=2), seed=3)
    generator = torch.Generator().manual_seed(4)
    for name, tensor in net.state_dict().items():
        if tensor.is_floating_point():
            noise = torch.rand(tensor.shape, generator=generator)
            tensor.copy_(noise + 0.5 if name.endswith("running_var") else tensor + 0.2 * (noise - 0.5))
    rng = np.random.default_rng(1)
    planes = rng.integers(0, 2, (300, *game.observation_shape)).astype(np.float32)
    data, difference = onnx_file.encode_onnx(net, planes)
    assert difference <= onnx_file.TOLERANCE
    with torch.inference_mode():
        wanted = [tensor.numpy() for tensor in net(torch.from_numpy(planes))]
    assert wanted[0].std() > 100 * onnx_file.TOLERANCE
    assert wanted[1].std() > 100 * onnx_file.TOLERANCE
    session = onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"])
    for num_rows in (1, 2, 7, 300):
        logits, values = session.run(["policy_logits", "value"], {"planes": planes[:num_rows]})
        assert logits.shape == (num_rows, game.num_actions)
        assert values.shape == (num_rows,)
        np.testing.assert_allclose(logits, wanted[0][:num_rows], atol=onnx_file.TOLERANCE, rtol=0)
        np.testing.assert_allclose(values, wanted[1][:num_rows], atol=onnx_file.TOLERANCE, rtol=0)


def test_the_files_and_the_card(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    run = make_run(tmp_path, "connect4")
    run.write_record("summary", {"weights_version": 1, "games": 1234})
    output = tmp_path / "out"
    found = run_json(capsys, "export", "first", "--storage", str(tmp_path), "--output", str(output))
    assert found["files"] == ["README.md", "model.onnx", "weights.safetensors"]
    assert found["weights_version"] == 1
    _tensors, meta = load_weights(output / "weights.safetensors", game="connect4")
    card = (output / "README.md").read_text()
    for words in (meta.sha256, "1,234 games", "2 planes of 6 x 7", "1 blocks of 8 channels", "[network]", "model.onnx"):
        assert words in card
    assert str(tmp_path) not in card  # it leaves this machine
    assert "{" not in card.split("```")[0]
    assert (
        run_command(["arena", str(output / "weights.safetensors"), "random", "--games", "2", "--simulations", "2"]) == 0
    )


def test_the_card_tells_how_these_weights_played(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """What `train --match` found, as long as no newer weights were published since."""
    run = make_run(tmp_path, "tictactoe")
    monkeypatch.setattr("zerofleet.cluster.match.NUM_SIMULATIONS", 2)
    monkeypatch.setattr(train_command, "NUM_SIMULATIONS", 16)
    monkeypatch.setattr("zerofleet.cluster.match.NUM_UCT_SIMULATIONS", 3)
    result = TrainResult(
        run="first", exit_reason="games", error="", games=9, steps=1, weights_version=1,
        seconds_to_first_weights=1.0, folder=run,
    )  # fmt: skip
    monkeypatch.setattr(train_command, "train", lambda *_arguments: result)
    monkeypatch.setattr(train_command, "final_match", lambda folder: final_match(folder, num_games=4))
    assert train_command.run_train(TrainOptions(game="tictactoe", storage=tmp_path), with_match=True, as_json=True) == 0
    export_run(run, tmp_path / "out")
    card = (tmp_path / "out" / "README.md").read_text()
    assert "## Strength" in card
    assert "first-2 (weights version 1) against uct-3: " in card
    assert "% of 4 games (95 % interval " in card
    said = json.loads(capsys.readouterr().out.splitlines()[-1])
    assert f"uct-3: {said['match']['score']:.1%} of 4 games" in card
    evaluation = said["evaluation"]
    uct = evaluation["baseline"]["error_rate"]
    assert len({evaluation["policy_only_error_rate"], evaluation["error_rate"], uct}) == 3
    rates = f"{evaluation['policy_only_error_rate']:.1%} | {evaluation['error_rate']:.1%} | {uct:.1%}"
    assert "| positions | number | policy alone | 16 simulations | UCT, 16 rollouts |\n|---|--:|--:|--:|--:|\n" in card
    assert f"| all | 4520 | {rates} |" in card
    publish(run, 2)
    export_run(run, tmp_path / "newer")
    assert "## Strength" not in (tmp_path / "newer" / "README.md").read_text()


def test_a_model_that_does_not_agree_is_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(onnx_file, "TOLERANCE", -1.0)
    with pytest.raises(StorageError, match="differ by"):
        export_run(make_run(tmp_path, "tictactoe"), tmp_path / "out")
    assert not (tmp_path / "out").exists()


def test_nothing_is_overwritten(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    make_run(tmp_path, "tictactoe")
    output = tmp_path / "out"
    output.mkdir()
    (output / "mine.txt").write_text("precious")
    assert run_command(["export", "first", "--storage", str(tmp_path), "--output", str(output)]) == 2
    assert "holds files already" in capsys.readouterr().err
    assert run_command(["export", "first", "--storage", str(tmp_path), "--output", str(output / "mine.txt")]) == 2
    assert [path.name for path in output.iterdir()] == ["mine.txt"]


def test_a_run_without_weights_has_nothing_to_export(tmp_path: Path) -> None:
    run = make_run(tmp_path, "tictactoe")
    (tmp_path / "first" / "durable" / "weights.json").unlink()
    with pytest.raises(StorageError, match="nothing to export"):
        export_run(RunFolder(tmp_path, run.run), tmp_path / "out")
