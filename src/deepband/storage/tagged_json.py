"""JSON that round-trips Python values: tuples stay tuples, dict keys keep their type, and
infinities and NaN stay floats."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

TAG = "deepband:"
"""Prefix of the key of a JSON object that encodes a tuple, a dict with keys of any type, or a
number that JSON does not have."""
_ENCODER = json.JSONEncoder(allow_nan=False, separators=(",", ":"))


def to_text(value: object) -> str:
    """A value as JSON, from which `from_text` restores it."""
    return _ENCODER.encode(_tagged(value))


def from_text(text: str) -> Any:
    """The value that `to_text` encoded."""
    return json.loads(text, object_hook=_untagged) if f'"{TAG}' in text else json.loads(text)


def _tagged(value: Any) -> Any:
    """The value with tuples, dicts whose keys are not plain texts, infinities and NaN as tagged
    objects."""
    kind = type(value)
    if kind is list:
        return list(map(_tagged, value))
    if kind is tuple:
        return {f"{TAG}tuple": list(map(_tagged, value))}
    if kind is float and not math.isfinite(value):
        return {f"{TAG}float": str(value)}
    if not isinstance(value, Mapping):
        return value
    if any(type(key) is not str or key.startswith(TAG) for key in value):
        return {f"{TAG}dict": [[_tagged(key), _tagged(held)] for key, held in value.items()]}
    return {key: _tagged(held) for key, held in value.items()}


def _untagged(found: dict[str, Any]) -> Any:
    if found.keys() == {f"{TAG}tuple"}:
        return tuple(found[f"{TAG}tuple"])
    if found.keys() == {f"{TAG}dict"}:
        return dict(found[f"{TAG}dict"])
    if found.keys() == {f"{TAG}float"}:
        number = float(found[f"{TAG}float"])
        return math.nan if math.isnan(number) else number
    return found
