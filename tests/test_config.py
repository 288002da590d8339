from __future__ import annotations

import tomllib
from dataclasses import dataclass, field
from typing import Literal

import pytest

from zerofleet.config import build, differences, merge, parse_assignments, to_toml
from zerofleet.errors import ConfigError


@dataclass(frozen=True, slots=True, kw_only=True)
class Engine:
    power: float = 1.0
    fuel: Literal["petrol", "electric"] = "electric"

    def __post_init__(self) -> None:
        if self.power <= 0:
            raise ConfigError(f"engine.power must be more than 0, got {self.power}")


@dataclass(frozen=True, slots=True, kw_only=True)
class Car:
    name: str
    seats: int = 4
    open_roof: bool = False
    gears: tuple[float, ...] = (1.5, 2.5)
    limit: int | None = None
    engine: Engine = field(default_factory=Engine)


def test_a_nested_mapping_becomes_a_config() -> None:
    car = build(Car, {"name": "a", "engine": {"power": 3}, "gears": [1, 2]})
    assert car == Car(name="a", engine=Engine(power=3.0), gears=(1.0, 2.0))


@pytest.mark.parametrize(
    ("values", "words"),
    [
        ({"name": "a", "seat": 3}, ["seat", "did you mean seats"]),
        ({"name": "a", "engine": {"colour": 1}}, ["engine.colour", "power, fuel"]),
        ({"name": "a", "seats": "4"}, ["seats", "a whole number", "'4'"]),
        ({"name": "a", "seats": True}, ["seats", "a whole number"]),
        ({"name": "a", "open_roof": 1}, ["open_roof", "true or false"]),
        ({"name": "a", "engine": {"fuel": "coal"}}, ["engine.fuel", "petrol, electric", "coal"]),
        ({"name": "a", "engine": {"power": -1}}, ["engine.power", "-1"]),
        ({"name": "a", "engine": 5}, ["engine", "a table of settings"]),
        ({"name": "a", "gears": [1, "x"]}, ["gears[1]", "a number"]),
        ({}, ["name is required"]),
    ],
)
def test_a_bad_value_is_refused_by_name(values: dict[str, object], words: list[str]) -> None:
    with pytest.raises(ConfigError) as caught:
        build(Car, values)
    for word in words:
        assert word in str(caught.value)


def test_assignments_are_read_as_toml_and_else_as_text() -> None:
    values = parse_assignments(["engine.power=2.5", "engine.fuel=petrol", "open_roof=true", 'name="1"', "gears=[3]"])
    assert values == {"engine": {"power": 2.5, "fuel": "petrol"}, "open_roof": True, "name": "1", "gears": [3]}


@pytest.mark.parametrize("text", ["power", "=3", "engine.=3", ".power=1"])
def test_an_assignment_without_key_or_value_is_refused(text: str) -> None:
    with pytest.raises(ConfigError, match="key=value"):
        parse_assignments([text])


def test_merging_goes_table_by_table() -> None:
    assert merge({"a": {"b": 1, "c": 2}, "d": 3}, {"a": {"c": 4}}) == {"a": {"b": 1, "c": 4}, "d": 3}


def test_toml_reads_back_to_an_equal_config() -> None:
    car = Car(name='a "b" \\ \n ä', seats=2, engine=Engine(power=1e-7), gears=())
    assert build(Car, tomllib.loads(to_toml(car))) == car
    limited = Car(name="b", limit=3)
    assert build(Car, tomllib.loads(to_toml(limited))) == limited


def test_differences_name_fields_and_both_values() -> None:
    old, new = Car(name="a"), Car(name="a", seats=5, engine=Engine(power=2.0))
    assert differences(old, new) == ["seats: 4 -> 5", "engine.power: 1.0 -> 2.0"]
    assert differences(old, old) == []
