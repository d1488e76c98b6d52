"""Configs and results of a user's own: where they go, and that nothing else changes."""

from __future__ import annotations

import random
import warnings
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import InputError, Study
from deepband.analysis.export import canonical
from deepband.core.facts import ConfigsDrawn
from deepband.core.strategies import StrategyName
from deepband.storage import state_of
from deepband.storage.sqlite import SqliteStorage
from driving import finish, noisy, open_study

pytestmark = pytest.mark.filterwarnings("ignore::deepband.WaitingWarning")

SPACE = {"x": (0.0, 1.0), "n": (1, 8), "kind": ["a", 1, None]}
MINE = {"x": 0.5, "n": 3, "kind": "a"}


def configs(study: Study) -> dict[tuple[int, int], dict[str, Any]]:
    return {(e.bracket, e.index): e.config for e in study.evaluations}


def test_an_enqueued_config_takes_the_next_place_and_changes_no_other() -> None:
    plain, study = open_study(space=SPACE), open_study(space=SPACE)
    assert study.enqueue(MINE) == (0, 0)
    assert study.enqueue({**MINE, "x": 0.25}) == (0, 1)
    assert study.enqueue({**MINE, "x": 0.75}, bracket=1) == (1, 0)
    finish(study, noisy(1))
    finish(plain, noisy(1))
    found, undisturbed = configs(study), configs(plain)
    assert found.pop((0, 0)) == MINE
    assert found.pop((0, 1))["x"] == 0.25
    assert found.pop((1, 0))["x"] == 0.75
    assert found.items() <= undisturbed.items()


def test_when_all_places_are_drawn_it_waits_for_the_next_deepening() -> None:
    study = open_study(space=SPACE, max_budget=3)
    study.ask()
    assert study.enqueue(MINE) == (0, 3)
    finish_all(study)
    assert MINE not in [each.config for each in study.evaluations]
    study.deepen("efficient")
    finish_all(study)
    assert configs(study)[0, 3] == MINE


def finish_all(study: Study) -> None:
    for index in list(study.session.state.progress[0].running):
        study.release(deepband.Job(0, index, 0, 1, {}))
    finish(study, noisy(1))


@pytest.mark.parametrize(
    "wrong",
    [
        {"x": 0.5, "n": 3},
        {**MINE, "y": 1},
        {**MINE, "x": 1.5},
        {**MINE, "x": "0.5"},
        {**MINE, "x": float("nan")},
        {**MINE, "n": 2.5},
        {**MINE, "n": True},
        {**MINE, "kind": "z"},
        {**MINE, "kind": 0},
    ],
)
def test_a_config_that_is_none_of_the_space_is_refused(wrong: dict[str, Any]) -> None:
    study = open_study(space=SPACE)
    with pytest.raises(deepband.SpaceError, match="is not a config of the space"):
        study.enqueue(wrong)
    assert study.session.state.configs == [[], [], []]


def test_values_are_taken_as_the_space_would_draw_them() -> None:
    import numpy as np

    study = open_study(space=SPACE)
    study.enqueue({"kind": np.int32(1), "n": np.int64(3), "x": np.float32(0.5)})
    study.enqueue({"kind": 1, "n": 3, "x": 1})
    first, second = study.session.state.configs[0]
    assert list(first) == list(second) == ["kind", "n", "x"]
    for config in (first, second):
        assert [type(value) for value in config.values()] == [int, int, float]


def test_a_result_from_elsewhere_costs_nothing_and_is_not_evaluated() -> None:
    study = open_study(space=SPACE)
    assert study.add_evaluation(MINE, 1, 0.1, "a paper") == (0, 0, 0)
    assert study.add_evaluation({**MINE, "x": 0.1}, 3, {"loss": 0.2, "f1": 0.9}) == (1, 0, 1)
    jobs = finish(study, noisy(1))
    assert {(0, 0, 0), (1, 0, 1)}.isdisjoint(job.key for job in jobs)
    (run,) = study.runs
    assert run.added == 2
    assert run.evaluations == len(jobs) == 20
    assert run.cost == study.plan().cost - 1 - 3
    taken = [each for each in study.evaluations if each.origin]
    assert [(each.origin, each.loss) for each in taken] == [("a paper", 0.1), ("elsewhere", 0.2)]
    assert taken[1].metrics == {"f1": 0.9}


