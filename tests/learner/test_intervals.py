"""The set of game numbers."""

import numpy as np

from zerofleet.learner.intervals import Intervals


def test_a_number_is_added_once() -> None:
    numbers = Intervals()
    assert numbers.add(5)
    assert not numbers.add(5)
    assert 5 in numbers
    assert 4 not in numbers
    assert 6 not in numbers
    assert len(numbers) == 1


def test_it_is_a_set_whatever_the_order() -> None:
    rng = np.random.default_rng(1)
    numbers, plain = Intervals(), set()
    for number in rng.integers(0, 300, 1000).tolist():
        assert numbers.add(number) == (number not in plain)
        plain.add(number)
        assert len(numbers) == len(plain)
    assert [number in numbers for number in range(-1, 301)] == [number in plain for number in range(-1, 301)]


def test_numbers_that_come_in_blocks_leave_few_intervals() -> None:
    """Fault 54: what the learner keeps of a game that has left the buffer does not grow with the number of games."""
    rng = np.random.default_rng(2)
    numbers = Intervals()
    for start in range(0, 10_000, 100):  # 100 games in flight, finished in any order
        for number in rng.permutation(np.arange(start, start + 100)).tolist():
            numbers.add(number)
    assert len(numbers) == 10_000
    assert numbers.num_intervals == 1
