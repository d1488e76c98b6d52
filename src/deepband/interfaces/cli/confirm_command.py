"""The command that evaluates the best configs again with other seeds."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click

from deepband.analysis.confirmations import confirmations
from deepband.analysis.text import printable, units
from deepband.core.exact_numbers import check_count
from deepband.core.facts import Confirmed, Fact
from deepband.errors import GoneError, InputError, UnseededWarning, counted
from deepband.interfaces.cli.group import json_option, main, open_existing, study_argument
from deepband.interfaces.cli.output import show, show_warnings
from deepband.interfaces.cli.rescue import rescued
from deepband.interfaces.cli.run_options import EXECUTION, Command
from deepband.interfaces.cli.user_code import load_objective, recalled
from deepband.study.repetitions import Repetition, check_seeds, missing, repetitions, selected
from deepband.study.study import Study


def _execution_options(command: Command) -> Command:
    for option in reversed(EXECUTION):
        command = option(command)
    return command


@main.command()
@study_argument
@click.argument("objective", required=False)
@click.option("--top", type=int, default=3, show_default=True, help="Number of configs.")
@click.option(
    "--seeds", type=int, default=5, show_default=True, help="Number of repetitions per config."
)
@_execution_options
@click.option("--max-cost", type=float, help="Train at most this many units of budget.")
@json_option
def confirm(
    study: Path,
    objective: str | None,
    top: int,
    seeds: int,
    as_json: bool,
    **execution: Any,
) -> None:
    """Evaluate the best configs again with other seeds.

    Each of the best configs of the highest rung is evaluated from scratch, with the budget of that
    rung. The output shows the mean and its 95 % interval (Student's t). No decision of the study
    depends on these results, and nothing is evaluated twice: repeat the command to continue, or to
    see the results again.

    OBJECTIVE is the same as for `deepband run`; by default it is the recorded one.
    """
    with open_existing(study) as opened:
        state, top, seeds = opened.session.state, check_count("top", top), check_seeds(seeds)
        left = missing(state, repetitions(selected(state, top), seeds))
        if left:
            cost = len(left) * state.schedule.charge(left[0][2])  # all are on one rung
            todo = f"{counted(len(left), 'repetition')} to run"
            click.echo(f"{todo}, {units(cost)} of budget", err=True)
            _run(opened, study, objective, {"top": top, "seeds": seeds, **execution})
        state = opened.session.state
        show(confirmations(state, selected(state, top)), as_json)


def _run(opened: Study, study: Path, text: str | None, given: dict[str, Any]) -> None:
    named = opened.session.state.objective
    text = text or (recalled(named, study) if named else None)
    if text is None:
        raise InputError(
            f"the study {study} has no recorded objective: give the objective, FILE.py:FUNCTION."
        )
    objective, _ = load_objective(text, given["batch"])
    opened.observe(_Lines(set(opened.session.state.confirmations)))
    try:
        with show_warnings(UnseededWarning):
            opened.confirm(objective, **given)
    except GoneError as error:
        raise rescued(opened, error) from error


class _Lines:
    """Shows each repetition that fails, in one line."""

    def __init__(self, known: set[Repetition]) -> None:
        self._known = known

    def observe(self, facts: Sequence[Fact]) -> None:
        for fact in facts:
            if isinstance(fact, Confirmed) and fact.key not in self._known:
                self._known.add(fact.key)
                if fact.loss is None:
                    click.echo(printable(_line(fact)), err=True)


def _line(fact: Confirmed) -> str:
    error = (fact.error or "").partition("\n")[0]
    place = f"bracket {fact.bracket}, index {fact.index}, repetition {fact.repetition}"
    return f"{place} failed: {error}"
