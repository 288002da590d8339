"""The torch backend: what a network says, row by row, whatever the batch."""

from __future__ import annotations

import re
import time
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
import torch

from zerofleet.errors import ConfigError, InferenceError, StorageError
from zerofleet.games.registry import load_game
from zerofleet.inference.config import InferenceConfig
from zerofleet.inference.local import BackendEvaluator
from zerofleet.inference.torch_backend import TorchBackend
from zerofleet.network.config import NetworkConfig
from zerofleet.network.inference_form import FusedNet, OnnxNet, choose_form, make_form
from zerofleet.network.net import PolicyValueNet, build_network, fold_batch_norm
from zerofleet.network.weights import WeightsMeta, encode_weights
from zerofleet.search.base import LeafBatch

CONNECT4 = load_game("connect4")
FORMS = ("onednn", "onnxruntime")
SMALL = NetworkConfig(channels=16, blocks=2, value_hidden=32)


def make_net(config: NetworkConfig = SMALL, seed: int = 1, game: Any = CONNECT4) -> PolicyValueNet:
    """A network whose every weight, bias and running statistic is away from its first value."""
    net = build_network(game.observation_shape, game.num_actions, config, seed=seed)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for weights in net.parameters():
            weights.add_(torch.randn(weights.shape, generator=generator), alpha=0.03)
        for statistics in net.buffers():
            if statistics.dtype == torch.float32:
                statistics.add_(torch.rand(statistics.shape, generator=generator), alpha=0.1)
    return net.eval()


def make_folded() -> PolicyValueNet:
    folded = fold_batch_norm(make_net())
    folded.to(memory_format=torch.channels_last)  # type: ignore[call-overload]
    return folded


def weights_of(net: PolicyValueNet, version: int = 1, game: Any = CONNECT4, config: NetworkConfig = SMALL) -> bytes:
    meta = WeightsMeta(
        run="r",
        version=version,
        step=0,
        game=game.spec,
        rules_version=game.rules_version,
        observation_shape=game.observation_shape,
        num_actions=game.num_actions,
        network=config,
    )
    return encode_weights(net, meta)[0]


def make_backend(net: PolicyValueNet | None = None, config: NetworkConfig = SMALL, **options: Any) -> TorchBackend:
    backend = TorchBackend(
        CONNECT4, InferenceConfig(**{"max_batch_size": 64, "dtype": "fp32", "device": "cpu", **options})
    )
    backend.load(1, weights_of(net if net is not None else make_net(config), config=config))
    return backend


def positions(num_rows: int, seed: int = 0) -> LeafBatch:
    """Unfinished positions of random games."""
    rng = np.random.default_rng(seed)
    states: list[Any] = []
    while len(states) < num_rows:
        state = CONNECT4.initial_state()
        for _ in range(rng.integers(0, 30)):
            moves = CONNECT4.legal_moves(state)
            if not moves:
                break
            state = CONNECT4.next_state(state, moves[int(rng.integers(len(moves)))])
        if CONNECT4.legal_moves(state):
            states.append(state)
    legal = [CONNECT4.legal_actions(state) for state in states]

    class Source:
        def leaf_states(self) -> list[Any]:
            return states

    return LeafBatch(
        planes=CONNECT4.pack(states),
        legal_offsets=np.concatenate([[0], np.cumsum([len(row) for row in legal])]).astype(np.int32),
        legal_actions=np.concatenate(legal).astype(np.uint16),
        source=Source(),
    )


def row_of(batch: LeafBatch, row: int) -> LeafBatch:
    begin, end = batch.legal_offsets[row : row + 2]
    return LeafBatch(
        planes=batch.planes[row : row + 1],
        legal_offsets=np.array([0, end - begin], dtype=np.int32),
        legal_actions=batch.legal_actions[begin:end],
        source=batch.source,
    )


def test_it_says_what_the_network_says() -> None:
    """Priors and values against the network itself on planes that the game encodes, without packing or folding."""
    net, batch = make_net(), positions(50)
    with torch.inference_mode():
        logits, values = net(torch.from_numpy(np.asarray(CONNECT4.encode_batch(batch.source.leaf_states()))).float())
    got = BackendEvaluator(make_backend(net)).evaluate(batch)
    np.testing.assert_allclose(got.values, values.numpy(), atol=1e-5)
    for row in range(50):
        begin, end = batch.legal_offsets[row : row + 2]
        legal = torch.from_numpy(batch.legal_actions[begin:end].astype(np.int64))
        np.testing.assert_allclose(got.priors[begin:end], torch.softmax(logits[row][legal], 0).numpy(), atol=1e-5)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("config", [SMALL, NetworkConfig(channels=32, blocks=3), NetworkConfig(channels=8, blocks=1)])
