"""Why a config does not belong to a space, in the words of the space's own parameters."""

from __future__ import annotations

from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ConfigSpace import ConfigurationSpace
from ConfigSpace.exceptions import (
    ActiveHyperparameterNotSetError,
    ForbiddenValueError,
    InactiveHyperparameterSetError,
)
from ConfigSpace.hyperparameters import Hyperparameter, IntegerHyperparameter

from deepband.errors import shown
from deepband.space.choices import choices, position

MOST_NAMES = 20
"""How many parameters or choices are listed."""


def problem(space: ConfigurationSpace, given: object, error: Exception) -> str:
    """What is wrong with a config that raised this error: the first problem, as a sentence."""
    if not isinstance(given, Mapping):
        return "give a dict with a value for each parameter."
    unknown = [name for name in given if name not in space]
    if unknown:
        return _unknown(unknown[0], list(space))
    if isinstance(error, ActiveHyperparameterNotSetError):
        return f"{error.hyperparameter.name!r} is missing."
    if isinstance(error, InactiveHyperparameterSetError):
        return (
            f"{error.hyperparameter.name!r} is not active with the other values, because of a "
            "condition of the space: leave it out."
        )
    if isinstance(error, ForbiddenValueError):
        clauses = ", ".join(map(str, space.forbidden_clauses))
        return f"the space forbids this combination of values: {shown(clauses, 500)}."
    wrong = (_wrong_value(space[name], value) for name, value in given.items())
    return next(filter(None, wrong), f"{error}.")


def _unknown(name: object, names: list[str]) -> str:
    close = get_close_matches(str(name), names, n=1)
    hint = f"Did you mean {close[0]!r}?" if close else f"It has {_listed(names)}."
    return f"there is no parameter {shown(name)}. {hint}"


def _wrong_value(parameter: Hyperparameter[Any, Any], value: Any) -> str | None:
    """What is wrong with the value of a parameter; None if it is one of its values."""
    what, listed = f"{parameter.name} is {shown(value)}", choices(parameter)
    if listed:
        return None if _is_listed(listed, value) else f"{what}: choose from {_listed(listed)}."
    is_whole = isinstance(parameter, IntegerHyperparameter)
    if not isinstance(value, bool) and _is_legal(parameter, value):
        return None
    ends = f"{parameter.lower:.10g} to {parameter.upper:.10g}"  # type: ignore[attr-defined] # numbers have them
    return f"{what}: the range is {ends}{', in whole numbers' if is_whole else ''}."


def _is_listed(listed: list[Any], value: Any) -> bool:
    try:
        position(listed, value)
    except ValueError:
        return False
    return True


def _is_legal(parameter: Hyperparameter[Any, Any], value: Any) -> bool:
    try:
        return bool(parameter.legal_value(value))
    except (TypeError, ValueError):
        return False


def _listed(values: list[Any]) -> str:
    more = f" and {len(values) - MOST_NAMES} more" if len(values) > MOST_NAMES else ""
    return ", ".join(map(shown, values[:MOST_NAMES])) + more
