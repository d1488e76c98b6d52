"""DeepbandSearchCV: scikit-learn's own checks, and what only it can do."""

from __future__ import annotations

import ast
import os
import pickle
import re
import subprocess
import sys
import threading
import tomllib
import warnings
from collections import Counter, defaultdict
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any, ClassVar

import joblib
import numpy as np
import pytest
import sklearn
from scipy.stats import loguniform
from sklearn.base import BaseEstimator, ClassifierMixin, clone
from sklearn.datasets import (
    make_classification,
    make_multilabel_classification,
    make_regression,
)
from sklearn.ensemble import (
    BaggingClassifier,
    ExtraTreesRegressor,
    GradientBoostingClassifier,
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
)
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.metrics import f1_score, make_scorer
from sklearn.model_selection import (
    GroupKFold,
    KFold,
    PredefinedSplit,
    ShuffleSplit,
    StratifiedKFold,
    cross_val_score,
)
from sklearn.multiclass import OneVsRestClassifier
from sklearn.naive_bayes import GaussianNB
from sklearn.neural_network import MLPClassifier
from sklearn.pipeline import Pipeline, make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler
from sklearn.svm import SVC
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

import deepband
from deepband import InputError
from deepband.analysis.metrics import main_metric
from deepband.core.strategies import StrategyName
from deepband.integrations.sklearn import DeepbandSearchCV, fold_rounds
from deepband.integrations.sklearn.subsamples import Subsampled, nested
from deepband.system.installation import install_command

ROOT = Path(__file__).parents[2]
X, y = make_classification(n_samples=300, n_informative=5, random_state=0)
heavy = pytest.mark.heavy
ALPHA = {"alpha": (1e-6, 1e-1, "log")}
C = {"C": (1e-3, 1e2, "log")}


FEW: dict[str, Any] = {"min_resources": 34, "max_resources": 100, "brackets": 1}
"""Two rungs of a search by samples, four evaluations: the default has many more."""


ONE_FOLD = ShuffleSplit(1, test_size=0.5, random_state=0)


def make(**given: Any) -> DeepbandSearchCV:
    """A search by calls of partial_fit, small and repeatable. Its only bracket has every rung."""
    settings: dict[str, Any] = {"resource": "partial_fit", "max_resources": 3, "random_state": 0}
    settings |= {"brackets": 1, "cv": ONE_FOLD}
    estimator = given.pop("estimator", SGDClassifier(random_state=0))
    space = given.pop("param_distributions", ALPHA)
    return DeepbandSearchCV(estimator, space, **{**settings, **given})


# As scikit-learn does with its own searches, fits that fail raise here: else a search takes a
# failure for a verdict about a candidate, and checks that want an error see none.
SEARCHES = {
    "samples": DeepbandSearchCV(LogisticRegression(), C, cv=2, random_state=0, factor=9),
    "regressor": DeepbandSearchCV(Ridge(), {"alpha": (0.1, 1.0)}, cv=2, random_state=0, factor=9),
    "partial_fit": make(cv=2),
    "folds": DeepbandSearchCV(LogisticRegression(), C, resource="folds", cv=2, random_state=0),
}
EXCEPTIONS = {
    ("regressor", "check_supervised_y_2d"): "no search warns of a column y, GridSearchCV neither",
}
"""Checks that fail, and why that is right."""


def checks() -> Iterator[Any]:
    """Every check of every search. Of the same check of several searches, one is not heavy: the
    searches take turns."""
    found = defaultdict(list)
    for name, search in SEARCHES.items():
        raising = clone(search).set_params(error_score="raise")
        for estimator, check in estimator_checks_generator(raising):
            called = check.func.__name__
            if "array_api" in called:  # of the estimator inside, by libraries that are not here
                continue
            reason = EXCEPTIONS.get((name, called))
            found[called].append(((estimator, check, reason), f"{name}-{called}"))
    for turn, same in enumerate(found.values()):
        for number, (given, id) in enumerate(same):
            marks = heavy if number != turn % len(same) else ()
            yield pytest.param(*given, id=id, marks=marks)


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check", "reason"), list(checks()))
def test_the_checks_of_scikit_learn(estimator: Any, check: Any, reason: str | None) -> None:
    with pytest.raises(AssertionError) if reason else nullcontext():
        check(estimator)


RESOURCES = [
    (LogisticRegression(), C, {**FEW, "brackets": None}),
    (
        RandomForestClassifier(random_state=0),
        {"max_depth": (1, 30)},
        {"resource": "n_estimators", "max_resources": 3},
    ),
    (SGDClassifier(random_state=0), ALPHA, {"resource": "partial_fit", "max_resources": 3}),
]
STRATEGIES = ["discarding", "preserving", "efficient"]


@pytest.mark.parametrize(
    ("estimator", "space", "resource", "strategy"),
    [
        pytest.param(*each, strategy, marks=() if number == turn else heavy)
        for number, each in enumerate(RESOURCES)
        for turn, strategy in enumerate(STRATEGIES)
    ],
)
def test_deepening_reuses_everything(
    estimator: Any, space: Any, resource: Any, strategy: StrategyName
) -> None:
    search = DeepbandSearchCV(estimator, space, cv=2, random_state=1, **resource)
    search.fit(X, y)
    first = {(e.bracket, e.index, e.rung): e.loss for e in search.study_.evaluations}
    assert search.plan_.evaluations == len(first) == len(search.cv_results_["params"])
    quote = search.study_.quote(strategy)
    search.deepen(X, y, strategy=strategy)
    both = {(e.bracket, e.index, e.rung): e.loss for e in search.study_.evaluations}
    assert first.items() <= both.items()
    low, high = quote.evaluations_new
    assert low <= len(both) - len(first) <= high
    assert search.n_resources_[-1] == 3 * resource["max_resources"]
    results = search.cv_results_
    assert results["n_resources"][search.best_index_] == search.n_resources_[-1]
    top = results["mean_test_score"][results["n_resources"] == search.n_resources_[-1]]
    assert search.best_score_ == top.max()
    assert search.score(X, y) > 0.6


@pytest.mark.parametrize(
    ("estimator", "space", "resource"),
    [
        pytest.param(*each, marks=heavy if number < 2 else ())
        for number, each in enumerate(RESOURCES)
    ],
)
def test_widening_adds_candidates_at_the_same_resources(
    estimator: Any, space: Any, resource: Any
) -> None:
    search = DeepbandSearchCV(estimator, space, cv=3, random_state=1, **resource)
    search.fit(X, y)
    first, resources = search.cv_results_, search.n_resources_
    quote = search.study_.quote("efficient", width=2)
    search.widen(X, y)
    results = search.cv_results_
    rows = len(first["params"])
    new = len(results["params"]) - rows
    assert quote.evaluations_new == (new, new)
    assert results["params"][:rows] == first["params"]
    assert (results["mean_test_score"][:rows] == first["mean_test_score"]).all()
    assert list(results["run"]) == [0] * rows + [1] * new
    rungs = results["bracket"] + results["iter"]
    assert Counter(zip(results["bracket"], rungs, strict=True)) == search.plan_.slots
    assert (results["n_resources"] == np.array(resources)[rungs]).all()
    assert (search.width_, search.n_resources_) == (2, resources)
    top = results["mean_test_score"][results["n_resources"] == resources[-1]]
    assert search.best_score_ == top.max()
    assert search.score(X, y) > 0.6


def test_a_wider_search_from_the_start() -> None:
    fresh = make(width=2).fit(X, y)
    widened = make().fit(X, y).widen(X, y, strategy="discarding")
    assert fresh.width_ == widened.width_ == 2
    assert fresh.best_params_ == widened.best_params_
    assert fresh.best_score_ == widened.best_score_
    assert (fresh.predict(X) == widened.predict(X)).all()
    assert clone(widened).get_params()["width"] == 1


def test_one_bracket_is_successive_halving() -> None:
    search = make(max_resources=9, brackets=1)
    plan = search.plan_
    assert plan.slots == {(0, 0): 9, (0, 1): 3, (0, 2): 1}
    results = search.fit(X, y).cv_results_
    assert search.plan_ == plan
    assert list(results["bracket"]) == [0] * 13
    assert list(results["n_resources"]) == [1] * 9 + [3] * 3 + [9]
    assert set(search.widen(X, y).cv_results_["bracket"]) == {0}
    with pytest.raises(InputError, match="created with brackets 1, and None is given"):
        search.set_params(brackets=None).widen(X, y)
    assert search.width_ == len(search.study_.runs) == 2


