"""The commands that change a study: run, deepen, checkpoints."""

from __future__ import annotations

import os
from fractions import Fraction
from pathlib import Path
from typing import Any

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
from deepband.interfaces.cli.output import describe, say, show
from deepband.interfaces.cli.progress import Progress
from deepband.interfaces.cli.rescue import rescued
from deepband.interfaces.cli.user_code import load_objective, load_space
from deepband.samplers import SAMPLERS
from deepband.storage.checkpoints import KEEP, read_keep, retraining_cost, superfluous
from deepband.study.automatic_deepening import AUTO, Automatic, read_automatic
from deepband.study.study import Study

SETTINGS = ["max_budget", "min_budget", "eta", "seed", "maximize", "integer_budgets"]
SETTINGS += ["sampler", "keep"]
"""The options of `run` that `open_study` takes. `Study.optimize` takes the others."""
AUTOMATIC = ("deepen", "strategy", "max_cost", "max_budget_limit")


@main.command()
@study_argument
@click.argument("objective", required=False)
@click.option("--max-budget", type=BUDGET, help="The largest budget of the first run.")
@click.option("--min-budget", type=BUDGET, help="The smallest budget.  [default: 1]")
@click.option("--eta", type=int, help="The budget factor between rungs.  [default: 3]")
@click.option("--seed", type=int, help="The seed of all random choices.  [default: 0]")
@click.option("--maximize", is_flag=True, default=None, help="Larger values are better.")
@click.option(
    "--integer-budgets", is_flag=True, default=None, help="Round budgets down to integers."
)
@click.option("--sampler", help=f"One of {', '.join(SAMPLERS)}.  [default: uniform]")
@click.option("--space", type=PATH, help="A JSON file with the search space.")
@click.option("--keep", default="newest", show_default=True, help=f"Checkpoints to keep: {KEEP}.")
@click.option("--workers", type=int, help="Number of concurrent evaluations.  [default: 1]")
@click.option("--executor", help="dask://host:port, ray or ray://host:port.")
@click.option(
    "--resources",
    type=RESOURCES,
    multiple=True,
    callback=merge_resources,
    help="What each job needs on Dask or Ray, such as num_gpus=1; may be repeated.",
)
@click.option("--timeout", type=float, help="Time limit of one evaluation, in seconds.")
@click.option(
    "--retries",
    type=int,
    default=1,
    show_default=True,
    help="How often to retry a job whose worker died.",
)
@click.option("--no-wait", is_flag=True, help="Abandon jobs still running from a dead process.")
@click.option("--first-failures", type=int, help="Stop if the first N evaluations fail; 0: never.")
@click.option("--max-seconds", type=float, help="Start no new job after this time.")
@click.option("--max-cost", type=float, help="Units of budget to train at most.")
@click.option(
    "--deepen",
    type=click.Choice([AUTO]),
    help="Deepen as long as `deepband advice` recommends it; --max-cost then limits all runs.",
)
@click.option("--max-budget-limit", type=BUDGET, help="The largest max_budget to deepen to.")
@click.option(
    "--strategy",
    type=click.Choice(list(NAMES)),
    help="The strategy of --deepen auto.  [default: preserving]",
)
@click.option("--ahead", is_flag=True, help="Let idle workers start on the next deepening.")
@click.option("--ahead-limit", type=float, help="Units of budget to spend ahead at most.")
@click.option(
    "--retry-failed", is_flag=True, help="First repeat failures that no promotion depends on."
)
def run(
    study: Path,
    objective: str | None,
    space: Path | None,
    no_wait: bool,
    retry_failed: bool,
    **options: Any,
) -> None:
    """Create a study or resume one, and run it until it is done.

    OBJECTIVE is FILE.py:FUNCTION or PACKAGE.MODULE:FUNCTION. The study remembers it, so that later
    runs need only STUDY. Its module is imported, which runs its code. A new study takes its search
    space from --space or from the variable `space` of that module.
    """
    given = load_space(space) if space else None
    named = deepband.open_study(study).objective if os.path.exists(study) else None
    text = objective or named
    if text is None:
        raise InputError(f"{study} names no objective: give FILE.py:FUNCTION.")
    say(f"objective {text}" + (f" (was {named})" if named and named != text else ""))
    function, module = load_objective(text)
    if given is None:
        given = getattr(module, "space", None)
    settings = {name: options.pop(name) for name in SETTINGS}
    opened = deepband.open_study(study, space=given, **settings)
    options["ahead"] = options["ahead"] or options["ahead_limit"] is not None
    try:
        with opened:
            opened.name_objective(text)
            if retry_failed:
                say(f"{opened.retry_failed()} failed evaluations are repeated")
            with Progress(opened) as progress:
                opened.optimize(function, wait=not no_wait, on_record=progress.show, **options)
            _report_end(study, opened, read_automatic(*(options[name] for name in AUTOMATIC)))
            if settings["keep"] not in ("newest", "all"):
                say(_retraining(opened.retraining_cost()))
    except GoneError as error:
        raise rescued(opened, error) from error


def _retraining(cost: Fraction) -> str:
    return f"Without the other checkpoints, deepening may repeat up to {float(cost):.6g} units."


def _report_end(path: Path, study: Study, automatic: Automatic | None) -> None:
    run, limit = study.runs[-1], "--max-seconds" if automatic else "a limit"
    state = "done" if study.done else f"stopped at {limit}; run the command again to resume"
    say(f"run {run.run}, max_budget {run.max_budget}: {state}")
    say(describe(best_evaluation(study.state)))
    if study.done and automatic:
        to, why = automatic.decide(study.state)
        say(why if to is None else f"{why}; but time is up: run the command again to resume")
        say(f"Details: deepband advice {path}")
    elif study.done:
        say(f"Is a larger budget worth it? Ask: deepband advice {path}")


@main.command()
@study_argument
@deepening_options
def deepen(study: Path, strategy: StrategyName, to: float | None) -> None:
    """Raise max_budget for the next `deepband run STUDY`."""
    with open_existing(study) as opened:
        before = len(opened.runs)
        opened.deepen(strategy, to)
        if len(opened.runs) == before:
            say(f"nothing to do: the study already reached max_budget {to}")
            return
        say(f"run {before}, {strategy}, max_budget {opened.max_budget}: deepband run {study}")
        if strategy == FRUGAL:
            say(f"{OUTSIDE}; --to {opened.max_budget} with another strategy fills it later")


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
            opened.lock()
        stored = list(opened.checkpoints.kept())
        removed = superfluous(opened.state, rule, stored)
        extra = retraining_cost(opened.state, set(stored) - set(removed))
        freed = opened.checkpoints.size(removed)
        found = {
            "kept": len(stored) - len(removed),
            "removed": len(removed),
            "bytes_freed": freed,
            "extra_cost": extra,
        }
        counts = f"{found['kept']} checkpoints kept, {len(removed)} removed, {freed:,} bytes freed"
        text = f"{counts}\n{_retraining(extra)}" if stored else "there are no checkpoints"
        show(found, as_json, text)
        try:
            for key in removed:
                opened.checkpoints.discard(key)
        except OSError as error:
            folder = opened.checkpoints.folder
            raise StorageError(folder, f"some checkpoints cannot be removed: {error}.") from error
