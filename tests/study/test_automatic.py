"""`auto_extend`: it deepens and widens, it stops, and it continues with what it had decided."""

from __future__ import annotations

import math
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest

import deepband
from curves import falling, settling, told
from deepband import (
    BudgetError,
    FailedEvaluationsWarning,
    InputError,
    ObjectiveError,
    Study,
    UnknownNameError,
)
from deepband.core.strategies import NAMES
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.execution.limits import Limits
from driving import SPACE, open_study

Train = Callable[[dict[str, Any], float], float]


def tuned(objective: Train = settling, **settings: Any) -> Study:
    study = open_study()
    study.auto_extend(objective, **settings)
    return study


def test_it_stops_where_more_brings_nothing() -> None:
    study = tuned(max_cost=10_000)
    assert [run.max_budget for run in study.runs][:3] == [9, 27, 81]
    assert {run.strategy for run in study.runs if run.width == 1} == {None, "preserving"}
    assert {run.strategy for run in study.runs if run.width > 1} <= {"efficient"}
    assert study.done
    assert study.advice().step == "stop"


def test_it_does_what_a_hand_would_do() -> None:
    study = open_study()
    study.optimize(settling)
    while (step := study.advice().step) != "stop":
        study.deepen("preserving") if step == "deepen" else study.widen("efficient")
        study.optimize(settling)
    assert told(study) == told(tuned(max_cost=10_000))


def test_it_widens_where_only_more_configs_help() -> None:
    """More training brings nothing, and the losses have a long tail."""
    study = open_study(seed=3)
    study.auto_extend(lambda config, budget: math.log(config["x"]), max_cost=5000)
    assert study.width > 1
    assert study.max_budget == 9
    assert study.advice().step == "stop"


@pytest.mark.parametrize(("limit", "reached"), [(9, 9), (26.9, 9), (27, 27), (100, 81)])
def test_max_budget_stays_within_its_limit(limit: float, reached: int) -> None:
    study = tuned(falling, max_budget_limit=limit, max_cost=3000)
    assert study.max_budget == reached
    assert study.done


def test_beyond_a_limit_the_other_step_is_taken() -> None:
    """Here deepening pays more, and widening pays, too."""

    def train(config: dict[str, Any], budget: float) -> float:
        return math.log(config["x"]) + 1 / budget

    study = tuned(train, max_cost=3000, max_budget_limit=9)
    assert study.runs[1].width == 2
    assert study.max_budget == 9
    assert tuned(train, max_cost=3000, max_budget_limit=27).runs[1].max_budget == 27


def test_the_cost_of_all_runs_stays_within_its_limit() -> None:
    study = open_study()
    study.optimize(falling)
    price = study.quote("preserving").cost
    assert study.advice().step == "deepen"
    study.auto_extend(falling, max_cost=float(price.spent + price.high - 1))
    assert study.max_budget == 9
    assert sum(run.cost for run in study.runs) <= price.spent + price.high - 1
    other = open_study()
    other.optimize(falling)
    other.auto_extend(falling, max_cost=float(price.spent + price.high))
    assert other.max_budget == 27
    assert sum(run.cost for run in other.runs) <= price.spent + price.high


@pytest.mark.parametrize("strategy", NAMES)
def test_any_strategy(strategy: str) -> None:
    study = tuned(falling, max_budget_limit=81, max_cost=3000, strategy=strategy)
    deepened = {run.strategy for run in study.runs[1:] if run.width == 1}
    assert deepened == {strategy}
    assert study.max_budget == 81


def test_repeating_a_finished_call_does_nothing(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    sizes = []
    for _ in range(3):
        with deepband.open_study(path, space=SPACE, max_budget=9) as study:
            study.auto_extend(settling, max_cost=3000)
            sizes.append((len(study.runs), len(study.evaluations)))
    assert len(set(sizes)) == 1
    assert sizes[0][0] >= 3


class Stopping:
    """Interrupts the driver at its n-th evaluation."""

    def __init__(self, n: int) -> None:
        self.left = n

    def __call__(self, config: dict[str, Any], budget: float) -> float:
        self.left -= 1
        if not self.left:
            raise KeyboardInterrupt
        return settling(config, budget)


@pytest.mark.parametrize(
    ("n", "stored"),
    [
        pytest.param(n, stored, marks=() if number % 2 == stored else pytest.mark.heavy)
        for number, n in enumerate([1, 23, 50, 100])
        for stored in (False, True)
    ],
)
def test_an_interrupted_call_goes_on_with_what_it_had_decided(
    n: int, stored: bool, tmp_path: Path
) -> None:
    storage = tmp_path / "a.study" if stored else ":memory:"
    limits: dict[str, Any] = {"max_cost": 3000}
    study = deepband.open_study(storage, space=SPACE, max_budget=9)
    with pytest.raises(KeyboardInterrupt):
        study.auto_extend(Stopping(n), **limits)
    if stored:
        study.close()
        study = deepband.open_study(storage)
    study.auto_extend(settling, **limits)
    assert told(study) == told(tuned(max_cost=3000))
    study.close()


def test_calls_that_stop_by_the_clock_come_to_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    """Also when the time is over just as a run is done: nothing is deepened then."""
    study = open_study()
    study.auto_extend(settling, max_cost=3000, max_seconds=0)
    assert study.evaluations == []
    with monkeypatch.context() as patched:
        patched.setattr(Limits, "out_of_time", lambda limits: study.done)
        study.auto_extend(settling, max_cost=3000)
    assert (len(study.runs), study.done) == (1, True)
    study.auto_extend(settling, max_cost=3000)
    assert told(study) == told(tuned(max_cost=3000))


@pytest.mark.parametrize("workers", [1, 3])
def test_processes_come_to_the_same(workers: int, tmp_path: Path) -> None:
    with deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9) as study:
        study.auto_extend(settling, workers=workers, max_cost=500)
        assert told(study) == told(tuned(max_cost=500))


