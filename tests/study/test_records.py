"""Errors and records pickled, copied and printed: what comes out is what went in."""

from __future__ import annotations

import copy
import inspect
import multiprocessing
import pickle
import threading
import typing
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from dataclasses import is_dataclass
from fractions import Fraction
from functools import cache, partial
from pathlib import Path, PosixPath, PurePath
from typing import Any

import pytest

import deepband
from deepband import errors
from deepband.analysis import gains, prospects, rank_agreement
from deepband.core import facts
from deepband.core.facts import Confirmed
from deepband.errors import FactError, TornError
from deepband.execution.executors.slurm import SubmissionError
from deepband.execution.progress import RunningEvaluation
from deepband.integrations.sklearn.cv_results import NoSuchRowError, NotAnIndexError
from driving import fail, finish, noisy, open_study

PATH = Path("mlp.study")

ERRORS: list[Exception] = [
    deepband.DeepbandError("it failed"),
    deepband.InputError("it is wrong"),
    deepband.BudgetError("eta", 1.5, "give a whole number."),
    deepband.SpaceError("there is no space"),
    deepband.UnknownNameError("strategy", "preservin", ["preserving", "efficient"]),
    deepband.ResultError([1, 2], "give a number."),
    deepband.JobError(0, 1, 2, "another study handed it out."),
    deepband.UnfinishedError("deepen", 3),
    deepband.NoResultError(3, 1),
    deepband.SeveralObjectivesError(["error", "size"], "there is no best evaluation", "Use front."),
    deepband.ObjectiveError(["ValueError: first", "ValueError: second", "third"]),
    deepband.BatchError(["the objective returned 2 results for a batch of 3"]),
    deepband.ClosedError(),
    deepband.StorageError(PATH, "is gone."),
    deepband.LockedError(PATH, {"pid": 1, "host": "here", "since": "now"}),
    deepband.GoneError(PATH, "was moved"),
    deepband.SmallSpaceWarning("some will repeat"),
    deepband.BusyWarning("it is locked"),
    deepband.FailedEvaluationsWarning("1 of 2 evaluations failed"),
    deepband.BatchWarning("1 call of the objective did not return"),
    deepband.MissingCurvesWarning("stop_training had no effect"),
    deepband.UnseededWarning("the objective takes no context"),
    deepband.DeviceWarning("no GPU was found"),
    deepband.QueueWarning("squeue does not answer"),
    deepband.IdleWorkersWarning("the sampler samples for 1 of 3 workers at a time"),
    deepband.WaitingWarning("it waits"),
    SubmissionError("Slurm refused the jobs"),
    NotAnIndexError("refit returned 1.7"),
    NoSuchRowError("refit returned -1"),
    deepband.ObserverWarning("it failed"),
    FactError("they do not fit"),
    TornError(PATH),
]


def pickled(protocol: int, given: Any) -> Any:
    return pickle.loads(pickle.dumps(given, protocol))


WAYS: dict[str, Callable[[Any], Any]] = {
    "copy": copy.copy,
    "deepcopy": copy.deepcopy,
    **{f"pickle {each}": partial(pickled, each) for each in range(pickle.HIGHEST_PROTOCOL + 1)},
}


def tree(kind: type[Exception]) -> Iterator[type[Exception]]:
    """An error and all that derive from it."""
    yield kind
    for lower in kind.__subclasses__():
        yield from tree(lower)


def name_of(thing: object) -> str:
    return type(thing).__name__


def test_every_error_and_warning_has_a_sample() -> None:
    public = (getattr(deepband, name) for name in deepband.__all__)
    named = {each for each in public if inspect.isclass(each) and issubclass(each, Exception)}
    defined = {
        each
        for each in vars(errors).values()
        if inspect.isclass(each) and issubclass(each, Exception)
    }
    wanted = named | defined | set(tree(deepband.DeepbandError))
    assert {type(error) for error in ERRORS} == {
        each for each in wanted if "test" not in each.__module__
    }


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("error", ERRORS, ids=name_of)
def test_errors_travel(error: Exception, way: str) -> None:
    check_same_error(WAYS[way](error), error)


def check_same_error(found: BaseException, error: Exception) -> None:
    assert type(found) is type(error)
    assert str(found) == str(error)
    assert found.args == error.args
    assert vars(found) == vars(error)
    assert repr(found) == repr(error)
    assert type(error).__name__ in repr(found)


def test_errors_come_out_of_a_process_pool() -> None:
    forked = multiprocessing.get_context("forkserver")
    with ProcessPoolExecutor(1, mp_context=forked) as pool:
        for error in ERRORS:
            found = pool.submit(fail, error).exception(60)
            assert found is not None
            check_same_error(found.with_traceback(None), error)


def test_notes_of_an_error_travel() -> None:
    error = deepband.JobError(0, 1, 2, "it is not.")
    error.add_note("seen on Monday")
    assert pickle.loads(pickle.dumps(error)).__notes__ == ["seen on Monday"]


class Unloadable:
    """Can be pickled, but not loaded."""

    def __reduce__(self) -> tuple[Callable[..., object], tuple[object, ...]]:
        return int, ("not a number",)

    def __repr__(self) -> str:
        return "Unloadable()"


