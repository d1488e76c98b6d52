"""`param_distributions` as a space: a dict, or a list of dicts of which each candidate takes one.

As in scikit-learn's RandomizedSearchCV, one of the dicts is drawn first, then its parameters. In
the study the drawn dict is the parameter "param_distributions", by its number, and the parameter C
of dict 0 is named "0:C".
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from deepband.core.facts import Config
from deepband.errors import InputError, shown
from deepband.space.search_space import Space

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace

WHICH = "param_distributions"


def space_of(given: Any) -> Any:
    """The space of a search, as `open_study` takes it."""
    if not isinstance(given, list | tuple):
        return given
    if not given or not all(isinstance(each, Mapping) for each in given):
        raise InputError(
            f"param_distributions is {shown(given)}: give a dict, or a list of dicts with one or "
            "more of them."
        )
    return given[0] if len(given) == 1 else _one_of(given)


def parameters_of(given: Any, config: Config) -> Config:
    """The estimator's parameters of a config that was drawn from the space of `given`."""
    if not isinstance(given, list | tuple) or len(given) == 1:
        return dict(config)
    return {name.partition(":")[2]: value for name, value in config.items() if name != WHICH}


def _one_of(given: Any) -> ConfigurationSpace:
    from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, EqualsCondition

    joined = ConfigurationSpace()
    which = CategoricalHyperparameter(WHICH, list(range(len(given))))
    joined.add(which)
    for number, each in enumerate(given):
        named = {f"{number}:{name}": spelled for name, spelled in each.items()}
        parameters = list(Space(named).configspace.values()) if named else []
        joined.add(parameters)
        joined.add([EqualsCondition(parameter, which, number) for parameter in parameters])
    return joined
