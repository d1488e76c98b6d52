"""Search spaces: ConfigSpace in, plain dict configs out.

A space is a `ConfigSpace.ConfigurationSpace` or a dict in a short notation:

    {
        "lr": (1e-4, 1e-1, "log"),        a float, uniform in the logarithm
        "dropout": (0.0, 0.5),            a float; either bound a float makes it one
        "layers": (1, 8),                 an int, both bounds included
        "units": (16, 1024, "log"),       an int, uniform in the logarithm
        "optimizer": ["adam", "sgd"],     one of the choices, of any type
        "epochs_per_cycle": 10,           a constant
    }

A value may also be any ConfigSpace hyperparameter, or one of the SciPy and Optuna distributions in
`deepband.space.distributions`. ConfigSpace takes a second to import, so it is imported when the
first space is created.
"""

from __future__ import annotations

import operator
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property
from itertools import repeat
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from deepband.core.facts import Config
from deepband.errors import SpaceError, shown
from deepband.space import distributions
from deepband.space.choices import mapped, position, unwrapped, wrapped

if TYPE_CHECKING:
    import numpy as np
    from ConfigSpace import ConfigurationSpace
    from ConfigSpace.hyperparameters import Hyperparameter
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float64]
    """One row per parameter and one column per config, in ConfigSpace's vector form; NaN is
    inactive."""

SPELLING = (
    "write (low, high) or (low, high, 'log') for a range, a list for choices, "
    "a plain value for a constant, a ConfigSpace hyperparameter, or a distribution of SciPy or "
    "Optuna."
)
MOST_TRIES = 1000
LARGEST = 2**62
"""Sampling from larger ranges would overflow."""


class Space:
    """An immutable search space."""

    @classmethod
    def of(cls, given: Space | ConfigurationSpace | Mapping[str, Any]) -> Space:
        """The given space, converted unless it is a `Space`, which any number of studies share."""
        return given if isinstance(given, Space) else cls(given)

    def __init__(self, given: ConfigurationSpace | Mapping[str, Any]) -> None:
        self.configspace = _configspace(given)
        self._parameters = list(self.configspace.values())
        self._conditions = {
            row: conditions
            for row, name in enumerate(self.configspace)
            if (conditions := self.configspace.parent_conditions_of[name])
        }
        self._forbidden = self.configspace.forbidden_clauses

    @property
    def size(self) -> int | float:
        """The most different configs that exist; infinite if any parameter is continuous."""
        return self.configspace.estimate_size()

    @cached_property
    def description(self) -> Mapping[str, Any]:
        """The space as plain data, from which `Space.described` creates it again."""
        return mapped(self.configspace.to_serialized_dict(), unwrapped)

    @classmethod
    def described(cls, description: Mapping[str, Any]) -> Space:
        """The space of a `description`."""
        from ConfigSpace import ConfigurationSpace

        # A copy, because ConfigSpace modifies what it reads.
        return cls(ConfigurationSpace.from_serialized_dict(mapped(description, wrapped)))

    def difference(self, other: Space) -> str | None:
        """The first parameter or clause that differs in another space, in words, or None."""
        mine, theirs = self.configspace, other.configspace
        for name in sorted({*mine, *theirs}):
            old, new = mine.get(name), theirs.get(name)
            if old != new:
                return f"parameter {name!r} was {old or 'not there'}, now {new or 'not there'}"
        for what in ("conditions", "forbidden_clauses"):
            was, now = (sorted(map(str, getattr(each, what))) for each in (mine, theirs))
            if was != now:
                return f"{what.replace('_', ' ')} were {was}, now {now}"
        return None

    def vectors(self, count: int, random: np.random.RandomState) -> Matrix:
        """Exactly `count` valid configs as columns, sampled from the priors of the space.

        They depend on `random` and `count` alone: vectors are sampled `count` at a time, without
        those that a forbidden clause excludes, until there are enough.
        """
        import numpy as np

        kept: list[Matrix] = []
        for _ in range(MOST_TRIES):
            rows = [parameter.sample_vector(count, seed=random) for parameter in self._parameters]
            matrix = np.array(rows, dtype=np.float64)
            kept.append(matrix[:, self.settle(matrix)])
            if sum(matrix.shape[1] for matrix in kept) >= count:
                return np.concatenate(kept, axis=1)[:, :count]
        found = sum(matrix.shape[1] for matrix in kept)
        raise SpaceError(
            f"of {MOST_TRIES * count} configs sampled from the space, its forbidden clauses allow "
            f"{found}. Restrict the space by ranges and conditions instead."
        )

    def settle(self, matrix: Matrix) -> NDArray[np.bool_]:
        """Set inactive parameters to NaN, and return which columns no clause forbids."""
        import numpy as np

        # Parents come before their children, so one pass settles chains of conditions.
        for row in self._conditions:
            self.settle_row(row, matrix)
        forbidden = np.zeros(matrix.shape[1], dtype=np.bool_)
        for clause in self._forbidden:
            forbidden |= clause.is_forbidden_vector_array(matrix)
        return ~forbidden

    def settle_row(self, row: int, matrix: Matrix) -> None:
        """Set one parameter to NaN where it is inactive, given the parameters before it."""
        import numpy as np

        for condition in self._conditions.get(row, ()):
            matrix[row, ~condition.satisfied_by_vector_array(matrix)] = np.nan

    def config(self, given: Mapping[str, Any]) -> Config:
        """A user's config in plain values, as the space would have sampled it. Raises SpaceError if
        a parameter is missing, unknown or out of range."""
        from ConfigSpace import Configuration

        try:
            values = {
                name: _plain_value(self.configspace[name], value) for name, value in given.items()
            }
            legal = {name: wrapped(value) for name, value in values.items()}
            Configuration(self.configspace, values=legal)
        except (ValueError, TypeError, KeyError, AttributeError) as error:
            from deepband.space.config_problems import problem

            why = problem(self.configspace, given, error)
            raise SpaceError(f"{shown(given)} is not a config of the space: {why}") from error
        return {name: values[name] for name in self.configspace if name in values}

    def value(self, name: str, given: Any) -> Any:
        """A user's value of one parameter, as the space would have sampled it."""
        return _plain_value(self.configspace[name], given)

    def has(self, config: Mapping[str, Any]) -> bool:
        """Whether a config belongs to the space."""
        try:
            self.config(config)
        except SpaceError:
            return False
        return True

    def configs(self, matrix: Matrix) -> list[Config]:
        """The columns of a matrix as plain dicts, without inactive parameters."""
        import numpy as np

        names = list(self.configspace)
        active = ~np.isnan(matrix)
        complete = active.all()
        if not complete:
            lowers = [[parameter.lower_vectorized] for parameter in self._parameters]
            matrix = np.where(active, matrix, lowers)
        vectors = zip(self._parameters, matrix, strict=True)
        rows = zip(*[_values(parameter, row) for parameter, row in vectors], strict=True)
        if complete:
            return list(map(dict, map(zip, repeat(names), rows)))
        return [
            {name: value for name, value, on in zip(names, values, present, strict=True) if on}
            for values, present in zip(rows, active.T.tolist(), strict=True)
        ]


