"""Scikit-learn's own tests of its searches, run with DeepbandSearchCV in their place.

They come from the scikit-learn that is installed, and run in a process of their own (see
`upstream.py`). Every test function of theirs is one test here, with all its parameters.
"""

from __future__ import annotations

import ast
import json
import os
import subprocess
import sys
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest
import sklearn

ROOT = Path(__file__).parents[2]
MODULES = ("test_search", "test_successive_halving")
PACKAGE = "sklearn.model_selection.tests"

CANDIDATES = "counts the candidates of a grid or of `n_iter`; here the schedule sets their number"
SAMPLES = "trains every candidate on all samples; here a lower rung has fewer"
HALVING = "uses attributes or settings that only scikit-learn's halving searches have"
TOP = "ends below `max_resources`; here the highest rung has exactly that many"
METRICS = "has several metrics, and `refit` does not name the one that decides"
UNSCORED = "expects a best candidate where none has a score; here that is an error"
SHUFFLED = "splits differently at every call; here a splitter needs a `random_state`"
UNBOUNDED = "draws from a distribution without bounds"
CONSTANT = "expects an error for a plain value; here that is a constant"
TWICE = "lists the same choice several times; here the choices of a space must differ"
EMPTY = "has no parameters to search"
ROUNDS = "counts warnings or lines; here they appear once per rung"
WORDS = "expects a certain message; here the same mistake raises an error with other words"
PRIVATE = "calls a private method of scikit-learn's halving"

_SEARCH = {
    "test_grid_search": CANDIDATES,
    "test_grid_search_pipeline_steps": CANDIDATES,
    "test_refit_callable": CANDIDATES,
    "test_refit_callable_out_bound[GridSearchCV-2]": CANDIDATES,
    "test_refit_callable_out_bound[RandomizedSearchCV-2]": CANDIDATES,
    "test_unsupervised_grid_search": CANDIDATES,
    "test_grid_search_cv_results": CANDIDATES,
    "test_search_default_iid": CANDIDATES,
    "test_search_cv_results_rank_tie_breaking": CANDIDATES,
    "test_search_cv_timing": CANDIDATES,
    "test_grid_search_failing_classifier": CANDIDATES,
    "test_grid_search_failing_classifier_raise": CANDIDATES,
    "test_custom_run_search": CANDIDATES,
    "test_search_with_2d_array": CANDIDATES,
    "test_search_callbacks_no_propagation": CANDIDATES,
    "test_search_callbacks_propagation": CANDIDATES,
    "test_search_callbacks_with_partial_fit_failures": CANDIDATES,
    "test_grid_search_correct_score_results": SAMPLES,
    "test_grid_search_with_multioutput_data": SAMPLES,
    "test_search_cv_sample_weight_equivalence": SAMPLES,
    "test_no_refit": METRICS,
    "test_refit_callable_multi_metric": METRICS,
    "test_grid_search_cv_results_multimetric": METRICS,
    "test_random_search_cv_results_multimetric": METRICS,
    "test_callable_multimetric_error_failing_clf": METRICS,
    "test_unsupported_sample_weight_scorer": UNSCORED,
    "test_search_cv_results_none_param": UNSCORED,
    "test_grid_search_groups": SHUFFLED,
    "test_grid_search_cv_splits_consistency": SHUFFLED,
    "test_random_search_cv_results": UNBOUNDED,
    "test_grid_search_bad_param_grid": CONSTANT,
    "test_grid_search_classifier_all_fits_fail": TWICE,
    "test_callable_multimetric_clf_all_fits_fail": TWICE,
    "test_predict_proba_disabled": EMPTY,
    "test_searchcv_raise_warning_with_non_finite_score": ROUNDS,
    "test_search_cv_verbose_3": ROUNDS,
    "test_empty_cv_iterator_error": WORDS,
    "test_callable_multimetric_error_on_invalid_key": WORDS,
}
_HALVING = {
    "test_aggressive_elimination": HALVING,
    "test_min_max_resources": HALVING,
    "test_n_iterations": HALVING,
    "test_random_search_discrete_distributions": HALVING,
    "test_input_errors_randomized": HALVING,
    "test_base_estimator_inputs": HALVING,
    "test_cv_results": HALVING,
    "test_resource_parameter": TOP,
    "test_random_search": UNBOUNDED,
    "test_halving_random_search_list_of_dicts": UNBOUNDED,
    "test_input_errors": WORDS,
    "test_min_resources_null": WORDS,
    "test_select_best_index": PRIVATE,
}
NOT_APPLICABLE = {
    **{f"test_search.py::{name}": reason for name, reason in _SEARCH.items()},
    **{f"test_successive_halving.py::{name}": reason for name, reason in _HALVING.items()},
}
"""Tests of theirs that fail, and why that is right: a whole function, or one set of its
parameters."""


