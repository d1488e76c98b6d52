"""Runs that end early: when they do is a function of the facts, whatever the order in which jobs
finish and however often the process dies."""

from __future__ import annotations

import math
import random
import sqlite3
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from bowl_study import bowl, exported, finish_interrupted, loss_of, losses_of, open_study, sharing
from deepband import InputError, StorageError, Study
from deepband.analysis.export import canonical
from deepband.analysis.key_figures import key_figures
from deepband.analysis.status import status_of
from deepband.core.facts import Fact, JobFinished, RunStopped
from deepband.core.state import State
from deepband.errors import FactError
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.storage import state_of
from deepband.storage.sqlite import SqliteStorage
from deepband.study.observers import history
from driving import finish

RISK = 0.4


def stopping(
    study: Study,
    stop: float | None = RISK,
    order: random.Random | None = None,
    skip: float | None = None,
) -> Study:
    """The study after its run, which may end early."""
    with study.session.omitting(skip=skip, stop=stop):
        finish(study, bowl, order)
    return study


def deepened(strategy: Any = "preserving", skip: float | None = None, **given: Any) -> Study:
    study = stopping(open_study(**given), skip=skip)
    study.deepen(strategy)
    return stopping(study, skip=skip)


@pytest.fixture(scope="module")
def stopped() -> Study:
    """A study whose first run was stopped."""
    study = stopping(open_study())
    assert study.runs[0].stopped is not None
    return study


def test_without_a_risk_nothing_changes() -> None:
    plain = open_study()
    finish(plain, bowl)
    for risk in (None, 0, 0.0):
        assert exported(stopping(open_study(), risk)) == exported(plain)
    assert not any("stop" in line for line in exported(plain))
    assert "stopped" not in repr(plain.runs)


def test_a_stopped_run_is_done_and_says_what_it_saved(stopped: Study) -> None:
    run, full = stopped.runs[0], open_study().plan()
    assert stopped.done
    assert stopped.ask() is None
    assert run.done
    assert run.stopped is not None
    assert 0 <= run.stopped < RISK
    assert run.saved > 0
    assert run.cost + run.saved == full.cost
    assert "stopped" in repr(stopped.runs)
    assert exported(stopped)[-1] == f'{{"run": 0, "stopped": {run.stopped}}}'
    assert "0 jobs open" in repr(stopped)
    assert "stopped early" in stopped._repr_html_()
    status = status_of(stopped.session.state)
    assert status.done
    assert not status.open
    assert not status.left
    assert "at most" in stopped.plan().total


def test_explain_says_why_a_config_was_not_evaluated(stopped: Study) -> None:
    said = 0
    for bracket in range(3):
        for index in range(stopped.session.state.schedule.start_size(bracket)):
            verdict = stopped.explain(bracket, index)[-1]
            evaluated = stopped.session.state.result(bracket, index, verdict.rung) is not None
            if not evaluated:
                said += 1
                assert "not evaluated, since the run was stopped: its rest" in verdict.reason
    assert said


def test_a_call_without_stop_completes_the_run(stopped: Study) -> None:
    study, full = stopped.copy(), open_study()
    facts: list[Fact] = []
    study.observe(_Listener(facts))
    finish(stopping(study, None), bowl)
    finish(full, bowl)
    assert exported(study) == exported(full)
    assert study.runs[0].stopped is None
    number = len(stopped.evaluations)
    assert len(study.evaluations) > number
    finished = [fact[:3] for fact in facts if isinstance(fact, JobFinished)]
    assert len(set(finished)) == len(finished) == len(study.evaluations)
    assert [fact for fact in facts if isinstance(fact, RunStopped)] == [
        (0, stopped.runs[0].stopped),
        (0, None),
    ]


class _Listener:
    def __init__(self, facts: list[Fact]) -> None:
        self.facts = facts

    def observe(self, facts: Any) -> None:
        self.facts += facts


