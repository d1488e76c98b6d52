"""Samplers that learn: brackets run sequentially, and any number of workers gives one study."""

from __future__ import annotations

import random
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from adversary import Adversary, run_with
from cases import Case, cases, play
from deepband import Evaluation, InputError, Job, JobError, ObjectiveError, Study
from deepband.analysis import export
from deepband.core.facts import Config
from deepband.core.strategies import STRATEGIES, StrategyName
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.samplers import GROUP
from deepband.space.search_space import Space
from deepband.study.forecast import forecast
from driving import finish, key, noisy, open_study


class Remembering:
    """A sampler that learns, and keeps what it was shown."""

    learns = True

    def __init__(self) -> None:
        self.asked: list[tuple[int, Sequence[int], Sequence[Evaluation]]] = []

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
    ) -> list[Config]:
        self.asked.append((bracket, indices, observations))
        known = sum(hash((key_of(each), each.loss)) for each in observations)
        generator = random.Random(f"{seed} {bracket} {indices[0]} {known}")
        return [{"x": generator.random()} for _ in indices]


def key_of(evaluation: Evaluation) -> tuple[int, int, int]:
    return evaluation.bracket, evaluation.index, evaluation.rung


def by_x(job: Job) -> float:
    return float(job.config["x"]) / job.budget


def canonical(study: Study) -> list[str]:
    return list(export.canonical(study.session.state))


def played(case: Case, order: random.Random | None = None) -> tuple[Study, Remembering]:
    """A case under a sampler that learns."""
    sampler = Remembering()
    study = case.open(sampler=sampler)
    play(case, study, order)
    return study, sampler


