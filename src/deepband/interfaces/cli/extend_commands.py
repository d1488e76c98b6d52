"""The commands that extend a study: deepen, widen, extend."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import click

from deepband.analysis.quote import OUTSIDE
from deepband.analysis.run_names import size_text
from deepband.core.strategies import FRUGAL, StrategyName
from deepband.errors import InputError
from deepband.interfaces.cli.group import (
    BUDGET,
    PATH,
    brackets_option,
    main,
    open_existing,
    strategy_option,
    study_argument,
    to_option,
    unfinished_option,
    width_option,
)
from deepband.interfaces.cli.output import command, say
from deepband.interfaces.cli.user_code import SPACE_FILE, load_space
from deepband.study.study import Study


def space_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add --space and --added."""
    space = click.option("--space", type=PATH, help=f"The space of new configs: {SPACE_FILE}.")
    added = click.option(
        "--added",
        multiple=True,
        metavar="NAME=VALUE",
        help="The value of a new parameter in existing configs; may be repeated.",
    )
    return space(added(command))


def _read(given: dict[str, Any]) -> dict[str, Any]:
    """The options as arguments of `Study.extend`."""
    space, added = given.pop("space"), given.pop("added")
    found = None if space is None else load_space(space)
    return {**given, "space": found, "added": dict(map(_read_added, added)) or None}


def _read_added(text: str) -> tuple[str, Any]:
    """A name and a value, which is JSON if it can be read as that."""
    name, found, value = text.partition("=")
    if not found:
        raise InputError(f"--added is {text!r}: write NAME=VALUE, such as momentum=0.9.")
    try:
        return name, json.loads(value)
    except json.JSONDecodeError:
        return name, value


@main.command()
@study_argument
@to_option
@strategy_option("preserving")
@unfinished_option
@space_options
def deepen(study: Path, to: float | None, strategy: StrategyName, **given: Any) -> None:
    """Raise max_budget for the next `deepband run STUDY`."""
    _extend(study, Study.deepen, strategy, to, given=given)


@main.command()
@study_argument
@click.option("--to", type=int, help="The new width.  [default: one more than the current one]")
@strategy_option("efficient")
@unfinished_option
@space_options
def widen(study: Path, to: int | None, strategy: StrategyName, **given: Any) -> None:
    """Add configs for the next `deepband run STUDY`.

    max_budget stays the same. Width 2 starts every bracket with twice as many configs as plain
    Hyperband, width 3 with three times as many.
    """
    _extend(study, Study.widen, strategy, to, given=given)


@main.command()
@study_argument
@click.option("--max-budget", type=BUDGET, help="The new max_budget.")
@width_option
@brackets_option
@strategy_option()
@unfinished_option
@space_options
def extend(study: Path, strategy: StrategyName | None, **given: Any) -> None:
    """Extend a study in several directions in one step.

    What is left out stays as it is.
    """
    _extend(study, Study.extend, strategy, given=given)


def _extend(
    path: Path, method: Callable[..., None], *arguments: Any, given: dict[str, Any]
) -> None:
    """Extend a study by one of its methods, and say what that led to."""
    with open_existing(path) as opened:
        before = len(opened.runs)
        method(opened, *arguments, **_read(given))
        run = opened.runs[-1]
        if len(opened.runs) == before:
            reached = "; ".join(size_text(r.max_budget, r.width, r.brackets) for r in opened.runs)
            say(f"nothing to do: the study already reached that. Its runs: {reached}")
            return
        size = size_text(run.max_budget, run.width, run.brackets)
        say(f"run {before}, {run.strategy}, {size}. Next: {command('run', path)}")
        if run.strategy == FRUGAL:
            say(f"{OUTSIDE}; --to {opened.max_budget} with another strategy fills it later")