@pytest.mark.heavy
def test_a_script_that_widens_and_deepens_repeats_nothing(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    levels = [(3, 1), (3, 2), (9, 2), (9, 4)]
    for _ in range(2):
        search = make(study=place).fit(X, y)
        search.widen(X, y).deepen(X, y).widen(X, y, to=4)
        with deepband.open_study(place) as study:
            assert [(run.max_budget, run.width) for run in study.runs] == levels
        search.widen(X, y, to=2)  # some run had it
        assert (search.width_, search.n_resources_) == (4, [1, 3, 9])
    with pytest.raises(InputError, match=r"^width is 3: .* max_resources 9, width 2"):
        search.widen(X, y, to=3)
    assert search.widen(X, y, to=2).widen(X, y, to=4).width_ == 4


def test_a_frugal_look_and_its_fill(tmp_path: Path) -> None:
    for _ in range(2):  # the script once more
        search = make(study=tmp_path / "a.study").fit(X, y)
        search.deepen(X, y, strategy="frugal")
        search.deepen(X, y, strategy="discarding", max_resources=9)
        assert search.n_resources_ == [1, 3, 9]
        assert [run.strategy for run in search.study_.runs] == [None, "frugal", "discarding"]
    fresh = make(max_resources=9).fit(X, y)
    arrived = search.study_.session.state.run.arrived
    assert arrived == fresh.study_.session.state.run.arrived
    with pytest.raises(InputError, match="one rung at a time"):
        search.deepen(X, y, strategy="frugal", max_resources=81)


def test_discarding_ends_as_a_fresh_search_does() -> None:
    deepened = make(strategy="discarding").fit(X, y)
    deepened.deepen(X, y)
    fresh = make(max_resources=9).fit(X, y)
    assert deepened.best_params_ == fresh.best_params_
    assert deepened.best_score_ == fresh.best_score_
    assert (deepened.predict(X) == fresh.predict(X)).all()


@pytest.mark.parametrize(
    "given", [{"brackets": None}, {"max_resources": 9, "width": 2, "brackets": 2}]
)
def test_the_plan_is_known_before_and_is_what_happens(given: Any) -> None:
    search = make(**given)
    plan = search.plan_
    search.fit(X, y)
    assert search.plan_ == plan
    assert len(search.cv_results_["params"]) == plan.evaluations
    with pytest.raises(AttributeError, match="depends on the data"):
        print(DeepbandSearchCV(LogisticRegression(), C).plan_)


def test_fit_with_more_resources_continues() -> None:
    search = make(warm_start=True).fit(X, y)
    study = search.study_
    search.set_params(max_resources=9).fit(X, y)
    assert search.study_ is study
    assert [run.max_budget for run in study.runs] == [3, 9]
    search.fit(X, y)  # nothing is left
    assert len(study.runs) == 2
    cold = make().fit(X, y)
    before = cold.study_
    assert cold.fit(X, y).study_ is not before


def test_training_continues_from_the_rung_below(tmp_path: Path) -> None:
    search = make(estimator=Counting(str(tmp_path)), param_distributions=C, cv=2)
    search.set_params(max_resources=9).fit(X, y)
    search.deepen(X, y)
    search.widen(X, y, strategy="preserving")
    calls = len(list(tmp_path.iterdir()))
    resumed = sum(run.cost_resumed for run in search.study_.runs)
    refits = 9 + 27 + 27
    assert calls == 2 * resumed + refits  # in each of two folds


class Counting(ClassifierMixin, BaseEstimator):  # type: ignore[misc] # it ships no types
    """Notes every call of partial_fit."""

    def __init__(self, folder: str = "", C: float = 1.0) -> None:
        self.folder = folder
        self.C = C

    def fit(self, X: Any, y: Any) -> Counting:
        raise AssertionError("fit is never called")

    def partial_fit(self, X: Any, y: Any, classes: Any = None) -> Counting:
        self.classes_ = np.unique(y)
        self.calls_ = getattr(self, "calls_", 0) + 1
        (Path(self.folder) / str(os.urandom(8).hex())).touch()
        return self

    def predict(self, X: Any) -> Any:
        return np.full(len(X), self.classes_[0])

    def score(self, X: Any, y: Any) -> float:
        return -abs(self.C - 1) + self.calls_


def test_continued_training_equals_training_at_once() -> None:
    """Scores are those of so many calls from the start."""
    search = make(max_resources=9, cv=2).fit(X, y)
    results = search.cv_results_
    train, test = next(iter(StratifiedKFold(2).split(X, y)))
    row = int(np.flatnonzero(results["n_resources"] == 9)[0])
    alone = SGDClassifier(random_state=0, **results["params"][row])
    for _ in range(9):
        alone.partial_fit(X[train], y[train], classes=np.unique(y))
    assert alone.score(X[test], y[test]) == results["split0_test_score"][row]


WARM = {
    "forest": (RandomForestClassifier(random_state=0), {"max_depth": (1, 9)}, "n_estimators"),
    "trees": (ExtraTreesRegressor(random_state=0), {"max_depth": (1, 9)}, "n_estimators"),
    "bagging": (BaggingClassifier(random_state=0), {"max_samples": (0.2, 1.0)}, "n_estimators"),
    "boosting": (
        GradientBoostingClassifier(random_state=0, subsample=0.7),
        {"learning_rate": (0.01, 1.0, "log")},
        "n_estimators",
    ),
    "histograms": (
        HistGradientBoostingClassifier(random_state=0, max_features=0.5),
        {"learning_rate": (0.01, 1.0, "log")},
        "max_iter",
    ),
    "pipeline": (
        make_pipeline(StandardScaler(), HistGradientBoostingRegressor(random_state=0)),
        {"histgradientboostingregressor__learning_rate": (0.01, 1.0, "log")},
        "histgradientboostingregressor__max_iter",
    ),
}


LIGHT = {"forest"}


def with_warm_start(estimator: Any, warm: bool = True) -> Any:
    steps = estimator.steps[-1][0] + "__" if isinstance(estimator, Pipeline) else ""
    return clone(estimator).set_params(**{f"{steps}warm_start": warm})


@pytest.mark.parametrize(
    "name", [each if each in LIGHT else pytest.param(each, marks=heavy) for each in WARM]
)
def test_ensembles_that_start_warm_continue_and_score_the_same(name: str) -> None:
    estimator, space, resource = WARM[name]
    settings: dict[str, Any] = {
        "resource": resource,
        "max_resources": 3,
        "cv": 2,
        "random_state": 0,
        "brackets": 1,
    }
    warm, cold = (
        DeepbandSearchCV(with_warm_start(estimator, each), space, **settings).fit(X, y)
        for each in (True, False)
    )
    for search in (warm, cold):
        search.deepen(X, y)
    for column in ("split0_test_score", "split1_test_score", "n_resources", f"param_{resource}"):
        assert (warm.cv_results_[column] == cold.cv_results_[column]).all()
    assert warm.best_params_ == cold.best_params_
    assert (warm.predict(X) == cold.predict(X)).all()
    assert [run.trained for run in warm.study_.runs] == [
        run.cost_resumed for run in cold.study_.runs
    ]
    assert [run.trained for run in cold.study_.runs] == [run.cost for run in cold.study_.runs]


class Iterations(MLPClassifier):  # type: ignore[misc] # it ships no types
    """Notes for how many iterations each fit may run."""

    fits: ClassVar[list[int]] = []

    def fit(self, X: Any, y: Any) -> Any:
        self.fits.append(self.max_iter)
        return super().fit(X, y)


@pytest.mark.heavy
@pytest.mark.filterwarnings("ignore:Stochastic Optimizer")
def test_networks_that_start_warm_run_only_the_missing_iterations() -> None:
    Iterations.fits.clear()
    network = Iterations(4, random_state=0, warm_start=True)
    space = {"learning_rate_init": (1e-4, 1e-1, "log")}
    settings: dict[str, Any] = {
        "resource": "max_iter",
        "max_resources": 9,
        "cv": 2,
        "random_state": 0,
    }
    search = DeepbandSearchCV(network, space, **settings).fit(X, y)
    assert sum(Iterations.fits) == 2 * search.study_.runs[0].cost_resumed + 9
    assert search.study_.runs[0].trained == search.study_.runs[0].cost_resumed
    assert search.best_estimator_.n_iter_ == search.best_estimator_.max_iter == 9
    row = int(np.flatnonzero(search.cv_results_["iter"] == 2)[0])
    train, test = next(iter(StratifiedKFold(2).split(X, y)))
    alone = clone(network).set_params(**search.cv_results_["params"][row])
    for missing in (1, 2, 6):
        alone.set_params(max_iter=missing).fit(X[train], y[train])
    assert alone.score(X[test], y[test]) == search.cv_results_["split0_test_score"][row]


@pytest.mark.parametrize(
    ("estimator", "space", "resource"),
    [
        (RandomForestClassifier(5, random_state=0), {"max_features": (0.1, 1.0)}, "max_depth"),
        (SGDClassifier(random_state=0), ALPHA, "max_iter"),
        (
            OneVsRestClassifier(RandomForestClassifier(random_state=0, warm_start=True)),
            {"estimator__max_depth": (1, 9)},
            "estimator__n_estimators",
        ),
    ],
)
@pytest.mark.filterwarnings("ignore:Maximum number of iteration")
def test_other_parameters_and_estimators_start_again(
    estimator: Any, space: Any, resource: str
) -> None:
    """A warm start means something else there, or nothing."""
    if "warm_start" in estimator.get_params():
        estimator = with_warm_start(estimator)
    search = DeepbandSearchCV(
        estimator, space, resource=resource, max_resources=3, cv=2, random_state=0
    ).fit(X, y)
    assert {each.resumed_from for each in search.study_.evaluations} == {None}


@pytest.mark.heavy
def test_a_candidate_that_does_not_start_warm_starts_again() -> None:
    forest = RandomForestClassifier(random_state=0, warm_start=True)
    space = {"max_depth": (1, 9), "warm_start": [True, False]}
    settings: dict[str, Any] = {
        "resource": "n_estimators",
        "max_resources": 9,
        "cv": 2,
        "random_state": 0,
    }
    search = DeepbandSearchCV(forest, space, **settings).fit(X, y)
    promoted = [each for each in search.study_.evaluations if each.rung > each.bracket]
    assert {each.config["warm_start"] for each in promoted} == {True, False}
    for each in promoted:
        expected = each.rung - 1 if each.config["warm_start"] else None
        assert each.resumed_from == expected


@pytest.mark.parametrize("jobs", [None, pytest.param(2, marks=heavy)])
def test_a_warm_start_in_a_file_with_weights_and_processes(
    jobs: int | None, tmp_path: Path
) -> None:
    forest = RandomForestClassifier(random_state=0, warm_start=True)
    settings: dict[str, Any] = {
        "resource": "n_estimators",
        "max_resources": 3,
        "cv": 2,
        "random_state": 0,
    }
    weights = np.linspace(0.1, 1, len(X))
    found = []
    for place in (None, tmp_path / "forest.study"):
        search = DeepbandSearchCV(
            forest, {"max_depth": (1, 9)}, n_jobs=jobs, study=place, brackets=1, **settings
        )
        found.append(search.fit(X, y, sample_weight=weights).deepen(X, y, sample_weight=weights))
    one, other = found
    assert (one.cv_results_["mean_test_score"] == other.cv_results_["mean_test_score"]).all()
    assert other.study_.runs[1].trained == other.study_.runs[1].cost_resumed
    assert list((tmp_path / "forest.study.files").glob("models/*/*"))


def test_models_that_are_gone_are_trained_from_the_start(tmp_path: Path) -> None:
    search = make(study=tmp_path / "a.study", brackets=None, cv=2).fit(X, y)
    assert search.study_.runs[0].trained == search.study_.runs[0].cost_resumed
    for path in (tmp_path / "a.study.files").glob("models/*/*"):
        path.unlink()
    search.deepen(X, y)
    fresh = [each for each in search.study_.evaluations if each.run == 1 and each.rung == 2]
    assert {each.resumed_from for each in fresh if each.bracket == 1} == {None}


@pytest.mark.filterwarnings("ignore:The estimator")  # only a pipeline supports callbacks
def test_saved_models_do_not_contain_callbacks(tmp_path: Path) -> None:
    if not HAS_CALLBACKS:
        return
    recorder = Propagated()
    pipe = make_pipeline(StandardScaler(), RandomForestClassifier(random_state=0, warm_start=True))
    search = DeepbandSearchCV(
        pipe,
        {"randomforestclassifier__max_depth": (1, 9)},
        resource="randomforestclassifier__n_estimators",
        max_resources=3,
        cv=2,
        random_state=0,
        study=tmp_path / "a.study",
    )
    search.set_callbacks(recorder).fit(X, y)
    assert recorder.begun == recorder.ended
    assert recorder.begun["fit-final-estimator"] == 2 * len(search.study_.evaluations) + 1
    for path in (tmp_path / "a.study.files").glob("models/*/*[0-9]"):
        assert b"Propagated" not in path.read_bytes()


class Fitted(LogisticRegression):  # type: ignore[misc] # it ships no types
    """Notes the data of every fit."""

    fits: ClassVar[list[Any]] = []

    def fit(self, X: Any, y: Any) -> Any:
        self.fits.append((self.C, X.tobytes()))
        return super().fit(X, y)


def by_folds(**given: Any) -> DeepbandSearchCV:
    settings: dict[str, Any] = {"resource": "folds", "random_state": 0, "brackets": 1}
    settings["cv"] = ShuffleSplit(9, random_state=0)
    return DeepbandSearchCV(given.pop("estimator", Fitted()), C, **{**settings, **given})


def test_folds_are_evaluated_once_and_scores_are_means_of_all_so_far() -> None:
    Fitted.fits.clear()
    search = by_folds(max_resources=3).fit(X, y).deepen(X, y)
    run, deeper = search.study_.runs
    assert (run.trained, deeper.trained) == (run.cost_resumed, deeper.cost_resumed)
    assert len(Fitted.fits) == run.trained + deeper.trained + 2  # refits
    assert len({data for _, data in Fitted.fits}) == 9 + 1
    results, folds = search.cv_results_, list(ShuffleSplit(9, random_state=0).split(X, y))
    assert set(results["n_resources"]) == {1, 3, 9}
    for row, count in enumerate(results["n_resources"]):
        model = LogisticRegression(**results["params"][row])
        scores = cross_val_score(model, X, y, cv=folds[:count])
        found = [results[f"split{fold}_test_score"][row] for fold in range(9)]
        assert found[:count] == list(scores)
        assert np.isnan(found[count:]).all()
        assert results["mean_test_score"][row] == scores.mean()
        assert results["std_test_score"][row] == scores.std()
        assert results["mean_fit_time"][row] > 0
    assert search.n_splits_ == 9
    assert search.refit_indices_ is None
    assert Fitted.fits[-1][1] == X.tobytes()


@pytest.mark.parametrize("jobs", [1, pytest.param(2, marks=heavy)])
def test_folds_in_a_file_with_several_metrics(jobs: int, tmp_path: Path) -> None:
    settings: dict[str, Any] = {
        "estimator": LogisticRegression(),
        "scoring": ["accuracy", "f1"],
        "refit": "f1",
        "return_train_score": True,
        "n_jobs": jobs,
        "brackets": 1,
    }
    stored = by_folds(study=tmp_path / "a.study", max_resources=3, **settings).fit(X, y)
    again = by_folds(study=tmp_path / "a.study", max_resources=9, **settings).fit(X, y)
    alone = by_folds(max_resources=3, **settings).fit(X, y).deepen(X, y)
    assert again.n_splits_ == alone.n_splits_ == stored.n_splits_ == 9
    for name, column in alone.cv_results_.items():
        if name.startswith(("split", "mean_t", "std_t", "rank")):
            np.testing.assert_array_equal(again.cv_results_[name], column)
    assert {"split8_train_f1", "mean_train_accuracy"} <= set(alone.cv_results_)


@pytest.mark.parametrize("resource", ["n_samples", "folds"])
def test_times_are_recorded_and_the_main_metric_is_the_score(resource: str) -> None:
    search = (by_folds if resource == "folds" else make)().fit(X, y)
    state = search.study_.session.state
    assert main_metric(state) == "mean_test_score"
    assert all(each.seconds for each in search.study_.evaluations)
    columns = search.study_.best_at().metrics
    whole = search.n_splits_ * (columns["mean_fit_time"] + columns["mean_score_time"])
    place = search.study_.best_at()
    config = [e for e in search.study_.evaluations if (e.bracket, e.index) == place[:2]]
    spent = sum(each.seconds or 0.0 for each in config) if resource == "folds" else place.seconds
    assert spent == pytest.approx(whole)


def test_all_folds_are_the_default() -> None:
    search = by_folds(cv=4, factor=2).fit(X, y)
    assert search.n_resources_ == [1, 2, 4]
    assert search.best_score_ == search.cv_results_["mean_test_score"][search.best_index_]
    with pytest.raises(InputError, match="cv has 4 splits, but max_resources would be 8"):
        search.deepen(X, y)
    search.widen(X, y)
    assert search.width_ == 2


def test_the_times_of_folds_are_joined() -> None:
    times = [0.5, 0.25, 2.0, 1.0]
    first = fold_rounds._times("fit_time", fold_rounds.NOTHING, times[:1])
    second = fold_rounds._times("fit_time", fold_rounds.Earlier(0, 1, first), times[1:])
    assert second["mean_fit_time"] == pytest.approx(np.mean(times))
    assert second["std_fit_time"] == pytest.approx(np.std(times))


class FailsOnFold(LogisticRegression):  # type: ignore[misc] # it ships no types
    """Fails on one training fold, for about half of the candidates."""

    def fit(self, X: Any, y: Any) -> Any:
        data = globals()["X"]
        training, _ = list(ShuffleSplit(9, random_state=0).split(data))[2]
        if self.C > 0.1 and np.array_equal(X, data[training]):
            raise ValueError("not on this fold")
        return super().fit(X, y)


@pytest.mark.filterwarnings("ignore")
def test_a_candidate_that_fails_on_a_fold_fails() -> None:
    search = by_folds(estimator=FailsOnFold(), max_resources=9).fit(X, y)
    evaluations = search.study_.evaluations
    assert {each.config["C"] > 0.1 for each in evaluations if each.budget == 3} == {True, False}
    for each in evaluations:
        assert (each.loss is None) == (each.budget >= 3 and each.config["C"] > 0.1)
    assert search.best_params_["C"] <= 0.1


@pytest.mark.heavy
def test_imported_scores_without_folds_are_evaluated_from_the_start(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    by_folds(max_resources=3, study=place, brackets=None).fit(X, y)
    with deepband.open_study(place) as study, pytest.warns(deepband.WaitingWarning):
        study.add_evaluation({"C": 1.0}, 3, 0.99, origin="elsewhere")
    search = by_folds(max_resources=9, study=place, brackets=None).fit(X, y)
    (top,) = (
        each for each in search.study_.evaluations if each.config == {"C": 1.0} and each.budget == 9
    )
    assert top.resumed_from is None
    assert {f"split{fold}_test_score" for fold in range(9)} <= set(top.metrics)


@pytest.mark.heavy
@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_for_any_number_of_jobs(n_jobs: int) -> None:
    search = make(n_jobs=n_jobs, brackets=None, cv=2).fit(X, y)
    alone = make(brackets=None, cv=2).fit(X, y)
    assert search.best_params_ == alone.best_params_
    for name in ("mean_test_score", "split1_test_score", "n_resources", "bracket", "iter"):
        assert (search.cv_results_[name] == alone.cv_results_[name]).all()


def test_the_table_of_results() -> None:
    search = make(max_resources=9, brackets=None, return_train_score=True).fit(X, y)
    results = search.cv_results_
    assert list(results["iter"][results["bracket"] == 2]) == [0, 0, 0]
    assert set(results["iter"][results["bracket"] == 0]) == {0, 1, 2}
    assert (results["n_resources"] == 3 ** (results["bracket"] + results["iter"])).all()
    assert results["rank_test_score"].min() == 1
    best = results["rank_test_score"].argmin()
    assert results["mean_test_score"][best] == results["mean_test_score"].max()
    assert "mean_train_score" in results
    assert results["param_alpha"][0] == results["params"][0]["alpha"]
    assert all(len(column) == 22 for column in results.values())


def test_samples_of_smaller_budgets_are_among_those_of_larger_ones() -> None:
    labels = np.array([0] * 80 + [1] * 20)
    order = nested(np.arange(100), labels, seed=1)
    assert sorted(order) == list(range(100))
    assert labels[order[:10]].sum() == 2
    assert labels[order[:50]].sum() == 10
    small, large = (
        list(Subsampled(list(KFold(2).split(X[:100])), n, 100, labels, 1).split()) for n in (20, 60)
    )
    for (few, test), (many, same) in zip(small, large, strict=True):
        assert set(few) < set(many)
        assert (len(few), len(many)) == (10, 30)
        assert list(test) == list(same)


def test_the_best_is_fitted_with_the_largest_resources() -> None:
    class Sized(LogisticRegression):  # type: ignore[misc] # it ships no types
        def fit(self, X: Any, y: Any) -> Any:
            self.size_ = len(X)
            return super().fit(X, y)

    search = DeepbandSearchCV(Sized(), C, cv=2, random_state=0, **FEW).fit(X, y)
    assert search.best_estimator_.size_ == 100
    search.deepen(X, y)
    assert search.best_estimator_.size_ == 300
    forest = DeepbandSearchCV(
        GradientBoostingClassifier(random_state=0),
        {"max_depth": (1, 5)},
        resource="n_estimators",
        max_resources=3,
        cv=2,
        random_state=0,
    ).fit(X, y)
    assert forest.best_estimator_.n_estimators == forest.best_params_["n_estimators"] == 3


def test_pipelines_regressors_and_distributions_of_scipy() -> None:
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    space = {"logisticregression__C": loguniform(1e-3, 1e2)}
    search = DeepbandSearchCV(pipe, space, cv=2, random_state=0, **FEW).fit(X, y)
    assert 1e-3 <= search.best_params_["logisticregression__C"] <= 1e2
    inputs, target = make_regression(n_samples=90, random_state=0)
    regression = DeepbandSearchCV(Ridge(), {"alpha": (0.1, 10.0)}, cv=3, random_state=0)
    assert regression.fit(inputs, target).score(inputs, target) > 0.5


def test_several_metrics() -> None:
    assert make(scoring="accuracy", refit="accuracy").fit(X, y).best_score_ > 0.5
    search = make(scoring=["accuracy", "roc_auc"], refit="roc_auc", max_resources=9).fit(X, y)
    assert search.multimetric_
    assert search.best_score_ == search.cv_results_["mean_test_roc_auc"][search.best_index_]
    assert "rank_test_accuracy" in search.cv_results_
    losses = sorted(-(each.loss or 0.0) for each in search.study_.evaluations)
    assert losses == sorted(search.cv_results_["mean_test_roc_auc"])
    with pytest.raises(InputError, match="set refit to the one to optimise"):
        make(scoring=["accuracy", "roc_auc"]).fit(X, y)


def test_refit_may_be_a_function_or_nothing() -> None:
    search = make(refit=lambda results: 3).fit(X, y)
    assert search.best_index_ == 3
    assert search.predict(X).shape == y.shape
    bare = make(refit=False).fit(X, y)
    assert bare.best_params_
    with pytest.raises(AttributeError, match="predict"):
        bare.predict(X)


@pytest.mark.parametrize(
    ("returned", "kind", "message"),
    [
        (-1, IndexError, "out of range: refit returned -1, but cv_results_ has 4 rows"),
        (4, IndexError, "out of range"),
        (1.7, TypeError, "not an integer: refit returned 1.7"),
        (None, TypeError, "not an integer: refit returned None"),
        (True, TypeError, "not an integer"),
    ],
)
def test_a_refit_function_must_return_a_row(returned: Any, kind: Any, message: str) -> None:
    search = make(refit=lambda results: returned)
    with pytest.raises(kind, match=message) as raised:
        search.fit(X, y)
    assert isinstance(raised.value, InputError)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        search.predict(X)


class Silent(LogisticRegression):  # type: ignore[misc] # it ships no types
    """Whose `fit` returns nothing."""

    def fit(self, *given: Any, **named: Any) -> None:
        super().fit(*given, **named)


def test_the_best_estimator_is_there_whatever_its_fit_returns() -> None:
    search = DeepbandSearchCV(Silent(), C, cv=2, random_state=0, **FEW).fit(X, y)
    assert isinstance(search.best_estimator_, Silent)
    assert search.score(X, y) > 0.5
    by_parameter = DeepbandSearchCV(
        Silent(), {"C": (0.01, 1.0)}, resource="max_iter", max_resources=900, min_resources=300
    ).fit(X, y)
    assert by_parameter.score(X, y) > 0.5


def test_sparse_data_of_any_format() -> None:
    import scipy.sparse as sp

    for kind in (sp.coo_matrix, sp.coo_array, sp.csc_array, sp.lil_matrix):
        search = DeepbandSearchCV(LogisticRegression(), C, cv=2, random_state=0, **FEW).fit(
            kind(X), y
        )
        assert search.predict(kind(X).tocsr()).shape == y.shape
        assert len(search.refit_indices_) == 100


def test_fit_parameters_that_cannot_be_pickled() -> None:
    class Told(LogisticRegression):  # type: ignore[misc] # it ships no types
        def fit(self, X: Any, y: Any, lock: Any = None, call: Any = None) -> Any:
            with lock:
                call()
            return super().fit(X, y)

    search = DeepbandSearchCV(Told(), C, cv=2, random_state=0, **FEW)
    search.fit(X, y, lock=threading.Lock(), call=lambda: None)
    search.deepen(X, y, lock=threading.Lock(), call=lambda: None)
    with pytest.raises(InputError, match="parameters of fit differs"):
        search.deepen(X, y, lock=threading.Lock(), call=lambda: 1)


def test_classes_may_be_given_as_partial_fit_takes_them() -> None:
    search = make().fit(X, y, classes=[0, 1, 2])
    assert list(search.best_estimator_.classes_) == [0, 1, 2]
    assert list(search.deepen(X, y, classes=[0, 1, 2]).best_estimator_.classes_) == [0, 1, 2]


def test_kernels_are_cut_in_rows_and_columns() -> None:
    kernel = X @ X.T
    search = DeepbandSearchCV(SVC(kernel="precomputed"), C, cv=2, random_state=0, **FEW).fit(
        kernel, y
    )
    assert search.best_estimator_.shape_fit_ == (100, 100)
    assert search.predict(kernel[:, search.refit_indices_]).shape == y.shape
    plain = DeepbandSearchCV(SVC(kernel="linear"), C, cv=2, random_state=0, **FEW)
    assert plain.fit(X, y).best_score_ == pytest.approx(search.best_score_)
    assert search.deepen(kernel, y).predict(kernel).shape == y.shape
    assert search.refit_indices_ is None


def test_splits_may_be_masks() -> None:
    half = np.arange(len(X)) % 2 == 0
    masks = [(half, ~half), (~half, half)]
    indices = [tuple(map(np.flatnonzero, each)) for each in masks]
    search, same = (
        DeepbandSearchCV(LogisticRegression(), C, cv=cv, random_state=0, **FEW).fit(X, y)
        for cv in (masks, indices)
    )
    assert search.best_score_ == same.best_score_


def test_a_parameter_named_as_a_setting_of_studies_keeps_its_name() -> None:
    search = make(param_distributions={"eta": (1.0, 0.1)})
    with pytest.raises(InputError, match="parameter 'eta' is"):
        search.fit(X, y)


def test_an_estimator_that_cannot_score_is_reported_first() -> None:
    class Unscored(BaseEstimator):  # type: ignore[misc] # it ships no types
        def fit(self, X: Any, y: Any = None) -> Any:
            return self

    with pytest.raises(TypeError, match="scor"):
        DeepbandSearchCV(Unscored(), C).fit([[1.0]])


def test_parameters_have_columns_of_their_type() -> None:
    space = {"alpha": [0.1, 1], "n_iter_no_change": [3, 4], "shuffle": [True], "loss": ["hinge"]}
    results = make(param_distributions=space, max_resources=9).fit(X, y).cv_results_
    kinds = {name: results[f"param_{name}"].dtype.kind for name in space}
    assert kinds == {"alpha": "f", "n_iter_no_change": "i", "shuffle": "b", "loss": "O"}


def test_groups_and_weights() -> None:
    groups = np.arange(len(X)) % 5
    search = make(cv=GroupKFold(5)).fit(X, y, groups=groups)
    assert search.n_splits_ == 5
    weighted = make(estimator=GaussianNB(), param_distributions={"var_smoothing": (1e-9, 1e-3)})
    weighted.fit(X, y, sample_weight=np.ones(len(X)))
    with sklearn.config_context(enable_metadata_routing=True):
        routed = make(
            estimator=GaussianNB().set_partial_fit_request(sample_weight=True),
            param_distributions={"var_smoothing": (1e-9, 1e-3)},
        )
        routed.fit(X, y, sample_weight=np.linspace(0, 1, len(X)))
    assert not np.allclose(routed.best_estimator_.theta_, weighted.best_estimator_.theta_)


def test_a_study_in_a_file_is_continued(tmp_path: Path) -> None:
    place = tmp_path / "search.study"
    search = make(study=place).fit(X, y)
    assert deepband.open_study(place).done
    again = make(study=place).fit(X, y)  # another process would do the same
    assert again.best_params_ == search.best_params_
    assert (again.predict(X) == search.predict(X)).all()
    assert again.n_splits_ == 1
    again.set_params(max_resources=9).fit(X, y)
    assert len(deepband.open_study(place).runs) == 2
    again.deepen(X, y)
    assert deepband.open_study(place).max_budget == 27


class Stops(SGDClassifier):  # type: ignore[misc] # it ships no types
    """Is interrupted on the second rung, while it is armed."""

    armed = True

    def partial_fit(self, *given: Any, **named: Any) -> Any:
        if self.armed and getattr(self, "t_", 0) > 300:
            raise KeyboardInterrupt
        return super().partial_fit(*given, **named)


def test_an_interrupted_fit_resumes(tmp_path: Path) -> None:
    place = tmp_path / "search.study"
    with pytest.raises(KeyboardInterrupt):
        make(estimator=Stops(random_state=0), study=place).fit(X, y)
    known = len(deepband.open_study(place).evaluations)
    assert 0 < known < 6
    Stops.armed = False
    search = make(estimator=Stops(random_state=0), study=place).fit(X, y)
    assert search.best_score_ == make().fit(X, y).best_score_


@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork")
@pytest.mark.parametrize(
    ("resource", "backend"),
    [
        ("partial_fit", "multiprocessing"),  # by fork on Linux: quicker to start than "loky"
        pytest.param("partial_fit", "loky", marks=heavy),
        pytest.param("n_samples", "loky", marks=heavy),
    ],
)
def test_candidates_are_evaluated_by_several_processes(
    resource: str, backend: str, tmp_path: Path
) -> None:
    largest = {"partial_fit": 3, "n_samples": 100}[resource]
    settings = {"resource": resource, "max_resources": largest}
    one = make(**settings).fit(X, y)
    for study in (None, tmp_path / "a.study"):
        with joblib.parallel_config(backend):
            search = make(n_jobs=2, study=study, **settings).fit(X, y)
            assert search.best_score_ == one.best_score_
            assert search.deepen(X, y).n_resources_[-1] == 3 * largest


def test_a_fitted_search_travels(tmp_path: Path) -> None:
    for study in (None, tmp_path / "search.study"):
        search = make(study=study).fit(X, y)
        other = pickle.loads(pickle.dumps(search))
        assert (other.predict(X) == search.predict(X)).all()
        other.deepen(X, y)
        assert len(other.study_.runs) == 2
        assert len(search.study_.runs) == 1
        assert pickle.loads(pickle.dumps(other)).widen(X, y).width_ == 2
    (tmp_path / "search.study").unlink()
    assert (other.predict(X) == other.predict(X)).all()
    with pytest.raises(InputError, match="is gone"):
        other.deepen(X, y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"resource": "epochs"}, "not a parameter of SGDClassifier"),
        ({"estimator": LogisticRegression()}, "has no such method"),
        ({"max_resources": "auto"}, "give the largest"),
        ({"resource": "folds"}, "cv has 1 splits, but max_resources would be 3"),
        ({"resource": "n_samples", "max_resources": 1000}, "there are 300 samples"),
        ({"factor": 1}, "^factor is 1"),
        ({"width": 0}, "^width is 0: give a whole number of 1 or more"),
        ({"width": None}, "^width is None: give a whole number"),
        ({"width": 10**9}, "^width is 1000000000: at max_resources 3 it needs more than"),
        ({"brackets": 0}, "^brackets is 0: give a whole number"),
        ({"brackets": True}, "^brackets is True: give a whole number"),
        ({"min_resources": 9}, "^min_resources is 9: it is larger than max_resources, 3"),
        ({"resource": "n_samples", "min_resources": 290, "max_resources": 3}, "^min_resources is"),
        ({"cv": []}, "has no splits"),
        ({"scoring": ["accuracy", "f1"], "cv": 1000}, "set refit to"),
        ({"param_distributions": []}, "a list of one or more dicts"),
        ({"param_distributions": [{"alpha": (0.1, 1.0)}, 3]}, "a list of one or more dicts"),
        (
            {
                "resource": "max_iter",
                "param_distributions": [{"alpha": (0.1, 1.0)}, {"max_iter": (1, 50)}],
            },
            "remove it from the space",
        ),
        ({"max_resources": 9.9}, "whole number"),
        (
            {"resource": "max_iter", "param_distributions": {"max_iter": (1, 50)}},
            "remove it from the space",
        ),
        ({"scoring": ["accuracy"], "refit": "f1"}, "set refit to"),
        ({"scoring": lambda e, X, y: {"a": 0.5}}, "no metric 'score'"),
        ({"param_distributions": {}}, "no parameters"),
    ],
)
def test_wrong_use(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**given).fit(X, y)