@pytest.mark.parametrize("given", [lambda: 1, threading.Lock(), Unloadable()], ids=name_of)
def test_an_error_about_what_cannot_travel_takes_its_text_along(given: object) -> None:
    error = deepband.ResultError(given, "give a number.")
    found = pickle.loads(pickle.dumps(error))
    assert str(found) == str(error)
    assert found.given == repr(given)


class ErrorOfAUser(deepband.InputError):
    """Has arguments that none of ours has."""

    def __init__(self, *, column: str) -> None:
        self.column = column
        super().__init__(f"no {column}")


def test_an_error_that_a_user_derives_travels() -> None:
    error = ErrorOfAUser(column="age")
    check_same_error(pickle.loads(pickle.dumps(error)), error)


# Records


@cache
def study() -> deepband.Study:
    """A study that has been deepened, with metrics, curves and failures."""
    made = open_study(max_budget=9, space={"x": (0.0, 1.0), "kind": ["a", "b"]})
    objective = noisy(1, failures=0.2)
    finish(made, lambda job: _with_metrics(objective(job)))
    made.deepen("preserving")
    finish(made, lambda job: _with_metrics(objective(job)))
    return made


def _with_metrics(result: object) -> object:
    return (
        {"loss": result, "accuracy": [0.5, 1], "who": {"a": 1}} if type(result) is float else result
    )


@cache
def records() -> list[object]:
    made = study()
    job = open_study().ask()
    assert job is not None
    quote, plan = made.quote("preserving"), made.plan()
    planned = deepband.plan(max_budget=3, seconds_per_unit=1)
    return [
        job,
        made.best,
        *made.evaluations[:3],
        made.runs[0],
        plan,
        plan.schedule,
        planned,
        planned.forecasts[0],
        quote,
        quote.cost,
        made.advice(),
        made.explain(0, 0)[0],
        made.failures()[0],
        made.predict(0, 0, 81),
        *confirmed(),
        *progress(),
        deepband.Context(1, Path("here"), Path("there"), 3, 1, reported=[(1.0, 0.5)]),
        deepband.BatchContext(1, Path("here"), Path("there"), 3, 1, reported=[(1.0, 0.5)]),
        *all_facts(made),
    ]


@cache
def confirmed() -> list[object]:
    """What confirming a config leaves."""
    made = open_study()
    made.optimize(lambda config, budget: config["x"])
    found = made.confirm(lambda config, budget, context: context.seed / 2**32, top=1, seeds=2)
    facts = made.session.storage.load()
    return [found, found.configs[0], next(each for each in facts if type(each) is Confirmed)]


@cache
def progress() -> list[object]:
    """What a function that was given as `progress` receives, and an evaluation that is running."""
    made, seen = open_study(), list[object]()
    made.optimize(lambda config, budget: config["x"], progress=seen.append)
    return [seen[-1], RunningEvaluation(0, 1, 2, 9, 1.5)]


def all_facts(made: deepband.Study) -> list[facts.Fact]:
    """One of each kind."""
    kept = {type(fact): fact for fact in made.session.storage.load()}
    return [
        *kept.values(),
        facts.ObjectiveNamed("train.py:train"),
        facts.JobsReopened(((0, 1, 0),)),
        facts.JobsStarted(((0, 1, 0),)),
        facts.JobReleased((0, 1, 0)),
        facts.JobsLeased(((0, 1, 0),), "3fa9c1d2", facts.Owner("here", 1, "2"), 3.0),
        facts.JobSkipped(0, 1, 1, 0, 0.004),
        facts.RunStopped(0, 0.04),
    ]


def is_record(thing: object) -> bool:
    return inspect.isclass(thing) and (is_dataclass(thing) or hasattr(thing, "_fields"))


def test_every_public_record_has_a_sample() -> None:
    public = (getattr(deepband, name) for name in deepband.__all__)
    wanted = {each for each in public if is_record(each)} | set(typing.get_args(facts.Fact))
    assert {type(record) for record in records()} == wanted


NUMBERED = range(len(records()))


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("number", NUMBERED, ids=lambda number: name_of(records()[number]))
def test_records_travel(number: int, way: str) -> None:
    record = records()[number]
    found = WAYS[way](record)
    assert type(found) is type(record)
    assert found == record
    assert repr(found) == repr(record)
    assert str(found) == str(record)


NAMES = {
    **{name: getattr(deepband, name) for name in deepband.__all__},
    **{each.__name__: each for each in typing.get_args(facts.Fact)},
    "Fraction": Fraction,
    "PosixPath": PosixPath,
    "PurePath": PurePath,
    "Agreement": rank_agreement.Agreement,
    "Gain": gains.Gain,
    "Owner": facts.Owner,
    "Prospect": prospects.Prospect,
    "inf": float("inf"),
}


@pytest.mark.parametrize("number", NUMBERED, ids=lambda number: name_of(records()[number]))
def test_the_repr_of_a_record_makes_it_again(number: int) -> None:
    record = records()[number]
    assert eval(repr(record), dict(NAMES)) == record


def test_a_record_of_another_value_is_not_equal() -> None:
    first, second, *_ = study().evaluations
    assert first != second
    assert study().runs[0] != study().runs[1]