def test_a_smaller_risk_continues_and_a_larger_one_does_not(stopped: Study) -> None:
    risk = stopped.runs[0].stopped
    assert risk
    same, more = stopped.copy(), stopped.copy()
    assert exported(stopping(same, (risk + 1) / 2)) == exported(stopped)
    stopping(more, risk)
    assert len(more.evaluations) > len(stopped.evaluations)
    assert exported(more) == exported(stopping(open_study(), risk))


@pytest.mark.parametrize("strategy", ["discarding", "preserving", "efficient", "frugal"])
def test_an_extension_evaluates_what_was_not_evaluated(stopped: Study, strategy: Any) -> None:
    study = stopped.copy()
    quote = study.quote(strategy)
    study.deepen(strategy)
    jobs = [job.key for job in finish(study, bowl)]
    assert len(set(jobs)) == len(jobs)
    assert not set(jobs) & {(each.bracket, each.index, each.rung) for each in stopped.evaluations}
    assert quote.cost.low <= study.runs[1].cost <= quote.cost.high
    if strategy in ("efficient", "frugal"):
        assert study.runs[1].cost == quote.cost.high
    else:
        assert quote.cost.low == 0
        assert "the most if nothing is stopped early or skipped" in str(quote)
    assert study.runs[0].stopped == stopped.runs[0].stopped
    assert study.runs[0].saved == stopped.runs[0].saved
    assert study.runs[0].done
    if strategy == "frugal":
        study.deepen("preserving", to=27)
        finish(study, bowl)
    run, state = study.session.state.run, study.session.state
    assert all(arrived <= state.results[cell].keys() for cell, arrived in run.arrived.items())
    assert exported(study) == list(canonical(State(history(state))))


def test_a_widening_and_another_space_after_a_stop(stopped: Study) -> None:
    study = stopped.copy()
    study.widen(space={"x": (0.0, 0.5), "y": (0.0, 1.0), "z": [1, 2]}, added={"z": 1})
    stopping(study)
    assert len(study.runs) == 2
    assert study.runs[1].evaluations
    assert stopping(study.copy(), None).done


@given(
    seed=st.integers(0, 2**32),
    sampler=st.sampled_from(["uniform", "tpe"]),
    skip=st.sampled_from([None, 0.1]),
)
@settings(max_examples=6, deadline=None)
def test_any_order_gives_the_same_study(seed: int, sampler: str, skip: float | None) -> None:
    order = random.Random(seed)
    given: dict[str, Any] = {"sampler": sampler, "parallel": 3, "seed": seed % 5}
    expected = exported(deepened(skip=skip, **given))
    study = stopping(open_study(**given), order=order, skip=skip)
    study.deepen("preserving")
    assert exported(stopping(study, order=order, skip=skip)) == expected


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 3, "batch": 2}])
def test_any_number_of_workers_stops_at_the_same_time(options: dict[str, Any]) -> None:
    study, other = open_study(), open_study()
    study.optimize(loss_of, stop=RISK)
    other.optimize(losses_of if "batch" in options else loss_of, stop=RISK, **options)
    assert study.runs[0].stopped is not None
    assert exported(other) == exported(study)


@given(seed=st.integers(0, 2**32), shares=st.booleans())
@settings(max_examples=6, deadline=None)
def test_any_interruption_gives_the_same_study(seed: int, shares: bool) -> None:
    order, given = random.Random(seed), sharing(shares)
    study, skip = open_study(**given), order.choice([None, 0.1])
    finish_interrupted(study, order, skip=skip, stop=RISK)
    stopping(study, skip=skip)  # the last process may have died before the decision
    assert exported(study) == exported(stopping(open_study(**given), skip=skip))


@given(seed=st.integers(0, 2**32), uniform=st.booleans())
@settings(max_examples=5, deadline=None)
def test_a_completed_run_is_the_run_without_stop(seed: int, uniform: bool) -> None:
    order = random.Random(seed)
    given: dict[str, Any] = {"seed": seed % 7, "sampler": "uniform" if uniform else "tpe"}
    study, full = stopping(open_study(**given), order=order), open_study(**given)
    finish(full, bowl)
    evaluated = len(study.evaluations)
    with study.session.omitting():
        jobs = finish(study, bowl, order)
    assert len(jobs) == len(full.evaluations) - evaluated
    assert exported(study) == exported(full)


