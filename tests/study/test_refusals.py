"""What is refused leaves no trace: every method that writes, with inputs that are wrong."""

from __future__ import annotations

import math
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepband
from deepband import DeepbandError, Job, Study
from deepband.core.facts import Fact, Outcome
from deepband.storage import state_of
from deepband.storage.sqlite import SqliteStorage

SPACE = {"x": (0.0, 1.0), "kind": ["a", None]}
MINE = {"x": 0.5, "kind": "a"}
LONE = "\ud800 alone"
Wrong = Callable[[Study, list[Job]], object]

WRONG: dict[str, Wrong] = {
    "release nothing": lambda study, jobs: study.release(None),  # type: ignore[arg-type]
    "release a stranger": lambda study, jobs: study.release(jobs[0]._replace(study="other")),
    "release beyond": lambda study, jobs: study.release(jobs[0]._replace(bracket=99)),
    "release below": lambda study, jobs: study.release(jobs[0]._replace(index=-1)),
    "release what is known": lambda study, jobs: study.release(jobs[0]),
    "tell twice": lambda study, jobs: study.tell(jobs[0], 0.5),
    "tell a text": lambda study, jobs: study.tell(jobs[1], "good"),
    "tell nothing": lambda study, jobs: study.tell(jobs[1], None),
    "tell minus infinity": lambda study, jobs: study.tell(jobs[1], -math.inf),
    "tell no loss": lambda study, jobs: study.tell(jobs[1], {"accuracy": 1}),
    "tell too much": lambda study, jobs: study.tell(jobs[1], {"loss": 1, "all": [0.5] * 10**6}),
    "tell half a job": lambda study, jobs: study.tell(jobs[1]._replace(rung=0.5), 1),  # type: ignore[arg-type]
    "tell a higher rung": lambda study, jobs: study.tell(jobs[1]._replace(rung=2), 0.5),
    "tell no job": lambda study, jobs: study.tell((0, 1, 0), 0.5),  # type: ignore[arg-type]
    "tell all no pairs": lambda study, jobs: study.tell_all([jobs[1]]),  # type: ignore[list-item]
    "tell all nothing": lambda study, jobs: study.tell_all(None),  # type: ignore[arg-type]
    "tell all twice": lambda study, jobs: study.tell_all([(jobs[1], 0.5), (jobs[1], 0.5)]),
    "tell all, last wrong": lambda study, jobs: study.tell_all([(jobs[1], 0.5), (jobs[2], "a")]),
    "record outcomes twice": lambda study, jobs: study.session.record_outcomes(
        [(jobs[1], Outcome(0.5)), (jobs[1], Outcome(0.5))]
    ),
    "record outcomes known": lambda study, jobs: study.session.record_outcomes(
        [(jobs[1], Outcome(0.5)), (jobs[0], Outcome(0.5))]
    ),
    "enqueue nothing": lambda study, jobs: study.enqueue({}),
    "enqueue a list": lambda study, jobs: study.enqueue([0.5]),  # type: ignore[arg-type]
    "enqueue beyond": lambda study, jobs: study.enqueue({**MINE, "x": 2}),
    "enqueue no bracket": lambda study, jobs: study.enqueue(MINE, 99),
    "enqueue below": lambda study, jobs: study.enqueue(MINE, -1),
    "enqueue half": lambda study, jobs: study.enqueue(MINE, 0.5),  # type: ignore[arg-type]
    "add no rung": lambda study, jobs: study.add_evaluation(MINE, 2, 0.5),
    "add no budget": lambda study, jobs: study.add_evaluation(MINE, "one", 0.5),  # type: ignore[arg-type]
    "add a text": lambda study, jobs: study.add_evaluation(MINE, 1, "good"),
    "add no config": lambda study, jobs: study.add_evaluation({"x": 7}, 1, 0.5),
    "add no origin": lambda study, jobs: study.add_evaluation(MINE, 1, 0.5, ""),
    "add an odd origin": lambda study, jobs: study.add_evaluation(MINE, 1, 0.5, LONE),
    "add nothing": lambda study, jobs: study.add_evaluations(MINE, []),
    "add no pairs": lambda study, jobs: study.add_evaluations(MINE, [0.5]),  # type: ignore[list-item]
    "add None": lambda study, jobs: study.add_evaluations(MINE, None),  # type: ignore[arg-type]
    "add with a gap": lambda study, jobs: study.add_evaluations(MINE, [(1, 0.5), (9, 0.5)]),
    "add, last wrong": lambda study, jobs: study.add_evaluations(MINE, [(1, 0.5), (3, "a")]),
    "add twice to a starting rung": lambda study, jobs: study.add_evaluations(
        MINE, [(1, 0.5)], place=(0, 0)
    ),
    "add twice to a rung": lambda study, jobs: study.add_evaluations(
        MINE, [(3, 0.5)], place=(0, 0)
    ),
    "add to a rung that is known above": lambda study, jobs: study.add_evaluations(
        MINE, [(1, 0.5), (3, 0.5)], place=(0, 0)
    ),
    "add to no place": lambda study, jobs: study.add_evaluations(MINE, [(3, 0.5)], place=(0, 99)),
    "add below": lambda study, jobs: study.add_evaluations(MINE, [(3, 0.5)], place=(0, -9)),
    "add beyond": lambda study, jobs: study.add_evaluations(MINE, [(3, 0.5)], place=(99, 0)),
    "add before the first": lambda study, jobs: study.add_evaluations(
        MINE, [(3, 0.5)], place=(-1, 0)
    ),
    "add to half a place": lambda study, jobs: study.add_evaluations(
        MINE,
        [(3, 0.5)],
        place=(0, 0.5),  # type: ignore[arg-type]
    ),
    "add to a text": lambda study, jobs: study.add_evaluations(MINE, [(3, 0.5)], place="here"),  # type: ignore[arg-type]
    "deepen too early": lambda study, jobs: study.deepen("efficient"),
    "deepen by no strategy": lambda study, jobs: study.deepen("other"),  # type: ignore[arg-type]
    "deepen by 5": lambda study, jobs: study.deepen(5),  # type: ignore[arg-type]
    "deepen to no level": lambda study, jobs: study.deepen("efficient", to=10),
    "deepen to a text": lambda study, jobs: study.deepen("efficient", to="deep"),  # type: ignore[arg-type]
    "name a number": lambda study, jobs: study.session.name_objective(5),  # type: ignore[arg-type]
    "name nothing": lambda study, jobs: study.session.name_objective(None),  # type: ignore[arg-type]
    "name an odd text": lambda study, jobs: study.session.name_objective(LONE),
    "optimize nothing": lambda study, jobs: study.optimize(None),  # type: ignore[arg-type]
    "optimize with no workers": lambda study, jobs: study.optimize(good, workers=0),
    "optimize by no executor": lambda study, jobs: study.optimize(good, executor="other"),
    "observe nothing": lambda study, jobs: study.observe(None),  # type: ignore[arg-type]
    "save over itself": lambda study, jobs: study.save_as(__file__),
    "save nowhere": lambda study, jobs: study.save_as("/no/such/folder/a.study"),
    "save as 5": lambda study, jobs: study.save_as(5),  # type: ignore[arg-type]
}


