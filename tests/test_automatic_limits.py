"""What bounds `optimize(deepen="auto")`: its limits, the clock, and failures in doubt."""

from __future__ import annotations

from typing import Any

import pytest

from deepband import ObjectiveError, Study
from deepband.executors.simulated import SimulatedExecutor
from driving import open_study
from test_automatic import falling


def broken(config: dict[str, Any], budget: float) -> float:
    raise NameError("a typo")


def failures(study: Study) -> int:
    return sum(each.loss is None for each in study.evaluations)


def with_results_from_elsewhere(study: Study, count: int) -> Study:
    for index in range(count):
        study.add_evaluation({"x": index / 10}, 1, index / 10 + 10)
    return study


def test_results_ahead_do_not_vouch_for_an_objective() -> None:
    """Deepening takes them in, which is no evaluation of this call."""
    study = open_study()
    study.optimize(falling, ahead=True, executor=SimulatedExecutor(20, lambda job: job.budget))
    with pytest.raises(ObjectiveError):
        study.optimize(broken, deepen="auto", max_budget_limit=27)
    assert study.max_budget == 27
    assert failures(study) == 0


def test_results_from_elsewhere_cost_nothing() -> None:
    study = with_results_from_elsewhere(open_study(), 9)
    study.optimize(falling, deepen="auto", max_cost=69)
    assert study.done
    assert [run.cost for run in study.runs] == [69]


def test_results_from_elsewhere_for_the_next_run_cost_nothing() -> None:
    """They are found by the deepening, after which the bound is what was quoted."""

    class Stopping:
        left = 5

        def __call__(self, config: dict[str, Any], budget: float) -> float:
            self.left -= 1
            if not self.left:
                raise KeyboardInterrupt
            return falling(config, budget)

    study = open_study()
    study.optimize(falling)
    price = with_results_from_elsewhere(study, 10).quote("preserving").cost
    max_cost = float(price.spent + price.high)
    with pytest.raises(KeyboardInterrupt):
        study.optimize(Stopping(), deepen="auto", max_cost=max_cost)
    assert study.max_budget == 27
    study.optimize(falling, deepen="auto", max_cost=max_cost)
    assert study.done
    assert sum(run.cost for run in study.runs) <= max_cost


def test_a_cost_that_is_no_binary_number_is_enough() -> None:
    """What a quote says, rounded to a float, pays for what was quoted."""
    study = open_study(max_budget=1.7, min_budget=0.17)
    cost = study.plan().cost
    assert float(cost) < cost
    study.optimize(falling, deepen="auto", max_cost=float(cost))
    assert study.done
    price = study.quote("preserving").cost
    bound = price.spent + price.high
    study.optimize(falling, deepen="auto", max_cost=float(bound) * (1 - 1e-12))
    assert len(study.runs) == 2