IN_A_FILE = pytest.mark.parametrize("in_a_file", [True, pytest.param(False, marks=heavy)])
"""Studies in files take the same way as those in memory, and one more."""


def test_a_wrong_shape_leaves_no_file(tmp_path: Path) -> None:
    for wrong in ({"width": 0}, {"width": 10**9}, {"brackets": 0}):
        with pytest.raises(InputError):
            make(study=tmp_path / "a.study", **wrong).fit(X, y)
        with pytest.raises(InputError, match=r"^(width|brackets) is"):
            print(make(**wrong).plan_)
    assert not list(tmp_path.iterdir())


@pytest.mark.parametrize(
    "change",
    [
        {"scoring": "f1"},
        {"cv": 3},
        {"estimator__penalty": "l1"},
        {"param_distributions": {"l1_ratio": (0.0, 1.0)}},
        {"factor": 2},
        {"min_resources": 3},
        {"width": 2},
        {"brackets": None},
    ],
)
@IN_A_FILE
def test_what_must_stay_the_same(change: Any, in_a_file: bool, tmp_path: Path) -> None:
    search = make(warm_start=True, study=tmp_path / "a.study" if in_a_file else None)
    search.fit(X, y)
    search.set_params(**change)
    for method in (search.fit, search.deepen, search.widen):
        with pytest.raises(InputError, match=r"the same data|was created with|has another space"):
            method(X, y)
    assert len(search.study_.runs) == 1


