"""Search spaces: ConfigSpace in, plain dict configs out.

Dicts in the short notation are read by `deepband.space.notation`. ConfigSpace takes a second to
import, so it is imported when the first space is created.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cached_property
from itertools import repeat
from numbers import Integral, Real
from typing import TYPE_CHECKING, Any, TypeAlias

from deepband.core.facts import Config
from deepband.errors import SpaceError, shown
from deepband.space.choices import choices, mapped, position, unwrapped, wrapped

if TYPE_CHECKING:
    import numpy as np
    from ConfigSpace import ConfigurationSpace
    from ConfigSpace.hyperparameters import Hyperparameter
    from numpy.typing import NDArray

    Matrix: TypeAlias = NDArray[np.float64]
    """One row per parameter and one column per config, in ConfigSpace's vector form; NaN is
    inactive."""

MOST_TRIES = 1000


class Space:
    """An immutable search space."""

    @classmethod
    def of(cls, given: Space | ConfigurationSpace | Mapping[str, Any]) -> Space:
        """The given space, converted unless it is a `Space`, which any number of studies share."""
        return given if isinstance(given, Space) else cls(given)

    def __init__(self, given: ConfigurationSpace | Mapping[str, Any]) -> None:
        from deepband.space.notation import read_space

        self.configspace = read_space(given)
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
