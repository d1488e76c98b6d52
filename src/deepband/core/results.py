"""Reading results: what an objective returned or raised, as a loss, an error and metrics."""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Iterable, Iterator, Mapping, Set, Sized
from decimal import Decimal
from itertools import islice
from numbers import Real
from typing import Any

from deepband.core.criteria import Criteria
from deepband.core.facts import Loss, Outcome
from deepband.errors import InputError, ResultError, shown

MOST_TEXT = 64 * 1024
MOST_METRICS = 1024 * 1024
"""The most bytes that the metrics of one evaluation may have as JSON: an open study keeps the
metrics of all evaluations in memory."""
NUMBER_NAMES = ("loss", "value")
"""What a mapping may call the number that is minimised or maximised."""
WANTED = "give a real number, a mapping with 'loss' or 'value', or an exception for a failure."
NUMBERS = (
    "give a real number for each objective and for each metric that has bounds, or an exception "
    "for a failure."
)
MOST_NAMES = 5
"""How many names of a result a message lists."""
MINIMIZE, MAXIMIZE = Criteria(), Criteria(maximize=True)


def read_result(result: object, criteria: Criteria = MINIMIZE) -> Outcome:
    """The outcome of a result that an objective returned or raised.

    A number, by itself or under "loss" or "value" in a mapping, or one for each objective under its
    name, is in the user's direction: what is maximised is negated here and nowhere else. NaN and
    exceptions are failures. Anything else raises ResultError.
    """
    unnamed = not criteria.objectives and not criteria.constraints
    if unnamed and type(result) is float and math.isfinite(result):  # nearly always
        # A file stores no -0.0.
        return Outcome(0.0 - result if criteria.maximize else result + 0.0)
    if isinstance(result, BaseException):
        return Outcome(None, _describe(result))
    if not isinstance(result, Mapping):
        _check_mapping(result, criteria)
        return Outcome(*_loss(result, criteria.maximize))
    result = _with_numbers(result, criteria)
    if criteria.objectives:
        return _read_objectives(result, criteria)
    name = _number_name(result)
    loss, error = _loss(result[name], criteria.maximize)
    return _checked(Outcome(loss, error, _metrics(result, {name})), criteria)


def read_any_result(result: object, criteria: Criteria = MINIMIZE) -> Outcome:
    """The same where the caller cannot fix a result: what is not a number is a failure too."""
    try:
        return read_result(result, criteria)
    except ResultError as error:
        return Outcome(None, _describe(error.with_traceback(None)))
    except Exception as error:  # a result that cannot even be looked at
        return Outcome(None, _describe(error))


def read_results(pairs: object, wanted: str, criteria: Criteria) -> Iterator[tuple[Any, Outcome]]:
    """The outcomes of pairs that end in a result, each with the first half of its pair. All pairs
    are read at once, before any decision; what the user's own iterators raise is passed on."""
    if not isinstance(pairs, Iterable):
        raise InputError(f"{wanted}, and was given {shown(pairs)}.")
    read = [
        each if type(each) is tuple and len(each) == 2 else _pair(each, wanted) for each in pairs
    ]
    return ((first, read_result(result, criteria)) for first, result in read)


def _pair(given: object, wanted: str) -> tuple[Any, Any]:
    pair = tuple(islice(given, 3)) if isinstance(given, Iterable) else ()
    if len(pair) != 2:
        raise InputError(f"{wanted}, and {shown(given)} is not one.")
    return pair


def _number_name(result: Mapping[Any, Any]) -> str:
    """Whether the number in a mapping is called loss or value."""
    found = [name for name in NUMBER_NAMES if name in result]
    if not found:
        raise ResultError(result, "the mapping has neither 'loss' nor 'value'; " + WANTED)
    if len(found) > 1:
        raise ResultError(
            result,
            "the mapping has both 'loss' and 'value', and either could be the number to optimise. "
            "Keep one of them, and rename the other to record it as a metric.",
            f"{shown(result)} is ambiguous",
        )
    return found[0]


def _loss(given: object, maximize: bool) -> tuple[float | None, str | None]:
    """The loss, or None and the reason."""
    number = _number(given)
    if math.isnan(number):
        return None, "nan: the objective returned nan"
    loss = 0.0 - number if maximize else number + 0.0
    if loss == -math.inf:
        raise ResultError(given, "no result can be better than this; " + WANTED)
    return loss, None


def _check_mapping(result: object, criteria: Criteria) -> None:
    """Raise ResultError if a result must be a mapping, because what it contains has names."""
    if not criteria.needs_mapping:
        return
    names = list(criteria.names) or ["loss"]
    names += [name for name, _ in criteria.constraints if name not in names]
    first = ", ".join(map(repr, names[:-1]))
    quoted = f"{first} and {names[-1]!r}" if first else repr(names[-1])
    raise ResultError(result, f"return a mapping with {quoted}: the study needs each by its name.")


def _read_objectives(result: Mapping[Any, Any], criteria: Criteria) -> Outcome:
    """The outcome of a mapping that has a number for each objective."""
    _check_names(result, criteria.names, "an objective")
    losses = {
        name: criteria.minimised(name, _named_number(result, name)) for name in criteria.names
    }
    metrics = _metrics(result, set(criteria.names))
    for name, loss in losses.items():
        if math.isnan(loss):
            return Outcome(None, f"nan: the objective returned nan for {name}", metrics)
        if loss == -math.inf:
            problem = f"has {shown(result[name])} under {name!r}"
            raise ResultError(result, f"no result can be better than this; {NUMBERS}", problem)
    vector = tuple(losses.values())
    found: Loss = vector if criteria.several else vector[0]
    return _checked(Outcome(found, None, metrics), criteria)


