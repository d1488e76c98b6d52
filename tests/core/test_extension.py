"""Extending a study: deeper, wider, with more brackets, and before a run is finished."""

from __future__ import annotations

import random
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import deepband
import oracle
from cases import MOST, Case, Step, cases, steps
from deepband import BudgetError, InputError, Job, JobError, Study, UnfinishedError
from deepband.analysis.export import canonical
from deepband.analysis.quote_computation import most_of_all_runs
from deepband.core import hyperband
from deepband.core.state import State
from deepband.core.strategies import FRUGAL, STRATEGIES, StrategyName
from deepband.study.observers import history
from driving import SPACE, finish, key, noisy, open_study


def finished(**settings: Any) -> Study:
    study = open_study(**settings)
    finish(study, noisy(0))
    return study


def levels(study: Study) -> list[tuple[float, int, int | None]]:
    return [(run.max_budget, run.width, run.brackets) for run in study.runs]


def test_deepen_and_widen_are_special_cases_of_extend() -> None:
    studies = finished(), finished()
    studies[0].deepen("efficient")
    studies[1].extend("efficient", max_budget=27)
    for study in studies:
        finish(study, noisy(0))
    studies[0].widen()
    studies[1].extend("efficient", width=2)
    for study in studies:
        finish(study, noisy(0))
        assert levels(study) == [(9, 1, None), (27, 1, None), (27, 2, None)]
    assert studies[0].evaluations == studies[1].evaluations
    assert studies[0].width == 2


def test_without_a_target_every_call_adds_a_step() -> None:
    study = finished()
    for _ in range(2):
        study.widen()
        finish(study, noisy(0))
        study.deepen("efficient")
        finish(study, noisy(0))
    assert levels(study)[1:] == [(9, 2, None), (27, 2, None), (27, 3, None), (81, 3, None)]


def test_a_script_that_is_run_again_does_nothing() -> None:
    study = finished()
    for _ in range(2):
        study.widen(to=2)
        finish(study, noisy(0))
        study.deepen(to=27)
        finish(study, noisy(0))
        study.extend("efficient", max_budget=81, width=3)
        finish(study, noisy(0))
        study.extend(max_budget=9, width=1)
        study.extend(width=2)
    assert levels(study) == [(9, 1, None), (9, 2, None), (27, 2, None), (81, 3, None)]


@pytest.mark.parametrize(
    ("target", "name"),
    [
        ({"width": 1, "max_budget": 27}, "width is 1: the study already has 2"),
        ({"width": 3, "max_budget": 9}, "max_budget is 9: the study already has 27"),
        ({"brackets": 1}, "brackets is 1: the study already has 2"),
    ],
)
def test_a_study_never_shrinks(target: dict[str, Any], name: str) -> None:
    study = finished(width=2, brackets=2)
    study.deepen()
    finish(study, noisy(0))
    with pytest.raises(BudgetError, match=name) as caught:
        study.extend(**target)
    assert "max_budget 9, width 2, brackets 2; max_budget 27" in str(caught.value)
    assert len(study.runs) == 2


@pytest.mark.parametrize("bad", [0, -1, 1.5, True, "2", 2**63, 10**9])
@pytest.mark.parametrize("name", ["width", "brackets"])
def test_bad_counts_are_refused_and_nothing_is_recorded(bad: Any, name: str) -> None:
    if (bad, name) == (10**9, "brackets"):
        return  # more brackets than there are: all of them
    with pytest.raises(BudgetError, match=f"{name} is"):
        open_study(**{name: bad})
    study = finished(brackets=1)
    for method in (study.extend, study.quote):
        with pytest.raises(BudgetError, match=f"{name} is"):
            method("efficient", **{name: bad})
    assert len(study.runs) == 1


def test_extending_needs_a_target() -> None:
    with pytest.raises(InputError, match="`max_budget`, `width` or `brackets`"):
        finished().extend()


def test_a_study_with_all_brackets_has_no_more_to_give() -> None:
    with pytest.raises(BudgetError, match="brackets is 4: the study already has all brackets"):
        finished().extend(brackets=4)


