"""The loss, worked by hand, and its mask."""

import math

import pytest
import torch

from zerofleet.learner.loss import Targets, compute_losses
from zerofleet.network.config import NetworkConfig
from zerofleet.network.net import build_network


def _targets(
    policy: list[list[float]], legal: list[list[bool]], value: list[float], weight: list[float] | None = None
) -> Targets:
    return Targets(
        policy=torch.tensor(policy),
        legal=torch.tensor(legal),
        value=torch.tensor(value),
        policy_weight=torch.tensor(weight or [1.0] * len(value)),
    )


def test_three_rows_by_hand() -> None:
    # Row 1: two legal moves with equal logits: p = (1/2, 1/2), cross-entropy ln 2.
    # Row 2: logits ln 3 and 0, p = (3/4, 1/4), target on the second: ln 4.
    # Row 3: no policy target: it counts for the value alone.
    logits = torch.tensor([[0.0, 0.0, 9.0], [math.log(3), -7.0, 0.0], [1.0, 2.0, 3.0]])
    targets = _targets(
        [[0.5, 0.5, 0.0], [0.0, 0.0, 1.0], [0.0, 0.0, 0.0]],
        [[True, True, False], [True, False, True], [True, True, True]],
        [1.0, -1.0, 0.0],
        [1.0, 1.0, 0.0],
    )
    losses = compute_losses(logits, torch.tensor([0.5, 0.0, 0.5]), targets, value_weight=2.0)
    policy = (math.log(2) + math.log(4)) / 2
    value = (0.25 + 1.0 + 0.25) / 3
    assert losses.policy.item() == pytest.approx(policy, rel=1e-6)
    assert losses.value.item() == pytest.approx(value, rel=1e-6)
    assert losses.total.item() == pytest.approx(policy + 2 * value, rel=1e-6)
    assert losses.target_entropy.item() == pytest.approx(math.log(2) / 2, rel=1e-6)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float16])
def test_illegal_logits_change_nothing_and_get_no_gradient(dtype: torch.dtype) -> None:
    """Faults 25 and 26: +50 on every illegal logit."""
    generator = torch.Generator().manual_seed(1)
    base = torch.randn(16, 9, generator=generator).to(dtype)
    legal = torch.rand(16, 9, generator=generator) < 0.5
    legal[:, 0] = True
    policy = torch.rand(16, 9, generator=generator) * legal
    policy /= policy.sum(1, keepdim=True)
    targets = Targets(policy=policy, legal=legal, value=torch.zeros(16), policy_weight=torch.ones(16))
    results = []
    for shift in (0.0, 50.0):
        logits = (base + shift * ~legal).to(dtype).requires_grad_()
        loss = compute_losses(logits, torch.zeros(16), targets).policy
        loss.backward()  # type: ignore[no-untyped-call]
        assert logits.grad is not None
        assert torch.all(logits.grad[~legal] == 0)
        results.append((loss.item(), logits.grad[legal]))
    assert results[0][0] == results[1][0]
    assert torch.equal(results[0][1], results[1][1])


def test_a_row_with_one_legal_move_has_no_policy_loss() -> None:
    losses = compute_losses(torch.randn(1, 3), torch.zeros(1), _targets([[0, 1.0, 0]], [[False, True, False]], [0.0]))
    assert losses.policy.item() == 0.0
    assert math.isfinite(losses.total.item())


def test_without_any_policy_target_the_loss_is_finite() -> None:
    targets = _targets([[0.0, 0.0]], [[True, True]], [1.0], [0.0])
    losses = compute_losses(torch.zeros(1, 2), torch.zeros(1), targets)
    assert losses.total.item() == 1.0


def test_one_batch_can_be_learned_by_heart() -> None:
    """Fault 30: with a softmax too many the policy loss would stay high."""
    generator = torch.Generator().manual_seed(0)
    net = build_network((2, 3, 3), 9, NetworkConfig(channels=8, blocks=1, value_hidden=8))
    planes = (torch.rand(8, 2, 3, 3, generator=generator) < 0.5).float()
    moves = torch.arange(8)
    targets = Targets(
        policy=torch.nn.functional.one_hot(moves, 9).float(),
        legal=torch.ones(8, 9, dtype=torch.bool),
        value=torch.tensor([1.0, -1.0] * 4),
        policy_weight=torch.ones(8),
    )
    optimizer = torch.optim.SGD(net.parameters(), lr=0.2, momentum=0.9)
    for _ in range(100):
        losses = compute_losses(*net(planes), targets)
        optimizer.zero_grad()
        losses.total.backward()  # type: ignore[no-untyped-call]
        optimizer.step()
    assert losses.policy.item() < 0.01
    assert losses.value.item() < 0.05