def _with_numbers(result: Mapping[Any, Any], criteria: Criteria) -> Mapping[Any, Any]:
    """A result in which every metric that has bounds is a plain number. Raise ResultError if one is
    missing, or is not a number."""
    if not criteria.constraints:
        return result
    names = [name for name, _ in criteria.constraints]
    _check_names(result, names, "a metric with bounds")
    numbers = {name: _named_number(result, name) for name in names}
    whole = {name for name in names if type(result[name]) is int}
    return {**result, **{name: numbers[name] for name in names if name not in whole}}


def _named_number(result: Mapping[Any, Any], name: str) -> float:
    try:
        return _number(result[name])
    except ResultError:
        given = result[name]
        problem = f"has {shown(given)} ({type(given).__name__}) under {name!r}"
        raise ResultError(result, NUMBERS, problem) from None


def _check_names(result: Mapping[Any, Any], names: Iterable[str], kind: str) -> None:
    for name in names:
        if name not in result:
            raise ResultError(
                result,
                "return it under its name, with the other results of the config, in one mapping.",
                f"has no {name!r}, {kind} of the study, but {_listed(result)}",
            )


def _listed(result: Mapping[Any, Any]) -> str:
    """The first names in a result, for a message."""
    names = [shown(name) for name in islice(result, MOST_NAMES)]
    more = f" and {len(result) - len(names)} more" if len(result) > len(names) else ""
    return (", ".join(names) or "nothing") + more


def _checked(outcome: Outcome, criteria: Criteria) -> Outcome:
    """An outcome, or a failure if a metric that has bounds is NaN."""
    for name, _ in criteria.constraints:
        value = (outcome.metrics or {}).get(name, 0.0)
        if isinstance(value, float) and math.isnan(value):
            return Outcome(None, f"nan: the objective returned nan for {name}", outcome.metrics)
    return outcome


def _number(given: Any) -> float:
    """Any single real number as a float, such as a NumPy scalar or a 0-d tensor."""
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
    """Whether the scalar of an array library is a number, and not a date, a duration or masked."""
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
    """The type, the message and, if there is one, the traceback."""
    try:
        text = f"{type(failure).__name__}: {failure}"
    except Exception:  # its __str__ raises
        text = f"{type(failure).__name__}: (no message)"
    if failure.__traceback__ is not None:
        text += "\n\n" + "".join(traceback.format_exception(failure))
    return _text(text)


def _text(text: str) -> str:
    """A text that can be stored as UTF-8, shortened if necessary."""
    whole = text if len(text) <= MOST_TEXT else text[:MOST_TEXT] + " ..."
    return whole.encode("utf-8", "backslashreplace").decode()


class _FullError(Exception):
    """Metrics are too large."""


class _Room:
    """How many more numbers and characters metrics may have. Counting stops copies that would be
    too large."""

    left = MOST_METRICS

    def take(self, count: int) -> None:
        self.left -= count
        if self.left < 0:
            raise _FullError


def _metrics(result: Mapping[Any, Any], names: Set[str]) -> Mapping[str, Any] | None:
    """The entries of a result other than the numbers, which have these names. Raise ResultError if
    they are too large."""
    room = _Room()
    try:
        found = {key: value for key, value in result.items() if key not in names}
        metrics = {_key(key, room): _plain(value, room) for key, value in found.items()}
        if MOST_METRICS - room.left > MOST_METRICS / 32:  # a number takes up to 25 bytes
            _Room().take(len(json.dumps(metrics)))
    except _FullError:
        raise ResultError(
            result,
            f"an evaluation keeps up to {MOST_METRICS // 1024**2} MiB, counted as JSON. Save large "
            "data as a file in context.path, and return a summary of it.",
            "has metrics that are too large",
        ) from None
    return metrics or None


def _key(key: object, room: _Room) -> str:
    text = _text(str(key))
    room.take(len(text))
    return text


def _plain(value: Any, room: _Room) -> object:
    """A metric as plain data that can be stored: numbers, texts, bools, None, lists and dicts."""
    room.take(_size(value))
    if isinstance(value, float) and not math.isfinite(value):
        return math.nan if math.isnan(value) else float(value)  # one NaN, which equals itself
    is_small = type(value) is int and value.bit_length() < 1024
    if value is None or type(value) in (bool, float) or is_small:
        return value
    if isinstance(value, Mapping):
        return {_key(key, room): _plain(inner, room) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner, room) for inner in value]
    if hasattr(value, "tolist"):  # NumPy and tensors
        return _plain(value.tolist(), room)
    return _text(value if isinstance(value, str) else shown(value, MOST_TEXT))


def _size(value: Any) -> int:
    """The least number of numbers or characters in a metric, without reading its content."""
    if isinstance(value, str):
        return min(len(value), MOST_TEXT)
    if isinstance(value, int):
        return 1 + value.bit_length() // 4
    shape = getattr(value, "shape", None)
    if isinstance(shape, tuple) and all(isinstance(length, int) for length in shape):
        return math.prod(shape)
    return len(value) if isinstance(value, Sized) else 1
