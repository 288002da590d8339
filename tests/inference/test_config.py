from __future__ import annotations

from typing import Any

import pytest

from zerofleet.errors import ConfigError
from zerofleet.inference.config import InferenceConfig


@pytest.mark.parametrize(
    ("fields", "named"),
    [
        ({"max_batch_size": 0}, "inference.max_batch_size"),
        ({"dtype": "fp16"}, "inference.dtype"),
        ({"form": "fast"}, "inference.form"),
        ({"device": ""}, "inference.device"),
        ({"num_threads": 0}, "inference.num_threads"),
        ({"resident_versions": 1}, "inference.resident_versions"),
        ({"max_batch_size": 64, "max_queued_positions": 63}, "inference.max_queued_positions"),
        ({"deadline_s": 0.0}, "inference.deadline_s"),
        ({"deadline_s": 5.0, "total_deadline_s": 4.0}, "inference.total_deadline_s"),
    ],
)
def test_an_impossible_value_is_refused_by_name(fields: dict[str, Any], named: str) -> None:
    with pytest.raises(ConfigError, match=named):
        InferenceConfig(**fields)


def test_the_defaults_hold() -> None:
    assert InferenceConfig().resident_versions >= 2
