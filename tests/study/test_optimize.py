"""Running an objective: how it is called, what counts as a failure, when it stops."""

from __future__ import annotations

import math
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from decimal import Decimal
from fractions import Fraction
from functools import partial, wraps
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepband
from deepband import (
    Context,
    FailedEvaluationsWarning,
    InputError,
    NoResultError,
    ObjectiveError,
    Study,
)
from deepband.analysis import export
from deepband.core.facts import Fact, JobFinished
from driving import SPACE, open_study


def by_x(config: dict[str, Any], budget: float) -> float:
    return float(config["x"]) + 1 / budget


def test_an_objective_of_two_arguments() -> None:
    study = open_study()
    study.optimize(by_x)
    assert study.done
    assert len(study.evaluations) == 22
    assert all(each.seconds is not None and each.seconds >= 0 for each in study.evaluations)
    assert study.runs[0].seconds > 0


def test_an_objective_of_three_arguments() -> None:
    contexts: list[Context] = []

    def objective(config: dict[str, Any], budget: float, context: Context) -> dict[str, float]:
        contexts.append(context)
        for step in (1, 2):
            context.report(step, 1 / step)
        return {"loss": config["x"], "step": 2}

    study = open_study()
    study.optimize(objective)
    assert study.evaluations[0].curve == ((1.0, 1.0), (2.0, 0.5))
    assert study.evaluations[0].metrics == {"step": 2}
    assert {context.slot for context in contexts} == {0}
    seeds = [context.seed for context in contexts]
    assert len(set(seeds)) == len(seeds)
    assert all(type(seed) is int and 0 <= seed < 2**32 for seed in seeds)
    again: list[Context] = []
    contexts, first = again, contexts
    other = open_study()
    other.optimize(objective)
    assert [context.seed for context in again] == [context.seed for context in first]


def given_to(make: Callable[[list[object]], Any]) -> list[object]:
    """What an objective was given beside config and budget; `make` is told where to note it."""
    seen: list[object] = []
    study = open_study(max_budget=1)
    study.optimize(make(seen))
    assert [each.error for each in study.evaluations] == [None]
    return seen


def note(seen: list[object], *things: object) -> float:
    seen.extend(things)
    return 1.0


TAKES_CONTEXT: dict[str, Callable[[list[object]], Any]] = {
    "third": lambda seen: lambda config, budget, context: note(seen, context),
    "third of any name": lambda seen: lambda config, budget, c: note(seen, c),
    "third, by place only": lambda seen: lambda config, budget, c, /: note(seen, c),
    "with a default": lambda seen: lambda config, budget, context=None: note(seen, context),
    "with a default, by place only": lambda seen: (
        lambda config, budget, context=None, /: note(seen, context)
    ),
    "by keyword only": lambda seen: lambda config, budget, *, context: note(seen, context),
    "by keyword only, with a default": lambda seen: (
        lambda config, budget, *rest, context=None, **more: note(seen, context, *rest, *more)
    ),
    "after others": lambda seen: (
        lambda config, budget, verbose=False, context=None: note(
            seen, context, *[verbose][:verbose]
        )
    ),
    "partial": lambda seen: partial(
        lambda data, config, budget, context: note(seen, context), "data"
    ),
    "wrapped": lambda seen: wraps(lambda config, budget, context: 1.0)(
        lambda *given, **named: note(seen, *given[2:], *named.values())
    ),
}


@pytest.mark.parametrize("shape", TAKES_CONTEXT)
def test_an_objective_that_takes_a_context_is_given_one(shape: str) -> None:
    (context,) = given_to(TAKES_CONTEXT[shape])
    assert isinstance(context, Context)


class Caller:
    """An object that is called; its third parameter is its own."""

    def __init__(self, seen: list[object]) -> None:
        self.seen = seen

    def __call__(self, config: dict[str, Any], budget: float, verbose: bool = False) -> float:
        return note(self.seen, verbose)

    def context(self, config: dict[str, Any], budget: float) -> float:
        return note(self.seen, False)


TAKES_NONE: dict[str, Callable[[list[object]], Any]] = {
    "another default": lambda seen: lambda config, budget, verbose=False: note(seen, verbose),
    "another keyword": lambda seen: lambda config, budget, *, verbose=False: note(seen, verbose),
    "the rest": lambda seen: lambda config, budget, *rest: note(seen, False, *rest),
    "anything": lambda seen: lambda *given, **named: note(seen, False, *given[2:], *named),
    "named like the first": lambda seen: lambda context, budget: note(seen, False),
    "an object": Caller,
    "a method": lambda seen: Caller(seen).context,
    "bound by its user": lambda seen: partial(
        lambda config, budget, context: note(seen, context), context=False
    ),
}


