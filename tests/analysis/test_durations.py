"""Measured durations, and the time that quotes and advice show."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from advised import finished, rank
from deepband import Study
from deepband.analysis.advice import advise
from deepband.analysis.durations import resumes, seconds_per_unit, seconds_spent
from deepband.analysis.quote_computation import quote
from deepband.core.facts import JobFinished
from deepband.core.state import State


def timed(study: Study, change: Callable[[JobFinished], JobFinished]) -> State:
    """The state of a study with changed results."""
    return State(
        change(fact) if isinstance(fact, JobFinished) else fact
        for fact in study.session.storage.load()
    )


def test_without_times_there_are_none() -> None:
    study = finished(rank)
    assert seconds_per_unit(study.session.state) is None
    assert seconds_spent(study.session.state) == 0.0
    assert study.quote().seconds is None
    assert "time" not in dict(study.quote().lines())


def test_seconds_are_divided_by_what_was_trained() -> None:
    """Budgets are 1, 3, 9 and 27; training from the rung below costs two thirds."""
    study = finished(rank)
    whole = timed(study, lambda fact: fact._replace(seconds=2.0 * 3**fact.rung))
    assert seconds_per_unit(whole) == pytest.approx(2.0)
    assert seconds_spent(whole) == pytest.approx(2.0 * 423)
    assert not resumes(whole)

    def resumed(fact: JobFinished) -> JobFinished:
        begun = fact.rung - 1 if fact.rung > fact.bracket else None
        trained = 3**fact.rung - (0 if begun is None else 3**begun)
        return fact._replace(seconds=2.0 * trained, resumed_from=begun)

    state = timed(study, resumed)
    assert seconds_per_unit(state) == pytest.approx(2.0)
    assert resumes(state)
    found = quote(state, "efficient", state.schedule.extended(width=2))
    assert found.seconds == pytest.approx((2.0 * float(found.cost_resumed.low),) * 2)


def test_failures_and_imported_results_are_not_measured() -> None:
    study = finished(lambda job: RuntimeError("failed") if job.index == 1 else rank(job))

    def change(fact: JobFinished) -> JobFinished:
        origin = "elsewhere" if fact.index == 2 else None
        return fact._replace(seconds=999.0 if fact.index in (1, 2) else 3**fact.rung, origin=origin)

    state = timed(study, change)
    assert seconds_per_unit(state) == pytest.approx(1.0)
    assert seconds_spent(state) > 999  # failures took their time


def test_quotes_and_advice_show_the_time_of_so_many_workers() -> None:
    """Widening costs 423 units, of a minute each: 7 h 03 min, or 1 h 46 min on four workers."""
    state = timed(finished(rank), lambda fact: fact._replace(seconds=60.0 * 3**fact.rung))
    wider = quote(state, "efficient", state.schedule.extended(width=2))
    assert dict(wider.lines())["time"] == ("about 7 h 03 min with one worker, as measured so far")
    assert "about 7 h 03 min" in str(advise(state))
    study = finished(rank)
    study.session.state = state
    assert "about 1 h 46 min" in str(study.advice(workers=4))
    deeper = quote(state, "preserving", state.schedule.extended(levels=1))
    assert " to " in dict(deeper.lines())["time"]


def test_short_times_are_not_shown() -> None:
    state = timed(finished(rank), lambda fact: fact._replace(seconds=0.1 * 3**fact.rung))
    wider = quote(state, "efficient", state.schedule.extended(width=2))
    assert wider.seconds == pytest.approx((42.3, 42.3))
    assert "time" not in dict(wider.lines())


def test_times_do_not_make_quotes_differ() -> None:
    state = timed(finished(rank), lambda fact: fact._replace(seconds=60.0))
    assert advise(state) == advise(finished(rank).session.state)
