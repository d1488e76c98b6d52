"""What bounds `auto_deepen`: its limits, the clock, and failures that are unconfirmed."""

from __future__ import annotations

from typing import Any

import pytest
from deepband.study.deepening_policy import Automatic
from hypothesis import given
from hypothesis import strategies as st

from cases import Case, cases
from curves import falling, settling, told
from deepband import ObjectiveError, Study
from deepband.analysis.quote import most_of_all_runs
from deepband.core.schedule import read_budget
from deepband.core.strategies import NAMES, StrategyName
from deepband.execution.executors.simulated import SimulatedExecutor
from driving import finish, open_study


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
        study.auto_deepen(broken, max_budget_limit=27)
    assert study.max_budget == 27
    assert failures(study) == 0


def test_results_from_elsewhere_cost_nothing() -> None:
    study = with_results_from_elsewhere(open_study(), 9)
    study.auto_deepen(falling, max_cost=69)
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
        study.auto_deepen(Stopping(), max_cost=max_cost)
    assert study.max_budget == 27
    study.auto_deepen(falling, max_cost=max_cost)
    assert study.done
    assert sum(run.cost for run in study.runs) <= max_cost


def test_a_cost_that_is_no_binary_number_is_enough() -> None:
    """What a quote says, rounded to a float, pays for what was quoted."""
    study = open_study(max_budget=1.7, min_budget=0.17)
    cost = study.plan().cost
    assert float(cost) < cost
    study.auto_deepen(falling, max_cost=float(cost))
    assert study.done
    price = study.quote("preserving").cost
    bound = price.spent + price.high
    study.auto_deepen(falling, max_cost=float(bound) * (1 - 1e-12))
    assert len(study.runs) == 2


@given(cases(), st.sampled_from(NAMES), st.integers(1, 10**5), st.integers(1, 10**4))
def test_automatic_deepening_stays_within_its_limits(
    case: Case, strategy: StrategyName, max_cost: int, limit: int
) -> None:
    study = case.open()
    finish(study, case.objective)
    spent, first = sum(run.cost for run in study.runs), study.max_budget
    automatic = Automatic(strategy, read_budget("max_cost", max_cost), None)
    both = Automatic(strategy, automatic.max_cost, read_budget("to", limit))
    for rule in (both, automatic):
        while (
            len(study.evaluations) < 500 and (to := rule.decide(study.session.state)[0]) is not None
        ):
            assert study.advice().deepen
            study.deepen(strategy, to)
            bound = most_of_all_runs(study.session.state)
            assert bound <= max_cost
            finish(study, case.objective)
            spent = sum(run.cost for run in study.runs)
            assert spent <= bound
            assert rule is automatic or study.max_budget <= limit * (1 + 1e-9)
    assert spent <= max_cost or study.max_budget == first


def test_frugal_deepening_ends_by_itself() -> None:
    """It leaves one config on the top rung, which is flat from 27 on."""
    study = open_study()
    study.auto_deepen(settling, strategy="frugal", max_budget_limit=3**9)
    assert [run.max_budget for run in study.runs] == [9, 27, 81]
    assert not study.advice().deepen


def test_it_ends_where_the_next_run_would_be_too_large() -> None:
    study = open_study(max_budget=1, eta=10**9)
    study.auto_deepen(settling, max_budget_limit=10**20)
    assert study.advice().deepen
    assert len(study.runs) == 1
    to, why = Automatic("preserving", None, None).decide(study.session.state)
    assert to is None
    assert why.endswith("to tell; but preserving cannot continue from here")


class Outgrowing:
    """Training that fits only up to 9; interrupts the driver when it first does not, if told so."""

    def __init__(self, stops: bool) -> None:
        self.stops = stops

    def __call__(self, config: dict[str, Any], budget: float) -> float:
        if budget > 9 and self.stops:
            raise KeyboardInterrupt
        if budget > 9:
            raise MemoryError("too large")
        return falling(config, budget)


def test_an_interrupt_makes_failures_doubtful_until_they_are_believed() -> None:
    """The next call cannot know that they are verdicts; told so, it comes to the same."""
    whole, study = open_study(), open_study()
    limits: dict[str, Any] = {"max_budget_limit": 81}
    whole.auto_deepen(Outgrowing(stops=False), **limits)
    with pytest.raises(KeyboardInterrupt):
        study.auto_deepen(Outgrowing(stops=True), **limits)
    with pytest.raises(ObjectiveError, match="first_failures=0"):
        study.auto_deepen(Outgrowing(stops=False), **limits)
    assert failures(study) == 0
    study.auto_deepen(Outgrowing(stops=False), first_failures=0, **limits)
    assert told(study) == told(whole)
    assert failures(study) == 8