def test_in_one_padded_shape_a_row_gives_the_same_bits_alone_and_in_company(config: NetworkConfig, form: str) -> None:
    """Every bucket up to 36 and some beyond; the row stands anywhere in the batch, and first when it is alone."""
    backend = make_backend(config=config, max_batch_size=128, form=form)
    forward = backend._residents[1].forward
    for bucket in [*[size for size in backend._buckets if size <= 36], 52, 64, 80, 128]:
        batch = positions(bucket, seed=bucket)
        rows = torch.from_numpy(batch.planes.copy())
        with torch.inference_mode():
            logits, values = forward(backend._unpack(rows))
            for row in {0, 1, bucket // 3, bucket // 2, bucket - 2, bucket - 1} & set(range(bucket)):
                alone = torch.zeros_like(rows)
                alone[0] = rows[row]
                logits_alone, values_alone = forward(backend._unpack(alone))
                assert torch.equal(logits_alone[0], logits[row])
                assert torch.equal(values_alone[0], values[row])


def test_evaluations_in_one_bucket_are_equal_bit_for_bit() -> None:
    """17 positions and 18 share a bucket: the first 17 rows say the same, down to the priors."""
    backend, batch = make_backend(), positions(18)
    whole = backend.forward(batch.planes, batch.legal_offsets, batch.legal_actions)
    cut = backend.forward(batch.planes[:17], batch.legal_offsets[:18], batch.legal_actions[: batch.legal_offsets[17]])
    np.testing.assert_array_equal(cut.values, whole.values[:17])
    np.testing.assert_array_equal(cut.priors, whole.priors[: len(cut.priors)])


def test_a_batch_of_one_equals_a_row_of_a_large_one_within_rounding() -> None:
    evaluator, batch = BackendEvaluator(make_backend()), positions(64)
    together = evaluator.evaluate(batch)
    for row in range(64):
        alone = evaluator.evaluate(row_of(batch, row))
        begin, end = batch.legal_offsets[row : row + 2]
        np.testing.assert_allclose(alone.values[0], together.values[row], atol=1e-5)  # float32, sums of some hundred
        np.testing.assert_allclose(alone.priors, together.priors[begin:end], atol=1e-5)


def test_a_batch_over_the_largest_is_cut() -> None:
    backend, batch = make_backend(max_batch_size=16), positions(50)
    got = BackendEvaluator(backend).evaluate(batch)
    wanted = BackendEvaluator(make_backend()).evaluate(batch)
    np.testing.assert_allclose(got.values, wanted.values, atol=1e-5)
    np.testing.assert_allclose(got.priors, wanted.priors, atol=1e-5)


def test_bf16_agrees_with_float32_within_its_precision() -> None:
    """Fault 27: the softmax is float32 whatever the network computes in; no policy turns flat.

    bf16 keeps 8 bits.  Measured here: 0.002 for priors, 0.004 for values; allowed is five times that.
    """
    net, batch = make_net(), positions(64)
    exact = BackendEvaluator(make_backend(net)).evaluate(batch)
    rough = BackendEvaluator(make_backend(net, dtype="bf16")).evaluate(batch)
    np.testing.assert_allclose(rough.priors, exact.priors, atol=0.01)
    np.testing.assert_allclose(rough.values, exact.values, atol=0.02)


def test_a_sharp_policy_stays_sharp_in_bf16() -> None:
    """Fault 27: 1,000 positions, full columns among them: the same first choice in 99 %, and a divergence below 0.01.

    The policy is made sharp first, so that a flat one would be far away.
    """
    net, batch = make_net(), positions(1000, seed=4)
    with torch.no_grad():
        net.policy_out.weight.mul_(4.0)
    answers = []
    for dtype in ("fp32", "bf16"):
        evaluation = BackendEvaluator(make_backend(net, dtype=dtype)).evaluate(batch)
        answers.append(np.split(evaluation.priors.astype(np.float64), batch.legal_offsets[1:-1]))
    exact, rough = answers
    assert np.mean([row.max() * len(row) for row in exact]) > 1.5  # at least half again of a uniform prior
    same_choice = np.mean([a.argmax() == b.argmax() for a, b in zip(exact, rough, strict=True)])
    divergence = np.mean([(a * np.log(a / b)).sum() for a, b in zip(exact, rough, strict=True)])
    assert same_choice >= 0.99
    assert divergence < 0.01


@pytest.mark.parametrize("bad", [float("nan"), float("inf")])
def test_a_broken_network_gives_finite_answers_and_is_counted(bad: float) -> None:
    """Fault 23: nan and infinite outputs become uniform priors and value 0."""
    net, batch = make_net(), positions(5)
    with torch.no_grad():
        net.policy_out.bias.fill_(bad)
        net.value_out.bias.fill_(float("nan"))
    backend = make_backend(net)
    got = BackendEvaluator(backend).evaluate(batch)
    counts = np.diff(batch.legal_offsets)
    np.testing.assert_allclose(got.priors, np.repeat(1.0 / counts, counts), rtol=1e-6)
    np.testing.assert_array_equal(got.values, np.zeros(5))
    assert backend.num_non_finite_rows == 5


def test_all_mass_on_an_illegal_move_gives_priors_of_the_legal_ones() -> None:
    """Fault 23: column 3 is full and gets a logit of 1e4; the six other moves add up to 1."""
    net, state = make_net(), CONNECT4.initial_state()
    with torch.no_grad():
        net.policy_out.bias[3] = 1e4
    for _ in range(6):
        state = CONNECT4.next_state(state, 3)
    legal = CONNECT4.legal_actions(state)
    assert legal == [0, 1, 2, 4, 5, 6]
    got = make_backend(net).forward(CONNECT4.pack([state]), np.array([0, 6], np.int32), np.array(legal, np.uint16))
    assert got.priors.sum() == pytest.approx(1.0, abs=1e-6)
    assert got.priors.min() > 0.0


def test_loading_twice_changes_nothing_and_another_content_is_refused() -> None:
    """Fault 88: a version never has two contents."""
    backend = make_backend()
    backend.load(1, weights_of(make_net()))
    with pytest.raises(StorageError, match="version 1 has two contents"):
        backend.load(1, weights_of(make_net(seed=2)))


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data[:-100],
        lambda data: data[:-50] + bytes([data[-50] ^ 1]) + data[-49:],
        lambda data: b"",
        lambda data: b"no weights at all",
    ],
)
def test_torn_or_changed_weights_are_refused_and_the_old_ones_stay(change: Callable[[bytes], bytes]) -> None:
    """Fault 88."""
    backend, batch = make_backend(), positions(3)
    before = BackendEvaluator(backend).evaluate(batch)
    with pytest.raises(StorageError):
        backend.load(2, change(weights_of(make_net(seed=2), version=2)))
    assert backend.versions() == (1,)
    np.testing.assert_array_equal(BackendEvaluator(backend).evaluate(batch).values, before.values)