def test_other_executors_come_to_the_same() -> None:
    simulated = SimulatedExecutor(7, lambda job: job.budget * (1 + job.index % 3))
    assert told(tuned(executor=simulated, max_cost=3000)) == told(tuned(max_cost=3000))
    with ThreadPoolExecutor(3) as pool:
        study = tuned(executor=pool, workers=3, max_cost=500)
    assert told(study) == told(tuned(max_cost=500))


def test_a_sampler_that_learns_may_be_deepened_so() -> None:
    study = open_study(sampler="prior")
    study.auto_extend(settling, max_cost=500)
    assert study.max_budget == 27


def test_failures_of_later_runs_are_verdicts() -> None:
    """Only the first evaluations of a call are in doubt."""

    def train(config: dict[str, Any], budget: float) -> float:
        if budget > 9 or len(study.runs) > 1:
            raise RuntimeError("too large")
        return falling(config, budget)

    study = open_study()
    with pytest.warns(FailedEvaluationsWarning):
        study.auto_extend(train, max_cost=3000)
    assert [run.max_budget for run in study.runs] == [9, 27]
    assert study.advice().reason == "no config has a finite result on the top rung"

    begun = open_study()
    begun.optimize(falling)
    with pytest.raises(ObjectiveError):
        begun.auto_extend(lambda config, budget: 1 / 0, max_cost=3000)


def test_everything_failed() -> None:
    def train(config: dict[str, Any], budget: float) -> float:
        raise RuntimeError("always")

    study = open_study()
    with pytest.warns(FailedEvaluationsWarning):
        study.auto_extend(train, max_cost=3000, first_failures=0)
    assert len(study.runs) == 1


@pytest.mark.parametrize(
    ("given", "kind", "message"),
    [
        ({}, InputError, "give max_cost"),
        ({"max_budget_limit": 81}, InputError, "needs a limit"),
        ({"max_hours": 0}, InputError, "max_hours is 0: give a number above 0"),
        ({"max_hours": math.nan}, InputError, "max_hours is nan"),
        ({"max_hours": 1, "executor": "ray"}, InputError, "give workers"),
        ({"max_cost": 0}, BudgetError, "max_cost is 0"),
        ({"max_cost": -5}, BudgetError, "max_cost is -5: it must be greater"),
        ({"max_cost": float("nan")}, BudgetError, "max_cost is nan"),
        ({"max_cost": 500, "max_budget_limit": -1}, BudgetError, "max_budget_limit is -1"),
        (
            {"max_cost": 500, "max_budget_limit": 3},
            BudgetError,
            "already at 9. Give that or more, or start a study with a",
        ),
        ({"max_cost": 77}, InputError, "cost up to 78: give that or more"),
        (
            {"max_cost": 500, "strategy": "lazy"},
            UnknownNameError,
            "no strategy 'lazy'",
        ),
    ],
)
def test_what_is_refused(given: dict[str, Any], kind: type[Exception], message: str) -> None:
    study = open_study()
    with pytest.raises(kind, match=message):
        study.auto_extend(settling, **given)
    assert study.evaluations == []


def test_a_finished_study_beyond_the_cost_is_left_alone() -> None:
    study = open_study()
    study.optimize(falling)
    study.auto_extend(falling, max_cost=10)
    assert len(study.runs) == 1


def test_after_a_frugal_run_it_goes_up() -> None:
    study = open_study()
    study.optimize(falling)
    study.deepen("frugal")
    study.auto_extend(falling, max_cost=3000, max_budget_limit=81)
    assert [run.max_budget for run in study.runs][:3] == [9, 27, 81]
    assert [run.strategy for run in study.runs][:3] == [None, "frugal", "preserving"]
    assert study.done
