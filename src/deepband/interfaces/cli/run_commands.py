"""The commands that run a study: run, auto-extend, checkpoints."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, TypeAlias

import click

from deepband.core.criteria import Criteria, read_criteria
from deepband.core.extension import extended, read_target
from deepband.core.strategies import NAMES, StrategyName
from deepband.errors import InputError, StorageError, counted
from deepband.execution.limits import Limits, read_ahead_limit
from deepband.execution.objective import Objective
from deepband.execution.runner import RunOptions, run_jobs
from deepband.interfaces.cli.group import BUDGET, json_option, main, open_existing, study_argument
from deepband.interfaces.cli.opened_study import (
    opened_study,
    read_device_options,
    report_end,
    retraining_text,
)
from deepband.interfaces.cli.option_names import in_words_of_command
from deepband.interfaces.cli.output import command, say, show
from deepband.interfaces.cli.run_options import options_of_runs
from deepband.storage.retention import KEEP, read_keep, retraining_cost, superfluous
from deepband.study.extension_policy import read_automatic
from deepband.study.omissions import check_stop_training, read_risks
from deepband.study.study import Study
from deepband.study.user_warnings import warn_of_missing_curves, warn_of_small_space

RISK = click.FloatRange(0, 1, max_open=True)
CRITERIA = "maximize", "objectives", "constraints"
"""The settings that say what a study optimises."""
Steps: TypeAlias = list[tuple[StrategyName, dict[str, Any]]]


@main.command()
@study_argument
@options_of_runs
@click.option("--max-cost", type=float, help="Train at most this many units of budget.")
@click.option("--ahead", is_flag=True, help="Let idle workers start on the next deepening.")
@click.option("--ahead-limit", type=float, help="With --ahead: spend at most this many units.")
@click.option(
    "--skip",
    type=RISK,
    metavar="RISK",
    help="Skip promotions whose probabilities to become the best sum to less than RISK.",
)
@click.option(
    "--stop",
    type=RISK,
    metavar="RISK",
    help="End a run when a notably better config is less likely than RISK.",
)
@click.option(
    "--stop-training",
    type=RISK,
    metavar="RISK",
    help="Let objectives stop the training of configs that are unlikely to become the best.",
)
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
    skip: float | None,
    stop: float | None,
    stop_training: float | None,
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
    variable `space` of that module. The function of --precheck is not stored: give it each time.

    With --widen-to and --deepen-to, one command runs, widens, runs, deepens and runs a study.
    Repeating it continues where it stopped, and does nothing once all is done.
    """
    steps = _steps(widen_to, deepen_to, strategy)
    risks = {"skip": skip, "stop": stop, "stop_training": stop_training}
    read_device_options(given)
    limits = Limits(max_seconds, max_cost, read_ahead_limit(ahead, ahead_limit))

    def check(
        objective: Objective, execution: Mapping[str, Any], criteria: Criteria | None
    ) -> None:
        read_risks(criteria or read_criteria(*(given[name] for name in CRITERIA)), **risks)
        check_stop_training(stop_training, ahead, RunOptions(**execution).gives_context(objective))

    with opened_study(study, given, check) as (opened, objective, execution):
        _check_steps(opened, steps)
        with opened.session.omitting(**risks) as omissions:
            if retry_failed:
                say(_retry_failed(opened))
            if not stop_training and not opened.done and _has_stopped_training(opened):
                say("Some training was stopped early before. To do so again, give --stop-training.")
            _run_steps(opened, objective, limits, RunOptions(**execution), steps)
            warn_of_missing_curves(omissions)
        report_end(opened, study, "a limit")
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


def _has_stopped_training(study: Study) -> bool:
    """Whether an evaluation was stopped by `--stop-training`, not because it diverged."""
    results = study.session.state.all_results()
    return any(each.stopped_after is not None and each.succeeded for each in results)


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
    study: Study,
    objective: Objective,
    limits: Limits,
    options: RunOptions,
    steps: Steps,
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
    read_device_options(given)
    read_automatic(strategy, max_cost, max_hours, max_budget_limit, given["workers"] or 1)
    Limits(max_seconds)  # raises if it is invalid
    with opened_study(study, given) as (opened, objective, execution):
        reason = opened.auto_extend(
            objective,
            max_cost=max_cost,
            max_hours=max_hours,
            max_seconds=max_seconds,
            max_budget_limit=max_budget_limit,
            strategy=strategy,
            **execution,
        )
        report_end(opened, study, "--max-seconds")
        if opened.done:
            say(in_words_of_command(reason))
            say(f"Details: {command('advice', study)}")


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
            f"{counts}\n{retraining_text(extra)}" if stored else "there are no checkpoints",
        )
        try:
            for key in removed:
                opened.session.checkpoints.discard(key)
        except OSError as error:
            folder = opened.session.checkpoints.folder
            raise StorageError(folder, f"some checkpoints cannot be removed: {error}.") from error