def test_one_bracket_is_successive_halving() -> None:
    study = finished(max_budget=27, brackets=1)
    assert [len(run.arrived) for run in study.session.state.runs] == [4]
    assert study.plan().sizes(0) == [27, 9, 3, 1]
    study.deepen("efficient")
    finish(study, noisy(0))
    assert {each.bracket for each in study.evaluations} == {0}
    study.extend("efficient", brackets=2)
    finish(study, noisy(0))
    assert {each.bracket for each in study.evaluations} == {0, 1}
    assert sum(run.cost for run in study.runs) == study.plan().cost


def test_frugal_deepening_ranks_the_brackets_there_are() -> None:
    study = finished(max_budget=27, brackets=2)
    study.deepen("frugal")
    jobs = finish(study, noisy(0))
    assert {job.bracket for job in jobs} <= {0, 1}
    targets: list[dict[str, Any]] = [{"width": 2}, {"brackets": 3}, {"max_budget": 81, "width": 2}]
    for target in targets:
        with pytest.raises(InputError, match="frugal run only promotes"):
            study.extend("frugal", **target)
    study.extend("efficient", width=2)
    finish(study, noisy(0))
    assert levels(study)[1:] == [(81, 1, 2), (81, 2, 2)]
    assert sum(run.cost for run in study.runs) >= study.plan().cost


def test_four_steps_of_width_cost_what_four_runs_cost() -> None:
    study = finished(max_budget=27)
    spent = [sum(run.cost for run in study.runs)]
    for _ in range(3):
        study.widen()
        finish(study, noisy(0))
        spent.append(sum(run.cost for run in study.runs))
    assert spent == [423, 846, 1296, 1719]


def test_configs_of_a_wider_study_are_those_of_a_fresh_one() -> None:
    wide, fresh = finished(seed=3), finished(seed=3, width=3)
    wide.widen(to=3)
    finish(wide, noisy(0))
    shared = {(each.bracket, each.index): each.config for each in fresh.evaluations}
    for each in wide.evaluations:
        assert shared[each.bracket, each.index] == each.config


def with_results_ahead() -> tuple[Study, set[tuple[int, int]]]:
    """A finished study, and the places of what was evaluated ahead of the next deepening."""
    study = finished()
    jobs = study.session.reserve(list(hyperband.jobs_ahead(study.session.state)))
    study.tell_all([(job, noisy(0)(job)) for job in jobs])
    return study, {(job.bracket, job.index) for job in jobs}


def test_a_wider_run_takes_in_what_it_contains_and_the_rest_stays_ahead() -> None:
    study, ahead = with_results_ahead()
    study.widen()
    schedule = study.session.state.schedule
    inside = {place for place in ahead if schedule.contains(*place)}
    rest = set(study.session.state.ahead.results)
    assert 0 < len(inside) < len(ahead)
    assert {key[:2] for key in rest} == ahead - inside
    jobs = finish(study, noisy(0))
    assert inside.isdisjoint((job.bracket, job.index) for job in jobs if job.rung == job.bracket)
    study.deepen("efficient")
    jobs = finish(study, noisy(0))
    assert ahead.isdisjoint((job.bracket, job.index) for job in jobs if job.rung == job.bracket)
    assert not study.session.state.ahead.results
    assert sum(run.cost for run in study.runs) == study.plan().cost


def test_what_stays_ahead_survives_being_stored(tmp_path: Path) -> None:
    study, _ = with_results_ahead()
    study.widen()
    study.save_as(tmp_path / "wide.study")
    study.close()
    with deepband.open_study(tmp_path / "wide.study") as again:
        assert again.session.state.ahead.results == study.session.state.ahead.results
        for each in (study.session.state, State(history(study.session.state))):
            assert each.ahead.results == again.session.state.ahead.results
            assert each.results == again.session.state.results


def test_a_quote_counts_what_is_ahead_only_where_it_is_used() -> None:
    study, _ = with_results_ahead()
    quote = study.quote("efficient", width=2)
    before = sum(run.cost for run in study.runs)
    study.widen()
    jobs = finish(study, noisy(0))
    assert quote.evaluations_new == (len(jobs),) * 2
    assert quote.cost.spent >= before
    assert "widening 'efficient', max_budget 9, width 1 to 2" in str(quote)