def source(module: str) -> Path:
    """The file of a module of scikit-learn's tests."""
    spec = find_spec(PACKAGE) and find_spec(f"{PACKAGE}.{module}")
    if spec is None or spec.origin is None:
        raise FileNotFoundError(
            f"scikit-learn {sklearn.__version__} is installed without {PACKAGE}.{module}, which "
            "its wheels on PyPI have: install it from there."
        )
    return Path(spec.origin)


def functions() -> Iterator[str]:
    """The test functions of scikit-learn, as file::name."""
    for module in MODULES:
        path = source(module)
        for node in ast.parse(path.read_text()).body:
            if isinstance(node, ast.FunctionDef) and node.name.startswith("test_"):
                yield f"{path.name}::{node.name}"


@pytest.fixture(scope="module")
def outcomes(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """What became of every test of theirs."""
    folder = tmp_path_factory.mktemp("upstream")
    report = folder / "outcomes.json"
    options = ["-q", "-p", "upstream", "-p", "no:cacheprovider", "--timeout=900", "--tb=short"]
    modules = [f"{PACKAGE}.{module}" for module in MODULES]
    subprocess.run(
        [sys.executable, "-m", "pytest", *options, "--disable-warnings", "--pyargs", *modules],
        cwd=folder,
        env={
            **os.environ,
            "PYTHONPATH": os.pathsep.join([str(ROOT / "tests" / "support"), str(ROOT / "src")]),
            "UPSTREAM_OUTCOMES": str(report),
        },
        check=False,  # most of what is not applicable fails
    )
    return dict(json.loads(report.read_text()))


@pytest.mark.heavy
@pytest.mark.timeout(7200)
@pytest.mark.parametrize("function", list(functions()))
def test_what_scikit_learn_expects_of_a_search(function: str, outcomes: dict[str, str]) -> None:
    found = {name: outcomes[name] for name in outcomes if name.partition("[")[0] == function}
    assert found, "it did not run"
    failed = {name for name, outcome in found.items() if outcome == "failed"}
    passed = {name for name, outcome in found.items() if outcome == "passed"}
    listed = {name for name in found if function in NOT_APPLICABLE or name in NOT_APPLICABLE}
    assert failed <= listed, "a defect, or not listed as not applicable"
    assert not passed & listed, "it is listed as not applicable, and passes"


@pytest.mark.heavy  # with the newest scikit-learn, which the list is for
def test_what_is_not_applicable_exists() -> None:
    known = set(functions())
    assert {name.partition("[")[0] for name in NOT_APPLICABLE} <= known


def by_reason() -> str:
    """What is not applicable, as the page on scikit-learn lists it."""
    lines = []
    for reason in dict.fromkeys(NOT_APPLICABLE.values()):
        names = [name.partition("::")[2] for name, why in NOT_APPLICABLE.items() if why == reason]
        functions = dict.fromkeys(name.partition("[")[0] for name in names)
        lines.append(f"- {reason}: " + ", ".join(f"`{name}`" for name in functions))
    return "\n".join(lines)


def test_the_page_on_scikit_learn_lists_what_is_not_applicable() -> None:
    page = (ROOT / "docs" / "how-to" / "sklearn.md").read_text()
    assert " ".join(by_reason().split()) in " ".join(page.split())
