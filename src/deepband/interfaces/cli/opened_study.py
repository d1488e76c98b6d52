"""Opening the study of a command that runs jobs: alone, or shared with other processes."""

from __future__ import annotations

import os
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import deepband
from deepband.analysis.failures import FailureWatch
from deepband.analysis.run_names import size_text, stop_reason
from deepband.analysis.text import units
from deepband.core.criteria import Criteria
from deepband.core.leases import leased_jobs
from deepband.errors import (
    DeviceWarning,
    FailedEvaluationsWarning,
    GoneError,
    InputError,
    LockedError,
    SmallSpaceWarning,
    counted,
)
from deepband.execution.devices import AUTO, Device
from deepband.execution.objective import Objective
from deepband.execution.runner import RunOptions
from deepband.interfaces.cli.best_text import describe_both
from deepband.interfaces.cli.output import command, say, show_warnings
from deepband.interfaces.cli.rescue import rescued
from deepband.interfaces.cli.run_options import EXECUTION_NAMES
from deepband.interfaces.cli.user_code import (
    check_objective,
    load_objective,
    load_precheck,
    load_space,
    recalled,
    remembered,
)
from deepband.study.fact_log import SECONDS_TO_WAIT
from deepband.study.study import Study

Check: TypeAlias = Callable[[Objective, Mapping[str, Any], Criteria | None], None]
"""What is called with the objective, the arguments of `optimize`, and the criteria of the study if
it exists."""
PAUSE = 0.05
"""Seconds between two attempts to open a study that another process is creating."""


def read_device_options(given: dict[str, Any]) -> None:
    """Replace devices by those that they name, and set the number of workers that follows. Invalid
    options raise here, before a study is created."""
    with show_warnings(DeviceWarning):
        options = RunOptions(**{name: given[name] for name in EXECUTION_NAMES})
    if options.devices is not None:
        named = given["devices"].split(",")
        if named == [AUTO]:
            named = [each.visible for each in options.devices if isinstance(each, Device)]
        say(f"{options.workers} worker processes on the devices {', '.join(map(str.strip, named))}")
    given.update(devices=options.devices, workers=options.workers)


@contextmanager
def opened_study(
    path: Path, given: dict[str, Any], check: Check | None = None, shared: bool = False
) -> Iterator[tuple[Study, Objective, dict[str, Any]]]:
    """The study, its objective, and the arguments of `optimize` among what was given. Before it is
    created or changed, `check` raises for what cannot work. If it is `shared`, other processes may
    use it at the same time."""
    text, space, precheck = given.pop("objective"), given.pop("space"), given.pop("precheck")
    execution = {name: given.pop(name) for name in EXECUTION_NAMES}
    space = load_space(space) if space else None
    named, criteria = _stored(path, shared) if os.path.exists(path) else (None, None)
    if text is None and named is None:
        why = "has no recorded objective" if os.path.exists(path) else "does not exist yet"
        raise InputError(f"the study {path} {why}: give the objective, FILE.py:FUNCTION.")
    moved = text is not None and named not in (None, text, remembered(text, path))
    text = text or recalled(named or "", path)
    check_objective(text)
    say(f"objective {text}" + (f" (was {named})" if moved else ""))
    objective, module = load_objective(text, execution["batch"])
    execution["precheck"] = load_precheck(precheck) if precheck else None
    space = getattr(module, "space", None) if space is None else space
    if space is None and not os.path.exists(path):
        raise InputError(
            f"{path} is a new study and needs a search space: define it as a variable, space = "
            "{...}, in the module of the objective, or give --space."
        )
    if check is not None:
        check(objective, execution, criteria)
    study = _open(path, shared, space=space, **given)
    try:
        with study:
            _name_objective(study, remembered(text, path), shared)
            with show_warnings(SmallSpaceWarning), reported_failures(study, path):
                yield study, objective, execution
            if given["keep"] not in ("newest", "all"):
                say(retraining_text(study.session.retraining_cost("preserving")))
    except GoneError as error:
        if shared and not study.session.has_unsaved:  # other processes lose nothing either
            raise
        raise rescued(study, error) from error


def _open(path: Path, shared: bool, **settings: Any) -> Study:
    return open_shared(path, **settings) if shared else deepband.open_study(path, **settings)


def open_shared(path: Path, **settings: Any) -> Study:
    """Open or create a study that other processes may be creating at the same time."""
    end = time.monotonic() + SECONDS_TO_WAIT
    while True:
        try:
            return deepband.open_study(path, **settings)
        except LockedError:
            if time.monotonic() >= end:
                raise
        time.sleep(PAUSE)


def _name_objective(study: Study, objective: str, shared: bool) -> None:
    if not shared:
        study.session.name_objective(objective)
    elif objective != study.session.state.objective:
        with study.session.turn():
            study.session.name_objective(objective)


@contextmanager
def reported_failures(study: Study, path: Path) -> Iterator[None]:
    """Say what failed in the meantime, instead of the warning of Python."""
    watch = FailureWatch(study.session.state)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FailedEvaluationsWarning)
            yield
    finally:
        if summary := watch.summary(study.session.state):
            say(f"{summary}\nConfigs and tracebacks: {command('failures', path)}")


def _stored(path: Path, shared: bool) -> tuple[str | None, Criteria]:
    """The objective that a study names, and its criteria. Raises if another process has locked a
    study that is not shared: the user need not wait for an import to learn that."""
    with _open(path, shared) as study:
        if not shared:
            study.session.check_unlocked()
        return study.session.state.objective, study.session.state.criteria


def retraining_text(cost: Fraction) -> str:
    return f"Without the other checkpoints, deepening may repeat up to {units(cost)}."


def report_end(study: Study, path: Path, limit: str) -> None:
    run = study.runs[-1]
    leased = len(leased_jobs(study.session.state, time.time()))
    why = f"{counted(leased, 'job')} leased to other processes" if leased else f"stopped at {limit}"
    state = "done" if study.done else f"{why}; run the command again to resume"
    if run.stopped is not None:
        state = f"stopped early: {stop_reason(run.stopped)}. To complete it, leave out --stop"
    say(f"run {run.run}, {size_text(run.max_budget, run.width, run.brackets)}: {state}")
    say(describe_both(study.session.state, path))
