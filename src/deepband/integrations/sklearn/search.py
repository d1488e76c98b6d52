"""DeepbandSearchCV: a scikit-learn search that can continue with more resources or candidates."""

from __future__ import annotations

import copy
import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

# Scikit-learn documents how to derive from this class, but not where it is. pyproject.toml names
# the newest version with which scikit-learn's own tests of searches were run.
from sklearn.model_selection._search import BaseSearchCV
from sklearn.utils import indexable
from sklearn.utils.validation import check_is_fitted

from deepband.analysis.plan import Plan, plan
from deepband.core.criteria import Bounds
from deepband.core.strategies import StrategyName
from deepband.errors import InputError
from deepband.integrations.sklearn import fingerprint
from deepband.integrations.sklearn.fold_rounds import FoldRounds
from deepband.integrations.sklearn.outcomes import NAMES, outcome
from deepband.integrations.sklearn.partial_fit import PartiallyFitted
from deepband.integrations.sklearn.resources import Resource, resource_of
from deepband.integrations.sklearn.rounds import Larger, Rounds
from deepband.integrations.sklearn.scorers import (
    constraints_of,
    is_multimetric,
    metrics_of,
    scorers_of,
)
from deepband.integrations.sklearn.search_settings import (
    check_enough,
    check_settings,
    largest_resource,
    open_for,
    plan_before_fit,
    translated_errors,
)
from deepband.integrations.sklearn.spaces import parameters_of
from deepband.samplers import SamplerName
from deepband.storage import MemoryStorage
from deepband.study.settings import reopen
from deepband.study.study import Study


