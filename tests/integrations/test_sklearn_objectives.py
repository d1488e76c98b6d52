"""Searches with several objectives: the front, the choice of `refit`, continuing, and mistakes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.datasets import make_classification
from sklearn.ensemble import RandomForestClassifier
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LogisticRegression, SGDClassifier
from sklearn.metrics import precision_score, recall_score
from sklearn.model_selection import RepeatedKFold, ShuffleSplit, cross_validate

from deepband import InputError
from deepband.errors import SeveralObjectivesError
from deepband.integrations.sklearn import DeepbandSearchCV

heavy = pytest.mark.heavy
X, y = make_classification(n_samples=300, n_informative=5, flip_y=0.2, random_state=0)
ALPHA = {"alpha": (1e-6, 1e-1, "log")}
SCORING = ["precision", "recall", "f1"]
BOTH = ["precision", "recall"]
TWO_FOLDS = ShuffleSplit(2, test_size=0.5, random_state=0)


def make(**given: Any) -> DeepbandSearchCV:
    """A search by calls of partial_fit, small and repeatable."""
    settings: dict[str, Any] = {"resource": "partial_fit", "max_resources": 3, "random_state": 0}
    settings |= {
        "brackets": 1,
        "cv": TWO_FOLDS,
        "scoring": SCORING,
        "objectives": BOTH,
        "refit": "f1",
    }
    estimator = given.pop("estimator", SGDClassifier(random_state=0))
    space = given.pop("param_distributions", ALPHA)
    return DeepbandSearchCV(estimator, space, **{**settings, **given})


def scores(search: DeepbandSearchCV, rows: Any) -> list[tuple[float, ...]]:
    columns = [search.cv_results_[f"mean_test_{name}"] for name in search.objectives or ()]
    return [tuple(column[row] for column in columns) for row in rows]


def dominates(one: tuple[float, ...], other: tuple[float, ...]) -> bool:
    return one != other and all(a >= b for a, b in zip(one, other, strict=True))


def check_front(search: DeepbandSearchCV) -> None:
    """The front has exactly the rows of the highest resource that no other one dominates."""
    results = search.cv_results_
    top = np.flatnonzero(results["n_resources"] == max(search.n_resources_))
    known = scores(search, top)
    wanted = {
        int(row)
        for row, own in zip(top, known, strict=True)
        if not any(dominates(other, own) for other in known)
    }
    assert {each["index"] for each in search.front_} == wanted
    assert len(search.front_) == len(wanted)
    assert [scores(search, [each["index"]])[0] for each in search.front_] == sorted(
        scores(search, wanted), reverse=True
    )
    for each in search.front_:
        row = each["index"]
        assert each.keys() == {"index", "params", "scores"}
        assert each["params"] == results["params"][row]
        assert each["scores"] == {n: results[f"mean_test_{n}"][row] for n in search.scoring}
    study = search.study_
    rung = study.session.state.schedule.top
    assert sorted(tuple(each.objectives.values()) for each in study.front(rung)) == sorted(
        scores(search, wanted)
    )


RESOURCES: dict[str, tuple[Any, Any, dict[str, Any]]] = {
    "partial_fit": (SGDClassifier(random_state=0), ALPHA, {"max_resources": 3}),
    "n_samples": (
        LogisticRegression(),
        {"C": (1e-4, 1e2, "log")},
        {"min_resources": 33, "max_resources": 100},
    ),
    "folds": (
        LogisticRegression(),
        {"C": (1e-4, 1e2, "log")},
        {"max_resources": 3, "cv": RepeatedKFold(n_splits=3, n_repeats=3, random_state=0)},
    ),
    "max_iter": (SGDClassifier(random_state=0), ALPHA, {"max_resources": 3}),
    "n_estimators": (
        RandomForestClassifier(warm_start=True, max_depth=2, random_state=0),
        {"max_features": (1, 10), "min_samples_leaf": (1, 50)},
        {"max_resources": 3},
    ),
}


@pytest.mark.parametrize(
    "resource",
    [
        pytest.param(each, marks=() if each in ("folds", "partial_fit") else heavy)
        for each in RESOURCES
    ],
)
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_every_resource_has_a_front_and_continues(resource: str, tmp_path: Path) -> None:
    estimator, space, given = RESOURCES[resource]
    search = make(estimator=estimator, param_distributions=space, resource=resource, **given)
    search.fit(X, y)
    check_front(search)
    before = len(search.cv_results_["params"])
    search.deepen(X, y)
    assert len(search.study_.runs) == 2
    assert len(search.cv_results_["params"]) > before
    check_front(search)
    search.widen(X, y)
    assert search.width_ == 2
    check_front(search)
    assert {f"rank_test_{name}" for name in SCORING} <= search.cv_results_.keys()
    if resource in ("partial_fit", "n_estimators", "folds"):
        assert any(each.resumed_from is not None for each in search.study_.evaluations)


def test_scores_on_folds_are_means_of_all_folds() -> None:
    estimator, space, given = RESOURCES["folds"]
    search = make(estimator=estimator, param_distributions=space, resource="folds", **given)
    search.fit(X, y)
    for each in search.front_:
        whole = clone(estimator).set_params(**each["params"])
        splits = list(given["cv"].split(X, y))[:3]
        found = cross_validate(whole, X, y, cv=splits, scoring=SCORING)
        for name, score in each["scores"].items():
            assert score == pytest.approx(found[f"test_{name}"].mean())


@pytest.mark.parametrize("name", SCORING)
def test_the_name_of_a_scorer_chooses_from_the_front(name: str) -> None:
    search = make(refit=name).fit(X, y)
    best = max(each["scores"][name] for each in search.front_)
    assert search.best_score_ == best
    assert search.best_index_ in [each["index"] for each in search.front_]
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert search.predict(X).shape == y.shape
    scorer = {"precision": precision_score, "recall": recall_score}.get(name)
    if scorer:
        assert search.score(X, y) == scorer(y, search.predict(X))


def test_a_function_chooses_any_row() -> None:
    received: list[Any] = []

    def balanced(results: dict[str, Any]) -> Any:
        received.append(results)
        return np.argmin(abs(results["mean_test_precision"] - results["mean_test_recall"]))

    search = make(refit=balanced).fit(X, y)
    assert received == [search.cv_results_]
    assert search.best_index_ == balanced(search.cv_results_)
    assert search.best_params_ == search.cv_results_["params"][search.best_index_]
    assert not hasattr(search, "best_score_")  # as in scikit-learn
    assert search.predict(X).shape == y.shape


def test_without_refit_nothing_is_the_best() -> None:
    search = make(refit=False).fit(X, y)
    check_front(search)
    names = "best_index_", "best_params_", "best_score_", "best_estimator_", "refit_time_"
    assert not [name for name in names if hasattr(search, name)]
    with pytest.raises(AttributeError, match="predict"):
        search.predict(X)
    with pytest.raises(SeveralObjectivesError):
        _ = search.study_.best
    search.set_params(refit="recall", warm_start=True).fit(X, y)  # chooses, and evaluates nothing
    assert len(search.study_.runs) == 1
    assert search.best_score_ == max(each["scores"]["recall"] for each in search.front_)
    search.set_params(objectives=None).set_params(warm_start=False).fit(X, y)
    assert not hasattr(search, "front_")  # of the fit before


def test_refit_may_change_in_a_study_file_but_objectives_may_not(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    first = make(study=place, refit=False).fit(X, y)
    again = make(study=place, refit="precision").fit(X, y)
    assert again.front_ == first.front_
    assert again.multimetric_
    assert again.scorer_.keys() == set(SCORING)
    deeper = make(study=place, refit="precision", max_resources=9).fit(X, y)
    assert deeper.n_resources_ == [1, 3, 9]
    for other in (["recall", "precision"], ["precision", "f1"], None):
        with pytest.raises(InputError, match="scoring differs"):
            make(study=place, objectives=other).fit(X, y)


@pytest.mark.parametrize("n_jobs", [pytest.param(2, marks=heavy)])
def test_the_same_for_any_number_of_jobs(n_jobs: int) -> None:
    one, two = make().fit(X, y), make(n_jobs=n_jobs).fit(X, y)
    assert one.front_ == two.front_


def both_scores(estimator: Any, X: Any, y: Any) -> dict[str, float]:
    found = estimator.predict(X)
    return {"a": precision_score(y, found), "b": recall_score(y, found)}


def test_scoring_may_be_a_function_or_a_dict() -> None:
    listed = make().fit(X, y)
    function = make(scoring=both_scores, objectives=["a", "b"], refit="b").fit(X, y)
    named = {"a": "precision", "b": "recall"}
    mapping = make(scoring=named, objectives=("a", "b"), refit="b").fit(X, y)
    assert function.front_ == mapping.front_
    assert [each["params"] for each in listed.front_] == [each["params"] for each in mapping.front_]


class Fragile(SGDClassifier):  # type: ignore[misc] # it ships no types
    """Fails with large alpha."""

    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        if self.alpha > 1e-4:
            raise ValueError("too large")
        return super().partial_fit(X, y, classes, sample_weight)


class Broken(SGDClassifier):  # type: ignore[misc] # it ships no types
    def partial_fit(self, X: Any, y: Any, classes: Any = None, sample_weight: Any = None) -> Any:
        raise ValueError("never works")


@pytest.mark.filterwarnings("ignore")
def test_candidates_that_fail_are_not_on_the_front() -> None:
    search = make(estimator=Fragile(random_state=0), width=2).fit(X, y)
    failed = [each for each in search.study_.evaluations if each.error]
    assert failed
    assert np.isnan(search.cv_results_["mean_test_recall"]).sum() == len(failed)
    assert all(each["params"]["alpha"] <= 1e-4 for each in search.front_)
    broken = make(estimator=Broken(random_state=0))
    with pytest.raises(ValueError, match="never works"):
        broken.fit(X, y)
    with pytest.raises(NotFittedError):
        broken.predict(X)


NAMES = "give a list of two or more different names of scorers"


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"refit": True}, "refit is True, but several objectives have no single best candidate"),
        ({"refit": 3}, "refit is 3, but several objectives"),
        ({"refit": "accuracy"}, "refit has 'accuracy', which is not a scorer"),
        ({"objectives": ["precision", "accuracy"]}, "objectives has 'accuracy', which is not a"),
        ({"scoring": "f1"}, "objectives has 'precision', which is not a scorer: scoring is 'f1'"),
        ({"scoring": None}, "objectives has 'precision', which is not a scorer: scoring is None"),
        ({"objectives": ["precision"]}, NAMES),
        ({"objectives": []}, NAMES),
        ({"objectives": "precision"}, NAMES),
        ({"objectives": ["f1", "f1"]}, NAMES),
        ({"objectives": ["f1", 3]}, NAMES),
        ({"objectives": {"f1": "maximize", "recall": "maximize"}}, NAMES),
        (
            {"scoring": {"loss": "f1", "b": "recall"}, "objectives": ["loss", "b"], "refit": "b"},
            "'loss' cannot be the name of an objective",
        ),
        (
            {
                "scoring": {"mean_fit_time": "f1", "b": "recall"},
                "objectives": ["mean_fit_time", "b"],
                "refit": "b",
            },
            "a column of cv_results_ has this name",
        ),
        (
            {"scoring": both_scores, "objectives": ["a", "c"], "refit": "a"},
            "there is no metric 'c': name others as objectives",
        ),
        ({"scoring": both_scores, "objectives": ["a", "b"], "refit": "c"}, "no metric 'c': set"),
        ({"refit": lambda results: 10**6}, "out of range"),
        ({"constraints": [("recall", (0, 1))]}, "constraints is .*: give a mapping from names of"),
        ({"constraints": {"accuracy": (0, 1)}}, "constraints has 'accuracy', which is not a"),
        ({"constraints": {"recall": (1, 0)}}, "the bounds of 'recall' are .1, 0.: give"),
        ({"constraints": {"recall": 0.5}}, "the bounds of 'recall' are 0.5: give"),
        ({"scoring": "f1", "objectives": None, "constraints": {"f1": (0, 1)}}, "scoring is 'f1'"),
        (
            {
                "scoring": both_scores,
                "objectives": ["a", "b"],
                "refit": "a",
                "constraints": {"c": (0, 1)},
            },
            "there is no metric 'c': give constraints of others",
        ),
        ({"constraints": {"recall": (1.5, None)}}, "no candidate is within .* recall from 0"),
        ({"constraints": {"f1": (2, None)}, "objectives": None}, "no candidate is within .* f1"),
    ],
)
def test_wrong_use(given: dict[str, Any], message: str) -> None:
    search = make(**given)
    with pytest.raises(InputError, match=message):
        search.fit(X, y)
    with pytest.raises(NotFittedError):
        search.predict(X)


def middle(search: DeepbandSearchCV, name: str) -> float:
    """A bound that some candidates on the highest resource keep, and others do not."""
    results = search.cv_results_
    top = results["n_resources"] == max(search.n_resources_)
    return float(np.median(results[f"mean_test_{name}"][top]))


@pytest.mark.parametrize("resource", ["partial_fit", "folds"])
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")
def test_the_front_and_the_best_are_within_the_constraints(resource: str) -> None:
    estimator, space, given = RESOURCES[resource]
    given = {**given, "resource": resource, "brackets": None, "param_distributions": space}
    bound = middle(make(estimator=estimator, **given).fit(X, y), "recall")
    for objectives in (BOTH, None):
        bounds = {"recall": (None, bound - 1e-9)}
        search = make(estimator=estimator, objectives=objectives, constraints=bounds, **given)
        search.fit(X, y)
        search.deepen(X, y)
        results = search.cv_results_
        within = results["mean_test_recall"] < bound
        assert 0 < within.sum() < len(within)
        assert (results["feasible"] == within).all()
        assert within[search.best_index_]
        if objectives is None:
            assert search.best_score_ == search.study_.best_at().value
        else:
            assert all(within[each["index"]] for each in search.front_)


def test_constraints_are_those_of_the_study_file(tmp_path: Path) -> None:
    place, bounds = tmp_path / "a.study", {"recall": (0.01, None)}
    first = make(study=place, constraints=bounds).fit(X, y)
    again = clone(first).fit(X, y)
    assert again.front_ == first.front_
    assert len(again.study_.runs) == 1
    assert "feasible" not in make().fit(X, y).cv_results_
    for other in (None, {}, {"recall": (0.02, None)}, {"f1": (0.01, None)}):
        with pytest.raises(InputError, match="constraints"):
            make(study=place, constraints=other).fit(X, y)
