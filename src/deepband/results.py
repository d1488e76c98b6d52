"""What is a loss: the one function that decides what a result means."""

from __future__ import annotations

import math
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

from deepband.errors import ResultError

WANTED = "give a real number, a mapping with 'loss', or an exception for a failure."


Outcome: TypeAlias = tuple[float | None, str | None, Mapping[str, Any] | None]
"""A loss to minimise or None, the error of a failure, and metrics."""


def read_result(result: object, maximize: bool = False) -> Outcome:
    """The outcome of a result that an objective returned or raised.

    A number (also under "loss" in a mapping) is in the user's direction: with `maximize` it is
    negated, once, here. NaN and an exception are failures. What is no number raises ResultError.
    """
    if type(result) is float and -math.inf < result < math.inf:  # nearly always
        return -result if maximize else result, None, None
    if isinstance(result, BaseException):
        return None, _describe(result), None
    if not isinstance(result, Mapping):
        return *_loss(result, maximize), None
    if "loss" not in result:
        raise ResultError(result, "the mapping has no 'loss'; " + WANTED)
    metrics = {str(key): value for key, value in result.items() if key != "loss"}
    return *_loss(result["loss"], maximize), metrics or None


def _loss(given: object, maximize: bool) -> tuple[float | None, str | None]:
    """The loss, or None and why there is none."""
    number = _number(given)
    if math.isnan(number):
        return None, "the result is nan"
    loss = -number if maximize else number
    if loss == -math.inf:
        raise ResultError(given, "it is better than anything can be; " + WANTED)
    return loss, None


def _number(given: object) -> float:
    """A float for anything that is one real number, however it is wrapped."""
    plain = given
    if getattr(given, "shape", None) == () and hasattr(given, "item"):
        plain = given.item()  # NumPy scalars and 0-d arrays and tensors, of any kind
    if isinstance(plain, bool) or not isinstance(plain, Real | Decimal):
        raise ResultError(given, _advice(given))
    if isinstance(plain, Decimal) and plain.is_nan():
        return math.nan
    try:
        number = float(plain)
    except OverflowError:
        number = math.inf
    if math.isinf(number) and plain not in (math.inf, -math.inf):
        raise ResultError(given, "it is beyond the range of a float; " + WANTED)
    return number


def _advice(given: object) -> str:
    shape = getattr(given, "shape", None)
    if shape:
        return f"it is an array of shape {tuple(shape)}, not one number; " + WANTED
    if given is None:
        return "nothing was returned; " + WANTED
    return WANTED


def _describe(failure: BaseException) -> str:
    text = str(failure)
    return f"{type(failure).__name__}: {text}" if text else type(failure).__name__
