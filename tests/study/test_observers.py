"""Observers: they are told everything in order, and can do nothing."""

from __future__ import annotations

import math
import subprocess
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from ConfigSpace import Categorical, ConfigurationSpace
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from deepband import DeepbandError, InputError, Observer, ObserverWarning, Study
from deepband.analysis.export import canonical
from deepband.core import hyperband
from deepband.core.facts import (
    ConfigsDrawn,
    Fact,
    JobFinished,
    JobReleased,
    JobsReopened,
    JobsStarted,
    RunStarted,
    StudyCreated,
)
from deepband.core.state import State
from deepband.core.strategies import StrategyName
from deepband.study.observers import history
from deepband.system.installation import install_command
from driving import SPACE, finish, noisy, open_study


class Notes:
    """Keeps what it is told, call by call."""

    def __init__(self) -> None:
        self.calls: list[list[Fact]] = []

    def observe(self, facts: Sequence[Fact]) -> None:
        self.calls.append(list(facts))

    @property
    def facts(self) -> list[Fact]:
        return [fact for call in self.calls for fact in call]


class Does:
    """Does something with each fact that it is told."""

    def __init__(self, deed: Callable[[Fact], object]) -> None:
        self.deed = deed
        self.told = 0

    def observe(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            self.told += 1
            self.deed(fact)


def run(study: Study, failures: float = 0.2) -> list[str]:
    """Both runs of a study, and what it exports in the end."""
    finish(study, noisy(1, failures))
    study.deepen("preserving")
    finish(study, noisy(1, failures))
    return exported(study)


def exported(study: Study) -> list[str]:
    return list(canonical(study.session.state))


def followed(notes: Notes) -> State:
    """The state of somebody who knows only what an observer was told."""
    return State(notes.facts)


def train(config: dict[str, Any], budget: float) -> dict[str, Any]:
    return {"loss": config["x"] / budget, "list": [1, 2]}


def test_an_observer_is_told_everything_in_order() -> None:
    study, notes = open_study(), Notes()
    study.observe(notes)
    found = run(study)
    created, started, *_ = notes.facts
    assert created == study.session.state.created
    assert started == RunStarted(0, study.session.state.created.max_budget, None)
    assert list(canonical(followed(notes))) == found
    assert sum(isinstance(fact, RunStarted) for fact in notes.facts) == 2


def test_facts_are_told_after_they_are_applied() -> None:
    study = open_study()
    seen = []

    def look(fact: Fact) -> None:
        if isinstance(fact, JobFinished):
            seen.append(study.session.state.result(fact.bracket, fact.index, fact.rung) == fact)

    study.observe(Does(look))
    run(study)
    assert len(seen) == len(study.evaluations)
    assert all(seen)


def test_one_call_has_what_was_recorded_together() -> None:
    study, notes = open_study(), Notes()
    study.observe(notes)
    jobs = study.ask_all()
    assert [type(fact) for fact in notes.calls[-1]][-1] is JobsStarted
    study.tell_all([(job, 1.0) for job in jobs])
    assert [type(fact) for fact in notes.calls[-1]] == [JobFinished] * len(jobs)
    job = study.ask()
    assert job is not None
    study.release(job)
    assert notes.calls[-1] == [JobReleased(job.key)]


@pytest.mark.parametrize("place", [None, "a.study"])
def test_who_comes_late_is_told_what_was(place: str | None, tmp_path: Path) -> None:
    where = None if place is None else tmp_path / place
    study, notes = deepband.open_study(where, space=SPACE, max_budget=9), Notes()
    study.session.name_objective("train.py:train")
    found = run(study)
    study.observe(notes)
    assert len(notes.calls) == 1
    assert list(canonical(followed(notes))) == found
    assert followed(notes).objective == "train.py:train"
    drawn: set[tuple[int, int]] = set()
    for fact in notes.facts:
        if isinstance(fact, ConfigsDrawn):
            drawn |= {(fact.bracket, fact.first + n) for n in range(len(fact.configs))}
        elif isinstance(fact, JobFinished):
            assert (fact.bracket, fact.index) in drawn


@settings(max_examples=25)
@given(st.integers(0, 100), st.integers(0, 60), st.sampled_from(["discarding", "efficient"]))
def test_the_history_of_a_state_leads_to_it(seed: int, steps: int, strategy: StrategyName) -> None:
    study = open_study()
    objective = noisy(seed, 0.2)
    for _ in range(steps):
        if study.done:
            study.deepen(strategy)
        job = study.ask()
        assert job is not None
        study.tell(job, objective(job))
    again = State(history(study.session.state))
    assert list(canonical(again)) == exported(study)
    assert list(hyperband.ready_jobs(again)) == list(hyperband.ready_jobs(study.session.state))
    assert again.configs == study.session.state.configs
    assert again.standings.leaders == study.session.state.standings.leaders


def test_a_study_with_and_without_observers_is_the_same() -> None:
    plain, observed = open_study(), open_study()
    observed.observe(Notes())
    assert run(plain) == run(observed)


def fail(fact: Fact) -> None:
    raise KeyError("a bug of the observer")


def run_observed(study: Study, *observers: Observer) -> list[str]:
    for observer in observers:
        study.observe(observer)
    return run(study)


def test_an_observer_that_raises_is_warned_of_once_and_told_on() -> None:
    study, bad, notes = open_study(), Does(fail), Notes()
    with pytest.warns(ObserverWarning, match="Does failed with KeyError: 'a bug of") as caught:
        found = run_observed(study, bad, notes)
    assert len(caught) == 1
    assert found == run(open_study())
    assert bad.told == len(notes.calls)  # it raises at the first fact of each call
    assert list(canonical(followed(notes))) == found


def test_each_observer_has_its_own_warning() -> None:
    with pytest.warns(ObserverWarning) as caught:
        run_observed(open_study(), Does(fail), Does(fail))
    assert len(caught) == 2


def test_no_run_ends_where_warnings_are_errors() -> None:
    code = (
        "import deepband\n"
        "class Bad:\n"
        "    def observe(self, facts): raise KeyError('a bug')\n"
        "study = deepband.open_study(space={'x': (0.0, 1.0)}, max_budget=3)\n"
        "study.observe(Bad())\n"
        "study.optimize(lambda config, budget: config['x'])\n"
        "print(study.done)\n"
    )
    command = [sys.executable, "-W", "error::UserWarning", "-c", code]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert done.stdout == "True\n"
    assert done.stderr.count("ObserverWarning: the observer Bad failed") == 1


class MuteError(Exception):
    def __str__(self) -> str:
        raise RuntimeError("no text either")


@pytest.mark.parametrize("error", [MuteError(), SystemExit(3)])
def test_any_error_is_a_warning(error: BaseException) -> None:
    def fail_so(fact: Fact) -> None:
        if isinstance(fact, JobFinished):
            raise error

    study = open_study()
    study.observe(Does(fail_so))
    with pytest.warns(ObserverWarning, match=r"MuteError: \(no message\)|SystemExit: 3"):
        study.optimize(train)
    assert study.done


def test_ctrl_c_in_an_observer_is_no_error_of_it() -> None:
    def interrupt(fact: Fact) -> None:
        if isinstance(fact, JobFinished):
            raise KeyboardInterrupt

    study = open_study()
    study.observe(Does(interrupt))
    job = study.ask()
    assert job is not None
    with pytest.raises(KeyboardInterrupt):
        study.tell(job, 1.0)
    assert len(study.evaluations) == 1  # recorded before the observer was told
    study.close()


def spoil(fact: Any) -> None:
    """Change everything that lets itself be changed."""
    if isinstance(fact, StudyCreated):
        space: Any = fact.space
        space["hyperparameters"].clear()
    if isinstance(fact, ConfigsDrawn):
        for config in fact.configs:
            for value in config.values():
                if isinstance(value, list):
                    value.clear()
            config.clear()
    if isinstance(fact, JobFinished) and fact.metrics:
        metrics: Any = fact.metrics
        metrics["list"].clear()
        metrics["more"] = math.nan


def test_what_an_observer_changes_is_its_own() -> None:
    space = ConfigurationSpace({"x": (0.0, 1.0)})
    space.add(Categorical("sizes", [[1, 2], [3]]))
    plain, observed = open_study(space=space), open_study(space=space)
    notes = Notes()
    observed.observe(Does(spoil))
    observed.observe(notes)
    for study in (plain, observed):
        study.optimize(train)
        study.deepen("efficient")
        study.optimize(train)
    observed.observe(Does(spoil))
    assert exported(plain) == exported(observed)
    assert plain.session.state.created.space == observed.session.state.created.space
    assert [each.metrics for each in observed.evaluations] == [
        each.metrics for each in plain.evaluations
    ]
    assert list(canonical(followed(notes))) == exported(plain)


@pytest.mark.parametrize(
    "deed",
    [
        lambda study: study.ask(),
        lambda study: study.retry_failed(),
        lambda study: study.deepen(),
        lambda study: study.close(),
        lambda study: study.observe(Notes()),
    ],
)
def test_an_observer_that_would_change_the_study_is_refused(
    deed: Callable[[Study], object],
) -> None:
    study = open_study()
    errors = []

    def act(fact: Fact) -> None:
        try:
            deed(study)
        except DeepbandError as error:
            errors.append(str(error))

    study.observe(Does(act))
    assert run(study) == run(open_study())
    assert set(errors) == {
        "an observer cannot change its study: make changes after `observe` has returned."
    }


def test_failures_that_are_taken_back_are_told() -> None:
    study, notes = open_study(), Notes()
    study.observe(notes)
    jobs = study.ask_all()
    study.tell_all([(job, RuntimeError("no") if job.index == 0 else 1.0) for job in jobs[:-1]])
    assert study.retry_failed() > 0
    (taken_back,) = notes.calls[-1]
    assert isinstance(taken_back, JobsReopened)
    late = Notes()
    study.observe(late)
    for told in (notes, late):
        assert list(canonical(followed(told))) == exported(study)


@pytest.mark.parametrize("ahead", [False, True])
def test_an_observer_of_workers(ahead: bool, tmp_path: Path) -> None:
    def train(config: dict[str, Any], budget: float) -> float:
        """One of its own: workers do not have to import this module to load it."""
        return float(config["x"]) / budget

    notes, late = Notes(), Notes()
    with deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=3) as study:
        study.observe(notes)
        study.optimize(train, workers=2, ahead=ahead)
        study.observe(late)
        study.deepen("efficient")
        study.optimize(train, workers=2)
        for told in (notes, late):
            assert list(canonical(followed(told))) == exported(study)


