"""The commands that write: run, deepen, checkpoints, demo."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any, Literal

import click

import deepband
from deepband.analysis.quote import OUTSIDE
from deepband.core.evaluations import best_evaluation
from deepband.core.strategies import FRUGAL, NAMES, StrategyName
from deepband.errors import GoneError, InputError, StorageError
from deepband.interfaces.cli.group import (
    BUDGET,
    PATH,
    RESOURCES,
    deepening_options,
    json_option,
    main,
    merge_resources,
    open_existing,
    study_argument,
)
from deepband.interfaces.cli.output import describe, say, say_json
from deepband.interfaces.cli.progress import Progress
from deepband.interfaces.cli.rescue import rescued
from deepband.interfaces.cli.user_code import load_objective, load_space
from deepband.samplers import SAMPLERS
from deepband.storage.checkpoints import KEEP, read_keep, retraining_cost, superfluous
from deepband.study.automatic_deepening import AUTO, Automatic, read_automatic
from deepband.study.study import Study


@main.command()
@study_argument
@click.argument("objective", required=False)
@click.option("--max-budget", type=BUDGET, help="The largest budget of the first run.")
@click.option("--min-budget", type=BUDGET, help="The smallest budget.  [default: 1]")
@click.option("--eta", type=int, help="The factor from rung to rung.  [default: 3]")
@click.option("--seed", type=int, help="What decides every draw.  [default: 0]")
@click.option("--maximize", is_flag=True, default=None, help="Larger is better.")
@click.option("--integer-budgets", is_flag=True, default=None, help="Floor what jobs carry.")
@click.option("--sampler", help=f"Configs come from {', '.join(SAMPLERS)}.  [default: uniform]")
@click.option("--space", type=PATH, help="A JSON file with the space.")
@click.option("--keep", default="newest", show_default=True, help=f"Checkpoints: {KEEP}.")
@click.option("--workers", type=int, help="Processes to run in, or jobs at once.  [default: 1]")
@click.option("--executor", help="dask://host:port, ray or ray://host:port.")
@click.option(
    "--resources",
    type=RESOURCES,
    multiple=True,
    callback=merge_resources,
    help="What each job needs of Dask or Ray, such as num_gpus=1; may be repeated.",
)
@click.option("--timeout", type=float, help="Seconds that an evaluation may take.")
@click.option("--retries", type=int, default=1, show_default=True, help="For lost workers.")
@click.option("--no-wait", is_flag=True, help="Give up what workers of a dead driver still run.")
@click.option("--first-failures", type=int, help="Stop if so many fail at first; 0: never.")
@click.option("--max-seconds", type=float, help="Start no job after so long.")
@click.option("--max-cost", type=float, help="Train no more than so many units of budget.")
@click.option(
    "--deepen",
    type=click.Choice([AUTO]),
    help="Go on by itself while `deepband advice` says so; --max-cost is then for all runs.",
)
@click.option("--max-budget-limit", type=BUDGET, help="The largest max_budget to deepen to.")
@click.option(
    "--strategy",
    type=click.Choice(list(NAMES)),
    help="How --deepen auto deepens.  [default: preserving]",
)
@click.option("--ahead", is_flag=True, help="Idle workers begin with the next deepening.")
@click.option("--ahead-limit", type=float, help="Units of budget to spend ahead.")
@click.option("--retry-failed", is_flag=True, help="First take back failures not decided on.")
def run(
    study: Path,
    objective: str | None,
    space: Path | None,
    workers: int | None,
    timeout: float | None,
    retries: int,
    no_wait: bool,
    first_failures: int | None,
    max_seconds: float | None,
    max_cost: float | None,
    deepen: Literal["auto"] | None,
    max_budget_limit: float | None,
    strategy: StrategyName | None,
    executor: str | None,
    resources: dict[str, float] | None,
    ahead: bool,
    ahead_limit: float | None,
    retry_failed: bool,
    **settings: Any,
) -> None:
    """Make a study or go on with one, until it is done.

    OBJECTIVE is FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION. It is noted in the study, so that
    later runs need only STUDY. Its module is imported, which runs its code. A new study takes
    its space from the module's `space`, or from --space.
    """
    given = load_space(space) if space else None
    named = deepband.open_study(study).objective if os.path.exists(study) else None
    text = objective or named
    if text is None:
        raise InputError(f"what is evaluated? {study} names no objective: give FILE.py:FUNCTION.")
    say(f"objective {text}" + (f" (it was {named})" if named and named != text else ""))
    function, module = load_objective(text)
    if given is None:
        given = getattr(module, "space", None)
    opened = deepband.open_study(study, space=given, **settings)
    try:
        with opened:
            opened.name_objective(text)
            if retry_failed:
                say(f"{opened.retry_failed()} failed evaluations are tried again")
            with Progress(opened) as progress:
                opened.optimize(
                    function,
                    workers=workers,
                    executor=executor,
                    resources=resources,
                    ahead=ahead or ahead_limit is not None,
                    ahead_limit=ahead_limit,
                    timeout=timeout,
                    retries=retries,
                    wait=not no_wait,
                    first_failures=first_failures,
                    max_seconds=max_seconds,
                    max_cost=max_cost,
                    deepen=deepen,
                    max_budget_limit=max_budget_limit,
                    strategy=strategy,
                    on_record=progress.show,
                )
            _report_end(study, opened, read_automatic(deepen, strategy, max_cost, max_budget_limit))
            if settings["keep"] not in ("newest", "all"):
                _say_retraining(opened.retraining_cost())
    except GoneError as error:
        raise rescued(opened, error) from error


def _say_retraining(cost: Fraction) -> None:
    say(f"Without those not kept, deepening may train up to {float(cost):.6g} units again.")


def _report_end(path: Path, study: Study, automatic: Automatic | None) -> None:
    run, limit = study.runs[-1], "--max-seconds" if automatic else "a limit"
    state = "done" if study.done else f"stopped at {limit}; run it again to go on"
    say(f"run {run.run}, max_budget {run.max_budget}: {state}")
    say(describe(best_evaluation(study.state)))
    if study.done and automatic:
        to, why = automatic.decide(study.state)
        say(why if to is None else f"{why}; but --max-seconds are over: run it again to go on")
        say(f"The reasons in numbers: deepband advice {path}")
    elif study.done:
        say(f"Is a larger budget worth it? See: deepband advice {path}")


@main.command()
@study_argument
@deepening_options
def deepen(study: Path, strategy: StrategyName, to: float | None) -> None:
    """Go on with a larger max_budget; `deepband run STUDY` then runs it."""
    with open_existing(study) as opened:
        before = len(opened.runs)
        opened.deepen(strategy, to)
        if len(opened.runs) == before:
            say(f"nothing to do: the study has been at {to}")
            return
        say(f"run {before}, {strategy}, max_budget {opened.max_budget}: deepband run {study}")
        if strategy == FRUGAL:
            say(f"{OUTSIDE}; --to {opened.max_budget} with another strategy fills this level later")


@main.command()
@study_argument
@click.option("--keep", help=f"Remove all but these: {KEEP}.")
@json_option
def checkpoints(study: Path, keep: str | None, as_json: bool) -> None:
    """Count the checkpoints, or remove those not to be kept; and say what deepening without the
    removed ones may cost."""
    wanted = read_keep(keep or "all")
    with open_existing(study) as opened:
        if keep:
            opened.lock()
        there = list(opened.checkpoints.kept())
        removed = superfluous(opened.state, wanted, there)
        extra = retraining_cost(opened.state, set(there) - set(removed))
        freed = opened.checkpoints.size(removed)
        found = {
            "kept": len(there) - len(removed),
            "removed": len(removed),
            "bytes_freed": freed,
            "extra_cost": extra,
        }
        if as_json:
            say_json(found)
        elif there:
            say(f"{found['kept']} checkpoints kept, {len(removed)} removed, {freed:,} bytes freed")
            _say_retraining(extra)
        else:
            say("there are no checkpoints")
        try:
            for key in removed:
                opened.checkpoints.discard(key)
        except OSError as error:
            folder = opened.checkpoints.folder
            raise StorageError(folder, f"not all can be removed: {error}.") from error


@main.command()
@click.argument("study", type=PATH, default=Path("demo.study"))
def demo(study: Path) -> None:
    """Tune a real model by real training, look at the quote, deepen, and compare."""
    from deepband.interfaces.cli.demo_command import show

    show(study)
