from __future__ import annotations

from zerofleet.cluster.tally import Tally
from zerofleet.streams.records import RoleRecord


def actor(games: float, *, index: int = 0, incarnation: str = "a") -> RoleRecord:
    return RoleRecord(role="actor", index=index, node="n", pid=1, incarnation=incarnation, numbers={"games": games})


def test_what_the_dead_had_counted_still_counts() -> None:
    tally = Tally()
    tally.update([actor(5), actor(7, index=1)], 0.0)
    tally.update([actor(2, incarnation="b"), actor(8, index=1)], 1.0)
    assert tally.total("actor", "games") == 5 + 2 + 8


def test_a_role_that_is_silent_keeps_its_count() -> None:
    tally = Tally()
    tally.update([actor(5), actor(7, index=1)], 0.0)
    tally.update([actor(6)], 1.0)
    assert tally.total("actor", "games") == 13


def test_a_rate_is_over_the_window() -> None:
    tally = Tally(window_s=10.0)
    for second in range(31):
        tally.update([actor(2.0 * second)], float(second))
    assert tally.rate("actor", "games") == 2.0
    assert tally.rate("actor", "moves") == 0.0


def test_before_anything_is_known_all_is_nothing() -> None:
    tally = Tally()
    assert (tally.total("actor", "games"), tally.rate("actor", "games")) == (0.0, 0.0)