def test_the_default_strategy_is_that_of_the_step() -> None:
    study = finished()
    assert study.quote(width=2) == study.quote("efficient", width=2)
    assert study.quote(width=2, to=27).strategy == study.quote().strategy == "preserving"
    study.extend(width=2)
    assert study.runs[-1].strategy == "efficient"
    assert str(study.quote(width=1)).startswith("nothing to do: the study has already")


# Before a run is finished


def unfinished(draw: random.Random, case: Case) -> tuple[Study, list[Job]]:
    """A study in the middle of its first run, and jobs that are still running."""
    study = case.open()
    for _ in range(draw.randint(0, 4)):
        jobs = study.ask_all()
        draw.shuffle(jobs)
        cut = draw.randint(0, len(jobs))
        study.tell_all([(job, case.objective(job)) for job in jobs[:cut]])
        for job in jobs[cut:]:
            study.release(job)
    jobs = study.ask_all()
    kept = jobs[: draw.randint(0, len(jobs))]
    for job in jobs[len(kept) :]:
        study.release(job)
    return study, kept


def loss_of(case: Case, bracket: int, index: int, rung: int) -> float | None:
    result = case.objective(Job(bracket, index, rung, 0, {}))
    return result if isinstance(result, float) else None


def seen_by(study: Study) -> oracle.Cells:
    return {cell: set(results) for cell, results in study.session.state.results.items()}


@given(cases(), steps(), st.randoms(use_true_random=False))
def test_an_unfinished_run_is_extended_as_the_oracle_says(
    case: Case, step: Step, draw: random.Random
) -> None:
    study, running = unfinished(draw, case)
    strategy: StrategyName = "preserving" if step.strategy == FRUGAL else step.strategy
    larger = step.schedule(case.schedule)
    assume(step.grows and larger.evaluations <= 4 * MOST)
    seen, before = seen_by(study), len(study.evaluations)
    target = step._replace(strategy=strategy).target(case.schedule)
    quote = study.quote(strategy, target.pop("max_budget"), **target)
    study.extend(strategy, max_budget=larger.max_budget, **target, unfinished=True)
    evaluated, arrivals = oracle.run(
        case.eta,
        larger.top,
        strategy,
        seen,
        lambda b, i, k: loss_of(case, b, i, k),
        larger.width,
        larger.bracket_limit,
    )
    wanted = {(b, i, k) for (b, k), indices in evaluated.items() for i in indices}
    study.tell_all([(job, case.objective(job)) for job in running])
    jobs = finish(study, case.objective, draw)
    assert wanted <= {key(job) for job in [*jobs, *running]}
    assert {key(job) for job in jobs} == wanted - {key(job) for job in running}
    assert len(study.evaluations) == before + len(wanted | {key(job) for job in running})
    arrived = study.session.state.run.arrived
    assert {cell: set(indices) for cell, indices in arrived.items()} == arrivals
    assert quote.evaluations_new[0] <= len(wanted) <= quote.evaluations_new[1]
    assert quote.unfinished == study.session.state.runs[0].left_open
    if strategy == "discarding":
        fresh = case.open(larger)
        finish(fresh, case.objective)
        assert arrived == fresh.session.state.run.arrived
    for again in (State(study.session.storage.load()), State(history(study.session.state))):
        assert again.results == study.session.state.results
        assert [run.arrived for run in again.runs] == [
            run.arrived for run in study.session.state.runs
        ]


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_efficient_costs_one_fresh_run_even_after_an_unfinished_one(strategy: StrategyName) -> None:
    study = open_study(max_budget=27)
    jobs = study.ask_all()
    study.tell_all([(job, noisy(0)(job)) for job in jobs[:20]])
    study.extend(strategy, width=2, unfinished=True)
    with pytest.raises(JobError, match="recorded"):
        study.tell(jobs[0], 0.5)
    for job in jobs[20:]:
        study.release(job)
    finish(study, noisy(0))
    cost = sum(run.cost for run in study.runs)
    assert cost == study.plan().cost if strategy == "efficient" else cost >= study.plan().cost
    assert [run.done for run in study.runs] == [False, True]