def test_the_same_data_however_they_lie_in_memory() -> None:
    search = make().fit(X, y)
    search.deepen(np.asfortranarray(X), y)
    assert search.n_resources_[-1] == 9


def fixed(value: float) -> Any:
    """A scorer that is another one for another value, under the same name."""

    def score(estimator: Any, X: Any, y: Any) -> float:
        return value + float(estimator.score(X, y))

    return score


def swapped(splits: Any) -> Any:
    """The same folds, except that two samples in the middle of one are swapped."""
    (training, test), *rest = [(training.copy(), test.copy()) for training, test in splits]
    place = len(training) // 2
    training[place], test[place] = test[place], training[place]
    return [(training, test), *rest]


MANY_X, MANY_Y = make_classification(n_samples=1200, random_state=0)
SPLITS = list(KFold(2).split(MANY_X))


@pytest.mark.parametrize(
    ("before", "after", "part"),
    [
        ({"scoring": fixed(0)}, {"scoring": fixed(1)}, "scoring"),
        pytest.param(
            {"scoring": lambda e, X, y: e.score(X, y)},
            {"scoring": lambda e, X, y: -e.score(X, y)},
            "scoring",
            marks=heavy,
        ),
        (
            {"scoring": make_scorer(f1_score)},
            {"scoring": make_scorer(f1_score, pos_label=0)},
            "scoring",
        ),
        ({"cv": SPLITS}, {"cv": swapped(SPLITS)}, "splits"),
        pytest.param(
            {"cv": PredefinedSplit(np.arange(1200) % 2)}, {"cv": 2}, "splits", marks=heavy
        ),
    ],
)
@IN_A_FILE
def test_another_scorer_and_other_splits_are_noticed(
    before: Any, after: Any, part: str, in_a_file: bool, tmp_path: Path
) -> None:
    study = tmp_path / "a.study" if in_a_file else None
    search = make(warm_start=True, study=study, **before).fit(MANY_X, MANY_Y)
    search.set_params(**after)
    with pytest.raises(InputError, match=rf"(: |and ){part} differs"):
        search.deepen(MANY_X, MANY_Y)
    with pytest.raises(InputError, match=rf"(: |and ){part} differs"):
        search.set_params(max_resources=9).fit(MANY_X, MANY_Y)
    search.set_params(**before).deepen(MANY_X, MANY_Y)