def test_weights_of_another_version_or_game_are_refused() -> None:
    """Fault 88: renamed files."""
    backend, other = make_backend(), load_game("tictactoe")
    with pytest.raises(StorageError, match="expected weights version 3, the file says 2"):
        backend.load(3, weights_of(make_net(), version=2))
    with pytest.raises(StorageError, match="connect4"):
        backend.load(2, weights_of(make_net(game=other), version=2, game=other))


def test_versions_are_bounded_and_the_newest_and_the_used_stay() -> None:
    """Fault 90: of many versions `resident_versions` are held; a match's old version stays while it is used."""
    backend, batch = make_backend(resident_versions=3), positions(2)
    for version in range(2, 12):
        backend.forward(batch.planes, batch.legal_offsets, batch.legal_actions, version=1)
        backend.load(version, weights_of(make_net(seed=version), version=version))
        assert len(backend.versions()) <= 3
        assert {1, version} <= set(backend.versions())
    assert BackendEvaluator(backend).evaluate(batch).weights_version == 11
    assert BackendEvaluator(backend, version=1).evaluate(batch).weights_version == 1
    with pytest.raises(InferenceError, match=r"version 5 is not resident here; these are: 1, 10, 11"):
        BackendEvaluator(backend, version=5).evaluate(batch)


def test_without_weights_it_says_so() -> None:
    backend, batch = TorchBackend(CONNECT4, InferenceConfig(device="cpu")), positions(1)
    with pytest.raises(InferenceError, match="no weights are loaded yet"):
        BackendEvaluator(backend).evaluate(batch)


def test_a_device_that_is_not_there_is_refused() -> None:
    with pytest.raises(ConfigError, match=r"inference\.device"):
        TorchBackend(CONNECT4, InferenceConfig(device="no-such-device"))
    if not torch.cuda.is_available():
        with pytest.raises(ConfigError, match="sees no GPU"):
            TorchBackend(CONNECT4, InferenceConfig(device="cuda"))