@pytest.mark.parametrize("shape", TAKES_NONE)
def test_an_objective_that_takes_no_context_is_given_none(shape: str) -> None:
    assert given_to(TAKES_NONE[shape]) == [False]


def test_an_objective_without_a_signature() -> None:
    study = open_study(max_budget=1)
    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(max)  # of a config and a budget: it fails, but it is called
    assert len(study.evaluations) == 1


def test_an_objective_with_a_keyword_runs_in_workers() -> None:
    study = open_study(max_budget=3)
    study.optimize(lambda config, budget, verbose=0, *, context: context.seed + verbose, workers=2)
    assert study.done
    assert all(each.loss is not None for each in study.evaluations)


@pytest.mark.parametrize(
    "objective",
    [
        None,
        3,
        "train.py:objective",
        lambda: 1,
        lambda c: 1,
        lambda a, b, c, d: 1,
        lambda a, b, c, context: 1,
        lambda a, b, *, c: 1,
        lambda a, b, *, context, d: 1,
        lambda a, *, context: 1,
    ],
)
def test_what_cannot_be_called_is_refused_before_anything_is_run(objective: Any) -> None:
    study = open_study()
    with pytest.raises(InputError, match="the objective"):
        study.optimize(objective)
    assert study.evaluations == []


def test_the_config_is_a_copy() -> None:
    def objective(config: dict[str, Any], budget: float) -> float:
        return float(config.pop("x"))

    study = open_study()
    study.optimize(objective)
    assert all("x" in each.config for each in study.evaluations)


def failing(study: Study, bad: object, every: int = 2) -> None:
    """Let every second evaluation end in `bad`: returned, or raised if it is an exception."""
    count = 0

    def objective(config: dict[str, Any], budget: float) -> object:
        nonlocal count
        count += 1
        if count % every == 0:
            if isinstance(bad, BaseException):
                raise bad
            return bad
        return 1.0

    study.optimize(objective)


@pytest.mark.parametrize(
    ("bad", "kind"),
    [
        (ValueError("x"), "ValueError"),
        (SystemExit(0), "SystemExit"),
        (MemoryError(), "MemoryError"),
        (float("nan"), "nan"),
        pytest.param(10**400, "ResultError", id="huge"),
        ("0.5", "ResultError"),
        (b"5", "ResultError"),
        (None, "ResultError"),
        ((1, 2), "ResultError"),
        (np.zeros(2), "ResultError"),
        (True, "ResultError"),
        (float("-inf"), "ResultError"),
        (Decimal("1e400"), "ResultError"),
        ({"accuracy": 1}, "ResultError"),
    ],
)
def test_bad_results_are_failed_evaluations(bad: object, kind: str) -> None:
    study = open_study()
    with pytest.warns(FailedEvaluationsWarning):
        failing(study, bad)
    assert study.done
    errors = [each.error for each in study.evaluations if each.error is not None]
    assert len(errors) == 11
    assert {error.split(":")[0] for error in errors} == {kind}
    assert study.best.loss == 1.0


def test_a_failure_keeps_its_traceback() -> None:
    study = open_study()
    with pytest.warns(FailedEvaluationsWarning):
        failing(study, ValueError("the shape is wrong"))
    error = next(each.error for each in study.evaluations if each.error)
    assert error.startswith("ValueError: the shape is wrong\n\nTraceback")
    assert "raise bad" in error


@pytest.mark.parametrize("bad", [KeyError("learning_rate"), float("nan"), None])
def test_first_failures_stop_it_and_nothing_is_recorded(bad: object) -> None:
    study = open_study()
    with pytest.raises(ObjectiveError, match="first 3 evaluations all failed") as caught:
        failing(study, bad, every=1)
    assert len(caught.value.errors) == 3
    if isinstance(bad, KeyError):
        assert "KeyError: 'learning_rate'" in str(caught.value)
    assert study.evaluations == []
    study.optimize(by_x)
    assert study.done


def test_first_failures_can_be_believed() -> None:
    study = open_study()
    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(lambda config, budget: float("nan"), first_failures=0)
    assert study.done
    with pytest.raises(NoResultError):
        _ = study.best