class DeepbandSearchCV(BaseSearchCV):  # type: ignore[misc] # scikit-learn ships no types
    """Hyperband over the parameters of an estimator, which can be continued with `deepen` and
    `widen`.

    `resource` is what the budget counts: "n_samples", "folds" of cross-validation, a parameter of
    the estimator such as "n_estimators", or "partial_fit", which counts calls and continues
    training from the rung below. Ensembles and neural networks with `warm_start=True` continue
    training when their number of trees or iterations is the resource.

    The resource grows by `factor` from rung to rung, from
    `min_resources` ("smallest": 1, or for samples 2 x classes x folds) to `max_resources` ("auto":
    all samples or folds).

    `param_distributions` is a search space of deepband, or a list of dicts of which each candidate
    samples one. `sampler` is the name of a sampler, by default "uniform". With one that learns,
    `parallel` is how many candidates are sampled before the results of the first are known: as many
    as `n_jobs`, if the search is to use all of them.

    `width` multiplies the number of candidates of every bracket. `brackets` limits the search to
    the first ones: 1 is successive halving, None has all of them.

    `fit` runs Hyperband. `deepen(X, y)` continues with `factor` times the resources, or up to
    `max_resources`, and reuses every evaluation; so does `fit` with `warm_start=True` and larger
    `max_resources`. `strategy` decides which candidates are promoted then. `widen(X, y)` continues
    with more candidates at the same resources. All need the same data, splits, scoring, estimator
    and parameters of the search.

    `study` is the path of a study file for these data and settings: `fit` resumes it, and
    `deepband serve` shows it. `study_` is the study and `plan_` its schedule.

    `cv_results_` has one row per evaluation, with `iter`, `n_resources`, `bracket` and `run`.
    `best_score_`, `best_params_` and `best_index_` are the best on the highest resource, like
    `study_.best_at()`, not on any budget, like `study_.best`. `best_estimator_` is trained again
    with the largest resource; `refit_indices_` are its samples, unless it uses all. With several
    metrics, `refit` names the one to optimise. `n_resources_` are the resources of each rung and
    `width_` is the width of the last run.

    `objectives` names two or more scorers to optimise at once; each is maximised. `front_` then has
    the candidates on the highest resource that no other one dominates, the best by the first
    objective first. Each is a dict with its `params`, the mean test `scores` of all scorers by
    name, and its row in `cv_results_`, `index`. `refit` chooses the best one: a function of
    `cv_results_` that returns a row, the name of a scorer to choose from `front_`, or False, which
    sets no `best_*` attribute.

    `constraints` are bounds on scores, by the name of their scorer: {"recall": (0.8, None)}.
    Candidates whose mean test scores are within them are promoted first, only these are in `front_`
    or the best, and `cv_results_` has a column `feasible`.
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
        width: int = 1,
        brackets: int | None = None,
        strategy: StrategyName = "preserving",
        sampler: SamplerName | None = None,
        parallel: int = 1,
        warm_start: bool = False,
        cv: Any = None,
        scoring: Any = None,
        objectives: Sequence[str] | None = None,
        constraints: Mapping[str, Bounds] | None = None,
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
        self.objectives = objectives
        self.constraints = constraints
        self.param_distributions = param_distributions
        self.resource = resource
        self.factor = factor
        self.min_resources = min_resources
        self.max_resources = max_resources
        self.width = width
        self.brackets = brackets
        self.strategy = strategy
        self.sampler = sampler
        self.parallel = parallel
        self.warm_start = warm_start
        self.random_state = random_state
        self.study = study

    def fit(self, X: Any, y: Any = None, **params: Any) -> DeepbandSearchCV:
        """Run Hyperband on the data. With `warm_start`, continue with larger `max_resources`."""
        resumes = self.warm_start and hasattr(self, "_study")
        if not resumes:
            for name in (*NAMES, "_study", "_asked"):
                self.__dict__.pop(name, None)
        X, y = indexable(X, y)
        with self._opened(X, y, params, resumes) as (study, splits):
            larger = Larger(max_budget=largest_resource(self, X, splits))
            self._search(study, X, y, splits, params, self.strategy, larger)
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
        """Continue on the same data with more resources: `max_resources`, by default `factor` times
        those of the last call. All evaluations are reused. A script that runs again with its study
        file repeats no evaluation."""
        check_is_fitted(self)
        if "to" in params:
            raise InputError("deepen has no parameter 'to': give max_resources.")
        asked = self._asked["max_budget"]
        larger = Larger(max_budget=asked * self.factor if max_resources is None else max_resources)
        return self._continue(X, y, params, strategy or self.strategy, larger)

    def widen(
        self,
        X: Any,
        y: Any = None,
        *,
        strategy: StrategyName = "efficient",
        to: int | None = None,
        **params: Any,
    ) -> DeepbandSearchCV:
        """Continue on the same data with more candidates at the same resources: with the width
        `to`, by default one more than what the last call on this object asked for. In a new
        session, give `to`: a stored study may already have the width that the default means.

        All evaluations are reused. With the default strategy, "efficient", all runs together cost
        as much as one fresh search of this width. If a run has already had this width, nothing is
        evaluated, so that a script can be run again."""
        check_is_fitted(self)
        larger = Larger(width=self._asked["width"] + 1 if to is None else to)
        return self._continue(X, y, params, strategy, larger)

    @property
    def study_(self) -> Study:
        """The study, for quotes, explanations and plots. It is available even if the search failed
        in the end."""
        if not hasattr(self, "_study"):
            check_is_fitted(self)
        return self._study

    @property
    def plan_(self) -> Plan:
        """How many candidates get how many resources. Available before `fit` unless it depends on
        the data."""
        if hasattr(self, "_study"):
            return plan(self._study.session.state)
        return plan_before_fit(self)

    def __sklearn_is_fitted__(self) -> bool:
        return "_study" in vars(self) and "cv_results_" in vars(self)

    def get_metadata_routing(self) -> Any:
        """The routing of every search; with "partial_fit", metadata of `fit` go to that method."""
        search = copy.copy(self)
        if self.resource == "partial_fit" and not isinstance(self.estimator, PartiallyFitted):
            search.estimator = PartiallyFitted(self.estimator)
        return BaseSearchCV.get_metadata_routing(search)

    def __getstate__(self) -> dict[str, Any]:
        """Pickle the study as its facts, or not at all for processes that evaluate candidates."""
        state = dict(super().__getstate__())
        if state.pop("_rounds", None) is not None:
            for name in ("_study", "_finish", "cv_results_"):
                state.pop(name, None)
        if "_study" in state:
            state["_study"] = list(self._study.session.storage.load())
        return state

    def __setstate__(self, state: dict[str, Any]) -> None:
        if "_study" in state:
            state = {**state, "_study": reopen(MemoryStorage(state["_study"]))}
        super().__setstate__(state)

    @contextmanager
    def _opened(
        self, X: Any, y: Any, params: Any, resumes: bool
    ) -> Iterator[tuple[Study, list[tuple[Any, Any]]]]:
        """The study, checked to belong to these data, and the splits. A study in a file is closed
        afterwards."""
        metrics_of(self), constraints_of(self)  # raise errors about scorers first
        scorers_of(self.estimator, self.scoring)
        splits = fingerprint.splits_of(self, X, y, fingerprint.routed(self, params).split)
        name = fingerprint.name_of(self, X, y, splits, params)
        with translated_errors():
            study = self._study if resumes and self.study is None else open_for(self, X, y, splits)
            try:
                fingerprint.check_name(study.session.state.objective, name)
                check_settings(self, study.session.state)
                study.session.name_objective(name)
                yield study, splits
            finally:
                if self.study is not None:
                    study.close()

    def _continue(
        self, X: Any, y: Any, params: Any, strategy: StrategyName, larger: Larger
    ) -> DeepbandSearchCV:
        """Continue a search that is fitted."""
        if self.study is not None and not Path(self.study).exists():
            raise InputError(f"the study {self.study} is gone: restore it, or call fit again.")
        X, y = indexable(X, y)
        with self._opened(X, y, params, resumes=True) as (study, splits):
            check_enough(self, X, splits, larger.get("max_budget", 0))
            self._search(study, X, y, splits, params, strategy, larger)
        return self

    def _search(
        self,
        study: Study,
        X: Any,
        y: Any,
        splits: Any,
        params: Any,
        strategy: StrategyName,
        larger: Larger,
    ) -> None:
        """Run the study until it is done with what is asked for, and set the attributes."""
        metrics, resource = metrics_of(self), self._resource(study, X, y)
        named = partial(parameters_of, self.param_distributions)
        kind = FoldRounds if self.resource == "folds" else Rounds
        rounds = kind(self, study, resource, splits, metrics, self.refit, strategy, larger, named)
        finish = partial(outcome, rounds, X, y, fingerprint.routed(self, params).fit)
        rounds.check()
        self._study = study
        if study.done:
            rounds.extend()
        if study.done:
            # Scikit-learn's `fit` sets these if there is something to evaluate.
            self.multimetric_ = is_multimetric(self)
            self.scorer_ = scorers_of(self.estimator, self.scoring)
            found = finish(None)
        else:
            with self._prepared(rounds, finish):
                super().fit(X, y, **params)
                found = self._found
        for name in NAMES:
            self.__dict__.pop(name, None)
        self.__dict__.update(found, n_splits_=len(splits))
        first = Larger(width=self.width)
        self._asked: Larger = {**vars(self).get("_asked", first), **larger}

    def _resource(self, study: Study, X: Any, y: Any) -> Resource:
        names = dict.fromkeys(study.session.space.configspace)
        if self.resource in parameters_of(self.param_distributions, names):
            raise InputError(f"{self.resource!r} is the resource: remove it from the space.")
        folder = study.session.files / "models" / study.session.state.created.study
        seed = study.session.state.created.seed
        return resource_of(self.resource, self.estimator, X, y, folder, seed)

    @contextmanager
    def _prepared(self, rounds: Rounds, finish: Any) -> Iterator[None]:
        """Replace attributes while scikit-learn's `fit` runs: the estimator by one that accepts a
        budget, a generator of splits by a list, many folds by one, and `refit` by False, because
        scikit-learn sees only a part of the results."""
        replaced = {"estimator": rounds.resource.estimator, "refit": False}
        if isinstance(rounds, FoldRounds):
            replaced["cv"] = rounds.splits[:1]  # one fold per call
        elif hasattr(self.cv, "__next__"):
            replaced["cv"] = rounds.splits
        before = {name: getattr(self, name) for name in replaced}
        self.__dict__.update(replaced, _rounds=rounds, _finish=finish)
        try:
            yield
        finally:
            self.__dict__.update(before)
            for name in ("_rounds", "_finish", "_found"):
                self.__dict__.pop(name, None)

    def _run_search(self, evaluate_candidates: Any, callback_ctx: Any = None) -> None:
        """Called by scikit-learn's `fit` to evaluate candidates."""
        self._rounds.run(evaluate_candidates, callback_ctx)
        self._found = self._finish(callback_ctx)

    def _init_callback_context(self, **settings: Any) -> Any:
        """Called by scikit-learn's `fit`, which does not know about the refit that follows."""
        settings["max_subtasks"] = 1 + (self._rounds.refit is not False)
        return super()._init_callback_context(**settings)
