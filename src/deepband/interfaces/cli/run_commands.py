"""The commands that run a study: run, auto-extend, checkpoints."""

from __future__ import annotations

import os
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from typing import Any, TypeAlias

import click

import deepband
from deepband.analysis.failures import FailureWatch
from deepband.analysis.run_names import size_text
from deepband.analysis.text import units
from deepband.core.extension import extended, read_target
from deepband.core.strategies import NAMES, StrategyName
from deepband.errors import (
    DeviceWarning,
    FailedEvaluationsWarning,
    GoneError,
    InputError,
    SmallSpaceWarning,
    StorageError,
    counted,
)
from deepband.execution.devices import AUTO, Device
from deepband.execution.limits import Limits
from deepband.execution.objective import Objective
from deepband.execution.runner import RunOptions, run_jobs
from deepband.interfaces.cli.group import BUDGET, json_option, main, open_existing, study_argument
from deepband.interfaces.cli.option_names import in_words_of_command
from deepband.interfaces.cli.output import command, describe_both, say, show, show_warnings
from deepband.interfaces.cli.rescue import rescued
from deepband.interfaces.cli.run_options import EXECUTION_NAMES, options_of_runs
from deepband.interfaces.cli.user_code import (
    check_objective,
    load_objective,
    load_space,
    recalled,
    remembered,
)
from deepband.storage.retention import KEEP, read_keep, retraining_cost, superfluous
from deepband.study.extension_policy import read_automatic
from deepband.study.study import Study
from deepband.study.user_warnings import warn_of_small_space

Steps: TypeAlias = list[tuple[StrategyName, dict[str, Any]]]


@main.command()
@study_argument
@options_of_runs
@click.option("--max-cost", type=float, help="Train at most this many units of budget.")
@click.option("--ahead", is_flag=True, help="Let idle workers start on the next deepening.")
@click.option("--ahead-limit", type=float, help="Spend at most this many units of budget ahead.")
@click.option(
    "--retry-failed", is_flag=True, help="First repeat failures on rungs that are not finished."
)
@click.option("--widen-to", type=int, help="Then extend the study to this width, and run it.")
@click.option("--deepen-to", type=BUDGET, help="Then deepen to this max_budget, and run it.")
@click.option(
    "--strategy",
    type=click.Choice(list(NAMES)),
    help="Of both.  [default: efficient to widen, preserving to deepen]",
)
def run(
    study: Path,
    max_seconds: float | None,
    max_cost: float | None,
    ahead: bool,
    ahead_limit: float | None,
    retry_failed: bool,
    widen_to: int | None,
    deepen_to: float | None,
    strategy: StrategyName | None,
    **given: Any,
) -> None:
    """Create a study or resume one, and run it until it is done.

    OBJECTIVE is FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION. The study stores it, with the path
    of FILE.py relative to the study, so later runs need only STUDY, from any folder. Its module is
    imported, which runs its code. A new study takes its search space from --space or from the
    variable `space` of that module.

    With --widen-to and --deepen-to, one command runs, widens, runs, deepens and runs a study.
    Repeating it continues where it stopped, and does nothing once all is done.
    """
    steps = _steps(widen_to, deepen_to, strategy)
    _read_devices(given)
    ahead_limit = ahead_limit if ahead or ahead_limit is not None else 0
    limits = Limits(max_seconds, max_cost, ahead_limit)
    with _opened(study, given) as (opened, objective, execution):
        _check_steps(opened, steps)
        if retry_failed:
            say(_retry_failed(opened))
        _run_steps(opened, objective, limits, RunOptions(**execution), steps)
        _report_end(opened, study, "a limit")
        if opened.done:
            say(f"Deeper, wider or done? Ask: {command('advice', study)}")


def _retry_failed(study: Study) -> str:
    """Make failed evaluations available again, and say which ones and why not the others."""
    failed, run_is_done = study.failures().total, study.done
    count = study.retry_failed()
    are = "is" if count == 1 else "are"
    if count == failed:
        return f"{counted(count, 'failed evaluation')} {are} repeated"
    why = "promotions or samples may depend on failures on rungs that are finished"
    if run_is_done:
        why = "the run is finished"
    return f"{count} of {counted(failed, 'failed evaluation')} {are} repeated: {why}"


def _steps(widen_to: int | None, deepen_to: float | None, strategy: StrategyName | None) -> Steps:
    """The extensions that `run` makes: the strategy and the target of each."""
    found: Steps = []
    if widen_to is not None:
        found.append((strategy or "efficient", {"width": widen_to}))
    if deepen_to is not None:
        found.append((strategy or "preserving", {"max_budget": deepen_to}))
    if strategy is not None and not found:
        raise InputError("--strategy is for --widen-to and --deepen-to: give one of them.")
    return found


def _check_steps(study: Study, steps: Steps) -> None:
    """Raise for a target that cannot be reached, before anything is spent."""
    state = study.session.state
    for strategy, target in steps:
        extended(state, strategy, read_target(state, **target))


def _run_steps(
    study: Study, objective: Objective, limits: Limits, options: RunOptions, steps: Steps
) -> None:
    """Run a study, then extend and run it step by step. The limits are those of all of it."""
    if not study.done:
        warn_of_small_space(study.session)
    run_jobs(study.session, objective, limits, options)
    for strategy, target in steps:
        if not study.done or limits.out_of_time():
            return
        study.extend(strategy, **target)
        run_jobs(study.session, objective, limits, options)