def test_splits_of_a_generator_are_compared_too() -> None:
    search = make(cv=KFold(2).split(X)).fit(X, y)
    with pytest.raises(InputError, match="splits differs"):
        search.set_params(cv=iter(swapped(KFold(2).split(X)))).deepen(X, y)
    search.set_params(cv=KFold(2).split(X)).deepen(X, y)


def test_the_same_scorer_made_again_is_the_same() -> None:
    search = make(scoring=fixed(1), cv=KFold(2)).fit(X, y)
    search.set_params(scoring=fixed(1), cv=list(KFold(2).split(X)))
    assert search.deepen(X, y).n_resources_[-1] == 9


@pytest.mark.heavy
def test_equal_data_in_another_layout_are_the_same() -> None:
    import pandas as pd
    import scipy.sparse as sp

    names = [f"f{number}" for number in range(X.shape[1])]
    frame = pd.DataFrame(X, columns=names)
    in_rows = pd.DataFrame(np.ascontiguousarray(X), columns=names).set_axis(range(7, 307))
    split = pd.concat([frame[names[:3]], frame[names[3:]]], axis=1)
    search = make(warm_start=True).fit(frame, y)
    for same in (frame.copy(), in_rows, in_rows.reset_index(drop=True), split, frame[names]):
        search.fit(same, y)  # compares the data, and has nothing to evaluate
    with pytest.raises(InputError, match="data differs"):
        search.deepen(frame.rename(columns={"f0": "other"}), y)
    search.deepen(in_rows, y)
    twice = sp.csr_matrix(X)
    twice.data, twice.indices = np.repeat(twice.data / 2, 2), np.repeat(twice.indices, 2)
    twice.indptr = twice.indptr * 2
    summed = twice.copy()
    summed.sum_duplicates()
    assert len(summed.data) < len(twice.data)
    assert make(warm_start=True).fit(twice, y).fit(summed, y).n_splits_ == 1


