"""What charts say was spent is what the table of runs says."""

from __future__ import annotations

from fractions import Fraction
from itertools import chain
from typing import Any

import pytest

from bowl_study import SPACE, bowl, open_study, train_in_steps
from deepband import Study
from deepband.analysis.budget_spent import BudgetSpent, cells_in_order, in_order
from deepband.analysis.chart_data import incumbent
from deepband.analysis.fronts import volume_chart
from deepband.core.exact_numbers import as_number
from driving import finish


def deepened(**given: Any) -> Study:
    study = open_study(**given)
    for strategy in ("preserving", "efficient"):
        finish(study, bowl)
        study.deepen(strategy)
    finish(study, bowl)
    return study


def stopped() -> Study:
    """A config that was stopped in the first run is trained to the end in the third one."""
    study = open_study()
    for risk in (0.4, 0.4, None):
        study.optimize(train_in_steps, stop_training=risk, first_failures=0, progress=False)
        study.deepen("preserving")
    study.optimize(train_in_steps, first_failures=0, progress=False)
    assert any(run.stopped_training for run in study.runs)
    return study


STUDIES = {
    "whole": lambda: deepened(max_budget=20),
    "fractions": lambda: deepened(max_budget=20, integer_budgets=False),
    "wide": lambda: deepened(width=2, brackets=2),
    "imported": lambda: deepened(space={**SPACE, "y": [0.5]}, reuse_identical=True),
    "stopped": stopped,
}


@pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning")
@pytest.mark.parametrize("name", STUDIES)
def test_charts_end_at_the_costs_of_all_runs(name: str) -> None:
    study = STUDIES[name]()
    state, costs = study.session.state, [run.cost for run in study.runs]
    whole = as_number(Fraction(sum(costs)))
    resumed = as_number(Fraction(sum(run.cost_resumed for run in study.runs)))
    chart, volumes = incumbent(state), volume_chart(state, {"loss": 2.0})
    for each in (chart, volumes):
        assert (each.spent, each.spent_resumed) == (whole, resumed)
        sums = [as_number(Fraction(sum(costs[:number]))) for number in range(1, len(costs))]
        assert [extension.spent for extension in each.extensions] == sums
    assert [step[:2] for step in volumes.steps] == [step[:2] for step in chart.steps]


def test_each_result_is_charged_once() -> None:
    state = deepened().session.state
    spent, results = BudgetSpent(state), chain.from_iterable(cells_in_order(state))
    found = {}
    for result in chain.from_iterable(map(in_order, results)):
        spent.add([result])
        found[result[:3]] = spent.totals
    assert len(found) == sum(1 for _ in state.all_results())
    for step in incumbent(state).steps:
        assert found[step.result[:3]] == (step.spent, step.spent_resumed)