def test_what_somebody_else_wrote_is_told_before_anything_is_written(tmp_path: Path) -> None:
    place, notes = tmp_path / "a.study", Notes()
    with deepband.open_study(place, space=SPACE, max_budget=9) as study:
        pass
    study = deepband.open_study(place)
    study.observe(notes)
    with deepband.open_study(place) as other:
        other.optimize(train, max_cost=5)
    study.optimize(train)
    starts = [n for n, fact in enumerate(notes.facts) if isinstance(fact, StudyCreated)]
    assert len(starts) == 2
    assert list(canonical(State(notes.facts[starts[-1] :]))) == exported(study)


def test_who_observes_twice_is_told_the_past_twice_and_the_rest_once() -> None:
    study, notes = open_study(), Notes()
    study.observe(notes)
    study.observe(notes)
    assert notes.calls[0] == notes.calls[1]
    del notes.calls[0]
    assert run(study) == list(canonical(followed(notes)))


def test_a_copy_has_no_observers() -> None:
    study, notes = open_study(), Notes()
    study.observe(notes)
    run(study.copy())
    assert len(notes.calls) == 1


def test_what_is_no_observer() -> None:
    given: Any = print
    with pytest.raises(InputError, match=r"give an object with a method observe\(facts\)"):
        open_study().observe(given)


def test_without_the_trackers_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['mlflow'] = None; sys.modules['tensorboardX'] = None\n"
        "import deepband\n"
        "from deepband.integrations.mlflow import MlflowObserver\n"
        "from deepband.integrations.tensorboard import TensorBoardObserver\n"
        "for make in (MlflowObserver, TensorBoardObserver):\n"
        "    try: make('a')\n"
        "    except deepband.DeepbandError as error: print(error)\n"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    for extra in ("mlflow", "tensorboard"):
        assert install_command(extra) in done.stdout