def test_a_few_first_failures_are_recorded_when_something_works() -> None:
    study = open_study()
    count = 0

    def objective(config: dict[str, Any], budget: float) -> float:
        nonlocal count
        count += 1
        if count <= 2:
            raise ValueError
        return 1.0

    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(objective)
    assert sum(each.loss is None for each in study.evaluations) == 2
    assert study.done


def test_fewer_jobs_than_first_failures_are_recorded() -> None:
    study = open_study(max_budget=1)
    with pytest.warns(FailedEvaluationsWarning):
        failing(study, ValueError(), every=1)
    assert study.done
    with pytest.raises(NoResultError):
        _ = study.best


def test_failed_jobs_of_an_undecided_rung_can_be_tried_again() -> None:
    study = open_study()
    jobs = study.ask_all()
    study.tell_all([(job, 1.0) for job in jobs if job.bracket == 2])  # decided: the top rung
    study.tell_all([(job, ValueError()) for job in jobs[:4]])
    assert study.retry_failed() == 4
    assert study.retry_failed() == 0
    assert [job.key for job in study.ask_all()] == [job.key for job in jobs[:4]]
    study.tell_all([(job, 0.0) for job in jobs if job.bracket < 2])
    study.optimize(by_x)
    assert all(each.loss is not None for each in study.evaluations)
    failed = open_study()
    with pytest.warns(FailedEvaluationsWarning):
        failing(failed, ValueError())
    assert failed.retry_failed() == 0


def test_taking_back_lasts(tmp_path: Path) -> None:
    with deepband.open_study(tmp_path / "a.study", space={"x": (0.0, 1.0)}, max_budget=9) as study:
        for job in study.ask_all()[:3]:
            study.tell(job, ValueError())
        study.retry_failed()
    assert deepband.open_study(tmp_path / "a.study").evaluations == []


def test_it_stops_at_a_cost() -> None:
    study = open_study()
    study.optimize(by_x, max_cost=7.5)
    assert sum(each.budget for each in study.evaluations) == 7
    study.optimize(by_x, max_cost=5)
    assert sum(each.budget for each in study.evaluations) == 12
    study.optimize(by_x)
    assert study.done


FRACTIONS: list[dict[str, Any]] = [
    {"min_budget": 0.1, "max_budget": 0.9},
    {"min_budget": Fraction(1, 9), "max_budget": 1},  # its cost, 26/3, is no float
    {"min_budget": 1, "max_budget": 1.7, "eta": 2},
    {"min_budget": 1, "max_budget": 100},
    {"min_budget": 1, "max_budget": 100, "integer_budgets": False},
]


@pytest.mark.parametrize("settings", FRACTIONS, ids=str)
@pytest.mark.parametrize("kind", [float, Fraction, Decimal])
def test_a_run_costs_what_its_plan_says(settings: dict[str, Any], kind: type[Any]) -> None:
    study = open_study(**settings)
    cost = study.plan().cost
    study.optimize(by_x, max_cost=cost if kind is Fraction else kind(str(float(cost))))
    assert study.done
    assert study.runs[-1].cost == cost


@pytest.mark.parametrize("settings", FRACTIONS, ids=str)
def test_a_run_that_may_cost_a_little_less_ends_one_job_early(settings: dict[str, Any]) -> None:
    study = open_study(**settings)
    plan = study.plan()
    study.optimize(by_x, max_cost=plan.cost * Fraction(999_999, 1_000_000))
    assert study.runs[-1].evaluations == plan.evaluations - 1
    study.optimize(by_x, max_cost=plan.schedule.max_budget)
    assert study.done


def test_training_that_goes_on_costs_the_difference_exactly() -> None:
    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        (context.path / "weights").write_text("w")
        return float(config["x"])

    study = open_study(min_budget=0.1, max_budget=0.9)
    study.optimize(objective, max_cost=float(study.plan().cost_resumed))
    assert study.done
    assert study.runs[-1].trained == study.plan().cost_resumed


@pytest.mark.parametrize("limit", [float("inf"), np.float32("inf"), Decimal("inf")])
def test_an_infinite_limit_is_none(limit: Any) -> None:
    study = open_study()
    study.optimize(by_x, max_cost=limit, max_seconds=limit, ahead=True, ahead_limit=limit)
    assert study.done


