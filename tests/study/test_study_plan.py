"""Planning a study before it exists."""

from __future__ import annotations

from typing import Any

import pytest

import deepband
from deepband import BudgetError, InputError
from driving import finish, noisy, open_study


@pytest.mark.parametrize(
    "settings",
    [
        {"max_budget": 81},
        {"max_budget": 100, "width": 2},
        {"max_budget": 27, "brackets": 1, "eta": 3},
        {"max_budget": 1, "min_budget": 0.1, "eta": 2},
    ],
)
def test_a_plan_is_what_a_study_does_and_is_quoted(settings: dict[str, Any]) -> None:
    plan = deepband.plan(**settings)
    study = open_study(**{"eta": None, **settings})
    assert plan.run == study.plan()
    finish(study, noisy(0))
    assert plan.run.cost == study.runs[0].cost
    for each in plan.steps:
        target = {} if each.strategy == "frugal" else {"width": each.width}
        assert each == study.quote(each.strategy, each.max_budget, **target)


def test_time_is_planned_too() -> None:
    plan = deepband.plan(max_budget=9, seconds_per_unit=60)
    assert plan.forecasts[0].seconds == 60 * plan.run.cost
    assert len(plan.forecasts) == 1 + len(plan.steps)
    faster = deepband.plan(max_budget=9, seconds_per_unit=60, workers=4)
    assert faster.forecasts[0].seconds < plan.forecasts[0].seconds / 2
    shown = str(faster)
    assert "with 4 workers" in shown
    assert "widening" in shown
    assert "time" in shown


def test_a_plan_without_time_shows_costs() -> None:
    lines = str(deepband.plan(max_budget=27, width=2)).splitlines()
    assert lines[-8].split()[:4] == ["next", "step", "strategy", "max_budget"]
    assert lines[-1].split()[:4] == ["widening", "efficient", "27", "3"]
    assert "time" not in lines[-8]


def test_a_huge_plan_is_only_counted() -> None:
    plan = deepband.plan(max_budget=3**12)
    assert plan.run.evaluations > 1_000_000
    assert plan.steps == ()
    with pytest.raises(InputError, match="too many to simulate"):
        deepband.plan(max_budget=3**12, seconds_per_unit=1)


def test_bad_plans_are_refused() -> None:
    with pytest.raises(BudgetError, match="width is 0"):
        deepband.plan(max_budget=9, width=0)
    with pytest.raises(InputError, match="seconds_per_unit"):
        deepband.plan(max_budget=9, seconds_per_unit=-1)
    with pytest.raises(InputError, match="workers is 0"):
        deepband.plan(max_budget=9, seconds_per_unit=1, workers=0)
