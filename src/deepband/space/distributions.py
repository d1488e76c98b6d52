"""Distributions of SciPy and Optuna as parameters of a space.

They are recognised by the module and the name of their class, so that neither library is imported
for a space without them. A distribution that cannot be sampled exactly is refused.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from typing import Any

from deepband.errors import SpaceError, shown

ACCEPTED = (
    "scipy.stats.uniform(loc, scale), loguniform(a, b), randint(low, high), truncnorm(a, b, loc, "
    "scale) and beta(a, b) with a and b of 1 or more, or Optuna's FloatDistribution, "
    "IntDistribution and CategoricalDistribution"
)
MOST_STEPS = 10_000
"""How many values a range with a step may have: all of them are stored."""


def spelled(name: str, given: Any) -> Any:
    """A distribution in the short notation of spaces or as a ConfigSpace hyperparameter. Anything
    else is returned unchanged."""
    for known in type(given).__mro__:
        if known.__module__ == "optuna.distributions" and known.__name__ in _OPTUNA:
            return _OPTUNA[known.__name__](name, given)
    library = type(given).__module__.split(".")
    if library[:2] == ["scipy", "stats"]:
        return _scipy(name, given)
    if library[:2] == ["optuna", "distributions"]:
        raise _refused(name, given)
    return given


def _refused(name: str, given: Any, why: str = "this distribution is not supported") -> Exception:
    return SpaceError(f"parameter {name!r} is {_text(given)}: {why}. Supported are {ACCEPTED}.")


def _text(given: Any) -> str:
    """A frozen distribution as source code; the repr of SciPy only shows its address."""
    if not hasattr(given, "dist"):
        return shown(given)
    arguments = [shown(each) for each in given.args]
    arguments += [f"{key}={shown(value)}" for key, value in given.kwds.items()]
    return f"scipy.stats.{given.dist.name}({', '.join(arguments)})"


def _scipy(name: str, given: Any) -> Any:
    if not hasattr(given, "dist"):
        raise _refused(name, given, "call it with its parameters first")
    read = _SCIPY.get(given.dist.name)
    if read is None:
        raise _refused(name, given)
    low, high = map(float, given.support())
    if not (math.isfinite(low) and math.isfinite(high)):
        raise _refused(name, given, "its values are unbounded")
    return read(name, given, low, high)


def _arguments(given: Any) -> dict[str, Any]:
    """The arguments given to a frozen distribution, by name."""
    shapes = given.dist.shapes.split(", ") if given.dist.shapes else []
    return {**dict(zip([*shapes, "loc", "scale"], given.args, strict=False)), **given.kwds}


def _loguniform(name: str, given: Any, low: float, high: float) -> Any:
    if _arguments(given).get("loc", 0) != 0:
        raise _refused(name, given, "with a loc it is not uniform in the logarithm")
    return low, high, "log"


def _truncnorm(name: str, given: Any, low: float, high: float) -> Any:
    from ConfigSpace.hyperparameters import NormalFloatHyperparameter

    known = _arguments(given)
    return NormalFloatHyperparameter(name, known.get("loc", 0), known.get("scale", 1), low, high)


def _beta(name: str, given: Any, low: float, high: float) -> Any:
    from ConfigSpace.hyperparameters import BetaFloatHyperparameter

    known = _arguments(given)
    if min(known["a"], known["b"]) < 1:
        raise _refused(name, given, "its density is unbounded if a or b is below 1")
    return BetaFloatHyperparameter(name, known["a"], known["b"], low, high)


_SCIPY: dict[str, Callable[[str, Any, float, float], Any]] = {
    "uniform": lambda name, given, low, high: (low, high),
    "loguniform": _loguniform,
    "reciprocal": _loguniform,
    "randint": lambda name, given, low, high: _whole(int(low), int(high)),
    "truncnorm": _truncnorm,
    "beta": _beta,
}


def _whole(low: int, high: int, log: bool = False) -> Any:
    """A range of integers, or the only one in it."""
    if low == high:
        return low
    return (low, high, "log") if log else (low, high)


def _float(name: str, given: Any) -> Any:
    if given.low == given.high:
        return given.low
    if given.step is not None:
        return _ladder(name, given, float)
    return (given.low, given.high, "log") if given.log else (given.low, given.high)


def _int(name: str, given: Any) -> Any:
    if given.step != 1 and given.low != given.high:
        return _ladder(name, given, int)
    return _whole(given.low, given.high, given.log)


def _ladder(name: str, given: Any, kind: type[int] | type[float]) -> Any:
    """The values of a range with a step, computed as decimals: 0.3 rather than
    0.30000000000000004."""
    from ConfigSpace.hyperparameters import OrdinalHyperparameter

    low, high, step = (Decimal(str(each)) for each in (given.low, given.high, given.step))
    count = int((high - low) / step) + 1
    if count > MOST_STEPS:
        raise SpaceError(
            f"parameter {name!r} is {shown(given)}: its step gives {count:,} values, more than "
            f"{MOST_STEPS:,}. Give a larger step, or none."
        )
    return OrdinalHyperparameter(name, [kind(low + number * step) for number in range(count)])


_OPTUNA: dict[str, Callable[[str, Any], Any]] = {
    "FloatDistribution": _float,
    "IntDistribution": _int,
    "CategoricalDistribution": lambda name, given: list(given.choices),
}
