"""One step: deterministic, and never on numbers that are not finite."""

import math
from collections.abc import Callable
from dataclasses import replace
from typing import Literal

import numpy as np
import pytest
import torch

from zerofleet.errors import FatalRoleError, StorageError
from zerofleet.games.base import Game
from zerofleet.learner.config import LearnerConfig
from zerofleet.learner.replay import Batch
from zerofleet.learner.trainer import Trainer, learning_rate_at
from zerofleet.network.config import NetworkConfig

NET = NetworkConfig(channels=4, blocks=1, value_hidden=4)
CONFIG = LearnerConfig(batch_size=16, max_rows_ahead=40, warmup_steps=0)
AVERAGED = replace(CONFIG, average_decay=0.25)


def _batch(seed: int, size: int = 16) -> Batch:
    rng = np.random.default_rng(seed)
    legal = rng.random((size, 9)) < 0.7
    legal[:, 4] = True
    policy = rng.random((size, 9)) * legal
    return Batch(
        planes=rng.integers(0, 2, (size, 2, 3, 3)).astype(np.float32),
        policy=(policy / policy.sum(1, keepdims=True)).astype(np.float32),
        legal=legal,
        values=rng.integers(-1, 2, size).astype(np.float32),
        policy_weight=np.ones(size, np.float32),
        num_distinct=size,
    )


@pytest.fixture
def trainer(tictactoe: Game) -> Callable[..., Trainer]:
    def made(config: LearnerConfig = CONFIG, seed: int = 1) -> Trainer:
        return Trainer(tictactoe, config, NET, seed)

    return made


def _gradient(parameter: torch.nn.Parameter) -> torch.Tensor:
    assert parameter.grad is not None
    return parameter.grad


def _equal(first: Trainer, second: Trainer) -> bool:
    ours, theirs = first.state(), second.state()
    return ours.keys() == theirs.keys() and all(torch.equal(ours[name], theirs[name]) for name in ours)


def test_the_same_batches_give_the_same_weights_bit_for_bit(trainer: Callable[..., Trainer]) -> None:
    first, second = trainer(), trainer()
    reports = [[it.train_step(_batch(k)) for k in range(4)] for it in (first, second)]
    assert reports[0] == reports[1]
    assert _equal(first, second)
    assert not _equal(first, trainer())


@pytest.mark.parametrize("config", [CONFIG, AVERAGED, replace(CONFIG, optimizer="adamw", learning_rate=0.001)])
def test_a_restored_trainer_goes_on_as_if_it_had_never_stopped(
    trainer: Callable[..., Trainer], config: LearnerConfig
) -> None:
    """Fault 69: weights, batch-norm statistics, momentum, average and step."""
    whole, half = trainer(config), trainer(config)
    for k in range(3):
        whole.train_step(_batch(k))
        half.train_step(_batch(k))
    restored = trainer(config, seed=99)
    restored.load_state({name: tensor.clone().contiguous() for name, tensor in half.state().items()}, half.step)
    for k in range(3, 6):
        assert whole.train_step(_batch(k)) == restored.train_step(_batch(k))
    assert _equal(whole, restored)
    assert restored.step == 6


def test_one_step_of_sgd_is_what_the_paper_says(trainer: Callable[..., Trainer]) -> None:
    config = replace(CONFIG, learning_rate=0.5, momentum=0.9, weight_decay=0.02)
    it = trainer(config)
    weight = it.net.policy_out.weight
    before = weight.detach().clone()
    it.train_step(_batch(0))
    first = _gradient(weight) + 0.02 * before  # the gradient of c * |w|^2 with 2 c = 0.02
    torch.testing.assert_close(weight.detach(), before - 0.5 * first)
    middle = weight.detach().clone()
    it.train_step(_batch(1))
    second = _gradient(weight) + 0.02 * middle + 0.9 * first
    torch.testing.assert_close(weight.detach(), middle - 0.5 * second)


def test_the_average_of_the_weights_is_what_is_published(trainer: Callable[..., Trainer]) -> None:
    """By hand: after step 1 the decay is 2 / 11, less than the 0.25 asked for; from step 2 on, 3 / 12, it is 0.25."""
    it, plain = trainer(AVERAGED), trainer(CONFIG)
    name = "stem.norm.running_mean"  # batch-norm statistics are averaged as the weights are
    path = [{key: value.clone() for key, value in it.net.state_dict().items()}]
    for k in range(3):
        it.train_step(_batch(k))
        plain.train_step(_batch(k))
        path.append({key: value.clone() for key, value in it.net.state_dict().items()})
    average = it.published_net.state_dict()
    for key in (name, "policy_out.weight"):
        expected = path[0][key]
        for decay, latest in zip((2 / 11, 0.25, 0.25), path[1:], strict=True):
            expected = decay * expected + (1 - decay) * latest[key]
        torch.testing.assert_close(average[key], expected)
    assert average["stem.norm.num_batches_tracked"] == 3
    assert plain.published_net is plain.net
    assert all(torch.equal(path[-1][key], value) for key, value in plain.net.state_dict().items())  # steps are the same


def test_an_average_that_is_asked_for_later_begins_with_the_weights(trainer: Callable[..., Trainer]) -> None:
    before = trainer(CONFIG)
    for k in range(3):
        before.train_step(_batch(k))
    after = trainer(AVERAGED, seed=7)
    after.load_state(before.state(), 3)
    weights = before.net.state_dict()
    assert all(torch.equal(weights[key], value) for key, value in after.published_net.state_dict().items())


