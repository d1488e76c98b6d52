"""Exact rungs, sizes and costs."""

from __future__ import annotations

from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import deepband
import oracle
from deepband import BudgetError, ObjectiveError, Schedule
from deepband.core.facts import StudyCreated
from deepband.core.state import State
from deepband.storage.sqlite import SqliteStorage
from driving import finish, open_study


@pytest.mark.parametrize(
    ("eta", "low", "high", "rungs"),
    [
        (3, 1, 243, 6),  # where floor(log(243) / log(3)) loses one
        (10, 1, 1000, 4),
        (3, 1, 59049, 11),
        (3, 0.1, 8.1, 5),
        (3, 1 / 243, 1, 6),
        (3, 1, 242, 5),
        (2, 1, 1, 1),
        (2, 0.03, 1, 6),
        (3, Decimal("0.1"), Decimal("8.1"), 5),
        (3, Fraction(1, 243), 1, 6),
        (3, np.float64(0.1), np.float32(8.1), 5),
        (np.int64(3), np.int32(1), np.int64(243), 6),
    ],
)
def test_the_number_of_rungs(eta: int, low: Any, high: Any, rungs: int) -> None:
    assert Schedule.of(eta, low, high).top == rungs - 1


@given(st.integers(2, 10), st.integers(0, 12), st.fractions(Fraction(1, 100), 100))
def test_powers_keep_every_rung(eta: int, top: int, low: Fraction) -> None:
    top = min(top, 24 // eta.bit_length())
    schedule = Schedule.of(eta, low, low * eta**top)
    assert schedule.top == top
    assert schedule.unit == low
    floats = Schedule.of(eta, float(low), float(low * eta**top))
    assert floats.top == top


def test_the_worked_example() -> None:
    at_16, at_32 = Schedule.of(2, 1, 16), Schedule.of(2, 1, 32)
    assert [at_16.sizes(b) for b in at_16.brackets] == [
        [16, 8, 4, 2, 1],
        [10, 5, 2, 1],
        [7, 3, 1],
        [5, 2],
        [5],
    ]
    assert [at_32.sizes(b) for b in at_32.brackets] == [
        [32, 16, 8, 4, 2, 1],
        [20, 10, 5, 2, 1],
        [12, 6, 3, 1],
        [8, 4, 2],
        [6, 3],
        [6],
    ]
    assert at_16.evaluations == 72
    assert [at_16.cost, at_16.cost_resumed] == [372, 278]
    assert [at_32.cost, at_32.cost_resumed] == [1128, 800]
    assert at_16.extended(levels=1) == at_32
    assert Schedule.of(3, 1, 81).start_size(1) == 34


@given(st.integers(2, 6), st.integers(0, 6))
def test_start_sizes_are_those_of_the_definition(eta: int, top: int) -> None:
    schedule = Schedule.of(eta, 1, eta**top)
    for bracket in schedule.brackets:
        assert schedule.start_size(bracket) == oracle.start_size(eta, top, bracket)


def test_jobs_carry_ints_when_whole_and_floats_otherwise() -> None:
    whole = list(Schedule.of(3, 1, 9).job_budgets())
    assert whole == [1, 3, 9]
    assert [type(budget) for budget in whole] == [int, int, int]
    broken = list(Schedule.of(3, 1, 16).job_budgets())
    assert broken == [16 / 9, 16 / 3, 16]
    floats = list(Schedule.of(3, 0.1, 8.1).job_budgets())
    assert floats == [0.1, 0.3, 0.9, 2.7, 8.1]


def test_whole_ends_give_whole_budgets_that_costs_count() -> None:
    study = open_study(max_budget=100)
    assert study.plan().budgets == (1, 3, 11, 33, 100)
    jobs = finish(study, lambda job: job.index)
    assert {type(job.budget) for job in jobs} == {int}
    assert study.runs[0].cost == sum(job.budget for job in jobs) == study.plan().cost
    assert study.runs[0].cost_resumed == study.plan().cost_resumed
    quote = study.quote("efficient")
    study.deepen("efficient")
    jobs = finish(study, lambda job: job.index)
    assert quote.cost.low == study.runs[1].cost == sum(job.budget for job in jobs)


@pytest.mark.parametrize(
    ("settings", "budgets", "cost"),
    [
        ({"max_budget": 16}, (1, 5, 16), 129),
        ({"max_budget": 16, "integer_budgets": True}, (1, 5, 16), 129),
        ({"max_budget": 16.0}, (1, 5, 16), 129),
        ({"max_budget": 16, "integer_budgets": False}, (16 / 9, 16 / 3, 16), Fraction(416, 3)),
        ({"max_budget": 16, "min_budget": 0.5}, (16 / 27, 16 / 9, 16 / 3, 16), Fraction(752, 3)),
    ],
)
def test_when_budgets_are_whole(settings: Any, budgets: tuple[float, ...], cost: Fraction) -> None:
    plan = open_study(**settings).plan()
    assert plan.budgets == budgets
    assert plan.cost == cost


def test_a_budget_that_would_be_zero_is_refused() -> None:
    with pytest.raises(ValueError, match=r"floor the smallest budget, 0\.1, to zero"):
        open_study(min_budget=0.1, max_budget=8.1, integer_budgets=True)


def test_an_older_study_with_whole_budgets_keeps_its_exact_costs(tmp_path: Path) -> None:
    storage = SqliteStorage(tmp_path / "old.study")
    created, *rest = open_study(max_budget=16, integer_budgets=True).session.storage.load()
    assert isinstance(created, StudyCreated)
    storage.lock()
    storage.append([created._replace(whole_costs=False), *rest])
    storage.close()
    with deepband.open_study(tmp_path / "old.study", integer_budgets=True) as study:
        jobs = finish(study, lambda job: job.index)
        assert {job.budget for job in jobs} == {1, 5, 16}
        assert study.runs[0].cost == Fraction(416, 3)


def test_an_objective_that_counts_to_a_fractional_budget_is_told_the_cause() -> None:
    def train(config: dict[str, Any], budget: int) -> float:
        return float(sum(config["x"] for _ in range(budget)))

    with pytest.raises(ObjectiveError, match=r"is 1\.77778.*integer_budgets=True, or use int"):
        open_study(max_budget=16, integer_budgets=False).optimize(train)
    with pytest.raises(ObjectiveError, match=r"recorded\. Fix the"):
        open_study(max_budget=16).optimize(lambda config, budget: range(config["x"]))
    open_study(max_budget=16).optimize(train)


@pytest.mark.parametrize("budget", [5, 16 / 3, Fraction(16, 3)])
def test_results_are_imported_by_either_budget(budget: float | Fraction) -> None:
    study = open_study(max_budget=16)
    assert study.add_evaluation({"x": 0.5}, budget, 0.25) == (1, 0, 1)


@pytest.mark.parametrize(
    "eta", [1, 0, -3, 2.5, 3.0, True, "3", float("nan"), pytest.param(-(10**5000), id="huge")]
)
def test_a_bad_eta_is_refused(eta: Any) -> None:
    with pytest.raises(BudgetError, match="whole number of 2 or more"):
        open_study(eta=eta)


@pytest.mark.parametrize("name", ["min_budget", "max_budget"])
@pytest.mark.parametrize(
    "budget",
    [
        0,
        -1,
        0.0,
        -0.5,
        float("nan"),
        float("inf"),
        True,
        "9",
        1j,
        pytest.param(10**5000, id="huge"),
        Decimal("sNaN"),
        Decimal("1e-99999"),
        Fraction(1, 10**400),
    ],
)
def test_a_bad_budget_is_refused(name: str, budget: Any) -> None:
    with pytest.raises(BudgetError, match=name) as caught:
        open_study(**{name: budget})
    assert caught.value.name == name
    assert caught.value.given is budget


def test_budgets_in_the_wrong_order_are_refused() -> None:
    with pytest.raises(BudgetError, match="larger than max_budget, 9"):
        open_study(min_budget=10)


def test_a_schedule_beyond_all_means_is_refused_at_once() -> None:
    for high in (2**40, 1e300):
        with pytest.raises(BudgetError, match="50,000,000 evaluations"):
            Schedule.of(2, 1, high)


@pytest.mark.parametrize(("eta", "unit", "top"), [(1, 1, 2), (3, 0, 2), (3, 1, -1), (0, 1, 1)])
def test_a_schedule_is_checked_when_made(eta: int, unit: int, top: int) -> None:
    with pytest.raises(BudgetError):
        Schedule(eta, Fraction(unit), top)


def test_a_budget_at_the_end_of_the_floats_can_be_deepened() -> None:
    study = open_study(min_budget=10**308, max_budget=10**308)
    finish(study, lambda job: 1.0)
    study.deepen("efficient")
    finish(study, lambda job: 1.0)
    assert study.max_budget == 3 * 10**308
    assert State(study.session.storage.load()).results == study.session.state.results


def test_the_rung_of_a_budget() -> None:
    schedule = Schedule.of(3, 0.1, 8.1)
    assert [schedule.rung_of(budget) for budget in (0.1, 0.3, 8.1, 24.3)] == [0, 1, 4, 5]
    assert schedule.rung_of(8.1 * (1 + 5e-10)) == 4
    assert schedule.rung_of(8.1 * (1 + 5e-9)) is None
    assert schedule.rung_of(0.05) is None