def test_splits_must_be_the_same_every_time() -> None:
    for cv in (KFold(2, shuffle=True), ShuffleSplit(2)):
        with pytest.raises(InputError, match="splits differently"):
            make(cv=cv).fit(X, y)
    seeded = make(cv=KFold(2, shuffle=True, random_state=0)).fit(X, y)
    assert seeded.n_splits_ == 2
    once = make(cv=KFold(2).split(X)).fit(X, y)
    assert once.deepen(X, y).n_resources_[-1] == 9
    listed = make(cv=list(KFold(2).split(X))).fit(X, y)
    assert listed.best_params_ == make(cv=KFold(2)).fit(X, y).best_params_


@pytest.mark.parametrize(
    ("method", "wrong", "reached"),
    [
        ("deepen", {"max_resources": 8}, (1, [1, 3, 9])),
        pytest.param("widen", {"to": 0}, (2, [1, 3]), marks=heavy),
    ],
)
def test_a_continuation_that_was_interrupted_is_finished_first(
    method: str, wrong: Any, reached: Any, tmp_path: Path
) -> None:
    for study in (None, tmp_path / "a.study"):
        Stops.armed = False
        search = make(estimator=Stops(random_state=0), study=study).fit(X, y)
        Stops.armed = True
        with pytest.raises(KeyboardInterrupt):
            getattr(search, method)(X, y)
        Stops.armed = False
        known = len(search.study_.evaluations)
        with pytest.raises(InputError):  # a wrong target is refused before anything is evaluated
            getattr(search, method)(X, y, **wrong)
        assert len(search.study_.evaluations) == known
        getattr(search, method)(X, y)
        assert (search.width_, search.n_resources_) == reached
    again = make(estimator=Stops(random_state=0), study=tmp_path / "a.study").fit(X, y)
    getattr(again, method)(X, y)  # the script once more
    assert (again.width_, again.n_resources_) == reached