@pytest.mark.parametrize("kind", ["uint8", "float32"])
def test_planes_of_bytes_and_floats_are_unpacked_as_they_are(kind: Any) -> None:
    planes: Any = np.arange(3 * 84).reshape(3, 2, 6, 7).astype(kind)

    class Bytes:
        spec, plane_type, packed_size, num_actions, observation_shape = "g", kind, planes[0].nbytes, 7, (2, 6, 7)

    backend = TorchBackend(Bytes(), InferenceConfig(device="cpu", dtype="fp32"))  # type: ignore[arg-type]
    packed = torch.from_numpy(planes.reshape(3, -1).view(np.uint8))
    np.testing.assert_array_equal(backend._unpack(packed).numpy(), planes.astype(np.float32))


@pytest.mark.parametrize("name", FORMS)
def test_each_form_gives_the_networks_numbers(name: str) -> None:
    folded = make_folded()
    form = make_form(name, folded, (16, 2, 6, 7))
    if form is folded:
        assert name != "onnxruntime"
        pytest.skip("this torch has no fused convolutions")
    for num_rows in (1, 16, 40):
        planes = torch.rand(num_rows, 2, 6, 7).round().contiguous(memory_format=torch.channels_last)
        with torch.inference_mode():
            for got, wanted in zip(form(planes), folded(planes), strict=True):
                torch.testing.assert_close(got, wanted, atol=1e-5, rtol=1e-5)


@pytest.mark.parametrize("form", [OnnxNet, FusedNet])
def test_a_form_that_is_wrong_or_missing_is_left_out(form: type, monkeypatch: pytest.MonkeyPatch) -> None:
    """Fault 154: a faster form is checked against the network when it is made."""
    folded = make_folded()
    name = {OnnxNet: "onnxruntime", FusedNet: "onednn"}[form]
    monkeypatch.setattr(form, "__call__", lambda _self, planes: (planes, planes.sum()))
    assert make_form(name, folded, (4, 2, 6, 7)) is folded
    assert name not in choose_form(folded, (4, 2, 6, 7)).seconds

    def missing(*_arguments: object) -> None:
        raise RuntimeError("no such operator")

    monkeypatch.setattr(form, "__init__", missing)
    assert make_form(name, folded, (4, 2, 6, 7)) is folded


def test_the_network_itself_serves_where_nothing_else_does_and_only_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """In torch's own calls a row's last bits depend on its place in the batch, so their speed is no argument."""
    folded = make_folded()
    assert "torch" not in choose_form(folded, (4, 2, 6, 7)).seconds
    for form in (OnnxNet, FusedNet):
        monkeypatch.setattr(form, "__call__", lambda _self, planes: (planes, planes.sum()))
    choice = choose_form(folded, (4, 2, 6, 7))
    assert choice.form == "torch"
    assert choice.forward is folded


def test_the_fastest_form_is_chosen_once_and_said(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    run = OnnxNet.__call__

    def slowly(self: OnnxNet, planes: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        began = time.thread_time()
        while time.thread_time() - began < 0.05:
            pass
        return run(self, planes)

    monkeypatch.setattr(OnnxNet, "__call__", slowly)
    choice = choose_form(make_folded(), (4, 2, 6, 7))
    if list(choice.seconds) == ["onnxruntime"]:
        pytest.skip("this torch has no fused convolutions")
    assert choice.form == "onednn"
    assert choice.seconds["onnxruntime"] >= 0.05 > choice.seconds[choice.form]
    with caplog.at_level("INFO"):
        backend = make_backend()
        backend.load(2, weights_of(make_net(seed=2), version=2))
    said = [record.getMessage() for record in caplog.records if "inference by" in record.getMessage()]
    assert len(said) == 1
    taken = re.search(r"onnxruntime (\d+\.\d+) ms", said[0])
    assert taken is not None
    assert float(taken[1]) >= 50.0


@pytest.mark.gpu
@pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")
def test_a_gpu_agrees_with_the_cpu() -> None:
    net, batch = make_net(), positions(64)
    exact = BackendEvaluator(make_backend(net)).evaluate(batch)
    gpu = BackendEvaluator(make_backend(net, device="cuda", dtype="auto")).evaluate(batch)
    np.testing.assert_allclose(gpu.priors, exact.priors, atol=0.01)
    np.testing.assert_allclose(gpu.values, exact.values, atol=0.02)