def test_results_of_one_config_go_on_where_they_were() -> None:
    study = open_study(space=SPACE)
    assert study.add_evaluation(MINE, 1, -5.0) == (0, 0, 0)
    assert study.add_evaluation(MINE, 3, -5.0) == (0, 0, 1)
    assert study.add_evaluation(MINE, 9, -6.0) == (0, 0, 2)
    assert study.add_evaluation(MINE, 9, -5.0) == (2, 0, 2)  # another one of the same config
    assert study.best.loss == -6.0
    jobs = finish(study, noisy(1))
    assert not any((job.bracket, job.index) in {(0, 0), (2, 0)} for job in jobs)
    assert study.done
    assert study.explain(0, 0)[0].promoted


def test_a_known_result_of_a_config_that_is_not_promoted_changes_nothing() -> None:
    study, plain = open_study(space=SPACE), open_study(space=SPACE)
    study.add_evaluations(MINE, [(1, 1e9), (3, -1e9)])
    plain.enqueue(MINE)
    objective = noisy(1)
    finish(study, objective)
    finish(plain, lambda job: 1e9 if job.key == (0, 0, 0) else objective(job))
    assert set(canonical(study.session.state)) - set(canonical(plain.session.state)) == {
        line for line in canonical(study.session.state) if "-1000000000.0" in line
    }


def test_results_are_recorded_for_the_next_run_when_this_one_is_full() -> None:
    study = open_study(space=SPACE, max_budget=3)
    study.ask_all()
    assert study.add_evaluation(MINE, 1, 0.1) == (0, 3, 0)
    assert study.add_evaluation(MINE, 9, 0.1) == (2, 0, 2)
    assert len(study.session.state.ahead.results) == 2


@pytest.mark.parametrize(
    ("results", "message"),
    [
        ([(2, 0.1)], r"no rung has this budget.*1, 3, 9, 27"),
        ([(81, 0.1)], "no rung has this budget"),
        ([(1, 0.1), (9, 0.1)], "neighbouring rungs"),
        ([(3, 0.1), (1, 0.1)], "neighbouring rungs"),
        ([], "neighbouring rungs"),
        ([(9, 0.1), (27, 0.1)], "deepen first"),
        ([(1, "good")], "result"),
    ],
)
def test_results_that_fit_nowhere_are_refused(results: list[Any], message: str) -> None:
    study = open_study(space=SPACE)
    with pytest.raises(InputError, match=message):
        study.add_evaluations(MINE, results)
    assert study.evaluations == []
    assert study.session.state.configs == [[], [], []]


def test_more_than_the_next_run_has_places_for() -> None:
    study = open_study(space=SPACE, max_budget=3)
    for number in range(9):
        study.add_evaluation({**MINE, "x": number / 10}, 1, 0.1)
    with pytest.raises(InputError, match="no place left"):
        study.add_evaluation({**MINE, "x": 0.95}, 1, 0.1)


@pytest.mark.parametrize("strategies", [["discarding"], ["preserving", "efficient"]])
def test_a_study_with_all_of_it_is_read_back_the_same(
    tmp_path: Path, strategies: list[StrategyName]
) -> None:
    place = tmp_path / "a.study"
    draw = random.Random(1)
    study = deepband.open_study(place, space=SPACE, max_budget=3)
    for strategy in [None, *strategies]:
        if strategy:
            study.deepen(strategy)
        study.enqueue({**MINE, "x": draw.random()})
        mine = {**MINE, "x": draw.random()}
        study.add_evaluations(mine, [(1, draw.random()), (3, draw.random())])
        study.add_evaluation({**MINE, "x": draw.random()}, 3, ValueError("failed there"))
        finish(study, noisy(1), draw)
        whole = state_of(SqliteStorage(place))
        assert list(canonical(whole)) == list(canonical(study.session.state))
        assert whole.progress == study.session.state.progress
        assert whole.runs == study.session.state.runs
        assert whole.standings.leaders == study.session.state.standings.leaders
        quotes = [study.quote(each) for each in ("discarding", "preserving", "efficient")]
        assert all(quote.cost.low <= quote.cost.high for quote in quotes)
        if strategy:
            assert study.runs[-1].added == 3
    for run in study.runs:
        assert run.cost_resumed <= run.cost


