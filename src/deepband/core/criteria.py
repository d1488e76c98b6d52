"""What a study optimises: one objective or several, and bounds on metrics."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from numbers import Real
from typing import Any, Literal, TypeAlias

from deepband.core.facts import JobFinished, Loss
from deepband.errors import InputError, shown

Direction: TypeAlias = Literal["minimize", "maximize"]
Bounds: TypeAlias = tuple[float | None, float | None]
"""The smallest and the largest value that is allowed; None for no bound."""


@dataclass(frozen=True, slots=True)
class Criteria:
    """What is optimised, and within which bounds."""

    maximize: bool = False
    """The direction of a single objective."""
    objectives: tuple[tuple[str, str], ...] = ()
    """The name and the direction of each; empty for a single objective without a name."""
    constraints: tuple[tuple[str, Bounds], ...] = ()
    """The name of each metric that has bounds."""

    @property
    def several(self) -> bool:
        """Whether there are several objectives, so that a loss is a tuple."""
        return len(self.objectives) > 1

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the objectives."""
        return tuple(name for name, _ in self.objectives)

    @property
    def needs_mapping(self) -> bool:
        """Whether a result must be a mapping, because a number alone has no name."""
        return bool(self.objectives or self.constraints)

    @property
    def ranks_by_loss(self) -> bool:
        """Whether the order of configs is that of one number."""
        return not self.several and not self.constraints

    @property
    def value_name(self) -> str:
        """What users call a number in their direction."""
        return "value" if self.maximize else "loss"

    def value(self, loss: float) -> float:
        """The loss of a single objective in the user's direction."""
        return 0.0 - loss if self.maximize else loss

    def minimised(self, name: str, value: float) -> float:
        """The value of an objective as a loss."""
        return 0.0 - value if dict(self.objectives)[name] == "maximize" else value + 0.0

    def values(self, loss: Loss | None) -> dict[str, float]:
        """A loss as the values of the objectives, in the user's direction."""
        if loss is None or not self.objectives:
            return {}
        losses = loss if isinstance(loss, tuple) else (loss,)
        return {
            name: 0.0 - each if direction == "maximize" else each
            for (name, direction), each in zip(self.objectives, losses, strict=True)
        }

    def named_results(self, result: JobFinished) -> dict[str, Any]:
        """What a result has under names, as users see it: several objectives, then metrics."""
        named = self.values(result.loss) if self.several else {}
        return {**named, **(result.metrics or {})}

    def fits(self, loss: Loss | None) -> bool:
        """Whether a loss is a failure, or has as many numbers as there are objectives."""
        if not self.several:
            return not isinstance(loss, tuple)
        return loss is None or (isinstance(loss, tuple) and len(loss) == len(self.objectives))

    def violations(self, loss: Loss | None, metrics: Mapping[str, Any] | None) -> tuple[float, ...]:
        """By constraint: how far the metric is outside its bounds; 0 if it is within."""
        if not self.constraints:
            return ()
        known = {**(metrics or {}), **self.values(loss)}
        return tuple(_violation(known.get(name), *bounds) for name, bounds in self.constraints)


def _violation(value: Any, lower: float | None, upper: float | None) -> float:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    if not number or math.isnan(value):  # no objective returns this: it was imported
        return math.inf
    below = 0.0 if lower is None else lower - float(value)
    above = 0.0 if upper is None else float(value) - upper
    return max(0.0, below, above)


DIRECTIONS = ("minimize", "maximize")
RESERVED = ("loss", "value")
"""What a single objective without a name is called in results."""


def read_criteria(maximize: object, objectives: object, constraints: object) -> Criteria:
    """The criteria that a user gives; None where nothing is given."""
    if maximize not in (None, True, False):
        raise InputError(f"maximize is {shown(maximize)}: give True or False.")
    named = () if objectives is None else _objectives(objectives)
    if named and maximize is not None:
        raise InputError(
            "maximize is given together with objectives, which have their own directions: leave it "
            "out."
        )
    if len(named) == 1:
        maximize = named[0][1] == "maximize"
    bounds = () if constraints is None else _constraints(constraints)
    return Criteria(bool(maximize), named, bounds)


def _objectives(given: object) -> tuple[tuple[str, str], ...]:
    if not isinstance(given, Mapping) or not given:
        raise InputError(
            f"objectives is {shown(given)}: give a mapping from names to directions, such as "
            '{"error": "minimize", "accuracy": "maximize"}.'
        )
    for name, direction in given.items():
        _check_name("an objective", name)
        if not isinstance(direction, str) or direction not in DIRECTIONS:
            raise InputError(
                f"the direction of the objective {name!r} is {shown(direction)}: give 'minimize' "
                "or 'maximize'."
            )
    return tuple(given.items())


def _constraints(given: object) -> tuple[tuple[str, Bounds], ...]:
    if not isinstance(given, Mapping):
        raise InputError(
            f"constraints is {shown(given)}: give a mapping from metrics to bounds, such as "
            '{"memory_mb": (None, 500)}.'
        )
    for name in given:
        _check_name("a constraint", name)
    return tuple((name, read_bounds(name, bounds)) for name, bounds in given.items())


def read_bounds(name: str, given: Any) -> Bounds:
    """The bounds that a user gives for a metric, or an InputError."""
    pair = tuple(given) if isinstance(given, list | tuple) else ()
    valid = len(pair) == 2 and pair != (None, None) and all(map(_is_bound, pair))
    if not valid or (None not in pair and pair[0] > pair[1]):
        raise InputError(
            f"the bounds of {name!r} are {shown(given)}: give (lower, upper), two finite numbers "
            "with lower <= upper, or None in place of one of them for no bound."
        )
    lower, upper = pair
    return None if lower is None else float(lower), None if upper is None else float(upper)


def _is_bound(given: Any) -> bool:
    return given is None or is_finite_number(given)


def is_finite_number(given: Any) -> bool:
    """Whether it is a real number that a float can hold."""
    try:
        number = isinstance(given, Real) and not isinstance(given, bool)
        return number and math.isfinite(float(given))
    except OverflowError:  # a whole number or a fraction beyond the range of a float
        return False


def _check_name(kind: str, name: object) -> None:
    plain = isinstance(name, str) and name and name.isprintable()
    if not plain or name != str(name).encode(errors="ignore").decode():
        raise InputError(f"the name of {kind} is {shown(name)}: give a text.")
    if name in RESERVED:
        raise InputError(
            f"{name!r} cannot be the name of {kind}: it stands for the number of a single "
            "objective without a name. Choose another name."
        )