@main.command()
@study_argument
@options_of_runs
@click.option("--max-cost", type=float, help="Units of budget that all runs may cost together.")
@click.option("--max-hours", type=float, help="Hours that all runs may take together.")
@click.option("--max-budget-limit", type=BUDGET, help="The largest max_budget to deepen to.")
@click.option("--strategy", type=click.Choice(list(NAMES)), default="preserving", show_default=True)
def auto_extend(
    study: Path,
    max_cost: float | None,
    max_hours: float | None,
    max_seconds: float | None,
    max_budget_limit: float | None,
    strategy: StrategyName,
    **given: Any,
) -> None:
    """Run a study, and deepen or widen it as long as `deepband advice` recommends it.

    Give --max-cost or --max-hours. Hours are those that evaluations took, divided by --workers.
    --strategy is that of deepening. OBJECTIVE is the same as for `deepband run`.
    """
    _read_devices(given)
    read_automatic(strategy, max_cost, max_hours, max_budget_limit, given["workers"] or 1)
    Limits(max_seconds)  # raises if it is invalid
    with _opened(study, given) as (opened, objective, execution):
        reason = opened.auto_extend(
            objective,
            max_cost=max_cost,
            max_hours=max_hours,
            max_seconds=max_seconds,
            max_budget_limit=max_budget_limit,
            strategy=strategy,
            **execution,
        )
        _report_end(opened, study, "--max-seconds")
        if opened.done:
            say(in_words_of_command(reason))
            say(f"Details: {command('advice', study)}")


def _read_devices(given: dict[str, Any]) -> None:
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
def _opened(path: Path, given: dict[str, Any]) -> Iterator[tuple[Study, Objective, dict[str, Any]]]:
    """The study, its objective, and the arguments of `optimize` among what was given."""
    text, space = given.pop("objective"), given.pop("space")
    execution = {name: given.pop(name) for name in EXECUTION_NAMES}
    space = load_space(space) if space else None
    named = _stored_objective(path) if os.path.exists(path) else None
    if text is None and named is None:
        why = "has no recorded objective" if os.path.exists(path) else "does not exist yet"
        raise InputError(f"the study {path} {why}: give the objective, FILE.py:FUNCTION.")
    moved = text is not None and named not in (None, text, remembered(text, path))
    text = text or recalled(named or "", path)
    check_objective(text)
    say(f"objective {text}" + (f" (was {named})" if moved else ""))
    objective, module = load_objective(text, execution["batch"])
    space = getattr(module, "space", None) if space is None else space
    if space is None and not os.path.exists(path):
        raise InputError(
            f"{path} is a new study and needs a search space: define it as a variable, space = "
            "{...}, in the module of the objective, or give --space."
        )
    study = deepband.open_study(path, space=space, **given)
    try:
        with study:
            study.session.name_objective(remembered(text, path))
            with show_warnings(SmallSpaceWarning), _failures_reported(study, path):
                yield study, objective, execution
            if given["keep"] not in ("newest", "all"):
                say(_retraining(study.session.retraining_cost("preserving")))
    except GoneError as error:
        raise rescued(study, error) from error


@contextmanager
def _failures_reported(study: Study, path: Path) -> Iterator[None]:
    """Say what failed in the meantime, instead of the warning of Python."""
    watch = FailureWatch(study.session.state)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", FailedEvaluationsWarning)
            yield
    finally:
        if summary := watch.summary(study.session.state):
            say(f"{summary}\nConfigs and tracebacks: {command('failures', path)}")


def _stored_objective(path: Path) -> str | None:
    """The objective that a study names. Raises if another process has locked the study: the user
    need not wait for an import to learn that."""
    with deepband.open_study(path) as study:
        study.session.check_unlocked()
        return study.session.state.objective


def _retraining(cost: Fraction) -> str:
    return f"Without the other checkpoints, deepening may repeat up to {units(cost)}."


def _report_end(study: Study, path: Path, limit: str) -> None:
    run = study.runs[-1]
    state = "done" if study.done else f"stopped at {limit}; run the command again to resume"
    say(f"run {run.run}, {size_text(run.max_budget, run.width, run.brackets)}: {state}")
    say(describe_both(study.session.state, path))


@main.command()
@study_argument
@click.option("--keep", help=f"Remove all others: {KEEP}.")
@json_option
def checkpoints(study: Path, keep: str | None, as_json: bool) -> None:
    """Count checkpoints, or remove some of them.

    The output says how much training a deepening may have to repeat without them.
    """
    rule = read_keep(keep or "all")
    with open_existing(study) as opened:
        if keep:
            opened.session.lock()
        stored = list(opened.session.checkpoints.kept())
        removed = superfluous(opened.session.state, rule, stored)
        extra = retraining_cost(opened.session.state, set(stored) - set(removed))
        freed = opened.session.checkpoints.size(removed)
        found = {
            "kept": len(stored) - len(removed),
            "removed": len(removed),
            "bytes_freed": freed,
            "extra_cost": extra,
        }
        kept = counted(len(stored) - len(removed), "checkpoint")
        counts = f"{kept} kept, {len(removed)} removed, {freed:,} bytes freed"
        show(
            found,
            as_json,
            f"{counts}\n{_retraining(extra)}" if stored else "there are no checkpoints",
        )
        try:
            for key in removed:
                opened.session.checkpoints.discard(key)
        except OSError as error:
            folder = opened.session.checkpoints.folder
            raise StorageError(folder, f"some checkpoints cannot be removed: {error}.") from error
