"""What bounds `auto_extend`: its limits, the clock, and failures that are unconfirmed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cases import Case, cases
from curves import falling, settling, told
from deepband import FailedEvaluationsWarning, ObjectiveError, Study
from deepband.analysis.quote_computation import most_of_all_runs
from deepband.core.exact_numbers import read_budget
from deepband.core.facts import JobFinished
from deepband.core.state import State
from deepband.core.strategies import NAMES, StrategyName
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.study.extension_policy import Automatic, read_automatic
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
        study.auto_extend(broken, max_cost=500)
    assert study.max_budget == 27
    assert failures(study) == 0


def test_results_from_elsewhere_cost_nothing() -> None:
    study = with_results_from_elsewhere(open_study(), 9)
    study.auto_extend(falling, max_cost=69)
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
        study.auto_extend(Stopping(), max_cost=max_cost)
    assert study.max_budget == 27
    study.auto_extend(falling, max_cost=max_cost)
    assert study.done
    assert sum(run.cost for run in study.runs) <= max_cost


def test_a_cost_that_is_no_binary_number_is_enough() -> None:
    """What a quote says, rounded to a float, pays for what was quoted."""
    study = open_study(max_budget=1.7, min_budget=0.17)
    cost = study.plan().cost
    assert float(cost) < cost
    study.auto_extend(falling, max_cost=float(cost))
    assert study.done
    price = study.quote("preserving").cost
    bound = price.spent + price.high
    study.auto_extend(falling, max_cost=float(bound) * (1 - 1e-12))
    assert len(study.runs) == 2


@given(cases(), st.sampled_from(NAMES), st.integers(1, 10**5), st.integers(1, 10**4))
def test_automatic_extension_stays_within_its_limits(
    case: Case, strategy: StrategyName, max_cost: int, limit: int
) -> None:
    study = case.open()
    finish(study, case.objective)
    spent, first = sum(run.cost for run in study.runs), study.session.state.schedule
    automatic = Automatic(strategy, read_budget("max_cost", max_cost), None, None)
    both = replace(automatic, max_budget_limit=read_budget("to", limit))
    for rule in (both, automatic):
        while (
            len(study.evaluations) < 500
            and (step := rule.decide(study.session.state)[0]) is not None
        ):
            advice = study.advice()
            assert advice.widening.pays if step.width else advice.deepening.pays
            study.extend(step.strategy, max_budget=step.max_budget, width=step.width)
            bound = most_of_all_runs(study.session.state)
            assert bound <= max_cost
            finish(study, case.objective)
            spent = sum(run.cost for run in study.runs)
            assert spent <= bound
            assert rule is automatic or step.width or study.max_budget <= limit * (1 + 1e-9)
    assert spent <= max_cost or study.session.state.schedule == first


def test_frugal_deepening_ends_by_itself() -> None:
    """It leaves one config on the top rung, which is flat from 27 on."""
    study = open_study()
    study.auto_extend(settling, strategy="frugal", max_cost=10**5)
    assert [run.max_budget for run in study.runs] == [9, 27, 81]
    assert not study.advice().deepening.pays


def test_it_ends_where_the_next_run_would_be_too_large() -> None:
    study = open_study(max_budget=1, eta=10**9)
    study.auto_extend(settling, max_cost=10**20)
    assert len(study.runs) == 1
    extension, why = Automatic("preserving", None, None, None).decide(study.session.state)
    assert extension is None
    assert why.startswith("stop at 1: the next run would be too large, and too few configs")


def timed(study: Study, hours_per_unit: float) -> State:
    """The state of a study in which every evaluation took so long."""
    budgets = study.session.state.run.budgets
    return State(
        fact._replace(seconds=3600 * hours_per_unit * budgets[fact.rung])
        if isinstance(fact, JobFinished)
        else fact
        for fact in study.session.storage.load()
    )


@pytest.mark.parametrize("workers", [1, 4])
def test_hours_are_those_that_were_recorded(workers: int) -> None:
    """78 units were spent, and deepening costs 372 more at most: 450 hours on one worker."""
    study = open_study()
    finish(study, lambda job: falling(job.config, job.budget))
    state = timed(study, 1.0)
    for hours, fits in [(449.9, False), (450.1, True)]:
        limit = read_automatic("preserving", max_hours=hours / workers, workers=workers)
        extension, why = limit.decide(state)
        assert (extension is not None) is fits
        assert ("may take" in why) is not fits
    unknown = read_automatic("preserving", max_hours=450).decide(study.session.state)
    assert unknown[0] is None
    assert unknown[1].endswith("no evaluation recorded its time, so max_hours cannot be kept")


def test_a_call_with_hours_extends_and_ends() -> None:
    plenty, little = open_study(), open_study()
    plenty.auto_extend(settling, max_hours=1000.0)
    assert plenty.max_budget >= 27
    little.auto_extend(settling, max_hours=1e-12)
    assert (len(little.runs), little.done) == (1, True)
    before = told(plenty)
    plenty.auto_extend(settling, max_hours=1000.0)
    assert told(plenty) == before


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
    limits: dict[str, Any] = {"max_cost": 3000, "max_budget_limit": 81}
    with pytest.warns(FailedEvaluationsWarning):
        whole.auto_extend(Outgrowing(stops=False), **limits)
    with pytest.raises(KeyboardInterrupt):
        study.auto_extend(Outgrowing(stops=True), **limits)
    with pytest.raises(ObjectiveError, match="first_failures=0"):
        study.auto_extend(Outgrowing(stops=False), **limits)
    assert failures(study) == 0
    with pytest.warns(FailedEvaluationsWarning):
        study.auto_extend(Outgrowing(stops=False), first_failures=0, **limits)
    assert told(study) == told(whole)
    assert failures(study) == 8