def test_a_late_result_is_recorded_counted_and_used(tmp_path: Path) -> None:
    path = tmp_path / "late.study"
    study = deepband.open_study(path, space=SPACE, max_budget=9)
    first = study.ask_all()
    study.tell_all([(job, noisy(0)(job)) for job in first])
    late = study.ask_all()  # on the rungs above the first
    assert {job.rung for job in late} == {1, 2}
    study.extend("discarding", width=2, unfinished=True)
    assert study.runs[0].done is False
    study.tell_all([(job, noisy(0)(job)) for job in late])
    with pytest.raises(JobError, match="already recorded"):
        study.tell(late[0], 0.5)
    assert study.runs[1].evaluations == len(late)
    assert study.runs[1].cost == sum(Fraction(job.budget) for job in late)
    lines = list(canonical(study.session.state))
    study.close()
    with deepband.open_study(path) as again:
        assert list(canonical(again.session.state)) == lines
        assert {key(job) for job in finish(again, noisy(0))}.isdisjoint(map(key, late))
        verdicts = [str(v) for v in again.explain(late[0].bracket, late[0].index)]
        assert "undecided when the study was extended" in " ".join(verdicts)


def test_a_late_job_is_not_handed_out_twice() -> None:
    study = open_study()
    running = study.ask_all()
    study.widen(unfinished=True)
    assert set(map(key, study.ask_all())).isdisjoint(map(key, running))
    study.release(running[0])
    job = study.ask()
    assert job is not None
    assert key(job) == key(running[0])


def overtaken() -> tuple[Study, list[Job]]:
    """A study whose bracket is on the rung of jobs that an unfinished run left behind, without
    their configs."""
    study = open_study(brackets=1)
    study.tell_all([(job, 100.0 + job.index) for job in study.ask_all()])
    behind = study.ask_all()
    study.extend("discarding", width=2, unfinished=True)
    study.tell_all([(job, -float(job.index)) for job in study.ask_all()])
    assert study.session.state.progress[0].rung == behind[0].rung
    return study, behind


def test_a_late_job_on_the_rung_of_its_bracket_can_be_taken_over() -> None:
    study, behind = overtaken()
    for job in behind:
        study.release(job)
    (job,) = study.session.reserve([key(behind[0])])
    study.tell(job, 0.5)
    assert study.runs[1].evaluations == 10
    assert key(behind[1]) not in map(key, finish(study, noisy(0)))


def test_a_late_failure_that_is_not_needed_is_not_repeated() -> None:
    study, behind = overtaken()
    study.tell(behind[0], ValueError("boom"))
    assert study.retry_failed() == 0
    folded = State(history(study.session.state))
    assert hyperband.open_jobs(folded) == hyperband.open_jobs(study.session.state)


def test_late_results_count_in_what_all_runs_may_cost() -> None:
    study, behind = overtaken()
    study.tell_all([(job, 0.5) for job in behind])
    finish(study, noisy(0))
    spent = sum(run.cost for run in study.runs)
    assert most_of_all_runs(study.session.state) >= spent


def test_a_job_ahead_that_is_running_is_not_handed_out_again() -> None:
    study = finished()
    (running,) = study.session.reserve([(0, 9, 0)])
    study.deepen("efficient")
    assert key(running) not in map(key, study.ask_all())
    study.tell(running, 0.5)
    with pytest.raises(JobError, match="already recorded"):
        study.tell(running, 0.5)


@pytest.mark.parametrize("given", ["False", 1, None])
def test_unfinished_is_a_switch(given: Any) -> None:
    with pytest.raises(InputError, match=r"unfinished is .*give True or False"):
        finished().widen(unfinished=given)


def test_frugal_needs_a_finished_run() -> None:
    study = open_study()
    study.tell_all([(job, 0.5) for job in study.ask_all()[:3]])
    with pytest.raises(UnfinishedError):
        study.deepen("frugal", unfinished=True)
    with pytest.raises(UnfinishedError):
        study.quote("frugal")
