"""Promotions that are not evaluated: which ones is a function of the facts, whatever the order in
which jobs finish and however often the process dies."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from bowl_study import bowl, exported, finish_interrupted, loss_of, losses_of, open_study, sharing
from deepband import InputError, Study
from deepband.analysis.export import canonical
from deepband.analysis.status import status_of
from deepband.core.facts import JobSkipped
from deepband.core.state import State
from deepband.errors import FactError
from deepband.storage import state_of
from deepband.storage.sqlite import SqliteStorage
from deepband.study.observers import history
from driving import finish

RISK = 0.25


def skipping(study: Study, risk: float | None = RISK, order: random.Random | None = None) -> Study:
    """The study after its run, with promotions skipped."""
    with study.session.omitting(skip=risk):
        finish(study, bowl, order)
    return study


def skips(study: Study) -> list[JobSkipped]:
    return [skip for run in study.session.state.runs for skip in run.skips()]


def deepened(strategy: Any = "preserving", **given: Any) -> Study:
    study = skipping(open_study(**given))
    study.deepen(strategy)
    return skipping(study)


@pytest.fixture(scope="module")
def twice() -> Study:
    """A study with skips in two runs."""
    study = deepened()
    assert all(each.skipped for each in study.runs)
    return study


def test_without_a_risk_nothing_changes() -> None:
    plain = open_study()
    finish(plain, bowl)
    for risk in (None, 0, 0.0):
        assert exported(skipping(open_study(), risk)) == exported(plain)
    assert not any("skip" in line for line in exported(plain))


def test_a_skipped_config_does_not_arrive_and_has_no_result(twice: Study) -> None:
    state = twice.session.state
    for run, later in pairwise([*state.runs, None]):
        assert run is not None
        for skip in run.skips():
            cell = skip.bracket, skip.rung
            assert skip.index not in run.arrived[cell]
            assert skip.index not in run.before.get(cell, ())
            assert skip.index in run.arrived[skip.bracket, skip.rung - 1]
            assert 0 <= skip.risk < RISK
            result = state.results[cell].get(skip.index)
            assert result is None or (later is not None and result.run == later.number)


def test_the_best_promotions_are_evaluated(twice: Study) -> None:
    """Skips with a small risk do not change the best config of this smooth objective."""
    full = open_study()
    finish(full, bowl)
    full.deepen("preserving")
    finish(full, bowl)
    assert full.best.config == twice.best.config
    assert twice.runs[1].cost < full.runs[1].cost


def test_explain_names_every_skip(twice: Study) -> None:
    found = {
        (each.run, each.rung + 1, skip.bracket, skip.index): each
        for skip in skips(twice)
        for each in twice.explain(skip.bracket, skip.index)
        if each.skipped is not None
    }
    assert len(found) == len(skips(twice))
    for skip in skips(twice):
        verdict = found[skip.run, skip.rung, skip.bracket, skip.index]
        assert verdict.skipped == skip.risk
        assert verdict.promoted is False
        assert verdict.reason.endswith(
            f", and skipped: it becomes the best with a probability of {skip.risk:.2g}"
        )
    state = twice.session.state
    for bracket, configs in enumerate(state.configs):
        for index in range(len(configs)):
            said = sum(each.skipped is not None for each in twice.explain(bracket, index))
            assert said == sum(skip[:2] == (bracket, index) for skip in skips(twice))


def test_runs_and_the_export_show_what_was_saved(twice: Study) -> None:
    for run in twice.runs:
        own = [skip for skip in skips(twice) if skip.run == run.run]
        assert run.skipped == len(own)
        assert run.saved == sum(3**skip.rung for skip in own)
    assert "skipped" in repr(twice.runs)
    assert sum('"skipped": true' in line for line in exported(twice)) == len(skips(twice))
    plain = open_study()
    finish(plain, bowl)
    assert "skipped" not in repr(plain.runs)


@pytest.mark.parametrize("strategy", ["discarding", "preserving", "efficient"])
def test_a_quote_after_skips_is_a_range_that_holds(strategy: Any) -> None:
    for risk in (RISK, None):
        study = skipping(open_study())
        quote = study.quote(strategy)
        assert quote.skips
        assert quote.cost.low < quote.cost.high
        assert "if all promotions are skipped" in str(quote)
        study.deepen(strategy)
        skipping(study, risk)
        run = study.runs[-1]
        assert quote.cost.low <= run.cost <= quote.cost.high
        assert quote.cost_resumed.low <= run.cost_resumed <= quote.cost_resumed.high
        low, high = quote.evaluations_new
        assert low <= run.evaluations <= high
        if risk is None and strategy == "efficient":
            assert run.cost == quote.cost.high


def test_a_plan_and_a_status_after_skips() -> None:
    study = open_study()
    planned = study.plan()
    with study.session.omitting(skip=RISK):
        while job := study.ask():
            study.tell(job, bowl(job))
            status = status_of(study.session.state)
            assert status.spent + status.left <= planned.cost
    assert study.done
    assert not status.left
    assert not status.open
    assert study.plan().at_most
    assert "at most" in study.plan().total
    assert study.runs[0].cost + study.runs[0].saved <= planned.cost


def test_a_later_run_evaluates_a_config_that_was_skipped() -> None:
    study = skipping(open_study(), 0.4)
    assert skips(study)
    study.deepen("preserving")
    finish(study, bowl)
    state = study.session.state
    evaluated = [skip for skip in skips(study) if skip.index in state.results[skip[0], skip[2]]]
    assert evaluated
    for skip in evaluated:
        assert state.results[skip.bracket, skip.rung][skip.index].run == 1
    for cell, arrived in state.run.arrived.items():
        assert arrived <= state.results[cell].keys()


@given(seed=st.integers(0, 2**32), sampler=st.sampled_from(["uniform", "tpe"]))
@settings(max_examples=6, deadline=None)
def test_any_order_gives_the_same_study(seed: int, sampler: str) -> None:
    order = random.Random(seed)
    given: dict[str, Any] = {"sampler": sampler, "parallel": 3}
    expected = exported(deepened(**given))
    study = skipping(open_study(**given), order=order)
    study.deepen("preserving")
    assert exported(skipping(study, order=order)) == expected


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 3, "batch": 2}])
def test_any_number_of_workers_skips_the_same(options: dict[str, Any]) -> None:
    study, other = open_study(), open_study()
    study.optimize(loss_of, skip=RISK)
    other.optimize(losses_of if "batch" in options else loss_of, skip=RISK, **options)
    assert skips(study)
    assert exported(other) == exported(study)


@given(seed=st.integers(0, 2**32), shares=st.booleans())
@settings(max_examples=8, deadline=None)
def test_any_interruption_gives_the_same_study(seed: int, shares: bool) -> None:
    order, given = random.Random(seed), sharing(shares)
    study = open_study(**given)
    finish_interrupted(study, order, skip=RISK)
    assert exported(study) == exported(skipping(open_study(**given)))


@pytest.mark.parametrize("seed", range(4))
def test_an_interrupted_run_that_shares_results_skips_the_same(tmp_path: Path, seed: int) -> None:
    """Promotions that are not decided yet take no results of equal configs, whoever opens the
    study next."""

    def run_of(place: Path, max_cost: int | None) -> list[str]:
        given = {"seed": seed, "reuse_identical": True}
        space = {"x": [0.1, 0.2, 0.3, 0.4, 0.7, 0.8], "y": [0.0, 0.5]}
        with open_study(place, space=space, **given) as study:
            study.optimize(loss_of)
            study.deepen("discarding")
        done = False
        while not done:
            with deepband.open_study(place) as study:
                study.session.name_objective(f"train.py:train{len(study.evaluations)}")
                study.optimize(loss_of, skip=0.3, max_cost=max_cost)
                done = study.done
        assert skips(study)
        return exported(study)

    whole = run_of(tmp_path / "whole.study", None)
    assert run_of(tmp_path / "parts.study", 27) == whole


def test_promotions_wait_for_earlier_brackets() -> None:
    study = open_study()
    with study.session.omitting(skip=RISK):
        first = study.ask_all()
        assert {job.rung == job.bracket for job in first} == {True}
        study.tell_all([(job, bowl(job)) for job in first if job.bracket])
        assert study.ask() is None  # those of bracket 1 wait for bracket 0
        assert not study.done
        study.tell_all([(job, bowl(job)) for job in first if not job.bracket])
        assert {job.bracket for job in study.ask_all()} == {0}
    assert {job.bracket for job in study.ask_all()} == {1}  # nothing is skipped any more


def test_promotions_of_which_some_were_evaluated_are_not_skipped() -> None:
    study = open_study(brackets=1)
    study.tell_all([(job, bowl(job)) for job in study.ask_all()])
    job = study.ask()
    assert job is not None
    assert job.rung == 1
    study.tell(job, bowl(job))
    with study.session.omitting(skip=0.99):
        assert {job.rung for job in study.ask_all()} == {1}


def test_a_file_and_a_copy_hold_skips(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    reader, study = SqliteStorage(place), open_study(place)
    state = state_of(reader)
    with study.session.omitting(skip=RISK):
        while jobs := study.ask_all(limit=3):
            study.tell_all([(job, bowl(job)) for job in jobs])
            news = reader.news(state)
            assert news is not None
            state.apply(news)
            assert list(canonical(state)) == exported(study)
    study.deepen("efficient")
    skipping(study)
    assert skips(study)
    study.close()
    again = deepband.open_study(place)
    assert exported(again) == exported(study) == exported(again.copy())
    assert exported(again) == list(canonical(State(history(again.session.state))))
    again.copy().save_as(tmp_path / "b.study")
    assert exported(deepband.open_study(tmp_path / "b.study")) == exported(study)
    assert SqliteStorage(place).problems() == []


def test_a_copy_of_a_state_is_independent(twice: Study) -> None:
    copied = twice.session.state.copy()
    for run in copied.runs:
        for risks in run.skipped.values():
            risks.clear()
    assert skips(twice)


def test_a_skip_that_does_not_fit_is_refused() -> None:
    study = open_study()
    study.tell_all([(job, bowl(job)) for job in study.ask_all()])
    waiting = study.session.state.progress[0].waiting[0]
    loser = next(i for i in range(9) if i not in study.session.state.run.arrived[0, 1])
    for fact in (
        JobSkipped(0, waiting, 1, 1, 0.0),  # another run
        JobSkipped(0, waiting, 2, 0, 0.0),  # another rung
        JobSkipped(0, loser, 1, 0, 0.0),  # was not promoted
        JobSkipped(2, 0, 2, 0, 0.0),  # not a promotion
        JobSkipped(7, 0, 8, 0, 0.0),  # no such bracket
    ):
        with pytest.raises(FactError, match="does not skip a promotion"):
            study.session.state.copy().apply([fact])


def test_a_run_in_which_every_promotion_is_skipped_is_done() -> None:
    study = open_study(brackets=1)
    study.tell_all([(job, bowl(job)) for job in study.ask_all()])
    run = study.session.state.run
    waiting = list(study.session.state.progress[0].waiting)
    study.session.lock()
    study.session.record([JobSkipped(0, index, 1, 0, 0.0) for index in waiting])
    assert study.done
    assert run.arrived[0, 2] == frozenset()
    study.deepen("preserving")
    finish(study, bowl)
    assert len(study.runs) == 2


def test_skipping_is_for_one_objective_without_constraints() -> None:
    two = open_study(objectives={"a": "minimize", "b": "minimize"})
    with pytest.raises(deepband.SeveralObjectivesError, match="no promotion can be skipped"):
        two.optimize(lambda config, budget: {"a": 0, "b": 0}, skip=0.01)
    bounded = open_study(constraints={"memory": (None, 1.0)})
    with pytest.raises(InputError, match=r"has constraints.*leave out `skip`"):
        bounded.optimize(lambda config, budget: {"loss": 0, "memory": 0}, skip=0.01)
    bounded.optimize(lambda config, budget: {"loss": 0, "memory": 0}, skip=0)
    assert bounded.done


@pytest.mark.parametrize("risk", [-0.1, 1, 2, math.nan, math.inf, "0.1", True])
def test_a_risk_is_a_probability(risk: Any) -> None:
    study = open_study()
    with pytest.raises(InputError, match=r"skip is .*such as 0\.01"):
        study.optimize(lambda config, budget: 0.0, skip=risk)
    assert study.evaluations == []


def test_a_parameter_without_bounds_and_losses_that_say_nothing() -> None:
    from ConfigSpace import ConfigurationSpace, Float, Normal

    space = ConfigurationSpace({"x": Float("x", distribution=Normal(0, 1), bounds=(-9, 9))})
    study = deepband.open_study(space=space, max_budget=9)
    study.optimize(lambda config, budget: math.inf, skip=0.3)
    assert study.done
    assert skips(study) == []