@given(cases())
def test_a_group_sees_what_the_definition_says(case: Case) -> None:
    study, sampler = played(case)
    evaluations = {key_of(each): each for each in study.evaluations}
    full = [run for run in study.session.state.runs if not run.frugal]  # a frugal one draws nothing
    for bracket, indices, shown in sampler.asked:
        assert len({index // GROUP for index in indices}) == 1
        drawn_in = next(run.number for run in full if run.schedule.contains(bracket, indices[0]))
        start = indices[0] // GROUP * GROUP
        wanted = {
            place
            for place, each in evaluations.items()
            if each.run < drawn_in
            or (each.run == drawn_in and place[0] < bracket)
            or (each.run == drawn_in and place[0] == place[2] == bracket and place[1] < start)
        }
        assert [key_of(each) for each in shown] == sorted(wanted)


@given(cases())
def test_counts_are_those_of_any_other_sampler(case: Case) -> None:
    study, _ = played(case)
    plain = case.open()
    play(case, plain)
    assert study.runs == plain.runs
    assert [key_of(each) for each in study.evaluations] == [
        key_of(each) for each in plain.evaluations
    ]


@given(cases(), st.randoms(use_true_random=False))
def test_the_order_of_tells_does_not_matter(case: Case, order: random.Random) -> None:
    assert canonical(played(case)[0]) == canonical(played(case, order)[0])


def test_brackets_run_in_turn() -> None:
    study = open_study(max_budget=27, sampler=Remembering())
    jobs = finish(study, by_x, random.Random(3))
    brackets = [job.bracket for job in jobs]
    assert brackets == sorted(brackets)
    study.deepen("preserving")
    brackets = [job.bracket for job in finish(study, by_x, random.Random(4))]
    assert brackets == sorted(brackets)


def test_a_group_waits_for_the_one_before_it() -> None:
    study = open_study(max_budget=27, sampler=Remembering())
    jobs = study.ask_all()
    assert [key(job) for job in jobs] == [(0, index, 0) for index in range(GROUP)]
    for job in jobs[1:]:
        study.tell(job, 1.0)
        assert study.ask() is None
    study.release(jobs[0])
    assert study.ask() == jobs[0]
    study.tell(jobs[0], 1.0)
    assert key(study.ask() or jobs[0]) == (0, GROUP, 0)


def test_what_is_not_drawn_cannot_be_told() -> None:
    study = open_study(max_budget=27, sampler=Remembering())
    jobs = study.ask_all()
    for place in [(0, GROUP, 0), (1, 0, 1)]:
        with pytest.raises(JobError, match="its config is not sampled yet: ask for it first"):
            study.tell(Job(*place, 1, {}), 1.0)
        assert study.session.reserve([place]) == []
        with pytest.raises(JobError):
            study.release(Job(*place, 1, {}))
    assert not study.session.reserve([(0, 100, 0)])  # of the next run
    study.tell_all([(job, 1.0) for job in jobs])


def test_a_deepening_cuts_a_group_in_two_and_no_draw_is_repeated() -> None:
    sampler = Remembering()
    study = open_study(sampler=sampler)
    finish(study, by_x)
    assert [list(indices) for bracket, indices, _ in sampler.asked if bracket == 0] == [
        list(range(8)),
        [8],
    ]
    known = len(study.evaluations)
    sampler.asked.clear()
    study.deepen("efficient")
    finish(study, by_x)
    bracket, indices, shown = sampler.asked[0]
    assert (bracket, list(indices), len(shown)) == (0, list(range(9, 16)), known)
    values = [each.config["x"] for each in study.evaluations if each.rung == each.bracket]
    assert len(set(values)) == len(values)


def test_configs_of_the_users_own_take_their_places() -> None:
    sampler = Remembering()
    study = open_study(sampler=sampler)
    assert [study.enqueue({"x": 0.25}) for _ in range(2)] == [(0, 0), (0, 1)]
    assert study.enqueue({"x": 0.5}, bracket=1) == (1, 0)
    study.add_evaluation({"x": 0.125}, 1, 0.5)
    assert [job.bracket for job in study.ask_all()] == [0] * 7
    assert [list(indices) for _, indices, _ in sampler.asked] == [list(range(3, 8))]
    again = study.copy()
    finish(again, by_x)
    assert again.done
    assert again.session.state.configs[1][0] == {"x": 0.5}


@given(st.integers(0), st.integers(1, 32), st.sampled_from([0.0, 0.2, 0.6]))
@settings(max_examples=30)
def test_an_adversary_changes_nothing(seed: int, slots: int, losing: float) -> None:
    def runs(executor: Callable[[], Adversary], retries: int) -> Study:
        study = open_study(sampler=Remembering())
        run_with(executor(), study, retries)
        study.deepen("preserving")
        run_with(executor(), study, retries)
        return study

    calm = runs(lambda: Adversary(random.Random(0), 1, 0.0), 0)
    chance = random.Random(seed)
    wild = runs(lambda: Adversary(chance, slots, losing), 10**6)
    assert canonical(wild) == canonical(calm)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_interrupted_or_not(tmp_path: Path, strategy: StrategyName) -> None:
    def train(config: dict[str, Any], budget: float) -> float:
        return float(config["x"]) / budget

    straight = open_study(sampler=Remembering())
    straight.optimize(train)
    straight.deepen(strategy)
    straight.optimize(train)
    path, cost = tmp_path / "a.study", 3
    while True:
        with deepband.open_study(
            path, space={"x": (0.0, 1.0)}, max_budget=9, sampler=Remembering()
        ) as study:
            study.ask_all()  # and the results are never reported
        with deepband.open_study(path, sampler=Remembering()) as study:
            if study.done and len(study.runs) == 2:
                break
            if study.done:
                study.deepen(strategy)
            study.optimize(train, max_cost=cost + study.max_budget)
    with deepband.open_study(path, sampler=Remembering()) as study:
        assert canonical(study) == canonical(straight)


def test_the_size_of_groups_is_stored(tmp_path: Path) -> None:
    with open_study(storage=tmp_path / "a.study", sampler=Remembering()) as study:
        assert study.session.group == GROUP
        assert study.session.state.created.chunk == GROUP
    assert open_study().session.group is None
    assert open_study().session.state.created.chunk == 64


def test_first_failures_are_at_most_a_group() -> None:
    def wrong(config: dict[str, Any], budget: float) -> float:
        raise KeyError("lr")

    study = open_study(max_budget=27, sampler=Remembering())
    executor = SimulatedExecutor(40, lambda job: job.budget)
    with pytest.raises(ObjectiveError, match=f"the first {GROUP} evaluations all failed"):
        study.optimize(wrong, executor=executor)
    assert study.evaluations == []


def test_failures_that_are_tried_again_come_before_the_next_group() -> None:
    study = open_study(max_budget=27, sampler=Remembering())
    jobs = study.ask_all()
    study.tell_all([(job, ValueError("x") if job.index == 3 else 1.0) for job in jobs])
    study.ask()
    assert study.retry_failed() == 1
    assert [job.index for job in study.ask_all()] == [3, *range(GROUP + 1, 2 * GROUP)]


def test_no_work_ahead() -> None:
    study = open_study(sampler=Remembering())
    with pytest.raises(InputError, match="leave out `ahead`"):
        study.optimize(lambda config, budget: 1.0, ahead=True)


def test_a_forecast_knows_that_brackets_run_in_turn() -> None:
    sampler = Remembering()
    learning, plain = open_study(sampler=sampler), open_study()
    slow, fast = forecast(learning, 100, 1.0)[0], forecast(plain, 100, 1.0)[0]
    assert sampler.asked == []  # no sampler need draw for it
    assert slow.jobs == fast.jobs
    assert fast.seconds == 1 + 3 + 9
    assert slow.seconds == (1 + 1 + 3 + 9) + (3 + 9) + 9


def test_what_was_noted_holds_for_a_second_driver(tmp_path: Path) -> None:
    path = tmp_path / "a.study"
    with open_study(storage=path, sampler=Remembering()) as study:
        finish(study, noisy(1))
        study.deepen("preserving")
        first = study.ask()
    with deepband.open_study(path, sampler=Remembering()) as study:
        assert study.ask() == first
