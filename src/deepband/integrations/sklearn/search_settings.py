"""The parameters of a search as the settings of its study."""

from __future__ import annotations

import re
from collections.abc import Iterator
from contextlib import contextmanager
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier
from sklearn.utils import check_random_state

from deepband.analysis.plan import Plan, plan_of
from deepband.core.exact_numbers import check_count
from deepband.core.schedule import Schedule
from deepband.core.state import State
from deepband.errors import InputError, shown
from deepband.integrations.sklearn.scorers import constraints_of, metrics_of
from deepband.integrations.sklearn.spaces import space_of
from deepband.integrations.sklearn.subsamples import count
from deepband.study.settings import Settings, check_same, open_study
from deepband.study.study import Study

SETTINGS = {"min_budget": "min_resources", "max_budget": "max_resources", "eta": "factor"}
"""The names of settings in a study, and in a search."""

LIMITED = {"n_samples": lambda X, splits: count(X), "folds": lambda X, splits: len(splits)}
"""How much there is of resources that come from the data."""


def open_for(search: Any, X: Any, y: Any, splits: Any) -> Study:
    """Make the study of a search, or open the one in its file."""
    settings = settings_of(search)
    if search.study is None or not Path(search.study).exists():
        settings["max_budget"] = largest_resource(search, X, splits)
        settings["min_budget"] = smallest_resource(search, X, y, splits)
        settings["seed"] = int(check_random_state(search.random_state).randint(2**31))
    else:  # what is scored is compared later, by content
        settings["maximize"] = settings["objectives"] = settings["constraints"] = None
    return open_study(search.study, **settings)


def settings_of(search: Any) -> Settings:
    """The settings that a study must have to be continued by a search."""
    low, brackets = search.min_resources, search.brackets
    several = search.objectives is not None
    return Settings(
        space=space_of(search.param_distributions),
        max_budget=None,
        min_budget=None if low == "smallest" else whole("min_resources", low),
        eta=search.factor,
        seed=None,
        maximize=None if several else True,
        integer_budgets=True,
        sampler=search.sampler,
        width=check_count("width", search.width),
        brackets=None if brackets is None else check_count("brackets", brackets),
        reuse_identical=None,
        objectives=dict.fromkeys(metrics_of(search), "maximize") if several else None,
        constraints=constraints_of(search),  # without any it is empty, and not None: compared
        parallel=check_count("parallel", search.parallel),
    )


def check_settings(search: Any, state: State) -> None:
    """Raise an InputError if the study was created with other settings than those of the search."""
    limit = state.runs[0].schedule.bracket_limit
    if search.brackets is None and limit is not None:  # for a study, None is what is not given
        raise InputError(
            f"the study was created with brackets {limit}, and None is given, which is all "
            f"brackets. Give {limit}, or start another study."
        )
    check_same(state, settings_of(search))


def largest_resource(search: Any, X: Any, splits: Any) -> int:
    """The resources of the top rung of the first run."""
    if search.max_resources != "auto":
        check_enough(search, X, splits, search.max_resources)
        return whole("max_resources", search.max_resources)
    if search.resource not in LIMITED:
        raise InputError(f"max_resources is 'auto': give the largest {search.resource!r}.")
    return LIMITED[search.resource](X, splits)


def smallest_resource(search: Any, X: Any, y: Any, splits: Any) -> int:
    """The least resources of the lowest rung."""
    if search.min_resources != "smallest":
        return whole("min_resources", search.min_resources)
    if search.resource != "n_samples":
        return 1
    labelled = y is not None and is_classifier(search.estimator)
    classes = len(np.unique(np.asarray(y))) if labelled else 1
    return min(2 * len(splits) * classes, count(X))


def check_enough(search: Any, X: Any, splits: Any, wanted: float) -> None:
    """Raise if there are fewer samples or folds than resources, where these are what is counted."""
    if search.resource not in LIMITED or wanted <= LIMITED[search.resource](X, splits):
        return
    if search.resource == "folds":
        raise InputError(
            f"cv has {len(splits)} splits, but max_resources would be {wanted}. Start with a cv of "
            "as many splits as you may need, or try more candidates with widen."
        )
    raise InputError(
        f"there are {count(X)} samples, but max_resources would be {wanted}. Start with fewer "
        "resources to deepen later, or try more candidates with widen."
    )


def plan_before_fit(search: Any) -> Plan:
    """The plan of the first run. Raises AttributeError if it depends on the data."""
    smallest = search.min_resources == "smallest"
    if search.max_resources == "auto" or (smallest and search.resource == "n_samples"):
        raise AttributeError(
            "the plan depends on the data: fit first, or give min_resources and max_resources."
        )
    low = 1 if smallest else whole("min_resources", search.min_resources)
    high = whole("max_resources", search.max_resources)
    with translated_errors():
        sizes = search.width, search.brackets
        return plan_of(Schedule.of(search.factor, low, high, *sizes, whole=True), whole=True)


def whole(name: str, given: Any) -> int:
    """A setting that must be a whole number."""
    if isinstance(given, bool) or not isinstance(given, Integral):
        raise InputError(f"{name} is {shown(given)}: give a whole number.")
    return int(given)


@contextmanager
def translated_errors() -> Iterator[None]:
    """Translate the names of settings in errors to those of the search. Names in quotes are
    parameters of the estimator, which may have one called eta."""
    try:
        yield
    except InputError as error:
        names = rf"(?<![\w'])({'|'.join(SETTINGS)})(?![\w'])"
        text = re.sub(names, lambda found: SETTINGS[found[0]], str(error))
        error.args = (text,)
        raise