def test_the_quote_knows_what_was_added() -> None:
    study, plain = open_study(space=SPACE, max_budget=3), open_study(space=SPACE, max_budget=3)
    finish(plain, noisy(1))
    finish(study, noisy(1))
    study.add_evaluation(MINE, 1, 0.5)
    assert study.quote("efficient").cost.low == plain.quote("efficient").cost.low - 1
    quoted = study.quote("efficient").cost.low
    study.deepen("efficient")
    finish(study, noisy(1))
    assert study.runs[-1].cost == quoted


def test_failures_elsewhere_are_not_tried_again_here(tmp_path: Path) -> None:
    """Else a config that did not arrive on a rung would be evaluated there."""
    place = tmp_path / "a.study"
    study = deepband.open_study(place, space=SPACE, max_budget=9)
    study.add_evaluations({**MINE, "x": 1.0}, [(1, 1e9), (3, ValueError("there"))])
    for job in study.ask_all():
        study.tell(job, ValueError("here") if job.rung == 1 else float(job.index))
    assert study.retry_failed() == 0  # those of bracket 1 have decided
    jobs = study.ask_all()
    study.tell(jobs[0], ValueError("here"))
    assert study.retry_failed() == 1
    for job in jobs:
        if study.session.expects(job):
            study.release(job)
    finish(study, noisy(1))
    assert list(canonical(state_of(SqliteStorage(place)))) == list(canonical(study.session.state))


@pytest.mark.parametrize("origin", [None, "", 5, ["a paper"]])
def test_an_origin_is_a_text(tmp_path: Path, origin: Any) -> None:
    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9)
    with pytest.raises(InputError, match="give a text that says"):
        study.add_evaluations(MINE, [(1, 0.1), (3, 0.1)], origin)
    assert deepband.open_study(tmp_path / "a.study").evaluations == []


def test_a_place_tells_equal_configs_apart() -> None:
    study = open_study(space=SPACE)
    assert study.add_evaluations(MINE, [(1, 0.1)]) == [(0, 0, 0)]
    assert study.add_evaluations(MINE, [(1, 0.1)]) == [(0, 1, 0)]
    assert study.add_evaluations(MINE, [(3, 0.1)], place=(0, 1)) == [(0, 1, 1)]
    assert study.add_evaluations(MINE, [(3, 0.1)], place=(1, 0)) == [(1, 0, 1)]
    with pytest.raises(InputError, match="neither the place of this config"):
        study.add_evaluations({**MINE, "x": 0.1}, [(3, 0.1)], place=(0, 0))
    with pytest.raises(InputError, match="nor the next free one"):
        study.add_evaluations(MINE, [(1, 0.1)], place=(0, 5))


@pytest.mark.parametrize("in_a_file", [False, True])
def test_a_place_takes_one_result_on_a_rung(tmp_path: Path, in_a_file: bool) -> None:
    place = tmp_path / "a.study" if in_a_file else None
    with deepband.open_study(place, space=SPACE, max_budget=9) as study:
        study.add_evaluations(MINE, [(1, 0.1)])
        study.add_evaluations(MINE, [(3, 0.1)], place=(0, 0))
        for results in ([(1, 0.2)], [(3, 0.2)], [(1, 0.2), (3, 0.2)]):
            with pytest.raises(InputError, match=r"already has a result on rung \d"):
                study.add_evaluations(MINE, results, place=(0, 0))
        study.add_evaluations(MINE, [(9, 0.1)], place=(0, 0))
        finish(study, noisy(1))
        assert [each.loss for each in study.evaluations if each.origin] == [0.1, 0.1, 0.1]


def test_there_is_an_end_to_what_can_be_enqueued() -> None:
    study = open_study(space=SPACE, max_budget=3)
    for _ in range(9):
        study.enqueue(MINE)
    with pytest.raises(InputError, match="no place left"):
        study.enqueue(MINE)


