"""Laws that hold for every eta, depth, jump, strategy, fill, order and pattern of failures."""

from __future__ import annotations

import random
from dataclasses import replace
from itertools import accumulate, pairwise

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle
from cases import MOST, Case, Step, all_failed, cases, play, steps
from deepband import Evaluation, Job
from deepband.core.evaluations import best_evaluation, best_evaluation_at
from deepband.core.facts import JobKey
from deepband.core.state import State
from deepband.core.strategies import FRUGAL, NAMES, STRATEGIES, StrategyName
from driving import finish, key, noisy, open_study


def loss_of(case: Case, bracket: int, index: int, rung: int) -> float | None:
    result = case.objective(Job(bracket, index, rung, 0, {}))
    return result if isinstance(result, float) else None


@given(cases())
def test_every_run_evaluates_what_the_oracle_says(case: Case) -> None:
    seen: oracle.Cells = {}
    study = case.open()
    runs = play(case, study)
    for run, jobs in zip(study.session.state.runs, runs, strict=True):
        evaluated, arrivals = oracle.run(
            case.eta,
            run.schedule.top,
            run.strategy,
            seen,
            lambda b, i, k: loss_of(case, b, i, k),
            run.schedule.width,
            run.schedule.bracket_limit,
        )
        wanted = {(b, i, k) for (b, k), indices in evaluated.items() for i in indices}
        assert {key(job) for job in jobs} == wanted
        assert {cell: set(indices) for cell, indices in run.arrived.items() if indices} == {
            cell: indices for cell, indices in arrivals.items() if indices
        }


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_tells_does_not_matter(case: Case, order: random.Random) -> None:
    straight, shuffled = case.open(), case.open()
    runs = play(case, straight)
    others = play(case, shuffled, order)
    for jobs, other in zip(runs, others, strict=True):
        assert {key(job) for job in jobs} == {key(job) for job in other}
    assert straight.evaluations == shuffled.evaluations
    assert straight.runs == shuffled.runs
    assert best_evaluation(straight.session.state) == best_evaluation(shuffled.session.state)


@given(cases())
def test_nothing_is_evaluated_twice_and_nothing_is_lost(case: Case) -> None:
    study = case.open()
    recorded: set[JobKey] = set()
    for jobs in play(case, study):
        keys = [key(job) for job in jobs]
        assert len(keys) == len(set(keys))
        assert recorded.isdisjoint(keys)
        recorded.update(keys)
        assert {key_of(each) for each in study.evaluations} >= recorded
    assert {key_of(each) for each in study.evaluations} == recorded


def key_of(evaluation: Evaluation) -> JobKey:
    return evaluation.bracket, evaluation.index, evaluation.rung


@given(cases())
def test_efficient_from_the_start_costs_one_fresh_run(case: Case) -> None:
    study = case.open()
    finish(study, case.objective)
    for step in case.steps:
        efficient = step._replace(strategy="efficient")
        study.extend("efficient", **efficient.target(study.session.state.schedule))
        finish(study, case.objective)
    fresh = study.plan()
    assert sum(run.cost for run in study.runs) == fresh.cost
    assert sum(run.cost_resumed for run in study.runs) == fresh.cost_resumed
    assert len(study.evaluations) == fresh.evaluations


@given(cases(), steps())
def test_discarding_ends_as_a_fresh_run_does(case: Case, step: Step) -> None:
    study = case.open()
    play(case, study)
    larger = step.schedule(study.session.state.schedule)
    assume(step.grows and larger.evaluations <= 4 * MOST)
    step = step._replace(strategy="discarding")
    study.extend("discarding", **step.target(study.session.state.schedule))
    finish(study, case.objective)
    fresh = case.open(larger)
    finish(fresh, case.objective)
    assert study.session.state.run.arrived == fresh.session.state.run.arrived