def test_brackets_run_one_after_another() -> None:
    study = open_study()
    with study.session.omitting(stop=1e-9):
        while job := study.ask():
            open_brackets = [of for of in range(3) if study.session.state.progress[of].open]
            assert job.bracket == open_brackets[0]
            study.tell(job, bowl(job))
    assert study.done
    assert study.runs[0].stopped is None


def test_nothing_is_stopped_before_anything_is_evaluated(stopped: Study) -> None:
    study = stopping(stopped.copy(), None)
    study.widen()
    with study.session.omitting(stop=0.999):
        assert study.ask() is not None


def test_a_file_and_a_copy_hold_stops(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    reader, study = SqliteStorage(place), open_study(place)
    state = state_of(reader)
    for stop in (RISK, None, RISK):
        with study.session.omitting(stop=stop):
            while jobs := study.ask_all(limit=3):
                study.tell_all([(job, bowl(job)) for job in jobs])
        news = reader.news(state)
        assert news is not None
        state.apply(news)
        assert list(canonical(state)) == exported(study)
        if stop:
            study.session.record([RunStopped(0, 0.25)])
    study.deepen("efficient")
    stopping(study)
    study.close()
    again = deepband.open_study(place)
    assert again.runs[0].stopped == 0.25
    assert exported(again) == exported(study) == exported(again.copy())
    assert exported(again) == list(canonical(State(history(again.session.state))))
    again.copy().save_as(tmp_path / "b.study")
    assert exported(deepband.open_study(tmp_path / "b.study")) == exported(study)
    assert SqliteStorage(place).problems() == []


@pytest.mark.parametrize(
    "change",
    [
        "UPDATE stops SET risk = 0.5",
        "UPDATE stops SET risk = NULL",
        "UPDATE stops SET run = 1",
        "DELETE FROM stops",
        "DROP TABLE stops",
    ],
)
def test_a_damaged_stop_is_noticed(tmp_path: Path, stopped: Study, change: str) -> None:
    place = tmp_path / "a.study"
    stopped.copy().save_as(place)
    with closing(sqlite3.connect(place)) as connection, connection:
        connection.execute(change)
    with pytest.raises(StorageError):
        deepband.open_study(place)
    assert SqliteStorage(place).problems()


@pytest.mark.parametrize("fact", [(1, 0.1), (-1, 0.1), (0, 1.5), (0, math.nan)])
def test_a_stop_that_does_not_fit_is_refused(fact: tuple[int, float]) -> None:
    with pytest.raises(FactError, match="does not stop a run of the study"):
        open_study().session.state.apply([RunStopped(*fact)])


def test_stopping_is_for_one_objective_without_constraints() -> None:
    two = open_study(objectives={"a": "minimize", "b": "minimize"})
    with pytest.raises(deepband.SeveralObjectivesError, match="the run cannot be stopped early"):
        two.optimize(lambda config, budget: {"a": 0, "b": 0}, stop=0.05)
    bounded = open_study(constraints={"memory": (None, 1.0)})
    with pytest.raises(InputError, match=r"has constraints.*leave out `stop`"):
        bounded.optimize(lambda config, budget: {"loss": 0, "memory": 0}, stop=0.05)


@pytest.mark.parametrize("risk", [-0.1, 1, 2, math.nan, math.inf, "0.1", True])
def test_a_risk_is_a_probability(risk: Any) -> None:
    study = open_study()
    with pytest.raises(InputError, match=r"stop is .*such as 0\.05"):
        study.optimize(lambda config, budget: 0.0, stop=risk)
    assert study.evaluations == []


def test_losses_that_say_nothing_do_not_stop_a_run() -> None:
    study = open_study()
    study.optimize(lambda config, budget: math.inf, stop=0.9)
    assert study.runs[0].stopped is None
    assert study.done


def test_advice_says_how_likely_a_better_config_is(stopped: Study) -> None:
    study = open_study(space={"x": (0.0, 1.0)}, seed=3)
    study.optimize(lambda config, budget: config["x"] + 0.001 / budget)
    advice = study.advice()
    assert advice.risk is not None
    assert advice.risk < 0.5
    assert "one is notably better at 9: probability" in dict(advice.lines())["others"]
    assert stopped.advice().risk is not None
    noisy = open_study(space={"x": (0.0, 1.0)}, seed=3)
    noisy.optimize(lambda config, budget: random.Random(f"{config} {budget}").random())
    assert (noisy.advice().risk or 0.0) > advice.risk


def test_advice_leaves_the_probability_out_if_it_is_unknown() -> None:
    large = open_study(max_budget=27, width=9)
    large.optimize(loss_of)
    failed = open_study()
    failed.optimize(lambda config, budget: math.inf)
    bounded = open_study(constraints={"memory": (None, 1.0)})
    bounded.optimize(lambda config, budget: {"loss": config["x"], "memory": 0})
    for study in (large, failed, bounded):
        assert study.advice().risk is None
        assert "others" not in dict(study.advice().lines())


@pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning")
def test_a_stopped_run_continues_with_failures_that_are_repeated() -> None:
    fixed = False

    def train(config: dict[str, float], budget: float) -> float:
        if config["x"] > 0.5 and not fixed:
            raise RuntimeError("too large")
        return loss_of(config, budget)

    given: dict[str, Any] = {"first_failures": 0, "progress": False}
    study = open_study()
    study.optimize(loss_of, **given)
    study.widen()
    study.optimize(train, max_cost=13, **given)
    study.optimize(train, stop=0.999, **given)
    assert study.runs[1].stopped is not None
    failed = study.failures().total
    repeated = study.retry_failed()
    assert 0 < repeated <= failed
    assert not study.done
    assert study.runs[1].stopped is None
    fixed = True
    study.optimize(train, stop=0.999, **given)
    assert study.failures().total == failed - repeated
    assert study.done


def test_a_quote_of_a_stopped_run_reuses_what_was_evaluated(stopped: Study) -> None:
    quote = stopped.quote("preserving")
    begun = {(each.bracket, each.index) for each in stopped.evaluations}
    assert quote.configs_reused == len(begun)
    assert quote.configs_reused + quote.configs_new == 49


def test_a_quote_of_a_stopped_run_counts_only_the_jobs_ahead_that_it_contains() -> None:
    study = open_study(seed=3)
    executor = SimulatedExecutor(6, lambda job: float(job.budget))
    study.optimize(loss_of, ahead=True, stop=0.3, executor=executor, progress=False)
    assert study.runs[0].stopped is not None
    state = study.session.state
    wider = deepband.plan(max_budget=9, width=2).run.configs
    quote = study.quote(width=2)
    begun = {(each.bracket, each.index) for each in study.evaluations}
    begun |= {key[:2] for key in state.ahead.results if key[1] < 2 * [9, 5, 3, 0][key[0]]}
    assert state.ahead.results
    assert (quote.configs_reused, quote.configs_new) == (len(begun), wider - len(begun))


def test_the_progress_of_a_stopped_run_is_what_it_evaluated(stopped: Study) -> None:
    state = stopped.session.state
    figures = {each.key: each for each in key_figures(state, status_of(state))}
    count, cost = len(stopped.evaluations), stopped.runs[0].cost
    assert figures["progress"].detail == (f"{count} of {count} evaluations, {cost} of {cost} units")
    assert figures["progress"].share == 1


def test_a_second_call_in_another_thread_does_not_end_the_decisions_of_the_first() -> None:
    study, calls = open_study(), []

    def train(config: dict[str, float], budget: float) -> float:
        calls.append(budget)
        if len(calls) == 3:
            with ThreadPoolExecutor(1) as pool:
                pool.submit(study.optimize, train, max_seconds=0, progress=False).result()
        return loss_of(config, budget)

    study.optimize(train, stop=RISK, progress=False)
    alone = open_study()
    alone.optimize(loss_of, stop=RISK, progress=False)
    assert exported(study) == exported(alone)
    assert study.runs[0].stopped is not None
