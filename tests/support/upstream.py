"""Scikit-learn's own searches, by name, as DeepbandSearchCV.

As a plugin of pytest (`-p upstream`) it puts these in the place of scikit-learn's before the tests
of scikit-learn are imported. Each takes what the original takes: what has no counterpart here
(`n_iter`, `n_candidates`, `aggressive_elimination`) is accepted and has no effect, and choices that
are tuples, ranges or other sequences become lists.
"""

from __future__ import annotations

import json
import os
from collections.abc import Generator, Iterable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import sklearn.model_selection
from sklearn.experimental import enable_halving_search_cv  # noqa: F401

from deepband.integrations.sklearn import DeepbandSearchCV


def spelled(given: Any) -> Any:
    """What a search of scikit-learn was given, as DeepbandSearchCV takes it."""
    if isinstance(given, list | tuple):
        return [spelled(each) for each in given]
    if not isinstance(given, Mapping):
        return given
    return {name: _choices(value) for name, value in given.items()}


def _choices(value: Any) -> Any:
    is_listed = isinstance(value, Iterable) and not isinstance(value, str)
    return list(value) if is_listed else value


class Adapted(DeepbandSearchCV):
    """A search that keeps what it was given, as `clone` wants it, and translates it in `fit`."""

    candidates = "param_distributions"

    def _take(self, settings: dict[str, Any]) -> None:
        """Take the arguments of the original."""
        own = {"resource", "factor", "max_resources", "min_resources", "random_state"}
        own |= {"estimator", "scoring", "n_jobs", "refit", "cv", "verbose", "error_score"}
        own |= {"return_train_score"}
        passed = {name: value for name, value in settings.items() if name in own}
        DeepbandSearchCV.__init__(self, param_distributions=None, **passed)
        for name, value in settings.items():
            setattr(self, name, value)

    def fit(self, X: Any, y: Any = None, **params: Any) -> DeepbandSearchCV:
        kept = self.param_distributions, self.min_resources, self.random_state
        self.param_distributions = spelled(getattr(self, self.candidates))
        if self.min_resources == "exhaust":
            self.min_resources = "smallest"
        if self.random_state is None:  # a test passes always or never
            self.random_state = 0
        try:
            return super().fit(X, y, **params)
        finally:
            self.param_distributions, self.min_resources, self.random_state = kept


class GridSearchCV(Adapted):
    """Draws from the grid."""

    candidates = "param_grid"

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        scoring: Any = None,
        n_jobs: Any = None,
        refit: Any = True,
        cv: Any = None,
        verbose: Any = 0,
        pre_dispatch: Any = "2*n_jobs",
        error_score: Any = np.nan,
        return_train_score: Any = False,
    ) -> None:
        self._take(_arguments(locals()))


class RandomizedSearchCV(Adapted):
    """Draws as many as Hyperband says."""

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_iter: Any = 10,
        scoring: Any = None,
        n_jobs: Any = None,
        refit: Any = True,
        cv: Any = None,
        verbose: Any = 0,
        pre_dispatch: Any = "2*n_jobs",
        random_state: Any = None,
        error_score: Any = np.nan,
        return_train_score: Any = False,
    ) -> None:
        self._take(_arguments(locals()))


class HalvingGridSearchCV(Adapted):
    """Draws from the grid, in all brackets."""

    candidates = "param_grid"

    def __init__(
        self,
        estimator: Any,
        param_grid: Any,
        *,
        factor: Any = 3,
        resource: Any = "n_samples",
        max_resources: Any = "auto",
        min_resources: Any = "exhaust",
        aggressive_elimination: Any = False,
        cv: Any = 5,
        scoring: Any = None,
        refit: Any = True,
        error_score: Any = np.nan,
        return_train_score: Any = True,
        random_state: Any = None,
        n_jobs: Any = None,
        verbose: Any = 0,
    ) -> None:
        self._take(_arguments(locals()))


class HalvingRandomSearchCV(Adapted):
    """Has all brackets."""

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        n_candidates: Any = "exhaust",
        factor: Any = 3,
        resource: Any = "n_samples",
        max_resources: Any = "auto",
        min_resources: Any = "smallest",
        aggressive_elimination: Any = False,
        cv: Any = 5,
        scoring: Any = None,
        refit: Any = True,
        error_score: Any = np.nan,
        return_train_score: Any = True,
        random_state: Any = None,
        n_jobs: Any = None,
        verbose: Any = 0,
    ) -> None:
        self._take(_arguments(locals()))


def _arguments(names: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in names.items() if name not in ("self", "__class__")}


ADAPTED = (GridSearchCV, RandomizedSearchCV, HalvingGridSearchCV, HalvingRandomSearchCV)

for _search in ADAPTED:
    setattr(sklearn.model_selection, _search.__name__, _search)


OUTCOMES: dict[str, str] = {}
"""Of every test that has run, by its file and name."""


@pytest.hookimpl(wrapper=True)
def pytest_runtest_makereport(
    item: pytest.Item, call: pytest.CallInfo[None]
) -> Generator[None, pytest.TestReport, pytest.TestReport]:
    report = yield
    name = f"{item.path.name}::{item.name}"
    if OUTCOMES.get(name) in (None, "passed"):
        OUTCOMES[name] = report.outcome
    return report


def pytest_sessionfinish() -> None:
    """Leave the outcomes in the file that the environment names."""
    if "UPSTREAM_OUTCOMES" in os.environ:
        Path(os.environ["UPSTREAM_OUTCOMES"]).write_text(json.dumps(OUTCOMES))