def test_what_came_from_elsewhere_was_not_spent() -> None:
    study = open_study(space=SPACE)
    study.add_evaluation(MINE, 9, 0.1)
    finish(study, noisy(1))
    assert study.quote("efficient").cost.spent == study.runs[0].cost == 69


def test_observers_that_come_late_learn_origins() -> None:
    observed: list[Any] = []

    class Late:
        def observe(self, facts: Any) -> None:
            observed.extend(facts)

    study = open_study(space=SPACE)
    study.enqueue(MINE)
    study.add_evaluation(MINE, 1, 0.1, "a paper")
    study.ask_all()
    study.observe(Late())
    drawn = [fact for fact in observed if isinstance(fact, ConfigsDrawn) and fact.bracket == 0]
    assert [(fact.first, fact.origin) for fact in drawn] == [
        (0, "enqueued"),
        (1, "a paper"),
        (2, None),
    ]


def test_what_the_results_of_a_generator_raise_is_the_users_own() -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
    error = ValueError("mine")

    def results() -> Iterator[tuple[int, float]]:
        yield 1, 0.5
        raise error

    with pytest.raises(ValueError, match="mine") as caught:
        study.add_evaluations({"x": 0.5}, results())
    assert caught.value is error
    with pytest.raises(InputError, match="results are pairs"):
        study.add_evaluations({"x": 0.5}, [(1, 0.5, 3)])  # type: ignore[list-item] # is refused
    assert study.evaluations == []


@pytest.mark.parametrize("budget", [True, [3], "3", float("nan")])
def test_a_budget_of_an_imported_result_is_a_number(budget: Any) -> None:
    with pytest.raises(InputError, match="budget is"):
        open_study().add_evaluation({"x": 0.5}, budget, 1.0)


def test_what_is_added_to_a_run_with_free_slots_does_not_wait() -> None:
    study = open_study(space=SPACE)
    with warnings.catch_warnings():
        warnings.simplefilter("error", deepband.WaitingWarning)
        study.enqueue(MINE)
        study.add_evaluation(MINE, 3, 0.5)


@pytest.mark.parametrize("extend", [lambda study: study.deepen(), lambda study: study.widen()])
def test_what_is_added_to_a_run_that_is_done_waits_for_the_next_extension(extend: Any) -> None:
    study = open_study(space=SPACE)
    finish(study, noisy(1))
    best = study.best
    with pytest.warns(deepband.WaitingWarning, match="in bracket 0: the config waits") as shown:
        place = study.enqueue(MINE)
    assert shown[0].filename == __file__
    assert "study.deepen() or study.widen()" in str(shown[0].message)
    with pytest.warns(deepband.WaitingWarning, match="in bracket 1: the result is rec") as shown:
        key = study.add_evaluation({**MINE, "x": 0.25}, 3, -9.0)
    assert shown[0].filename == __file__
    assert study.ask() is None
    assert study.best == best
    extend(study)
    assert study.best.loss == -9.0
    jobs = finish(study, noisy(1))
    assert any((job.bracket, job.index) == place and job.config == MINE for job in jobs)
    assert key not in {job.key for job in jobs}


def test_a_result_for_a_config_of_a_run_that_is_done_waits_as_well() -> None:
    study = open_study(space=SPACE)
    study.add_evaluation(MINE, 1, 9.0)
    finish(study, noisy(1))
    with pytest.warns(deepband.WaitingWarning, match="the current run is done: the result"):
        assert study.add_evaluation(MINE, 3, -9.0) == (0, 0, 1)
    study.deepen("discarding")
    assert study.explain(0, 0)[0].promoted is False
    finish(study, noisy(1))


def test_a_warning_that_is_an_error_loses_nothing() -> None:
    study = open_study(space=SPACE)
    finish(study, noisy(1))
    with warnings.catch_warnings():
        warnings.simplefilter("error", deepband.WaitingWarning)
        assert study.enqueue(MINE) == (0, 9)
    assert study.session.state.config(0, 9) == MINE
