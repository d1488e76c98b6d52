"""The values of a search space that a study file can store exactly."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from deepband.errors import SpaceError


def check_storable(space: Mapping[str, Any]) -> None:
    """Raise a SpaceError for a space description with choices that cannot be stored exactly."""
    for name, value in listed_values(space):
        if not _is_plain(value):
            raise SpaceError(
                f"parameter {name!r} has the value {value!r} ({type(value).__name__}), which a "
                "study file cannot store: use strings, numbers, bools, None, or lists, tuples and "
                "dicts of them, or keep the study in memory."
            )


def listed_values(space: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The name of each parameter of a space description with each value that it lists."""
    for parameter in space["hyperparameters"]:
        values = parameter.get("choices", parameter.get("sequence", [parameter.get("value")]))
        yield from ((parameter["name"], value) for value in values)


def _is_plain(value: object) -> bool:
    """Whether JSON round-trips the value with its type."""
    if isinstance(value, list | tuple) and type(value) in (list, tuple):
        return all(map(_is_plain, value))
    if type(value) is dict:
        return all(_is_plain(key) and _is_plain(held) for key, held in value.items())
    if type(value) is float:
        return math.isfinite(value)
    return value is None or type(value) in (str, int, bool)