def test_it_stops_after_a_time() -> None:
    study = open_study()

    def slow(config: dict[str, Any], budget: float) -> float:
        time.sleep(0.05)
        return 1.0

    study.optimize(slow, max_seconds=0.12)
    assert 1 <= len(study.evaluations) < 22
    study.optimize(slow, max_seconds=0)
    assert not study.done


def test_an_interrupt_goes_through_and_the_job_is_offered_again() -> None:
    study = open_study()
    count = 0

    def objective(config: dict[str, Any], budget: float) -> float:
        nonlocal count
        count += 1
        if count == 5:
            raise KeyboardInterrupt
        return 1.0

    with pytest.raises(KeyboardInterrupt):
        study.optimize(objective)
    assert len(study.evaluations) == 4
    job = study.ask()
    assert job is not None
    assert job.index == 4


def test_every_record_is_announced() -> None:
    study = open_study()
    seen: list[int] = []

    class Counter:
        def observe(self, facts: Sequence[Fact]) -> None:
            seen.extend(len(study.evaluations) for fact in facts if isinstance(fact, JobFinished))

    study.observe(Counter())
    study.optimize(by_x)
    assert seen == list(range(1, 23))


@pytest.mark.parametrize("name", ["max_cost", "max_seconds"])
@pytest.mark.parametrize("limit", [float("nan"), "5", True, -1])
def test_bad_limits_are_refused(name: str, limit: Any) -> None:
    with pytest.raises(InputError, match=f"{name} is .*: give a number of 0 or more"):
        open_study().optimize(by_x, **{name: limit})


@pytest.mark.parametrize("stored", [True, False])
def test_a_learning_curve_may_diverge(tmp_path: Path, stored: bool) -> None:
    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        context.report(1, float("nan"))
        context.report(2, float("inf"))
        return 1.0

    path = tmp_path / "a.study" if stored else None
    with deepband.open_study(path, space={"x": (0.0, 1.0)}, max_budget=3) as study:
        study.optimize(objective)
    opened = deepband.open_study(path) if path else study
    (_, first), (_, second) = opened.evaluations[0].curve
    assert math.isnan(first)
    assert second == float("inf")
    assert list(export.jsonl(opened.session.state))


class Hostile(dict[str, Any]):
    """A mapping that cannot be read."""

    def __getitem__(self, key: str) -> Any:
        raise RuntimeError("no")


class Nameless:
    """An object that cannot be printed."""

    def __repr__(self) -> str:
        raise RuntimeError("no")


def endless() -> dict[str, Any]:
    metrics: dict[str, Any] = {"loss": 1.0}
    metrics["self"] = metrics
    return metrics


@pytest.mark.parametrize(
    ("result", "kind"),
    [
        (Hostile(loss=1.0), "RuntimeError"),
        (endless(), "RecursionError"),
        (ValueError("\udcff"), "ValueError"),
        ({"loss": 1.0, "name": Nameless()}, None),
        ({"loss": 1.0, "large": 10**5000, "text": "\udcff", "\udcff": 1}, None),
    ],
    ids=["hostile", "endless", "surrogate", "nameless", "odd"],
)
def test_odd_results_never_crash(tmp_path: Path, result: Any, kind: str | None) -> None:
    warned = pytest.warns(FailedEvaluationsWarning) if kind else nullcontext()
    with deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3) as study, warned:
        failing(study, result)
    evaluations = deepband.open_study(tmp_path / "a.study").evaluations
    kinds = {None if each.error is None else each.error.split(":")[0] for each in evaluations}
    assert kinds == {None, kind}


def test_an_objective_that_removes_its_folder(tmp_path: Path) -> None:
    def objective(config: dict[str, Any], budget: float, context: Context) -> float:
        context.path.rmdir()
        return 1.0

    with deepband.open_study(tmp_path / "a.study", space={"x": (0.0, 1.0)}, max_budget=3) as study:
        study.optimize(objective)
        assert study.done


def test_a_job_whose_folder_cannot_be_made_is_offered_again(tmp_path: Path) -> None:
    def train(config: dict[str, Any], budget: float, context: Context) -> float:
        return float(config["x"])

    with deepband.open_study(tmp_path / "a.study", space={"x": (0.0, 1.0)}, max_budget=3) as study:
        study.session.files.mkdir(exist_ok=True)
        (study.session.files / "checkpoints").touch()
        with pytest.raises(deepband.StorageError, match="cannot store checkpoints"):
            study.optimize(train)
        (study.session.files / "checkpoints").unlink()
        study.optimize(train)
        assert study.done
