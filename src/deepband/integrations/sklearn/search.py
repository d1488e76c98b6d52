"""DeepbandSearchCV: a search of scikit-learn that can go on with a larger budget."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.base import is_classifier

# Scikit-learn documents how to derive from this class, but not where it is: pyproject.toml names
# the newest version of scikit-learn that its own tests were run with.
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import check_random_state, indexable
from sklearn.utils.validation import check_is_fitted

from deepband.analysis.summary import Plan, plan, plan_of
from deepband.core.schedule import Schedule
from deepband.core.strategies import StrategyName
from deepband.errors import InputError
from deepband.integrations.sklearn import fingerprint
from deepband.integrations.sklearn.fingerprint import in_words_of_searches, whole
from deepband.integrations.sklearn.outcomes import NAMES, outcome
from deepband.integrations.sklearn.partial_fit import Continued
from deepband.integrations.sklearn.resources import Resource, resource_of
from deepband.integrations.sklearn.rounds import Rounds
from deepband.integrations.sklearn.scorers import metric_of, scorers_of
from deepband.integrations.sklearn.spaces import parameters_of, space_of
from deepband.integrations.sklearn.subsamples import count
from deepband.samplers import SamplerName
from deepband.storage import MemoryStorage
from deepband.study.settings import Settings, check_same, open_study, reopen
from deepband.study.study import Study


class DeepbandSearchCV(BaseSearchCV):  # type: ignore[misc] # scikit-learn ships no types
    """Hyperband over an estimator's parameters, which `deepen` goes on with.

    `resource` is what a budget buys: "n_samples", the name of a parameter such as "n_estimators",
    or "partial_fit", which counts calls and goes on training from the rung below. Resources lie
    between `min_resources` ("smallest": 1, or twice a fold's classes for samples) and
    `max_resources` ("auto": all samples), with `factor` times as much from rung to rung.

    `param_distributions` is a space of deepband, or a list of dicts of which each candidate draws
    one. `sampler` says where candidates come from: "uniform" unless it names another.

    `fit` runs Hyperband. `deepen(X, y)` continues with `factor` times the resources, or to
    `max_resources`, and reuses every evaluation, as does `fit` with `warm_start=True` and larger
    `max_resources`. Both need the same data, splits, scoring and estimator. `strategy` says which
    candidates are promoted then.

    `study` is the path of a study file, for these data and settings alone: `fit` goes on after what
    it holds, interrupted or not, and `deepband serve` shows it. `study_` is the study itself,
    `plan_` its schedule.

    `cv_results_` has a row for every evaluation, with `iter`, `n_resources`, `bracket` and `run`.
    `best_*` come from the highest resource, and the best estimator is fitted again with
    `max_resources`; where these are fewer than all samples, `refit_indices_` says which. With
    several metrics, `refit` names the one that decides.
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
        if not going_on:
            for name in (*NAMES, "_study"):
                self.__dict__.pop(name, None)
        X, y = indexable(X, y)
        with self._opened(X, y, params, going_on) as (study, splits):
            self._search(study, X, y, splits, params, self.strategy, self._largest(X))
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
        X, y = indexable(X, y)
        with self._opened(X, y, params, going_on=True) as (study, splits):
            to = max_resources or self._asked * self.factor
            self._check_enough(X, to)
            self._search(study, X, y, splits, params, strategy or self.strategy, to)
        return self

    @property
    def study_(self) -> Study:
        """The study, to look at: quotes, explanations, plots. It is there too when a search failed
        in the end."""
        if not hasattr(self, "_study"):
            check_is_fitted(self)
        return self._study

    @property
    def plan_(self) -> Plan:
        """How many candidates get how many resources. It is known before `fit` unless it depends
        on the data."""
        if hasattr(self, "_study"):
            return plan(self._study.session.state)
        smallest = self.min_resources == "smallest"
        if self.max_resources == "auto" or (smallest and self.resource == "n_samples"):
            raise AttributeError(
                "the plan depends on the data: fit first, or give min_resources and max_resources."
            )
        low = 1 if smallest else whole("min_resources", self.min_resources)
        high = whole("max_resources", self.max_resources)
        with in_words_of_searches():
            return plan_of(Schedule.of(self.factor, low, high), whole=True)

    def __sklearn_is_fitted__(self) -> bool:
        return "_study" in vars(self) and "cv_results_" in vars(self)

    def get_metadata_routing(self) -> Any:
        """As of every search; with "partial_fit", metadata of `fit` go to that method."""
        searching = copy.copy(self)
        if self.resource == "partial_fit" and not isinstance(self.estimator, Continued):
            searching.estimator = Continued(self.estimator)
        return BaseSearchCV.get_metadata_routing(searching)

    def __getstate__(self) -> dict[str, Any]:
        """The study travels as its facts; to processes that evaluate candidates it does not."""
        state = dict(super().__getstate__())
        if state.pop("_rounds", None) is not None:
            for name in ("_study", "_ending", "cv_results_"):
                state.pop(name, None)
        if "_study" in state:
            state["_study"] = list(self._study.session.storage.load())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_study" in state:
            state = {**state, "_study": reopen(MemoryStorage(state["_study"]))}
        super().__setstate__(state)

    # Within

    @contextmanager
    def _opened(
        self, X: Any, y: Any, params: Any, going_on: bool
    ) -> Iterator[tuple[Study, list[tuple[Any, Any]]]]:
        """The study to run, which knows these data, and the splits. A study in a file is let go of
        afterwards."""
        metric_of(self.scoring, self.refit)  # what is wrong with scorers is said first
        scorers_of(self.estimator, self.scoring)
        splits = fingerprint.splits_of(self, X, y, fingerprint.routed(self, params).split)
        name = fingerprint.name_of(self, X, y, splits, params)
        with in_words_of_searches():
            study = self._study if going_on and self.study is None else self._open(X, y, splits)
            try:
                fingerprint.check_name(study.session.state.objective, name)
                check_same(study.session.state.created, self._given())
                study.session.name_objective(name)
                yield study, splits
            finally:
                if self.study is not None:
                    study.close()

    def _open(self, X: Any, y: Any, splits: Any) -> Study:
        settings = self._given()
        if self.study is None or not Path(self.study).exists():
            settings["max_budget"] = self._largest(X)
            settings["min_budget"] = self._smallest(X, y, splits)
            settings["seed"] = int(check_random_state(self.random_state).randint(2**31))
        return open_study(self.study, **settings)

    def _given(self) -> Settings:
        """What a study must have been made with to be gone on with."""
        low = self.min_resources
        return Settings(
            space=space_of(self.param_distributions),
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
        return count(X)

    def _smallest(self, X: Any, y: Any, splits: Any) -> int:
        if self.min_resources != "smallest":
            return whole("min_resources", self.min_resources)
        if self.resource != "n_samples":
            return 1
        labelled = y is not None and is_classifier(self.estimator)
        classes = len(np.unique(np.asarray(y))) if labelled else 1
        return min(2 * len(splits) * classes, count(X))

    def _check_enough(self, X: Any, wanted: float) -> None:
        if self.resource == "n_samples" and wanted > count(X):
            raise InputError(f"there are {count(X)} samples, and max_resources would be {wanted}.")

    def _search(
        self,
        study: Study,
        X: Any,
        y: Any,
        splits: Any,
        params: Any,
        strategy: StrategyName,
        to: float,
    ) -> None:
        """Run the study to its end, at `to`, and tell what it found."""
        metric, resource = metric_of(self.scoring, self.refit), self._resource(study, X, y)
        named = partial(parameters_of, self.param_distributions)
        rounds = Rounds(self, study, resource, splits, metric, self.refit, strategy, to, named)
        ending = partial(outcome, rounds, X, y, fingerprint.routed(self, params).fit)
        self._study = study
        if study.done:
            study.deepen(strategy, to=to)
        if study.done:
            # What scikit-learn's `fit` sets where there is something to evaluate.
            self.n_splits_, self.multimetric_ = len(splits), metric != "score"
            self.scorer_ = scorers_of(self.estimator, self.scoring)
            found = ending(None)
        else:
            with self._searching(rounds, ending):
                super().fit(X, y, **params)
                found = self._found
        for name in NAMES:
            self.__dict__.pop(name, None)
        self.__dict__.update(found)
        self._asked = to

    def _resource(self, study: Study, X: Any, y: Any) -> Resource:
        drawn = study.session.space.configspace
        if self.resource in parameters_of(self.param_distributions, dict.fromkeys(drawn)):
            raise InputError(f"{self.resource!r} is the resource: take it out of the space.")
        folder = study.session.files / "models" / study.session.state.created.study
        seed = study.session.state.created.seed
        return resource_of(self.resource, self.estimator, X, y, folder, seed)

    @contextmanager
    def _searching(self, rounds: Rounds, ending: Any) -> Iterator[None]:
        """While scikit-learn's own `fit` runs, it is given what evaluates a budget, splits that can
        be asked for again, and no refit: what it has seen is not all that the study knows."""
        instead = {"estimator": rounds.resource.estimator, "refit": False}
        if hasattr(self.cv, "__next__"):
            instead["cv"] = rounds.splits
        before = {name: getattr(self, name) for name in instead}
        self.__dict__.update(instead, _rounds=rounds, _ending=ending)
        try:
            yield
        finally:
            self.__dict__.update(before)
            for name in ("_rounds", "_ending", "_found"):
                self.__dict__.pop(name, None)

    def _run_search(self, evaluate_candidates: Any, callback_ctx: Any = None) -> None:
        """What scikit-learn's `fit` calls to evaluate candidates."""
        self._rounds.run(evaluate_candidates, callback_ctx)
        self._found = self._ending(callback_ctx)

    def _init_callback_context(self, **settings: Any) -> Any:
        """What scikit-learn's `fit` calls to report: a search and, unless there is none, a refit
        that it does not see."""
        settings["max_subtasks"] = 1 + (self._rounds.refit is not False)
        return super()._init_callback_context(**settings)
