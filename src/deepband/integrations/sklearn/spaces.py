"""`param_distributions` as a search space: a dict, or a list of dicts.

As in scikit-learn's RandomizedSearchCV, each candidate samples one of the dicts first, then its
parameters. In the study, the number of the dict is the parameter "param_distributions", and the
parameter C of dict 0 is named "0:C".
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
    """The space of a search, as `open_study` accepts it."""
    if not isinstance(given, list | tuple):
        return given
    if not given or not all(isinstance(each, Mapping) for each in given):
        raise InputError(
            f"param_distributions is {shown(given)}: give a dict, or a list of one or more dicts."
        )
    return given[0] if len(given) == 1 else _one_of(given)


def parameters_of(given: Any, config: Config) -> Config:
    """The parameters of the estimator in a config."""
    if not isinstance(given, list | tuple) or len(given) == 1:
        return dict(config)
    return {name.partition(":")[2]: value for name, value in config.items() if name != WHICH}


def _one_of(given: Any) -> ConfigurationSpace:
    from ConfigSpace import CategoricalHyperparameter, ConfigurationSpace, EqualsCondition

    joined = ConfigurationSpace()
    which = CategoricalHyperparameter(WHICH, list(range(len(given))))
    joined.add(which)
    for number, each in enumerate(given):
        named = {f"{number}:{name}": values for name, values in each.items()}
        parameters = list(Space(named).configspace.values()) if named else []
        joined.add(parameters)
        joined.add([EqualsCondition(parameter, which, number) for parameter in parameters])
    return joined
