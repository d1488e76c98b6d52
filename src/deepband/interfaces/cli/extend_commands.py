"""The commands that extend a study: deepen, widen, extend."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import click

from deepband.analysis.quote import OUTSIDE
from deepband.analysis.run_names import size_text
from deepband.core.strategies import FRUGAL, StrategyName
from deepband.interfaces.cli.group import (
    BUDGET,
    brackets_option,
    main,
    open_existing,
    strategy_option,
    study_argument,
    to_option,
    unfinished_option,
    width_option,
)
from deepband.interfaces.cli.output import say
from deepband.study.study import Study


@main.command()
@study_argument
@to_option
@strategy_option()
@unfinished_option
def deepen(study: Path, to: float | None, strategy: StrategyName, unfinished: bool) -> None:
    """Raise max_budget for the next `deepband run STUDY`."""

    def extend(opened: Study) -> None:
        opened.deepen(strategy, to, unfinished=unfinished)

    _extend(study, strategy, extend)


@main.command()
@study_argument
@click.option("--to", type=int, help="The new width.  [default: one more than the current one]")
@strategy_option("efficient")
@unfinished_option
def widen(study: Path, to: int | None, strategy: StrategyName, unfinished: bool) -> None:
    """Add configs for the next `deepband run STUDY`.

    max_budget stays the same. Width 2 starts every bracket with twice as many configs as plain
    Hyperband, width 3 with three times as many.
    """

    def extend(opened: Study) -> None:
        opened.widen(strategy, to, unfinished=unfinished)

    _extend(study, strategy, extend)


@main.command()
@study_argument
@click.option("--max-budget", type=BUDGET, help="The new max_budget.")
@width_option
@brackets_option
@strategy_option()
@unfinished_option
def extend(
    study: Path,
    max_budget: float | None,
    width: int | None,
    brackets: int | None,
    strategy: StrategyName,
    unfinished: bool,
) -> None:
    """Extend a study in several directions in one step.

    What is left out stays as it is.
    """

    def extend(opened: Study) -> None:
        opened.extend(
            strategy, max_budget=max_budget, width=width, brackets=brackets, unfinished=unfinished
        )

    _extend(study, strategy, extend)


def _extend(path: Path, strategy: StrategyName, extend: Callable[[Study], None]) -> None:
    """Extend a study, and say what that led to."""
    with open_existing(path) as opened:
        before = len(opened.runs)
        extend(opened)
        run = opened.runs[-1]
        if len(opened.runs) == before:
            reached = "; ".join(size_text(r.max_budget, r.width, r.brackets) for r in opened.runs)
            say(f"nothing to do: the study already reached that. Its runs: {reached}")
            return
        size = size_text(run.max_budget, run.width, run.brackets)
        say(f"run {before}, {strategy}, {size}: deepband run {path}")
        if strategy == FRUGAL:
            say(f"{OUTSIDE}; --to {opened.max_budget} with another strategy fills it later")
