"""Configs from nested mappings, TOML and `--set key=value`, and back.

A config is a frozen, keyword-only dataclass that stands beside the part it configures and checks its own values.  This
module checks what a dataclass cannot: unknown keys and wrong types.  It imports nothing of ours but the errors.
"""

from __future__ import annotations

import dataclasses
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from pathlib import Path
from types import UnionType
from typing import Any, Literal, TypeVar, Union, get_args, get_origin, get_type_hints

from zerofleet.errors import ConfigError

T = TypeVar("T")


def check_values(where: str, config: object, laws: Iterable[tuple[bool, str, str]]) -> None:
    """Check a config's values by laws that each say: does it hold, for which field, and what that field must be.

    Raises:
        ConfigError: a law does not hold.
    """
    for holds, field, remedy in laws:
        if not holds:
            raise ConfigError(f"{where}.{field} {remedy}, got {getattr(config, field)!r}")


def build(cls: type[T], values: Mapping[str, object], where: str = "") -> T:
    """Make a config of type `cls` from a nested mapping; `where` is its dotted place, for messages.

    Raises:
        ConfigError: a key is unknown or missing, or a value has the wrong type or is impossible.
    """
    hints = get_type_hints(cls)
    fields = {field.name: field for field in dataclasses.fields(cls) if field.init}  # type: ignore[arg-type]
    for key in values:
        if key not in fields:
            raise ConfigError(_unknown_key(_join(where, key), key, list(fields)))
    arguments: dict[str, Any] = {key: _convert(hints[key], value, _join(where, key)) for key, value in values.items()}
    for name, field in fields.items():
        missing = field.default is dataclasses.MISSING and field.default_factory is dataclasses.MISSING
        if missing and name not in arguments:
            raise ConfigError(f"{_join(where, name)} is required")
    return cls(**arguments)


def read_toml(path: Path) -> dict[str, Any]:
    """Read a TOML file as a nested mapping."""
    try:
        return tomllib.loads(path.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigError(f"{path} is not TOML: {error}") from error


def merge(base: Mapping[str, Any], over: Mapping[str, Any]) -> dict[str, Any]:
    """Return `base` with the values of `over` laid on top, table by table."""
    merged = dict(base)
    for key, value in over.items():
        below = merged.get(key)
        merged[key] = merge(below, value) if isinstance(below, Mapping) and isinstance(value, Mapping) else value
    return merged


def parse_assignments(assignments: Iterable[str]) -> dict[str, Any]:
    """Turn `["search.num_simulations=200", ...]` into a nested mapping; values are read as TOML, else as text."""
    values: dict[str, Any] = {}
    for assignment in assignments:
        key, equals, text = assignment.partition("=")
        parts = key.strip().split(".")
        if not equals or not all(parts):
            raise ConfigError(f"--set takes key=value such as search.num_simulations=200, got {assignment!r}")
        nested: dict[str, Any] = {parts[-1]: _parse_value(text.strip())}
        for part in reversed(parts[:-1]):
            nested = {part: nested}
        values = merge(values, nested)
    return values


def to_mapping(config: object) -> dict[str, Any]:
    """Return a config as nested dicts of plain values, in the order of its fields."""
    mapping: dict[str, Any] = {}
    for field in dataclasses.fields(config):  # type: ignore[arg-type]
        value = getattr(config, field.name)
        mapping[field.name] = to_mapping(value) if dataclasses.is_dataclass(value) else value
    return mapping


def to_toml(config: object) -> str:
    """Return a config as TOML that `build` reads back to an equal one; fields that are None are left out."""
    import tomli_w  # here: search reads configs too, and needs numpy alone

    return tomli_w.dumps(_without_none(to_mapping(config)))


def differences(old: object, new: object) -> list[str]:
    """Name every field in which two configs of one type differ, as "learner.batch_size: 256 -> 512"."""
    before, after = dict(_leaves(to_mapping(old))), dict(_leaves(to_mapping(new)))
    return [f"{key}: {before.get(key)!r} -> {value!r}" for key, value in after.items() if before.get(key) != value]


def _join(where: str, key: str) -> str:
    return f"{where}.{key}" if where else key


def _unknown_key(path: str, key: str, known: list[str]) -> str:
    close = get_close_matches(key, known, n=3)
    remedy = f"did you mean {' or '.join(close)}?" if close else f"known here: {', '.join(known)}"
    return f"unknown setting {path}; {remedy}"


def _parse_value(text: str) -> object:
    try:
        return tomllib.loads(f"value = {text}")["value"]
    except tomllib.TOMLDecodeError:
        return text


def _convert(hint: object, value: object, where: str) -> object:
    origin = get_origin(hint)
    if dataclasses.is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return build(hint, value, where)
    if origin in (Union, UnionType):
        return _convert_union(get_args(hint), value, where)
    if origin is tuple and isinstance(value, (list, tuple)):
        return _convert_tuple(get_args(hint), value, where)
    if origin is Literal and value in get_args(hint):
        return value
    if hint is float and type(value) is int:
        return float(value)
    if hint is Any or (isinstance(hint, type) and type(value) is hint):
        return value
    raise ConfigError(f"{where} must be {_describe(hint)}, got {value!r}")


def _convert_union(options: tuple[object, ...], value: object, where: str) -> object:
    if value is None and type(None) in options:
        return None
    concrete = [option for option in options if option is not type(None)]
    for option in concrete[:-1]:
        try:
            return _convert(option, value, where)
        except ConfigError:
            continue
    return _convert(concrete[-1], value, where)


def _convert_tuple(kinds: tuple[object, ...], value: list[Any] | tuple[Any, ...], where: str) -> tuple[object, ...]:
    if len(kinds) == 2 and kinds[1] is Ellipsis:
        kinds = (kinds[0],) * len(value)
    if len(kinds) != len(value):
        raise ConfigError(f"{where} must have {len(kinds)} values, got {len(value)}")
    return tuple(_convert(kind, item, f"{where}[{i}]") for i, (kind, item) in enumerate(zip(kinds, value, strict=True)))


def _describe(hint: object) -> str:
    names: dict[object, str] = {int: "a whole number", float: "a number", bool: "true or false", str: "text"}
    if dataclasses.is_dataclass(hint):
        return "a table of settings"
    if get_origin(hint) is Literal:
        return "one of " + ", ".join(map(str, get_args(hint)))
    return "a list" if get_origin(hint) is tuple else names.get(hint, str(hint))


def _without_none(mapping: Mapping[str, Any]) -> dict[str, Any]:
    return {
        key: _without_none(value) if isinstance(value, Mapping) else value
        for key, value in mapping.items()
        if value is not None
    }


def _leaves(mapping: Mapping[str, Any], where: str = "") -> Iterator[tuple[str, Any]]:
    for key, value in mapping.items():
        path = _join(where, key)
        if isinstance(value, Mapping):
            yield from _leaves(value, path)
        else:
            yield path, value