def test_another_optimiser_than_before_begins_anew(
    trainer: Callable[..., Trainer], caplog: pytest.LogCaptureFixture
) -> None:
    before = trainer(CONFIG)
    before.train_step(_batch(0))
    after = trainer(replace(CONFIG, optimizer="adamw", learning_rate=0.001), seed=7)
    after.load_state(before.state(), 1)
    assert "of another optimiser" in caplog.text
    weights = before.net.state_dict()
    assert all(torch.equal(weights[key], value) for key, value in after.net.state_dict().items())
    assert int(after.state()["adam_steps"]) == 0
    assert after.train_step(_batch(1)).total > 0.0


@pytest.mark.parametrize("poison", [math.nan, math.inf])
def test_a_loss_that_is_not_finite_is_fatal_and_changes_no_weight(
    trainer: Callable[..., Trainer], poison: float
) -> None:
    """Fault 152."""
    it = trainer()
    it.train_step(_batch(0))
    before = {name: parameter.detach().clone() for name, parameter in it.net.named_parameters()}
    bad = _batch(1)
    bad.values[3] = poison
    with pytest.raises(FatalRoleError, match=r"loss is not finite at step 2 .*lower learner\.learning_rate"):
        it.train_step(bad)
    assert it.step == 1
    assert all(torch.equal(before[name], parameter) for name, parameter in it.net.named_parameters())


@pytest.mark.parametrize("name", ["policy_conv.norm.running_var", "stem.conv.weight"])
def test_weights_that_are_not_finite_are_found_though_the_loss_is(trainer: Callable[..., Trainer], name: str) -> None:
    """Batch norm's statistics overflow before a loss does: in training it goes by the batch's own."""
    it = trainer()
    it.train_step(_batch(0))
    it.require_finite()
    it.net.state_dict()[name].fill_(math.inf)
    with pytest.raises(FatalRoleError, match=rf"{name} is not finite after step 1 .*lower learner\.learning_rate"):
        it.require_finite()


def test_training_learns(trainer: Callable[..., Trainer]) -> None:
    it = trainer(replace(CONFIG, learning_rate=0.1))
    reports = [it.train_step(_batch(0)) for _ in range(60)]
    assert reports[-1].total < 0.7 * reports[0].total
    assert reports[-1].policy >= reports[-1].target_entropy - 1e-4
    assert reports[0].value_std < 0.2 < reports[-1].value_std


@pytest.mark.parametrize("seed", range(10))
def test_the_default_learning_rate_never_blows_up_at_the_start(tictactoe: Game, seed: int) -> None:
    """Fault 152."""
    it = Trainer(tictactoe, LearnerConfig(), NET, seed)
    reports = [it.train_step(_batch(k, 64)) for k in range(20)]
    assert all(report.total < 2 * reports[0].total for report in reports)


def test_learning_rates_by_hand() -> None:
    constant = LearnerConfig(learning_rate=0.2, warmup_steps=3)
    assert [learning_rate_at(constant, step) for step in (1, 2, 3, 4, 5)] == pytest.approx([0.05, 0.1, 0.15, 0.2, 0.2])
    steps = LearnerConfig(learning_rate=1.0, warmup_steps=0, schedule="step", decay_steps=(10, 20), decay_factor=0.5)
    assert [learning_rate_at(steps, step) for step in (10, 11, 20, 21)] == [1.0, 0.5, 0.5, 0.25]
    cosine = LearnerConfig(learning_rate=1.0, warmup_steps=0, schedule="cosine", total_steps=100)
    assert [learning_rate_at(cosine, step) for step in (1, 51, 101, 500)] == pytest.approx([1.0, 0.5, 0.0, 0.0])


def test_bf16_computes_in_bf16_and_keeps_float32_weights(trainer: Callable[..., Trainer]) -> None:
    it = trainer(replace(CONFIG, precision="bf16"))
    assert it.precision == "bfloat16"
    report = it.train_step(_batch(0))
    plain = trainer(replace(CONFIG, precision="fp32")).train_step(_batch(0))
    assert report.total == pytest.approx(plain.total, rel=0.02)  # bf16 keeps 8 bits: 0.4 % a number
    assert {tensor.dtype for tensor in it.state().values()} == {torch.float32, torch.int64}


def _torchs_sgd(trainer: Trainer) -> torch.optim.Optimizer:
    return torch.optim.SGD(trainer.net.parameters(), lr=0.1, momentum=0.9, weight_decay=0.01)


def _torchs_adamw(trainer: Trainer) -> torch.optim.Optimizer:
    return torch.optim.AdamW(trainer.net.parameters(), lr=0.1, betas=(0.9, 0.999), weight_decay=0.01, foreach=True)


@pytest.mark.parametrize(("name", "make"), [("sgd", _torchs_sgd), ("adamw", _torchs_adamw)])
def test_steps_are_torchs_own_number_for_number(
    trainer: Callable[..., Trainer], name: Literal["sgd", "adamw"], make: Callable[[Trainer], torch.optim.Optimizer]
) -> None:
    config = replace(CONFIG, optimizer=name, learning_rate=0.1, weight_decay=0.01)
    ours, theirs = trainer(config), trainer(config)
    optimizer = make(theirs)
    theirs._optimizer.step = lambda learning_rate: optimizer.step()  # type: ignore[method-assign]
    for k in range(5):
        assert ours.train_step(_batch(k)) == theirs.train_step(_batch(k))
    names = ours.net.state_dict()
    assert all(torch.equal(names[name], tensor) for name, tensor in theirs.net.state_dict().items())


def test_a_state_of_another_network_is_refused(trainer: Callable[..., Trainer], tictactoe: Game) -> None:
    """Fault 74."""
    other = Trainer(tictactoe, CONFIG, NetworkConfig(channels=8, blocks=1), 0)
    with pytest.raises(StorageError, match="does not fit the network"):
        trainer().load_state(other.state(), 5)
