"""The virtual schedule: what samplers that learn may use, and that workers do not matter."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from adversary import Adversary, run_with
from cases import Case, cases, play
from deepband import (
    Evaluation,
    IdleWorkersWarning,
    InputError,
    Job,
    JobError,
    ObjectiveError,
    Study,
)
from deepband.analysis import export
from deepband.core.facts import Config, JobKey
from deepband.core.runs import Run
from deepband.core.strategies import STRATEGIES, StrategyName
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.space.search_space import Space
from deepband.study.forecast import forecast
from driving import finish, key, noisy, open_study

PARALLEL = st.sampled_from([1, 2, 3, 8, 64])


class Asked(NamedTuple):
    """One call of `draw`."""

    bracket: int
    indices: Sequence[int]
    observations: Sequence[Evaluation]
    pending: Sequence[Config]


class Remembering:
    """A sampler that learns, and keeps what it was shown. All its configs are different."""

    learns = True

    def __init__(self) -> None:
        self.asked: list[Asked] = []

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
        pending: Sequence[Config] = (),
    ) -> list[Config]:
        self.asked.append(Asked(bracket, indices, observations, pending))
        seen = sum(hash((each[:3], each.loss)) for each in observations)
        running = sum(config["x"] for config in pending)
        generator = random.Random(f"{seed} {bracket} {indices[0]} {seen} {running}")
        return [{"x": generator.random()} for _ in indices]


def key_of(evaluation: Evaluation) -> JobKey:
    return evaluation.bracket, evaluation.index, evaluation.rung


def by_x(job: Job) -> float:
    return float(job.config["x"]) / job.budget


def canonical(study: Study) -> list[str]:
    return list(export.canonical(study.session.state))


def played(
    case: Case, parallel: int, order: random.Random | None = None
) -> tuple[Study, Remembering]:
    """A case under a sampler that learns."""
    sampler = Remembering()
    study = case.open(sampler=sampler, parallel=parallel)
    play(case, study, order)
    return study, sampler


class Sight(NamedTuple):
    """What a config may be sampled with, by definition."""

    start: int
    ended: int
    """How many jobs had ended."""
    pending: list[JobKey]


def sights(run: Run, parallel: int) -> tuple[dict[tuple[int, int], Sight], list[JobKey]]:
    """The definition, played over a finished run from one end of jobs to the next: what each config
    may be sampled with, and the jobs in the order in which they end."""
    found: dict[tuple[int, int], Sight] = {}
    ended: list[JobKey] = []
    running: dict[JobKey, int] = {}
    queues = {bracket: rung_jobs(run, bracket, bracket) for bracket in run.schedule.brackets}
    open_jobs = {bracket: len(queue) for bracket, queue in queues.items()}
    rungs = {bracket: queue[0][2] if queue else None for bracket, queue in queues.items()}
    now = 0
    while True:
        for bracket, queue in queues.items():
            if bracket and not run.number and rungs[0] not in (None, run.schedule.top):
                break
            first_time = [each for each in running if each[0] == each[2]]
            new, queues[bracket] = (
                queue[: parallel - len(running)],
                queue[parallel - len(running) :],
            )
            for each in new:
                if each[2] == bracket:
                    found[each[:2]] = Sight(now, len(ended), first_time)
                running[each] = now + run.schedule.eta ** each[2]
        if not running:
            return found, ended
        now = min(running.values())
        for each in [each for each, end in running.items() if end == now]:
            del running[each]
            ended.append(each)
            bracket = each[0]
            open_jobs[bracket] -= 1
            if not open_jobs[bracket]:
                queues[bracket] = queue = rung_jobs(run, bracket, each[2] + 1)
                open_jobs[bracket] = len(queue)
                rungs[bracket] = queue[0][2] if queue else None


def rung_jobs(run: Run, bracket: int, rung: int) -> list[JobKey]:
    """The jobs of a bracket on a rung, or on the next one that has any: those of configs that had
    no result there when the run started."""
    before = run.before.get((bracket, rung), frozenset())
    new = sorted(run.arrived.get((bracket, rung), frozenset()) - before)
    if new or rung >= run.schedule.top:
        return [(bracket, index, rung) for index in new]
    return rung_jobs(run, bracket, rung + 1)


@given(cases(), PARALLEL)
def test_a_draw_sees_what_the_definition_says(case: Case, parallel: int) -> None:
    study, sampler = played(case, parallel)
    state = study.session.state
    full = [run for run in state.runs if not run.frugal]  # a frugal one draws nothing
    by_run = {run.number: sights(run, parallel) for run in full}
    evaluations = study.evaluations
    for bracket, indices, shown, pending in sampler.asked:
        run = next(run for run in full if run.schedule.contains(bracket, indices[0]))
        found, ended = by_run[run.number]
        places = [found[bracket, index] for index in indices]
        assert len({place.start for place in places}) == 1
        earlier = {key_of(each) for each in evaluations if each.run < run.number}
        assert [key_of(each) for each in shown] == sorted({*earlier, *ended[: places[0].ended]})
        configs = [state.configs[of][index] for of, index, _ in places[0].pending]
        assert list(pending) == configs


@given(cases(), PARALLEL)
def test_counts_are_those_of_any_other_sampler(case: Case, parallel: int) -> None:
    study, _ = played(case, parallel)
    plain = case.open()
    play(case, plain)
    assert study.runs == plain.runs
    assert [key_of(each) for each in study.evaluations] == [
        key_of(each) for each in plain.evaluations
    ]


@given(cases(), PARALLEL, st.randoms(use_true_random=False))
def test_the_order_of_tells_does_not_matter(
    case: Case, parallel: int, order: random.Random
) -> None:
    assert canonical(played(case, parallel)[0]) == canonical(played(case, parallel, order)[0])


def test_with_one_virtual_worker_each_config_sees_all_before_it() -> None:
    sampler = Remembering()
    study = open_study(max_budget=27, sampler=sampler)
    jobs = finish(study, by_x)
    assert [job.bracket for job in jobs] == sorted(job.bracket for job in jobs)
    assert all(len(each.indices) == 1 and not each.pending for each in sampler.asked)
    places = [key(job) for job in jobs]
    for bracket, (index,), shown, _ in sampler.asked:
        assert {key_of(each) for each in shown} == set(
            places[: places.index((bracket, index, bracket))]
        )


def test_a_draw_waits_for_what_ends_before_it() -> None:
    study = open_study(max_budget=27, sampler=Remembering(), parallel=8)
    jobs = study.ask_all()
    assert [key(job) for job in jobs] == [(0, index, 0) for index in range(8)]
    for job in jobs[1:]:
        study.tell(job, 1.0)
        assert study.ask() is None
    study.release(jobs[0])
    assert study.ask() == jobs[0]
    study.tell(jobs[0], 1.0)
    assert key(study.ask() or jobs[0]) == (0, 8, 0)


def test_other_brackets_wait_until_the_first_one_is_on_its_top_rung() -> None:
    study = open_study(max_budget=27, sampler=Remembering(), parallel=8)
    brackets = []
    while study.session.state.progress[0].rung < 3:
        jobs = study.ask_all()
        brackets += [job.bracket for job in jobs]
        study.tell_all([(job, by_x(job)) for job in jobs])
    assert set(brackets) == {0}
    assert [(job.bracket, job.rung) for job in study.ask_all()] == [(0, 3)] + 7 * [(1, 1)]


def test_jobs_whose_configs_exist_do_not_wait_for_the_virtual_clock() -> None:
    """They do not depend on anything, so that more workers are of use."""
    study = open_study(max_budget=27, sampler=Remembering(), parallel=2)
    while study.session.state.progress[0].rung < 1:
        study.tell_all([(job, by_x(job)) for job in study.ask_all()])
    assert len(study.ask_all()) == 9


def test_what_is_not_drawn_cannot_be_told() -> None:
    study = open_study(max_budget=27, sampler=Remembering(), parallel=8)
    jobs = study.ask_all()
    for place in [(0, 8, 0), (1, 0, 1)]:
        with pytest.raises(JobError, match="its config is not sampled yet: ask for it first"):
            study.tell(Job(*place, 1, {}), 1.0)
        assert study.session.reserve([place]) == []
        with pytest.raises(JobError):
            study.release(Job(*place, 1, {}))
    assert not study.session.reserve([(0, 100, 0)])  # of the next run
    study.tell_all([(job, 1.0) for job in jobs])


def test_a_new_run_starts_its_clock_again_and_sees_all_earlier_ones() -> None:
    sampler = Remembering()
    study = open_study(sampler=sampler, parallel=8)
    finish(study, by_x)
    known = len(study.evaluations)
    sampler.asked.clear()
    study.deepen("efficient")
    finish(study, by_x)
    bracket, indices, shown, pending = sampler.asked[0]
    assert (bracket, list(indices), len(shown), pending) == (0, list(range(9, 17)), known, [])
    values = [each.config["x"] for each in study.evaluations if each.rung == each.bracket]
    assert len(set(values)) == len(values)


def test_configs_of_the_users_own_take_their_places() -> None:
    sampler = Remembering()
    study = open_study(sampler=sampler, parallel=8)
    assert [study.enqueue({"x": 0.25}) for _ in range(2)] == [(0, 0), (0, 1)]
    assert study.enqueue({"x": 0.5}, bracket=1) == (1, 0)
    study.add_evaluation({"x": 0.125}, 1, 0.5)
    # The imported one takes no virtual time, so that the ninth config starts at once, too.
    assert [key(job) for job in study.ask_all()][:8] == [(0, i, 0) for i in (0, 1, *range(3, 9))]
    assert [list(each.indices) for each in sampler.asked] == [list(range(3, 9))]
    again = study.copy()
    finish(again, by_x)
    assert again.done
    assert again.session.state.configs[1][0] == {"x": 0.5}


def test_imported_results_are_seen_by_later_draws() -> None:
    sampler = Remembering()
    study = open_study(sampler=sampler, parallel=2)
    study.tell_all([(job, by_x(job)) for job in study.ask_all()])
    place = study.add_evaluation({"x": 0.125}, 1, 0.5)
    study.ask_all()
    assert place in [key_of(each) for each in sampler.asked[-1].observations]
    assert place not in [key_of(each) for each in sampler.asked[0].observations]


@given(st.integers(0), st.integers(1, 32), st.sampled_from([0.0, 0.2, 0.6]), PARALLEL)
@settings(max_examples=30)
def test_an_adversary_changes_nothing(seed: int, slots: int, losing: float, parallel: int) -> None:
    def runs(executor: Callable[[], Adversary], retries: int) -> Study:
        study = open_study(sampler=Remembering(), parallel=parallel)
        run_with(executor(), study, retries)
        study.deepen("preserving")
        run_with(executor(), study, retries)
        return study

    calm = runs(lambda: Adversary(random.Random(0), 1, 0.0), 0)
    chance = random.Random(seed)
    wild = runs(lambda: Adversary(chance, slots, losing), 10**6)
    assert canonical(wild) == canonical(calm)


@pytest.mark.parametrize(
    ("strategy", "parallel"),
    [
        pytest.param(strategy, parallel, marks=() if row % 2 == column else pytest.mark.heavy)
        for row, strategy in enumerate(STRATEGIES)
        for column, parallel in enumerate([1, 3])
    ],
)
def test_interrupted_or_not(tmp_path: Path, strategy: StrategyName, parallel: int) -> None:
    settings: dict[str, Any] = {"space": {"x": (0.0, 1.0)}, "max_budget": 9, "parallel": parallel}

    def train(config: dict[str, Any], budget: float) -> float:
        return float(config["x"]) / budget

    straight = deepband.open_study(sampler=Remembering(), **settings)
    straight.optimize(train)
    straight.deepen(strategy)
    straight.optimize(train)
    path, cost = tmp_path / "a.study", 3
    while True:
        with deepband.open_study(path, sampler=Remembering(), **settings) as study:
            study.ask_all()  # and the results are never reported
        with deepband.open_study(path, sampler=Remembering()) as study:
            if study.done and len(study.runs) == 2:
                break
            if study.done:
                study.deepen(strategy)
            study.optimize(train, max_cost=cost + study.max_budget)
    with deepband.open_study(path, sampler=Remembering()) as study:
        assert canonical(study) == canonical(straight)


def test_the_declared_parallelism_is_stored(tmp_path: Path) -> None:
    with open_study(storage=tmp_path / "a.study", sampler=Remembering(), parallel=8) as study:
        assert study.session.parallel == study.session.state.created.parallel == 8
    with deepband.open_study(tmp_path / "a.study", sampler=Remembering()) as study:
        assert study.session.parallel == 8
    with pytest.raises(InputError, match="created with parallel 8, and 4 is given"):
        deepband.open_study(tmp_path / "a.study", sampler=Remembering(), parallel=4)
    assert open_study().session.parallel is None
    assert open_study(sampler=Remembering()).session.parallel == 1


@pytest.mark.parametrize("parallel", [0, -1, 1.5, True, "2"])
def test_a_parallelism_is_a_whole_number(parallel: Any) -> None:
    with pytest.raises(InputError, match=r"parallel is .*: give a whole number"):
        open_study(parallel=parallel)


def test_first_failures_are_at_most_those_of_the_virtual_workers() -> None:
    def wrong(config: dict[str, Any], budget: float) -> float:
        raise KeyError("lr")

    study = open_study(max_budget=27, sampler=Remembering(), parallel=8)
    executor = SimulatedExecutor(40, lambda job: job.budget)
    with pytest.raises(ObjectiveError, match="the first 8 evaluations all failed"):
        study.optimize(wrong, executor=executor)
    assert study.evaluations == []


def test_failures_that_a_draw_has_used_are_not_tried_again() -> None:
    study = open_study(max_budget=27, sampler=Remembering(), parallel=8)
    jobs = study.ask_all()
    study.tell_all([(job, ValueError("x") if job.index == 3 else 1.0) for job in jobs])
    assert study.copy().retry_failed() == 1  # nothing has been sampled since
    later = study.ask_all()
    assert study.retry_failed() == 0
    study.tell_all([(job, ValueError("x") if job.index == 9 else 1.0) for job in later])
    assert study.retry_failed() == 1
    assert [job.index for job in study.ask_all()] == [9]


def test_more_workers_than_declared_are_warned_of() -> None:
    def train(config: dict[str, Any], budget: float) -> float:
        return float(config["x"]) / budget

    study = open_study(sampler="prior", parallel=2)
    with pytest.warns(IdleWorkersWarning, match="samples for 2 of 3 workers at a time") as seen:
        study.optimize(train, executor=ThreadPoolExecutor(3), workers=3)
    assert seen[0].filename == __file__
    open_study(sampler="prior", parallel=3).optimize(train, executor=ThreadPoolExecutor(3))


def test_no_work_ahead() -> None:
    study = open_study(sampler=Remembering())
    with pytest.raises(InputError, match="leave out `ahead`"):
        study.optimize(lambda config, budget: 1.0, ahead=True)


def test_a_forecast_follows_the_virtual_clock() -> None:
    sampler = Remembering()
    learning, plain = open_study(sampler=sampler, parallel=100), open_study()
    slow, fast = forecast(learning, 100, 1.0)[0], forecast(plain, 100, 1.0)[0]
    assert sampler.asked == []  # no sampler need draw for it
    assert slow.jobs == fast.jobs
    assert fast.seconds == 1 + 3 + 9
    assert slow.seconds == (1 + 3) + (3 + 9)  # the others wait until bracket 0 is on its top rung


@pytest.mark.parametrize(("parallel", "share"), [(8, 0.85), (64, 0.6)])
def test_workers_are_nearly_as_busy_as_with_uniform(parallel: int, share: float) -> None:
    def utilisation(sampler: Any) -> float:
        study = open_study(max_budget=81, sampler=sampler, parallel=parallel)
        simulated = SimulatedExecutor(parallel, lambda job: job.budget)
        study.optimize(lambda config, budget: config["x"] / budget, executor=simulated)
        return simulated.utilisation

    assert utilisation(Remembering()) > share * utilisation("uniform")


def test_what_was_noted_holds_for_a_second_driver(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    with open_study(storage=path, sampler=Remembering()) as study:
        finish(study, noisy(1))
        study.deepen("preserving")
        first = study.ask()
    with deepband.open_study(path, sampler=Remembering()) as study:
        assert study.ask() == first
