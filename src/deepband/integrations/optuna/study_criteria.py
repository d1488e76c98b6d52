"""What an Optuna study optimises, as the settings of a study in deepband."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from deepband.core.criteria import RESERVED
from deepband.errors import InputError, shown

if TYPE_CHECKING:
    from optuna.study import Study as OptunaStudy
    from optuna.trial import FrozenTrial

KEY = "constraints"
"""The system attribute with the numbers of a trial that must not be positive: a list or, from
Optuna 5 on, one attribute per name."""


def criteria_of(given: OptunaStudy, names: Sequence[str] | None) -> dict[str, Any]:
    """The settings `maximize`, `objectives` and `constraints` for an Optuna study."""
    directions = [each.name.lower() for each in given.directions]
    constraints = _constraints(given)
    if names is None and len(directions) == 1:
        return {"maximize": directions[0] == "maximize", "constraints": constraints}
    chosen = _own_names(given) if names is None else _checked(names, len(directions))
    objectives = dict(zip(chosen, directions, strict=True))
    return {"maximize": None, "objectives": objectives, "constraints": constraints}


def restored_criteria(
    objectives: Mapping[str, str],
    constraints: Mapping[str, Any],
    given: OptunaStudy,
    names: Sequence[str] | None,
) -> dict[str, Any]:
    """The same for a study that deepband exported."""
    if names is not None and list(names) != list(objectives):
        raise InputError(
            f"objectives is {shown(names)}, but deepband exported Optuna's study "
            f"{given.study_name!r} with {shown(list(objectives))}: leave it out."
        )
    found: dict[str, Any] = {"constraints": constraints or None}
    if objectives:
        return {**found, "objectives": objectives, "maximize": None}
    return {**found, "maximize": given.direction.name == "MAXIMIZE"}


def _own_names(given: OptunaStudy) -> list[str]:
    """The names of the metrics if they are set, otherwise numbers."""
    named = given.metric_names
    if named is None:
        return [f"objective_{number}" for number in range(len(given.directions))]
    if len(set(named)) < len(named) or set(named) & set(RESERVED):
        raise InputError(
            f"the metrics of Optuna's study {given.study_name!r} are {shown(list(named))}: names "
            f"in deepband must be different and other than {' and '.join(map(repr, RESERVED))}. "
            "Give objectives=, a list with a name for each."
        )
    return list(named)


def _checked(names: Sequence[str], count: int) -> list[str]:
    texts = list(names) if isinstance(names, list | tuple) else []
    plain = all(isinstance(name, str) for name in texts)
    if len(texts) != count or not plain or len(set(texts)) < count:
        raise InputError(
            f"objectives is {shown(names)}: give a list of {count} different names, one for each "
            "direction of Optuna's study."
        )
    return texts


def _constraints(given: OptunaStudy) -> dict[str, tuple[None, float]] | None:
    """Every constraint of any trial: Optuna's are kept if the number is not positive."""
    found: dict[str, tuple[None, float]] = {}
    for trial in given.get_trials(deepcopy=False):
        found |= dict.fromkeys(constraint_values(trial), (None, 0.0))
    return found or None


def constraint_values(trial: FrozenTrial) -> dict[str, float]:
    """The numbers of a trial that must not be positive, by the name of the metric in deepband."""
    attributes = trial.system_attrs
    found = {f"constraint_{n}": float(each) for n, each in enumerate(attributes.get(KEY) or ())}
    prefix = f"{KEY}:"
    named = {name: each for name, each in attributes.items() if name.startswith(prefix)}
    return found | {f"constraint_{n.removeprefix(prefix)}": float(v) for n, v in named.items()}
