"""Choices of any type in a space.

ConfigSpace compares and hashes choices. Estimators, arrays, dicts and functions do not support
that, or compare by their address in memory. In ConfigSpace, such a value is therefore wrapped in a
`Choice`, which compares by content; configs and descriptions contain the value itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from functools import cached_property
from typing import Any

from deepband.errors import shown
from deepband.space.content import SCALARS, digest

LISTS = ("choices", "sequence", "values")
SINGLE = ("value", "default_value")
"""The keys of a described space that contain values of parameters."""


class Choice:
    """A wrapper of one value that is equal to anything with the same content and types."""

    def __init__(self, value: Any) -> None:
        self.value = value

    @cached_property
    def content(self) -> str:
        # A value whose content cannot be read is equal to itself only.
        return digest(self.value, opaque=lambda value: str(id(value)))

    def __eq__(self, other: object) -> bool:
        if type(other) in SCALARS:
            return False
        held = other if isinstance(other, Choice) else Choice(other)
        return held.value is self.value or held.content == self.content

    def __hash__(self) -> int:
        return hash(self.content)

    def __repr__(self) -> str:
        return repr(self.value)


def wrapped(value: Any) -> Any:
    """A value that ConfigSpace can compare."""
    return value if type(value) in SCALARS or isinstance(value, Choice) else Choice(value)


def unwrapped(value: Any) -> Any:
    """The value itself."""
    return value.value if isinstance(value, Choice) else value


def position(values: Iterable[Any], value: Any) -> int:
    """The position of a value among others, compared by content. Raises ValueError if it is not
    there. A NumPy scalar equals the number that it contains."""
    listed = list(values)
    plain = value.item() if getattr(value, "shape", None) == () else value
    for wanted in (wrapped(value), wrapped(plain)):
        for place, each in enumerate(listed):
            if each is value or wrapped(each) == wanted:
                return place
    raise ValueError(f"{shown(value)} is not among the choices")


def choices(parameter: Any) -> list[Any]:
    """The choices of a parameter, as the user gave them; none for a range."""
    for name in ("choices", "sequence"):
        if hasattr(parameter, name):
            return [unwrapped(each) for each in getattr(parameter, name)]
    return [unwrapped(parameter.value)] if hasattr(parameter, "value") else []


def mapped(described: Mapping[str, Any], change: Callable[[Any], Any]) -> dict[str, Any]:
    """A described space with each value replaced by `change(value)`. It shares no list or dict with
    the given one."""
    return {name: _mapped(name, held, change) for name, held in described.items()}


def _mapped(name: str, held: Any, change: Callable[[Any], Any]) -> Any:
    if name in LISTS:
        return [change(each) for each in held]
    if name in SINGLE:
        return change(held)
    if name == "meta":  # the user's own
        return held
    if isinstance(held, Mapping):
        return mapped(held, change)
    if isinstance(held, list | tuple):
        return [_mapped("", each, change) for each in held]
    return held
