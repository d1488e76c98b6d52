"""The short notation of search spaces, and what reads it.

A space is a `ConfigSpace.ConfigurationSpace` or a dict:

    {
        "lr": (1e-4, 1e-1, "log"),        a float, uniform in the logarithm
        "dropout": (0.0, 0.5),            a float; either bound a float makes it one
        "layers": (1, 8),                 an int, both bounds included
        "units": (16, 1024, "log"),       an int, uniform in the logarithm
        "optimizer": ["adam", "sgd"],     one of the choices, of any type
        "epochs_per_cycle": 10,           a constant
    }

A value may also be any ConfigSpace hyperparameter, or one of the SciPy and Optuna distributions in
`deepband.space.distributions`.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from numbers import Integral, Real
from typing import Any

from ConfigSpace import ConfigurationSpace
from ConfigSpace.hyperparameters import (
    CategoricalHyperparameter,
    Constant,
    Hyperparameter,
    UniformFloatHyperparameter,
    UniformIntegerHyperparameter,
)

from deepband.errors import SpaceError, shown
from deepband.space import distributions
from deepband.space.choices import mapped, wrapped

SPELLING = (
    "write (low, high) or (low, high, 'log') for a range, a list for choices, "
    "a plain value for a constant, a ConfigSpace hyperparameter, or a distribution of SciPy or "
    "Optuna."
)
LARGEST = 2**62
"""Sampling from larger ranges would overflow."""


def read_space(given: object) -> ConfigurationSpace:
    """A copy of a space, or the space that a dict in the short notation describes."""
    if isinstance(given, ConfigurationSpace):  # a copy, which the user cannot change later
        described = mapped(given.to_serialized_dict(), wrapped)
        space = ConfigurationSpace.from_serialized_dict(described)
    elif isinstance(given, Mapping):
        space = ConfigurationSpace()
        space.add(_parameters(given))
    else:
        raise SpaceError(
            f"{shown(given)} ({type(given).__name__}) is not a space: give a dict or a "
            f"ConfigSpace.ConfigurationSpace. In a dict, {SPELLING}"
        )
    if len(space) == 0:
        raise SpaceError("the space has no parameters: give at least one, as {'lr': (0.1, 1.0)}.")
    return space


def _parameters(given: Mapping[str, Any]) -> Iterable[Hyperparameter[Any, Any]]:
    for name, spelled in given.items():
        if not isinstance(name, str) or not name:
            raise SpaceError(f"{name!r} is not a parameter name: give a text that is not empty.")
        try:
            yield _parameter(name, spelled)
        except SpaceError:
            raise
        except (ValueError, TypeError, OverflowError) as error:
            raise SpaceError(f"parameter {name!r} is {shown(spelled)}: {error}") from error


def _parameter(name: str, spelled: Any) -> Hyperparameter[Any, Any]:
    spelled = _without_numpy(distributions.spelled(name, spelled))
    if isinstance(spelled, Hyperparameter):
        if spelled.name != name:
            raise SpaceError(f"parameter {name!r} is a hyperparameter named {spelled.name!r}.")
        return spelled
    if isinstance(spelled, tuple):
        low, high, log = _range(name, spelled)
        if isinstance(low, Integral) and isinstance(high, Integral):
            return UniformIntegerHyperparameter(name, int(low), int(high), log=log)
        return UniformFloatHyperparameter(name, float(low), float(high), log=log)
    if isinstance(spelled, list):
        if not spelled:
            raise SpaceError(f"parameter {name!r} has no choices: {SPELLING}")
        *ends, scale = spelled
        if isinstance(scale, str) and scale == "log" and len(ends) == 2 and _are_numbers(ends):
            raise SpaceError(
                f"parameter {name!r} is {shown(spelled)}, a list of choices: write a range as a "
                f"tuple, {shown(tuple(spelled))}."
            )
        return CategoricalHyperparameter(name, list(map(wrapped, spelled)))
    if isinstance(spelled, Mapping | set | frozenset | range):
        raise SpaceError(f"parameter {name!r} is {shown(spelled)}: {SPELLING}")
    return Constant(name, wrapped(spelled))


def _without_numpy(spelled: Any) -> Any:
    """An array as a list of choices, and choices with plain numbers."""
    if getattr(spelled, "shape", ()) and hasattr(spelled, "tolist"):
        return spelled.tolist()
    if isinstance(spelled, list):
        return [_plain_choice(each) for each in spelled]
    return spelled


def _plain_choice(choice: Any) -> Any:
    """A choice with NumPy scalars replaced by numbers."""
    if getattr(choice, "shape", None) == () and hasattr(choice, "item"):
        return choice.item()
    if type(choice) in (list, tuple):
        plain = type(choice)(map(_plain_choice, choice))
        return choice if all(map(operator.is_, choice, plain)) else plain
    if type(choice) is dict:
        held = {key: _plain_choice(each) for key, each in choice.items()}
        return choice if all(map(operator.is_, choice.values(), held.values())) else held
    return choice


def _is_number(bound: Any) -> bool:
    """Whether a bound is a real number, small enough to compute with."""
    is_real = isinstance(bound, Real) and not isinstance(bound, bool)
    return is_real and bool(-LARGEST < bound < LARGEST)


def _are_numbers(bounds: Sequence[Any]) -> bool:
    return all(map(_is_number, bounds))


def _range(name: str, spelled: Sequence[Any]) -> tuple[Any, Any, bool]:
    """The (low, high, is logarithmic) of a range given as a tuple."""
    bounds, scale = spelled[:2], list(spelled[2:])
    if len(bounds) < 2 or not _are_numbers(bounds) or scale not in ([], ["log"]):
        raise SpaceError(f"parameter {name!r} is {shown(spelled)}: {SPELLING}")
    low, high = bounds
    if low >= high:
        raise SpaceError(
            f"parameter {name!r} is {shown(spelled)}: the low end must be below the high end; "
            "write a plain value for a constant."
        )
    if scale and low <= 0:
        raise SpaceError(
            f"parameter {name!r} is {shown(spelled)}: 'log' needs a low end above zero."
        )
    return low, high, bool(scale)