@given(cases(), st.sampled_from(sorted(STRATEGIES)))
def test_discarding_fills_a_level_as_a_fresh_run_would(case: Case, other: StrategyName) -> None:
    study = case.open()
    play(case, study)
    deeper = study.session.state.schedule.extended(levels=1)
    assume(deeper.evaluations <= 4 * MOST and not all_failed(study))
    study.deepen("frugal")
    finish(study, case.objective)
    study.deepen("discarding", to=deeper.max_budget)
    finish(study, case.objective)
    fresh = case.open(deeper)
    finish(fresh, case.objective)
    assert study.session.state.run.arrived == fresh.session.state.run.arrived
    study.deepen(other, to=deeper.max_budget)
    assert study.done
    assert study.runs[-1].strategy == "discarding"


@given(cases())
def test_a_frugal_quote_is_what_happens(case: Case) -> None:
    study = case.open()
    play(case, study)
    deeper = study.session.state.schedule.extended(levels=1)
    assume(deeper.evaluations <= 40 * MOST and not all_failed(study))
    before = [(run.arrived, run.before) for run in study.session.state.runs]
    quote = study.quote("frugal")
    study.deepen("frugal")
    plan = study.plan()
    finish(study, case.objective)
    run = study.runs[-1]
    assert quote.exact
    assert quote.evaluations_new == (run.evaluations,) * 2 == (plan.evaluations,) * 2
    assert quote.cost.low == quote.cost.high == run.cost == plan.cost
    assert quote.cost_resumed.low == quote.cost_resumed.high == run.cost_resumed
    assert plan.cost_resumed == run.cost_resumed
    assert quote.configs_reused == plan.configs == run.evaluations
    assert quote.cost.spent + run.cost == sum(each.cost for each in study.runs)
    assert [(run.arrived, run.before) for run in study.session.state.runs[:-1]] == before


@given(cases(), steps())
def test_costs_are_ordered_and_quotes_hold(case: Case, step: Step) -> None:
    """efficient <= the others <= a fresh run; quotes bound both and are exact for efficient."""
    costs = {}
    for strategy in STRATEGIES:
        study = case.open()
        play(case, study)
        state = study.session.state
        schedule = step.schedule(state.schedule)
        assume((step.grows or state.run.frugal) and schedule.evaluations <= 4 * MOST)
        target = step._replace(strategy=strategy).target(state.schedule)
        quote = study.quote(strategy, target.pop("max_budget"), **target)
        known = {key_of(each) for each in study.evaluations}
        study.extend(strategy, max_budget=schedule.max_budget, **target)
        assert quote.fills == (not step.grows)
        assert (quote.width, quote.brackets) == (schedule.width, schedule.bracket_limit)
        jobs = finish(study, case.objective)
        run = study.runs[-1]
        assert quote.max_budget == study.max_budget
        assert quote.configs_new + quote.configs_reused == study.plan().configs
        assert quote.evaluations_new[0] <= run.evaluations <= quote.evaluations_new[1]
        assert quote.cost.low <= run.cost <= quote.cost.high <= quote.cost.fresh
        assert quote.cost_resumed.low <= run.cost_resumed <= quote.cost_resumed.high
        arrived = {
            (b, i, k)
            for (b, k), indices in study.session.state.run.arrived.items()
            for i in indices
        }
        assert len(arrived) - len(jobs) == len(arrived & known)
        assert quote.evaluations_reused[0] <= len(arrived & known) <= quote.evaluations_reused[1]
        assert quote.exact or strategy != "efficient"
        costs[strategy] = run.cost
        assert quote.cost.spent + run.cost == sum(each.cost for each in study.runs)
    assert costs["efficient"] <= min(costs.values())


@given(cases(), steps())
def test_no_cell_shrinks_by_extending(case: Case, step: Step) -> None:
    larger = step.schedule(case.schedule)
    assert larger.covers(case.schedule)
    for cell in case.schedule.cells():
        assert larger.slots(*cell) >= case.schedule.slots(*cell)


