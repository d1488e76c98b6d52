"""What is a loss: the one function that decides what a result means."""

from __future__ import annotations

import math
import traceback
from collections.abc import Mapping
from decimal import Decimal
from numbers import Real
from typing import Any, TypeAlias

from deepband.errors import ResultError, shown

MOST_TEXT = 64 * 1024
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
    metrics = {_text(str(key)): _plain(value) for key, value in result.items() if key != "loss"}
    return *_loss(result["loss"], maximize), metrics or None


def read_any_result(result: object, maximize: bool = False) -> Outcome:
    """The same for those who cannot mend a result: what is no number is a failure too."""
    try:
        return read_result(result, maximize)
    except ResultError as error:
        return None, _describe(error.with_traceback(None)), None
    except Exception as error:  # a result that cannot even be looked at
        return None, _describe(error), None


def _loss(given: object, maximize: bool) -> tuple[float | None, str | None]:
    """The loss, or None and why there is none."""
    number = _number(given)
    if math.isnan(number):
        return None, "nan: the objective returned nan"
    loss = -number if maximize else number
    if loss == -math.inf:
        raise ResultError(given, "it is better than anything can be; " + WANTED)
    return loss, None


def _number(given: Any) -> float:
    """A float for anything that is one real number, however it is wrapped."""
    plain = given
    if getattr(given, "shape", None) == ():  # NumPy scalars, 0-d arrays and tensors
        plain = given.item() if _is_numeric(given) else None
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


def _is_numeric(scalar: Any) -> bool:
    """Whether a scalar of an array library is a number, and not a date, a span or masked."""
    kind = getattr(getattr(scalar, "dtype", None), "kind", "f")
    return hasattr(scalar, "item") and kind not in "mM" and not getattr(scalar, "mask", False)


def _advice(given: object) -> str:
    shape = getattr(given, "shape", None)
    if shape:
        return f"it is an array of shape {tuple(shape)}, not one number; " + WANTED
    if given is None:
        return "nothing was returned; " + WANTED
    return WANTED


def _describe(failure: BaseException) -> str:
    """The kind, the message and, where there is one, the traceback."""
    try:
        text = f"{type(failure).__name__}: {failure}"
    except Exception:  # its own __str__ fails
        text = f"{type(failure).__name__}: (no message)"
    if failure.__traceback__ is not None:
        text += "\n\n" + "".join(traceback.format_exception(failure))
    return _text(text)


def _text(text: str) -> str:
    """A text that any file can keep, and that is not too long."""
    whole = text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + " ..."
    return whole.encode("utf-8", "backslashreplace").decode()


def _plain(value: object) -> object:
    """A metric as plain data that a file can keep: numbers, texts, bools, None, lists, dicts."""
    if isinstance(value, float) and not math.isfinite(value):
        return str(float(value))
    if value is None or type(value) in (bool, float) or _is_small(value):
        return value
    if isinstance(value, Mapping):
        return {_text(str(key)): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    if hasattr(value, "tolist"):  # NumPy and tensors
        return _plain(value.tolist())
    return _text(value if isinstance(value, str) else shown(value, MOST_TEXT))


def _is_small(value: object) -> bool:
    return type(value) is int and value.bit_length() < 1024