def _values(parameter: Hyperparameter[Any, Any], row: NDArray[Any]) -> list[Any]:
    """A parameter's values as Python objects; choices are the user's own objects."""
    listed = choices(parameter)
    if len(listed) == 1:  # such as that of a constant, which is not numbered
        return listed * len(row)
    if listed:
        return [listed[int(number)] for number in row]
    values: list[Any] = parameter.to_value(row).tolist()
    return values


def _plain_value(parameter: Hyperparameter[Any, Any], value: Any) -> Any:
    """A value as `_values` would return it: one of the choices, or a plain number."""
    from ConfigSpace.hyperparameters import FloatHyperparameter, IntegerHyperparameter

    is_number = isinstance(value, Real) and not isinstance(value, bool)
    if isinstance(parameter, FloatHyperparameter) and is_number:
        return float(value)
    if isinstance(parameter, IntegerHyperparameter) and is_number and isinstance(value, Integral):
        return int(value)
    listed = choices(parameter)
    try:
        return listed[position(listed, value)]
    except ValueError:
        raise ValueError(f"{parameter.name!r} cannot be {value!r}") from None


def choices(parameter: Any) -> list[Any]:
    """The choices of a parameter, as the user gave them; none for a range."""
    for name in ("choices", "sequence"):
        if hasattr(parameter, name):
            return [unwrapped(each) for each in getattr(parameter, name)]
    return [unwrapped(parameter.value)] if hasattr(parameter, "value") else []


def _configspace(given: object) -> ConfigurationSpace:
    from ConfigSpace import ConfigurationSpace

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
    from ConfigSpace.hyperparameters import (
        CategoricalHyperparameter,
        Constant,
        Hyperparameter,
        UniformFloatHyperparameter,
        UniformIntegerHyperparameter,
    )

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


def _range(name: str, spelled: Sequence[Any]) -> tuple[Any, Any, bool]:
    """The (low, high, is logarithmic) of a range given as a tuple."""
    bounds, scale = spelled[:2], list(spelled[2:])
    if len(bounds) < 2 or not all(map(_is_number, bounds)) or scale not in ([], ["log"]):
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
