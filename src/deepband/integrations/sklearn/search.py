"""DeepbandSearchCV: a search of scikit-learn that can go on with a larger budget."""

from __future__ import annotations

import copy
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import clone, is_classifier
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state
from sklearn.utils.validation import _num_samples, check_is_fitted

from deepband.errors import InputError
from deepband.integrations.sklearn import same, tables
from deepband.integrations.sklearn.continuing import Continued
from deepband.integrations.sklearn.resources import Resource, resource_of
from deepband.integrations.sklearn.rounds import Rounds
from deepband.integrations.sklearn.same import whole
from deepband.opening import Settings, check_same, open_study, reopen
from deepband.report import Plan, plan, plan_of
from deepband.samplers import SamplerName
from deepband.schedule import Schedule
from deepband.storage import MemoryStorage
from deepband.strategies import StrategyName
from deepband.study import Study


class DeepbandSearchCV(BaseSearchCV):  # type: ignore[misc] # scikit-learn ships no types
    """Hyperband over an estimator's parameters, which `deepen` goes on with.

    `resource` is what a budget buys: "n_samples", the name of a parameter such as "n_estimators",
    or "partial_fit", which counts calls and goes on training from the rung below. Resources lie
    between `min_resources` ("smallest": 1, or twice a fold's classes for samples) and
    `max_resources` ("auto": all samples), with `factor` times as much from rung to rung.

    `fit` runs Hyperband. `deepen(X, y)` goes on with `factor` times the resources, or to
    `max_resources`, and re-uses every evaluation, as does `fit` with `warm_start=True` and larger
    `max_resources`; both want the data of before. `strategy` says who goes up a rung then.
    `sampler` says where candidates come from: "uniform" unless it names another.

    `study` is the path of a study file, for these data and settings alone: `fit` goes on after what
    it holds, interrupted or not, and `deepband serve` shows it. `study_` is the study itself,
    `plan_` its schedule.

    `cv_results_` has a row for every evaluation, with `iter`, `n_resources`, `bracket` and `run`.
    `best_*` come from the highest resource, and the best estimator is fitted again with
    `max_resources`. With several metrics, `refit` names the one that decides.
    """

    def __init__(
        self,
        estimator: Any,
        param_distributions: Any,
        *,
        resource: str = "n_samples",
        factor: int = 3,
        min_resources: Any = "smallest",
        max_resources: Any = "auto",
        strategy: StrategyName = "preserving",
        sampler: SamplerName | None = None,
        warm_start: bool = False,
        cv: Any = None,
        scoring: Any = None,
        refit: Any = True,
        n_jobs: int | None = None,
        random_state: Any = None,
        study: str | os.PathLike[str] | None = None,
        error_score: Any = np.nan,
        return_train_score: bool = False,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            estimator,
            scoring=scoring,
            n_jobs=n_jobs,
            refit=refit,
            cv=cv,
            verbose=verbose,
            error_score=error_score,
            return_train_score=return_train_score,
        )
        self.param_distributions = param_distributions
        self.resource = resource
        self.factor = factor
        self.min_resources = min_resources
        self.max_resources = max_resources
        self.strategy = strategy
        self.sampler = sampler
        self.warm_start = warm_start
        self.random_state = random_state
        self.study = study

    def fit(self, X: Any, y: Any = None, **params: Any) -> DeepbandSearchCV:
        """Run Hyperband on the data; with `warm_start`, go on with larger `max_resources`."""
        going_on = self.warm_start and hasattr(self, "_study")
        with self._opened(X, y, params, going_on) as study:
            self._search(study, X, y, params, self.strategy, self._largest(X))
        return self

    def deepen(
        self,
        X: Any,
        y: Any = None,
        *,
        strategy: StrategyName | None = None,
        max_resources: int | None = None,
        **params: Any,
    ) -> DeepbandSearchCV:
        """Go on with more resources, `factor` times as much as this search last had unless
        `max_resources` says how much, on the same data. Everything that was evaluated is re-used.
        A script that is run again with its study file does nothing twice."""
        check_is_fitted(self)
        if self.study is not None and not Path(self.study).exists():
            raise InputError(f"the study {self.study} is gone: put it back, or fit again.")
        with self._opened(X, y, params, going_on=True) as study:
            to = max_resources or self._asked * self.factor
            self._check_enough(X, to)
            self._search(study, X, y, params, strategy or self.strategy, to)
        return self

    @property
    def study_(self) -> Study:
        """The study, to look at: quotes, explanations, plots."""
        check_is_fitted(self)
        return self._study

    @property
    def plan_(self) -> Plan:
        """How many candidates get how many resources. It is known before `fit` unless it depends
        on the data."""
        if hasattr(self, "_study"):
            return plan(self._study.state)
        smallest = self.min_resources == "smallest"
        if self.max_resources == "auto" or (smallest and self.resource == "n_samples"):
            raise AttributeError(
                "the plan depends on the data: fit first, or give min_resources and max_resources."
            )
        low = 1 if smallest else whole("min_resources", self.min_resources)
        high = whole("max_resources", self.max_resources)
        return plan_of(Schedule.of(self.factor, low, high), whole=True)

    def __sklearn_is_fitted__(self) -> bool:
        return hasattr(self, "_study")

    def get_metadata_routing(self) -> Any:
        """As of every search; with "partial_fit", metadata of `fit` go to that method."""
        searching = copy.copy(self)
        if self.resource == "partial_fit" and not isinstance(self.estimator, Continued):
            searching.estimator = Continued(self.estimator)
        return BaseSearchCV.get_metadata_routing(searching)

    def __getstate__(self) -> dict[str, Any]:
        """The study travels as its facts."""
        state = dict(super().__getstate__())
        if "_study" in state:
            state["_study"] = list(self._study.storage.load())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_study" in state:
            state = {**state, "_study": reopen(MemoryStorage(state["_study"]))}
        super().__setstate__(state)

    # Within

    @contextmanager
    def _opened(self, X: Any, y: Any, params: Any, going_on: bool) -> Iterator[Study]:
        """The study to run, which knows these data. One in a file is let go of afterwards."""
        study = self._study if going_on and self.study is None else self._open(X, y)
        try:
            name = same.name_of(self, X, y, params)
            if study.objective not in (None, name):
                raise InputError(
                    f"the study evaluated {study.objective}, and this is {name}: go on with the "
                    "same data, estimator, cv, scoring and resource, or start another study."
                )
            check_same(study.state.created, self._given())
            study.name_objective(name)
            yield study
        finally:
            if self.study is not None:
                study.close()

    def _open(self, X: Any, y: Any) -> Study:
        settings = self._given()
        if self.study is None or not Path(self.study).exists():
            settings["max_budget"] = self._largest(X)
            settings["min_budget"] = self._smallest(X, y)
            settings["seed"] = int(check_random_state(self.random_state).randint(2**31))
        return open_study(self.study, **settings)

    def _given(self) -> Settings:
        """What a study must have been made with to be gone on with."""
        low = self.min_resources
        return Settings(
            space=self.param_distributions,
            max_budget=None,
            min_budget=None if low == "smallest" else whole("min_resources", low),
            eta=self.factor,
            seed=None,
            maximize=True,
            integer_budgets=True,
            sampler=self.sampler,
        )

    def _largest(self, X: Any) -> int:
        if self.max_resources != "auto":
            self._check_enough(X, self.max_resources)
            return whole("max_resources", self.max_resources)
        if self.resource != "n_samples":
            raise InputError(f"max_resources is 'auto': say how large {self.resource!r} may get.")
        return int(_num_samples(X))

    def _smallest(self, X: Any, y: Any) -> int:
        if self.min_resources != "smallest":
            return whole("min_resources", self.min_resources)
        if self.resource != "n_samples":
            return 1
        classes = (
            len(np.unique(np.asarray(y))) if y is not None and is_classifier(self.estimator) else 1
        )
        splits = getattr(self.cv, "n_splits", self.cv if isinstance(self.cv, int) else 5)
        return min(2 * splits * classes, int(_num_samples(X)))

    def _check_enough(self, X: Any, wanted: float) -> None:
        if self.resource == "n_samples" and wanted > _num_samples(X):
            raise InputError(
                f"there are {_num_samples(X)} samples, and max_resources would be {wanted}."
            )

    def _search(
        self, study: Study, X: Any, y: Any, params: Any, strategy: StrategyName, to: float
    ) -> None:
        """Run the study to its end, at `to`, and tell what it found."""
        metric, created = self._metric(), study.state.created
        if self.resource in study.space.configspace:
            raise InputError(f"{self.resource!r} is the resource: take it out of the space.")
        folder = study.files / "models" / created.study
        resource = resource_of(self.resource, self.estimator, y, folder, created.seed)
        inner = copy.copy(self)
        inner.cv = same.splitter(self, y)
        if study.done:
            study.deepen(strategy, to=to)
        inner.refit, inner.estimator = False, resource.estimator
        inner._rounds = Rounds(study, resource, inner.cv, metric, strategy, to)
        if not study.done:
            BaseSearchCV.fit(inner, X, y, **params)
            for name in ("n_splits_", "scorer_", "multimetric_"):
                setattr(self, name, getattr(inner, name))
        elif not hasattr(self, "scorer_"):
            self._take_scorers(inner, X, y, params)
        self._study, self._asked = study, to
        self._conclude(resource, metric, X, y, inner._get_routed_params_for_fit(params))

    def _metric(self) -> str:
        """Which score decides."""
        if isinstance(self.scoring, list | tuple | dict | set):
            if not isinstance(self.refit, str) or self.refit not in self.scoring:
                raise InputError("with several metrics, refit names the one that decides.")
            return self.refit
        return self.refit if callable(self.scoring) and isinstance(self.refit, str) else "score"

    def _run_search(self, evaluate_candidates: Any) -> None:
        self._rounds.run(evaluate_candidates)

    def _take_scorers(self, inner: Any, X: Any, y: Any, params: Any) -> None:
        """What `fit` would have set, had there been anything left to evaluate."""
        scorers = inner._get_scorers()[0]
        self.multimetric_ = hasattr(scorers, "_scorers")
        self.scorer_ = scorers._scorers if self.multimetric_ else scorers
        self.n_splits_ = inner.cv.get_n_splits(X, y, params.get("groups"))

    def _conclude(self, resource: Resource, metric: str, X: Any, y: Any, routed: Any) -> None:
        """The table, the best of it, and the best estimator."""
        study = self._study
        self.n_resources_ = [int(budget) for budget in study.state.run.budgets]
        self.cv_results_ = tables.cv_results(study.evaluations, resource)
        if callable(self.refit):
            self.best_index_ = int(self.refit(self.cv_results_))
        else:
            self.best_index_ = tables.best_row(self.cv_results_, metric)
            self.best_score_ = self.cv_results_[f"mean_test_{metric}"][self.best_index_]
        self.best_params_ = self.cv_results_["params"][self.best_index_]
        if self.refit is not False:
            start = time.time()
            chosen = clone(self.best_params_, safe=False)
            largest, given = self.n_resources_[-1], routed.estimator.fit
            self.best_estimator_ = resource.refit(chosen, largest, X, y, given)
            self.refit_time_ = time.time() - start
            if hasattr(self.best_estimator_, "feature_names_in_"):
                self.feature_names_in_ = self.best_estimator_.feature_names_in_