def good(config: dict[str, Any], budget: float) -> float:
    return float(config["x"])


def snapshot(study: Study) -> tuple[object, ...]:
    """All that a state is made of."""
    state = study.session.state
    return (
        state.objective,
        [list(configs) for configs in state.configs],
        dict(state.origins),
        {cell: dict(results) for cell, results in state.results.items()},
        dict(state.standings.leaders),
        repr(state.progress),
        repr(state.runs),
        repr(state.ahead),
        list(study.session.storage.load()),
    )


@pytest.fixture(params=["memory", "file"])
def study(request: pytest.FixtureRequest, tmp_path: Path) -> Study:
    """A study with a config that has results on two rungs, an evaluation, and jobs that run."""
    place = tmp_path / "a.study" if request.param == "file" else None
    study = deepband.open_study(place, space=SPACE, max_budget=9)
    study.add_evaluations(MINE, [(1, 0.5), (3, 0.5)])
    return study


@pytest.mark.parametrize("name", WRONG)
@pytest.mark.parametrize(
    "study", ["memory", pytest.param("file", marks=pytest.mark.heavy)], indirect=True
)
def test_what_is_refused_leaves_no_trace(study: Study, name: str) -> None:
    check_refused(study, name)


@pytest.mark.parametrize("study", ["file"], indirect=True)
def test_what_is_refused_leaves_no_trace_in_a_file(study: Study) -> None:
    """One refusal after another: each for itself, and its end, is tested above."""
    check_refused(study, *WRONG)


def check_refused(study: Study, *names: str) -> None:
    jobs = study.ask_all()
    study.tell(jobs[0], np.float32(0.25))
    before = snapshot(study)
    for name in names:
        with pytest.raises(DeepbandError):
            WRONG[name](study, jobs)
        assert snapshot(study) == before, name
    study.tell_all([(job, 0.5) for job in jobs[1:]])  # it goes on as if nothing had been
    study.optimize(good)
    assert study.done
    if isinstance(study.session.storage, SqliteStorage):
        again = state_of(SqliteStorage(study.session.storage.path))
        assert again.results == study.session.state.results
        assert again.configs == study.session.state.configs
    study.close()


def test_facts_that_are_refused_are_not_told_to_observers(study: Study) -> None:
    told: list[Fact] = []

    class Note:
        def observe(self, facts: Any) -> None:
            told.extend(facts)

    jobs = study.ask_all()
    study.tell(jobs[0], 0.25)
    study.observe(Note())
    told.clear()
    for wrong in WRONG.values():
        with pytest.raises(DeepbandError):
            wrong(study, jobs)
    assert not [fact for fact in told if type(fact).__name__ == "JobFinished"]
    study.close()


@pytest.mark.parametrize("method", ["optimize", "auto_extend", "confirm"])
def test_unknown_arguments_are_refused_by_name(method: str) -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
    with pytest.raises(TypeError, match=rf"{method}\(\) got an unexpected .* 'workrs'"):
        getattr(study, method)(lambda config, budget: 1.0, workrs=2)


def test_an_unknown_argument_is_named_with_the_closest_one() -> None:
    with pytest.raises(TypeError, match=r"argument 'maximise'. Did you mean 'maximize'\?"):
        deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=3, maximise=True)  # type: ignore[arg-type]


def test_a_study_in_memory_needs_a_space() -> None:
    with pytest.raises(deepband.InputError, match="a study in memory is always new: give space"):
        deepband.open_study(max_budget=3)