@given(cases(), st.integers(1, 3))
def test_a_limited_study_evaluates_what_these_brackets_of_the_full_one_do(
    case: Case, brackets: int
) -> None:
    full = replace(case, brackets=None)
    limited = replace(case, brackets=brackets, steps=tuple(s for s in case.steps if s[0] != FRUGAL))
    full = replace(full, steps=tuple(step._replace(brackets=0) for step in limited.steps))
    limited = replace(limited, steps=full.steps)
    assume(case.schedule.evaluations < MOST and all(step.grows for step in full.steps))
    schedules = accumulate(full.steps, lambda old, step: step.schedule(old), initial=full.schedule)
    assume(all(schedule.evaluations <= 4 * MOST for schedule in schedules))
    studies = full.open(), limited.open()
    jobs = [
        {key(job) for run in play(each, study) for job in run if job.bracket < brackets}
        for each, study in zip((full, limited), studies, strict=True)
    ]
    assert jobs[0] == jobs[1]


@given(cases(), st.randoms(use_true_random=False))
def test_a_state_folded_anew_is_the_state(case: Case, order: random.Random) -> None:
    """Stop anywhere: what the facts say is what the study knew, with every open job offered."""
    study = case.open()
    play(case, study, order)
    if study.session.state.schedule.evaluations * case.eta <= MOST:
        last = order.choice(NAMES)
        study.deepen("preserving" if all_failed(study) else last)
    jobs = study.ask_all()
    order.shuffle(jobs)
    for job in jobs[: len(jobs) // 2]:
        study.tell(job, case.objective(job))
    state, again = study.session.state, State(study.session.storage.load())
    assert again.results == state.results
    assert again.configs == state.configs
    assert again.standings.leaders == state.standings.leaders
    assert [run.arrived for run in again.runs] == [run.arrived for run in state.runs]
    for front, other in zip(state.progress, again.progress, strict=True):
        assert (front.rung, front.open) == (other.rung, other.open)
        assert sorted([*front.waiting, *front.running]) == sorted(other.waiting)


@given(cases())
def test_every_promotion_is_explained(case: Case) -> None:
    study = case.open()
    play(case, study)
    arrived = [run.arrived for run in study.session.state.runs]
    for bracket, index in {(each.bracket, each.index) for each in study.evaluations}:
        verdicts = study.explain(bracket, index)
        up = {(v.run, v.rung + 1) for v in verdicts if v.promoted}
        down = {(v.run, v.rung + 1) for v in verdicts if v.promoted is False}
        promoted_to = {
            (run, rung)
            for run, cells in enumerate(arrived)
            for (b, rung), indices in cells.items()
            if b == bracket and index in indices and rung > bracket
        }
        assert up == promoted_to
        assert down.isdisjoint(promoted_to)
        for verdict in verdicts:
            if verdict.promoted is False and verdict.rank is not None:
                assert verdict.rank > verdict.slots
            if verdict.promoted and verdict.rank is not None:
                assert verdict.rank <= verdict.slots


@given(cases())
def test_best_is_the_smallest_loss(case: Case) -> None:
    study = case.open()
    play(case, study)
    finite = [each for each in study.evaluations if each.loss not in (None, float("inf"))]

    def order(each: Evaluation) -> tuple[float | None, int, int, int]:
        return each.loss, -each.rung, each.bracket, each.index

    assert best_evaluation(study.session.state) == min(finite, key=order, default=None)
    tops = [each for each in finite if each.rung == max(each.rung for each in finite)]
    assert best_evaluation_at(study.session.state) == min(tops, key=order, default=None)


@pytest.mark.parametrize(("eta", "start", "levels"), [(2, 4, 6)])
def test_jumping_and_stepping_by_efficient_cost_the_same(eta: int, start: int, levels: int) -> None:
    jumped, stepped = (open_study(eta=eta, max_budget=start) for _ in range(2))
    for study in (jumped, stepped):
        finish(study, noisy(0))
    jumped.deepen("efficient", to=start * eta**levels)
    finish(jumped, noisy(0))
    budgets = [start * eta**level for level in range(levels + 1)]
    for low, high in pairwise(budgets):
        assert stepped.max_budget == low
        stepped.deepen("efficient", to=high)
        finish(stepped, noisy(0))
    assert sum(run.cost for run in jumped.runs) == sum(run.cost for run in stepped.runs)
