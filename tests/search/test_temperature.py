"""From visits to moves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from zerofleet.errors import UsageError
from zerofleet.search.temperature import choose_move, move_probabilities


def probabilities(visits: list[int], temperature: float, priors: list[float] | None = None) -> list[float]:
    weights = np.array(priors if priors is not None else [1 / len(visits)] * len(visits), np.float32)
    return move_probabilities(np.array(visits, np.int32), weights, temperature)


@pytest.mark.parametrize("temperature", [1.0, 0.5, 0.1, 0.05, 0.01, 1e-3, 1e-9, 1e-300, 5e-324, 0.0, 2.0, 1e300])
def test_no_temperature_overflows(temperature: float) -> None:
    """Fault 42: any counts, any temperature: finite, and adding up to 1."""
    for visits in itertools.product((0, 1, 10, 1_000, 1_000_000, 2_000_000_000), repeat=3):
        found = np.array(probabilities(list(visits), temperature))
        assert np.isfinite(found).all()
        assert found.sum() == pytest.approx(1.0)


def test_the_table() -> None:
    """Fault 44: 70 and 30 visits; squares 4900 and 900 at 1/2, square roots 8.367 and 5.477 at 2."""
    assert probabilities([70, 30], 1.0) == pytest.approx([0.7, 0.3])
    assert probabilities([70, 30], 0.5) == pytest.approx([4900 / 5800, 900 / 5800])
    assert probabilities([70, 30], 2.0) == pytest.approx([0.6044, 0.3956], abs=1e-4)
    assert probabilities([70, 30], 0.0) == [1.0, 0.0]
    assert probabilities([70, 30], 1e-3) == [1.0, 0.0]  # (3/7)^1000 is below the least double


def test_equals_share_the_limit() -> None:
    """Fault 42: ties are even at any temperature."""
    assert probabilities([5, 9, 9, 0], 0.0) == [0.0, 0.5, 0.5, 0.0]
    assert probabilities([5, 9, 9, 0], 1e-6) == [0.0, 0.5, 0.5, 0.0]


def test_higher_is_flatter() -> None:
    """Fault 45: the entropy rises with the temperature."""
    entropies = []
    for temperature in (0.1, 0.3, 0.5, 0.95, 1.0, 1.5, 3.0):
        found = np.array(probabilities([60, 30, 10], temperature))
        entropies.append(-(found * np.log(np.maximum(found, 1e-300))).sum())
    assert entropies == sorted(entropies)
    assert len(set(entropies)) == len(entropies)


def test_without_visits_the_priors_decide() -> None:
    """Fault 43: no candidate is no reason for the first move in the list."""
    assert probabilities([0, 0, 0], 1.0, [0.25, 0.25, 0.5]) == [0.25, 0.25, 0.5]
    assert probabilities([0, 0, 0], 0.0, [0.25, 0.25, 0.5]) == [0.0, 0.0, 1.0]
    assert probabilities([0, 0], 1.0, [0.0, 0.0]) == [0.5, 0.5]


def test_the_order_of_moves_does_not_matter() -> None:
    """Fault 43."""
    forward = probabilities([1, 7, 7, 2], 0.7)
    assert probabilities([2, 7, 7, 1], 0.7) == pytest.approx(forward[::-1])


@pytest.mark.parametrize("temperature", [-1.0, float("nan"), float("inf")])
def test_a_temperature_that_is_none_is_refused(temperature: float) -> None:
    with pytest.raises(UsageError, match="temperature"):
        probabilities([1, 2], temperature)


def test_moves_come_as_often_as_they_should(rng: np.random.Generator) -> None:
    """Fault 44: 70 % of 10,000 draws, within 5 standard deviations of 0.46 %."""
    share = sum(choose_move([0.7, 0.3], rng) == 0 for _ in range(10_000)) / 10_000
    assert 0.677 < share < 0.723


def test_a_move_of_probability_0_is_never_drawn() -> None:
    """Fault 29: at both ends of what a generator may give."""

    class Fixed:
        def __init__(self, value: float) -> None:
            self.value = value

        def random(self) -> float:
            return self.value

    for value in (0.0, 0.5, np.nextafter(1.0, 0.0)):
        rng: np.random.Generator = Fixed(value)  # type: ignore[assignment]
        assert choose_move([0.0, 0.0, 1.0, 0.0], rng) == 2
        assert choose_move([0.0, 0.1 + 0.2, 0.0], rng) == 1
        assert choose_move([0.0, 1 / 3, 0.0, 1 / 3, 1 / 3, 0.0], rng) in (1, 3, 4)
