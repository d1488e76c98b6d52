"""DeepbandSearchCV: scikit-learn's own checks, and what only it can do."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
import warnings
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

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
from sklearn.ensemble import GradientBoostingClassifier, RandomForestClassifier
from sklearn.linear_model import LogisticRegression, Ridge, SGDClassifier
from sklearn.model_selection import GroupKFold, KFold, ShuffleSplit, StratifiedKFold
from sklearn.naive_bayes import GaussianNB
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.tree import DecisionTreeClassifier
from sklearn.utils.estimator_checks import estimator_checks_generator

import deepband
from deepband import InputError
from deepband.integrations.sklearn import DeepbandSearchCV
from deepband.integrations.sklearn.resources import Subsampled, nested
from deepband.strategies import StrategyName

X, y = make_classification(n_samples=300, n_informative=5, random_state=0)
ALPHA = {"alpha": (1e-6, 1e-1, "log")}
C = {"C": (1e-3, 1e2, "log")}


def make(**given: Any) -> DeepbandSearchCV:
    """A search by calls of partial_fit, small and repeatable."""
    settings = {"resource": "partial_fit", "max_resources": 3, "cv": 2, "random_state": 0}
    estimator = given.pop("estimator", SGDClassifier(random_state=0))
    space = given.pop("param_distributions", ALPHA)
    return DeepbandSearchCV(estimator, space, **{**settings, **given})


# As scikit-learn does with its own searches, fits that fail raise here: else a search takes a
# failure for a verdict about a candidate, and checks that want an error see none.
SEARCHES = {
    "samples": DeepbandSearchCV(LogisticRegression(), C, cv=2, random_state=0),
    "regressor": DeepbandSearchCV(Ridge(), {"alpha": (0.1, 1.0)}, cv=2, random_state=0),
    "partial_fit": make(),
}
EXCEPTIONS = {
    ("regressor", "check_supervised_y_2d"): "no search warns of a column y, GridSearchCV neither",
}
"""Checks that fail, and why that is right."""


def checks() -> Iterator[Any]:
    for name, search in SEARCHES.items():
        raising = clone(search).set_params(error_score="raise")
        for estimator, check in estimator_checks_generator(raising):
            called = check.func.__name__
            if "array_api" in called:  # of the estimator inside, by libraries that are not here
                continue
            reason = EXCEPTIONS.get((name, called))
            yield pytest.param(estimator, check, reason, id=f"{name}-{called}")


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(("estimator", "check", "reason"), list(checks()))
def test_the_checks_of_scikit_learn(estimator: Any, check: Any, reason: str | None) -> None:
    with pytest.raises(AssertionError) if reason else nullcontext():
        check(estimator)


@pytest.mark.parametrize(
    ("estimator", "space", "resource"),
    [
        (LogisticRegression(), C, {"max_resources": 100}),
        (
            RandomForestClassifier(random_state=0),
            {"max_depth": (1, 30)},
            {"resource": "n_estimators", "max_resources": 9},
        ),
        (SGDClassifier(random_state=0), ALPHA, {"resource": "partial_fit", "max_resources": 9}),
    ],
)
@pytest.mark.parametrize("strategy", ["discarding", "preserving", "efficient"])
def test_deepening_reuses_everything(
    estimator: Any, space: Any, resource: Any, strategy: StrategyName
) -> None:
    search = DeepbandSearchCV(estimator, space, cv=3, random_state=1, **resource)
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


def test_a_frugal_look_and_its_fill(tmp_path: Path) -> None:
    for _ in range(2):  # the script once more
        search = make(study=tmp_path / "a.study").fit(X, y)
        search.deepen(X, y, strategy="frugal")
        search.deepen(X, y, strategy="discarding", max_resources=9)
        assert search.n_resources_ == [1, 3, 9]
        assert [run.strategy for run in search.study_.runs] == [None, "frugal", "discarding"]
    fresh = make(max_resources=9).fit(X, y)
    arrived = search.study_.state.run.arrived
    assert arrived == fresh.study_.state.run.arrived
    with pytest.raises(InputError, match="one rung at a time"):
        search.deepen(X, y, strategy="frugal", max_resources=81)


def test_discarding_ends_as_a_fresh_search_does() -> None:
    deepened = make(strategy="discarding").fit(X, y)
    deepened.deepen(X, y)
    fresh = make(max_resources=9).fit(X, y)
    assert deepened.best_params_ == fresh.best_params_
    assert deepened.best_score_ == fresh.best_score_
    assert (deepened.predict(X) == fresh.predict(X)).all()


def test_the_plan_is_known_before_and_is_what_happens() -> None:
    search = make(max_resources=27)
    plan = search.plan_
    search.fit(X, y)
    assert search.plan_ == plan
    assert len(search.cv_results_["params"]) == plan.evaluations
    with pytest.raises(AttributeError, match="depends on the data"):
        print(DeepbandSearchCV(LogisticRegression(), C).plan_)


def test_fit_again_with_more_resources_goes_on() -> None:
    search = make(warm_start=True).fit(X, y)
    study = search.study_
    search.set_params(max_resources=27).fit(X, y)
    assert search.study_ is study
    assert [run.max_budget for run in study.runs] == [3, 27]
    search.fit(X, y)  # nothing is left
    assert len(study.runs) == 2
    cold = make().fit(X, y)
    before = cold.study_
    assert cold.fit(X, y).study_ is not before


def test_training_goes_on_from_the_rung_below(tmp_path: Path) -> None:
    search = make(estimator=Counting(str(tmp_path)), param_distributions=C, max_resources=9)
    search.fit(X, y)
    search.deepen(X, y)
    calls = len(list(tmp_path.iterdir()))
    resumed = sum(run.cost_resumed for run in search.study_.runs)
    refits = 9 + 27
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
    search = make(max_resources=9).fit(X, y)
    results = search.cv_results_
    train, test = next(iter(StratifiedKFold(2).split(X, y)))
    row = int(np.flatnonzero(results["n_resources"] == 9)[0])
    alone = SGDClassifier(random_state=0, **results["params"][row])
    for _ in range(9):
        alone.partial_fit(X[train], y[train], classes=np.unique(y))
    assert alone.score(X[test], y[test]) == results["split0_test_score"][row]


@pytest.mark.parametrize("n_jobs", [1, 2])
def test_the_same_for_any_number_of_jobs(n_jobs: int) -> None:
    search = make(n_jobs=n_jobs, max_resources=9).fit(X, y)
    alone = make(max_resources=9).fit(X, y)
    assert search.best_params_ == alone.best_params_
    for name in ("mean_test_score", "split1_test_score", "n_resources", "bracket", "iter"):
        assert (search.cv_results_[name] == alone.cv_results_[name]).all()


def test_the_table_of_results() -> None:
    search = make(max_resources=9, return_train_score=True).fit(X, y)
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
        list(Subsampled(KFold(2), n, labels, 1).split(X[:100], y[:100])) for n in (20, 60)
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

    search = DeepbandSearchCV(Sized(), C, cv=2, random_state=0, max_resources=100).fit(X, y)
    assert search.best_estimator_.size_ == 100
    search.deepen(X, y)
    assert search.best_estimator_.size_ == 300
    forest = DeepbandSearchCV(
        GradientBoostingClassifier(random_state=0),
        {"max_depth": (1, 5)},
        resource="n_estimators",
        max_resources=9,
        cv=2,
        random_state=0,
    ).fit(X, y)
    assert forest.best_estimator_.n_estimators == forest.best_params_["n_estimators"] == 9


def test_pipelines_regressors_and_distributions_of_scipy() -> None:
    pipe = make_pipeline(StandardScaler(), LogisticRegression())
    space = {"logisticregression__C": loguniform(1e-3, 1e2)}
    search = DeepbandSearchCV(pipe, space, cv=2, random_state=0).fit(X, y)
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
    with pytest.raises(InputError, match="refit names the one that decides"):
        make(scoring=["accuracy", "roc_auc"]).fit(X, y)


def test_refit_may_be_a_function_or_nothing() -> None:
    search = make(refit=lambda results: 3).fit(X, y)
    assert search.best_index_ == 3
    assert search.predict(X).shape == y.shape
    bare = make(refit=False).fit(X, y)
    assert bare.best_params_
    with pytest.raises(AttributeError, match="predict"):
        bare.predict(X)


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


def test_a_study_in_a_file_is_gone_on_with(tmp_path: Path) -> None:
    place = tmp_path / "search.study"
    search = make(study=place).fit(X, y)
    assert deepband.open_study(place).done
    again = make(study=place).fit(X, y)  # another process would do the same
    assert again.best_params_ == search.best_params_
    assert (again.predict(X) == search.predict(X)).all()
    assert again.n_splits_ == 2
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


def test_an_interrupted_fit_goes_on(tmp_path: Path) -> None:
    place = tmp_path / "search.study"
    with pytest.raises(KeyboardInterrupt):
        make(estimator=Stops(random_state=0), study=place).fit(X, y)
    known = len(deepband.open_study(place).evaluations)
    assert 0 < known < 6
    Stops.armed = False
    search = make(estimator=Stops(random_state=0), study=place).fit(X, y)
    assert search.best_score_ == make().fit(X, y).best_score_


def test_a_fitted_search_travels(tmp_path: Path) -> None:
    for study in (None, tmp_path / "search.study"):
        search = make(study=study).fit(X, y)
        other = pickle.loads(pickle.dumps(search))
        assert (other.predict(X) == search.predict(X)).all()
        other.deepen(X, y)
        assert len(other.study_.runs) == 2
        assert len(search.study_.runs) == 1
    (tmp_path / "search.study").unlink()
    assert (other.predict(X) == other.predict(X)).all()
    with pytest.raises(InputError, match="is gone"):
        other.deepen(X, y)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"resource": "epochs"}, "no parameter of SGDClassifier"),
        ({"estimator": LogisticRegression()}, "has no such method"),
        ({"max_resources": "auto"}, "say how large"),
        ({"resource": "n_samples", "max_resources": 1000}, "there are 300 samples"),
        ({"factor": 1}, "eta"),
        ({"min_resources": 9}, "min_budget"),
        ({"max_resources": 9.9}, "whole number"),
        (
            {"resource": "max_iter", "param_distributions": {"max_iter": (1, 50)}},
            "out of the space",
        ),
        ({"scoring": ["accuracy"], "refit": "f1"}, "refit names"),
        ({"scoring": lambda e, X, y: {"a": 0.5}}, "no metric 'score'"),
        ({"param_distributions": {}}, "no parameters"),
    ],
)
def test_wrong_use(given: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        make(**given).fit(X, y)


@pytest.mark.parametrize(
    "change",
    [
        {"scoring": "f1"},
        {"cv": 3},
        {"estimator__penalty": "l1"},
        {"param_distributions": {"l1_ratio": (0.0, 1.0)}},
        {"factor": 2},
        {"min_resources": 3},
    ],
)
@pytest.mark.parametrize("in_a_file", [False, True])
def test_what_must_stay_as_it_was(change: Any, in_a_file: bool, tmp_path: Path) -> None:
    search = make(warm_start=True, study=tmp_path / "a.study" if in_a_file else None)
    search.fit(X, y)
    search.set_params(**change)
    with pytest.raises(InputError, match=r"the same data|was made with"):
        search.deepen(X, y)


def test_the_same_data_however_they_lie_in_memory() -> None:
    search = make().fit(X, y)
    search.deepen(np.asfortranarray(X), y)
    assert search.n_resources_[-1] == 9


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


def test_a_deepening_that_was_interrupted_is_finished_first(tmp_path: Path) -> None:
    for study in (None, tmp_path / "a.study"):
        Stops.armed = False
        search = make(estimator=Stops(random_state=0), study=study).fit(X, y)
        Stops.armed = True
        with pytest.raises(KeyboardInterrupt):
            search.deepen(X, y)
        Stops.armed = False
        search.deepen(X, y)
        assert search.n_resources_ == [1, 3, 9]
    again = make(estimator=Stops(random_state=0), study=tmp_path / "a.study").fit(X, y)
    again.deepen(X, y)  # the script once more
    assert again.n_resources_ == [1, 3, 9]


def test_models_of_another_study_are_not_used(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    make(study=place, random_state=1).fit(X, y)
    place.unlink()
    second = make(study=place, random_state=2).fit(X, y)
    assert second.best_score_ == make(random_state=2).fit(X, y).best_score_


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

    search = DeepbandSearchCV(Weighed(), C, cv=2, random_state=0, max_resources=100)
    search.fit(X, y, sample_weight=np.ones(len(X)))
    assert search.best_score_ > 0.5


def test_wrong_ways_to_go_on() -> None:
    search = make(warm_start=True).fit(X, y)
    with pytest.raises(InputError, match=r"27.*81|nearest"):
        search.set_params(max_resources=10).fit(X, y)
    with pytest.raises(InputError, match="the same data"):
        search.set_params(max_resources=9).fit(X[:200], y[:200])
    with pytest.raises(InputError, match="the same data"):
        search.deepen(X + 1, y)
    with pytest.raises(InputError, match="nearest"):
        search.deepen(X, y, max_resources=8)
    with pytest.raises(sklearn.exceptions.NotFittedError):
        make().deepen(X, y)
    samples = DeepbandSearchCV(LogisticRegression(), C, cv=2, random_state=0).fit(X, y)
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
        search = make(estimator=Fragile(random_state=0), max_resources=9).fit(X, y)
    failed = np.isnan(search.cv_results_["mean_test_score"])
    assert 0 < failed.sum() < len(failed)
    assert not np.isnan(search.best_score_)
    hopeless = make(estimator=Fragile(), param_distributions={"alpha": (0.1, 1.0)})
    with pytest.raises(ValueError, match="fits failed"):
        hopeless.fit(X, y)
    with pytest.raises(RuntimeError, match="too large"):
        make(estimator=Fragile(), error_score="raise", max_resources=9).fit(X, y)


def test_without_scikit_learn_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['sklearn'] = None\n"
        "try: import deepband.integrations.sklearn\n"
        "except Exception as error: print(type(error).__name__, error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "DeepbandError" in done.stdout
    assert "pip install 'deepband[sklearn]'" in done.stdout


def test_a_sampler_by_its_name() -> None:
    search = make(sampler="de").fit(X, y)
    assert search.study_.state.created.sampler == "de"
    assert pickle.loads(pickle.dumps(search)).study_.learns
    plain = make().fit(X, y)
    assert len(search.cv_results_["params"]) == len(plain.cv_results_["params"])
