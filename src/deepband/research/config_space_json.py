"""Search spaces in ConfigSpace's JSON format 0.2, which ConfigSpace 1 does not read."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace
    from ConfigSpace.conditions import Condition
    from ConfigSpace.hyperparameters import Hyperparameter


def read_space(described: Mapping[str, Any], without: Collection[str]) -> ConfigurationSpace:
    """Return the described space without some parameters.

    Raises KeyError or ValueError if the description has another format, a condition on a parameter
    that is left out, or a forbidden clause.
    """
    from ConfigSpace import ConfigurationSpace

    if described["json_format_version"] != 0.2:
        raise ValueError(f"its json_format_version is {described['json_format_version']}, not 0.2")
    if described["forbiddens"]:
        raise ValueError("it has forbidden clauses, which are not supported")
    space = ConfigurationSpace()
    space.add(
        _parameter(each) for each in described["hyperparameters"] if each["name"] not in without
    )
    space.add(_condition(space, each) for each in described["conditions"])
    return space


def _parameter(described: Mapping[str, Any]) -> Hyperparameter[Any, Any]:
    from ConfigSpace.hyperparameters import (
        CategoricalHyperparameter,
        UniformFloatHyperparameter,
        UniformIntegerHyperparameter,
    )

    name, kind = described["name"], described["type"]
    if kind == "categorical":
        return CategoricalHyperparameter(name, described["choices"])
    low, high, log = described["lower"], described["upper"], described["log"]
    if kind == "uniform_int":
        return UniformIntegerHyperparameter(name, low, high, log=log)
    if kind == "uniform_float":
        return UniformFloatHyperparameter(name, low, high, log=log)
    raise ValueError(f"parameter {name!r} is of type {kind!r}, which is not supported")


def _condition(space: ConfigurationSpace, described: Mapping[str, Any]) -> Condition:
    from ConfigSpace.conditions import EqualsCondition, InCondition

    child, parent, kind = described["child"], described["parent"], described["type"]
    if kind == "EQ":
        return EqualsCondition(space[child], space[parent], described["value"])
    if kind == "IN":
        return InCondition(space[child], space[parent], described["values"])
    raise ValueError(f"the condition of {child!r} is of type {kind!r}, which is not supported")