def test_models_of_another_study_are_not_used(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    make(study=place, random_state=1).fit(X, y)
    place.unlink()
    second = make(study=place, random_state=2).fit(X, y)
    assert second.best_score_ == make(random_state=2).fit(X, y).best_score_


class Loaded(SGDClassifier):  # type: ignore[misc] # it ships no types
    """Counts how often it is loaded from a file."""

    loaded = 0

    def __setstate__(self, state: Any) -> None:
        type(self).loaded += 1
        super().__setstate__(state)


@pytest.mark.heavy
def test_damaged_models_are_trained_again(tmp_path: Path) -> None:
    def deepened(damage: Any) -> Any:
        place = tmp_path / f"{damage.__name__}.study"
        loaded = Loaded(random_state=0)
        search = make(estimator=loaded, study=place, brackets=None).fit(X, y)
        models = list(place.with_name(place.name + ".files").glob("models/*/*"))
        assert models
        for path in models:
            damage(path)
        Loaded.loaded = 0
        return search.deepen(X, y).best_score_, Loaded.loaded

    def nothing(path: Path) -> None:
        pass

    def changed(path: Path) -> None:
        if path.suffix != ".json":
            content = bytearray(path.read_bytes())
            content[len(content) // 2] ^= 1
            path.write_bytes(content)

    def unsealed(path: Path) -> None:
        if path.suffix == ".json":
            path.unlink()

    def linked(path: Path) -> None:
        if path.suffix != ".json":
            path.symlink_to(path.rename(tmp_path / path.name))

    score, loaded = deepened(nothing)
    found = {deepened(damage) for damage in (changed, unsealed, linked)}
    assert len(found) == 1
    same, fewer = found.pop()  # those that the deepening itself has trained
    assert same == score
    assert fewer < loaded


SCALERS = [StandardScaler(), MinMaxScaler(), "passthrough"]


@pytest.mark.parametrize(
    "sampler",
    [
        "uniform",
        "tpe",
        *(pytest.param(name, marks=heavy) for name in ("forest", "gp", "prior")),
    ],
)
def test_estimators_as_choices(sampler: Any) -> None:
    pipe = Pipeline([("scale", StandardScaler()), ("model", LogisticRegression())])
    space = {"scale": SCALERS, "model": [LogisticRegression(C=0.1), Ridge(), GaussianNB()]}
    search = DeepbandSearchCV(
        pipe, space, cv=2, random_state=0, scoring="r2", sampler=sampler, **FEW
    ).fit(X, y)
    assert any(search.best_params_["scale"] is each for each in SCALERS)
    assert not hasattr(SCALERS[0], "scale_")
    search.deepen(X, y)
    again = pickle.loads(pickle.dumps(search))
    assert (again.predict(X) == search.predict(X)).all()
    assert search.study_.explain(0, 0)


def test_tuples_and_dicts_as_choices_are_restored(tmp_path: Path) -> None:
    sizes = [(5,), (5, 3), (3,)]
    space = {"hidden_layer_sizes": sizes, "alpha": (1e-4, 1e-2, "log")}
    place = tmp_path / "a.study"
    first, again = (
        make(estimator=MLPClassifier(random_state=0), param_distributions=space, study=place)
        for _ in range(2)
    )
    first.fit(X, y)
    again.fit(X, y).deepen(X, y)
    assert again.best_estimator_.hidden_layer_sizes in sizes
    with deepband.open_study(place) as study:
        assert {each.config["hidden_layer_sizes"] for each in study.evaluations} == set(sizes)
    weights = [{0: 1.0, 1: 2.0}, {0: 2.0, 1: 1.0}, None]
    other = tmp_path / "b.study"
    for _ in range(2):
        weighted = DeepbandSearchCV(
            LogisticRegression(),
            {**C, "class_weight": weights},
            study=other,
            cv=2,
            random_state=0,
            **FEW,
        ).fit(X, y)
        assert weighted.best_params_["class_weight"] in weights


@IN_A_FILE
def test_a_list_of_dicts_is_a_choice_among_them(in_a_file: bool, tmp_path: Path) -> None:
    space: list[dict[str, Any]] = [
        {"kernel": ["rbf"], "C": (0.1, 1.0), "gamma": (1e-3, 1e-1, "log")},
        {"kernel": ["poly"], "C": (10.0, 20.0), "degree": [2, 3]},
        {},
    ]
    study = tmp_path / "a.study" if in_a_file else None
    search = DeepbandSearchCV(SVC(), space, cv=2, random_state=0, study=study, min_resources=10)
    search.fit(X, y)
    results = search.cv_results_
    kinds = {frozenset(each) for each in results["params"]}
    assert kinds == {frozenset(each) for each in space}
    for params in results["params"]:
        (given,) = (each for each in space if set(each) == set(params))
        if "C" in params:
            low, high = given["C"]
            assert low <= params["C"] <= high
    assert all(
        results["param_gamma"].mask[row] == ("gamma" not in params)
        for row, params in enumerate(results["params"])
    )
    assert set(search.best_params_) in [set(each) for each in space]
    assert search.score(X, y) > 0.5
    one, plain = (
        DeepbandSearchCV(SVC(), given, cv=2, random_state=0, **FEW).fit(X, y) for given in ([C], C)
    )
    assert one.best_params_ == plain.best_params_


def test_several_labels() -> None:
    inputs, labels = make_multilabel_classification(n_samples=120, random_state=0)
    trees = DeepbandSearchCV(
        DecisionTreeClassifier(random_state=0), {"max_depth": (1, 9)}, cv=2, random_state=0
    )
    assert trees.fit(inputs, labels).predict(inputs).shape == labels.shape


def test_text_labels_and_frames() -> None:
    import pandas as pd

    frame = pd.DataFrame(X, columns=[f"f{n}" for n in range(X.shape[1])])
    names = np.array(["no", "yes"])[y]
    search = make().fit(frame, names)
    assert set(search.predict(frame)) <= {"no", "yes"}
    assert list(search.feature_names_in_) == list(frame.columns)
    search.deepen(frame.copy(), names)


def test_weights_are_cut_along_with_the_samples() -> None:
    class Weighed(LogisticRegression):  # type: ignore[misc] # it ships no types
        def fit(self, X: Any, y: Any, sample_weight: Any = None) -> Any:
            assert len(sample_weight) == len(X)
            return super().fit(X, y, sample_weight)

    search = DeepbandSearchCV(Weighed(), C, cv=2, random_state=0, **FEW)
    search.fit(X, y, sample_weight=np.ones(len(X)))
    assert search.best_score_ > 0.5


def test_wrong_ways_to_continue() -> None:
    search = make(warm_start=True).fit(X, y)
    with pytest.raises(InputError, match=r"27.*81|nearest"):
        search.set_params(max_resources=10).fit(X, y)
    with pytest.raises(InputError, match="the same data"):
        search.set_params(max_resources=9).fit(X[:200], y[:200])
    with pytest.raises(InputError, match="the same data"):
        search.deepen(X + 1, y)
    with pytest.raises(InputError, match="nearest"):
        search.deepen(X, y, max_resources=8)
    with pytest.raises(InputError, match="the same data"):
        search.widen(X + 1, y)
    with pytest.raises(InputError, match="parameters of fit differs"):
        search.widen(X, y, sample_weight=np.ones(len(X)))
    wrong: Any
    for wrong in (0, 1.5, True, "2"):
        with pytest.raises(InputError, match=r"^width is .*: give a whole number of 1 or more"):
            search.widen(X, y, to=wrong)
    with pytest.raises(InputError, match="cannot change the width"):
        search.widen(X, y, strategy="frugal")
    with pytest.raises(InputError, match="there is no strategy 'fast'"):
        search.widen(X, y, strategy="fast")  # type: ignore[arg-type] # that is the mistake
    assert len(search.study_.runs) == search.width_ == 1
    for method in (make().deepen, make().widen):
        with pytest.raises(sklearn.exceptions.NotFittedError):
            method(X, y)
    samples = DeepbandSearchCV(
        LogisticRegression(), C, cv=2, random_state=0, min_resources=100
    ).fit(X, y)
    with pytest.raises(InputError, match="there are 300 samples"):
        samples.deepen(X, y)


class Fragile(SGDClassifier):  # type: ignore[misc] # it ships no types
    """Fails for some parameters, or from some budget on."""

    def partial_fit(self, *given: Any, **named: Any) -> Any:
        if self.alpha > 1e-2 or (self.alpha > 1e-4 and getattr(self, "t_", 0) > 600):
            raise RuntimeError("too large")
        return super().partial_fit(*given, **named)


def test_candidates_that_fail_cost_only_themselves() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        fragile = Fragile(random_state=0)
        search = make(estimator=fragile, max_resources=9, brackets=None).fit(X, y)
    failed = np.isnan(search.cv_results_["mean_test_score"])
    assert 0 < failed.sum() < len(failed)
    assert not np.isnan(search.best_score_)
    hopeless = make(estimator=Fragile(), param_distributions={"alpha": (0.1, 1.0)})
    with pytest.raises(ValueError, match="fits failed"):
        hopeless.fit(X, y)
    with pytest.raises(RuntimeError, match="too large"):
        make(estimator=Fragile(), error_score="raise", max_resources=9).fit(X, y)


class Broken(LogisticRegression):  # type: ignore[misc] # it ships no types
    """Is fitted, and cannot predict."""

    def predict(self, X: Any) -> Any:
        raise RuntimeError("no prediction today")


@pytest.mark.filterwarnings("ignore:Scoring failed", "ignore:One or more of the test")
def test_a_search_without_any_score_says_why_and_is_not_fitted() -> None:
    search = DeepbandSearchCV(Broken(), C, cv=2, random_state=0, **FEW)
    with pytest.raises(InputError, match=r"no candidate.*RuntimeError: no prediction") as raised:
        search.fit(X, y)
    assert isinstance(raised.value.__cause__, RuntimeError)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        sklearn.utils.validation.check_is_fitted(search)
    assert all(each.error for each in search.study_.evaluations)
    fine = DeepbandSearchCV(LogisticRegression(), C, cv=2, random_state=0, **FEW).fit(X, y)
    with pytest.raises(InputError, match="no candidate has a score"):
        fine.set_params(estimator=Broken()).fit(X, y)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        fine.predict(X)


def test_a_parameter_that_is_not_there_is_no_verdict_about_a_candidate() -> None:
    search = make(param_distributions=[ALPHA, {"alhpa": (0.1, 1.0)}])
    with pytest.raises(ValueError, match="Invalid parameter 'alhpa'"):
        search.fit(X, y)


def test_without_scikit_learn_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "try: import deepband.integrations.sklearn\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "DeepbandError" in done.stdout
    assert install_command("sklearn") in done.stdout


class Recorder:
    """A callback that records its calls."""

    def __init__(self) -> None:
        self.begun: Counter[str] = Counter()
        self.ended: Counter[str] = Counter()
        self.around: list[str] = []
        self.estimators: list[Any] = []

    def setup(self, estimator: Any, context: Any) -> None:
        self.around.append(f"setup {context.max_subtasks}")

    def teardown(self, estimator: Any, context: Any) -> None:
        self.around.append("teardown")

    def on_fit_task_begin(self, estimator: Any, context: Any) -> None:
        self.begun[context.task_name] += 1
        self.estimators.append(estimator)

    def on_fit_task_end(self, estimator: Any, context: Any) -> None:
        self.ended[context.task_name] += 1


class Propagated(Recorder):
    """One that estimators within the search are given too."""

    max_propagation_depth = None


HAS_CALLBACKS = hasattr(DeepbandSearchCV, "set_callbacks")
"""Scikit-learn has them from 1.9 on."""


@pytest.mark.parametrize("refit", [True, False])
def test_callbacks_receive_every_evaluation(refit: bool) -> None:
    recorder = Recorder()
    search = DeepbandSearchCV(LogisticRegression(), C, cv=2, random_state=0, refit=refit, **FEW)
    if not HAS_CALLBACKS:
        return
    search.set_callbacks(recorder).fit(X, y)
    known = len(search.study_.evaluations)
    rungs = len({(each.bracket, each.rung) for each in search.study_.evaluations})
    expected = {"fit": 1, "search": 1, "rung": rungs, "candidate-split-evaluation": 2 * known}
    assert recorder.begun == recorder.ended
    assert recorder.begun == (expected | {"refit-with-best-params": 1} if refit else expected)
    assert all(each is search for each in recorder.estimators)
    assert recorder.around == [f"setup {1 + refit}", "teardown"]
    search.deepen(X, y)
    more = len(search.study_.evaluations) - known
    assert recorder.begun["candidate-split-evaluation"] == 2 * (known + more)
    assert recorder.around[2:] == recorder.around[:2]


def test_callbacks_receive_every_fold() -> None:
    recorder = Recorder()
    search = by_folds(estimator=LogisticRegression(), max_resources=3, brackets=None)
    if not HAS_CALLBACKS:
        return
    search.set_callbacks(recorder).fit(X, y)
    assert recorder.begun == recorder.ended
    assert recorder.begun["candidate-split-evaluation"] == search.study_.runs[0].trained
    assert recorder.begun["rung"] == 3
    assert recorder.begun["fold"] == 1 + 3 + 2


@pytest.mark.parametrize("jobs", [None, pytest.param(2, marks=heavy)])
def test_callbacks_receive_every_call_of_partial_fit(jobs: int | None) -> None:
    recorder = Propagated()
    search = make(n_jobs=jobs, cv=2)
    if not HAS_CALLBACKS:
        return
    search.set_callbacks(recorder).fit(X, y)
    assert recorder.begun == recorder.ended
    assert recorder.begun["refit-with-best-params"] == 1
    if jobs is None:  # another process has another recorder
        highest: dict[Any, int] = {}
        for each in search.study_.evaluations:
            config = each.bracket, each.index
            highest[config] = max(int(each.budget), highest.get(config, 0))
        assert recorder.begun["partial_fit"] == 2 * sum(highest.values())


def test_only_one_private_name_of_scikit_learn_is_used() -> None:
    folder = Path(deepband.__file__).parent / "integrations" / "sklearn"
    private = set()
    for path in folder.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("sklearn"):
                names = [f"{node.module}.{each.name}" for each in node.names]
                private |= {name for name in names if "._" in name}
    assert private == {"sklearn.model_selection._search.BaseSearchCV"}
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    (requirement,) = extras["sklearn"]
    newest = re.fullmatch(r"scikit-learn>=1\.6,<1\.(\d+)", requirement)
    assert newest, "the newest version that was tested bounds it"
    assert int(sklearn.__version__.split(".")[1]) < int(newest[1])


def test_a_sampler_by_its_name() -> None:
    search = make(sampler="prior").fit(X, y)
    assert search.study_.session.state.created.sampler == "prior"
    assert pickle.loads(pickle.dumps(search)).study_.session.learns
    plain = make().fit(X, y)
    assert len(search.cv_results_["params"]) == len(plain.cv_results_["params"])
