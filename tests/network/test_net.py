"""The network: shapes, reproducible weights, folding."""

import pytest
import torch

from zerofleet.errors import ConfigError
from zerofleet.network.config import NetworkConfig
from zerofleet.network.net import build_network, fold_batch_norm
from zerofleet.network.precision import pick_dtype

SMALL = NetworkConfig(channels=8, blocks=2, value_hidden=8)


def test_the_network_gives_a_logit_per_action_and_a_value_within_one() -> None:
    net = build_network((2, 6, 7), 7, SMALL)
    logits, value = net(torch.rand(5, 2, 6, 7) * 100)
    assert logits.shape == (5, 7)
    assert value.shape == (5,)
    assert value.abs().max() <= 1


def test_boards_that_are_not_square_and_towers_without_blocks_work() -> None:
    net = build_network((3, 2, 9), 40, NetworkConfig(channels=4, blocks=0))
    logits, value = net(torch.zeros(1, 3, 2, 9))
    assert logits.shape == (1, 40)
    assert value.shape == (1,)


def test_the_same_seed_gives_the_same_weights_and_leaves_torchs_random_numbers_alone() -> None:
    torch.manual_seed(5)
    first = build_network((2, 3, 3), 9, SMALL, seed=1).state_dict()
    drawn = torch.rand(1)
    torch.manual_seed(5)
    assert torch.equal(drawn, torch.rand(1))
    again = build_network((2, 3, 3), 9, SMALL, seed=1).state_dict()
    other = build_network((2, 3, 3), 9, SMALL, seed=2).state_dict()
    assert all(torch.equal(first[name], again[name]) for name in first)
    assert not torch.equal(first["stem.conv.weight"], other["stem.conv.weight"])


def test_an_untrained_network_is_nearly_undecided() -> None:
    """Fault 152: the first steps must not start from a network that is sure of something."""
    net = build_network((2, 6, 7), 7, NetworkConfig(), seed=3).eval()
    with torch.no_grad():
        logits, value = net(torch.randint(0, 2, (64, 2, 6, 7)).float())
    assert torch.softmax(logits, 1).max() < 0.5
    assert value.abs().max() < 0.9


def test_folding_batch_norm_changes_nothing_but_the_speed() -> None:
    net = build_network((2, 6, 7), 7, SMALL, seed=1)
    for _ in range(3):  # give the running statistics something to say
        net(torch.rand(32, 2, 6, 7))
    net.eval()
    folded = fold_batch_norm(net)
    planes = torch.rand(16, 2, 6, 7)
    with torch.no_grad():
        for wanted, got in zip(net(planes), folded(planes), strict=True):
            # float32 rounding of one multiplication per weight: far below what a search could notice
            torch.testing.assert_close(got, wanted, rtol=1e-4, atol=1e-5)
    assert not any(isinstance(module, torch.nn.BatchNorm2d) for module in folded.modules())
    assert any(isinstance(module, torch.nn.BatchNorm2d) for module in net.modules())


def test_an_impossible_size_is_named() -> None:
    with pytest.raises(ConfigError, match=r"network\.channels must be 1 to 65,536, got 0"):
        NetworkConfig(channels=0)


def test_precision_is_what_was_asked_for() -> None:
    cpu = torch.device("cpu")
    assert pick_dtype("fp32", cpu) is torch.float32
    assert pick_dtype("bf16", cpu) is torch.bfloat16
    assert pick_dtype("auto", cpu) in (torch.float32, torch.bfloat16)
