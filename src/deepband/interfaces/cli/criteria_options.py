"""Options with names and values, separated by commas: objectives, constraints and reference
points."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from itertools import chain
from typing import TYPE_CHECKING, Any

import click

if TYPE_CHECKING:
    _Pairs = click.ParamType[list[tuple[str, Any]]]
else:  # ParamType is not generic before click 8.4
    _Pairs = click.ParamType

BOUNDS = "write bounds as ..HIGH, LOW.. or LOW..HIGH, such as memory_mb=..500"


class NamedValues(_Pairs):
    """One or more NAME=VALUE pairs, separated by commas."""

    def __init__(self, value: str, example: str, read: Callable[[str], Any]) -> None:
        self.name = f"name={value}"
        self.example = example
        self.read = read

    def convert(
        self, value: Any, param: click.Parameter | None, ctx: click.Context | None
    ) -> list[tuple[str, Any]]:
        return [self._pair(each, param, ctx) for each in str(value).split(",")]

    def _pair(
        self, text: str, param: click.Parameter | None, ctx: click.Context | None
    ) -> tuple[str, Any]:
        name, _, value = (part.strip() for part in text.rpartition("="))
        if not name or not value:
            self.fail(f"{text!r} is not {self.name.upper()}, such as {self.example}.", param, ctx)
        try:
            return name, self.read(value)
        except ValueError as error:
            self.fail(f"{text!r}: {error}.", param, ctx)


def merge_pairs(
    ctx: click.Context, param: click.Parameter, given: Sequence[list[tuple[str, Any]]]
) -> dict[str, Any] | None:
    """The values of a repeated option as one mapping; None if the option is not given."""
    found: dict[str, Any] = {}
    for name, value in chain.from_iterable(given):
        if name in found:
            raise click.BadParameter(f"{name!r} is given twice.", ctx, param)
        found[name] = value
    return found or None


def read_bounds(text: str) -> tuple[float | None, float | None]:
    """What LOW..HIGH stands for, where either number may be left out."""
    low_text, dots, high_text = text.partition("..")
    if not dots or not (low_text or high_text):
        raise ValueError(BOUNDS)
    low, high = (_finite(part) if part else None for part in (low_text, high_text))
    if low is not None and high is not None and low > high:
        raise ValueError("the lower bound is above the upper bound")
    return low, high


def read_direction(text: str) -> str:
    """The direction of an objective."""
    if text not in ("minimize", "maximize"):
        raise ValueError("the direction is neither minimize nor maximize")
    return text


def _finite(text: str) -> float:
    try:
        found = float(text)
    except ValueError:
        raise ValueError(f"{text!r} is not a number") from None
    if not math.isfinite(found):
        raise ValueError(f"{text!r} is not a finite number")
    return found


objectives_option = click.option(
    "--objectives",
    type=NamedValues("direction", "error=minimize", read_direction),
    multiple=True,
    callback=merge_pairs,
    help="What OBJECTIVE returns to be optimised, such as error=minimize,accuracy=maximize.",
)
constraints_option = click.option(
    "--constraints",
    type=NamedValues("low..high", "memory_mb=..500", read_bounds),
    multiple=True,
    callback=merge_pairs,
    help="Bounds on what OBJECTIVE returns, such as memory_mb=..500,recall=0.9..",
)
reference_option = click.option(
    "--reference",
    type=NamedValues("number", "error=1", _finite),
    multiple=True,
    callback=merge_pairs,
    help="A point such as error=1,latency_ms=50.  [default: the worst of the first run]",
)
