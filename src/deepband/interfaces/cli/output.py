"""Text and JSON for a terminal. A user's strings are shown, never obeyed as control codes."""

from __future__ import annotations

import json
import math
import shlex
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import fields, is_dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

import click

from deepband.analysis.key_figures import no_result
from deepband.analysis.run_names import size_text
from deepband.analysis.status import Status, grid
from deepband.analysis.text import brief, duration, printable, shortened, table
from deepband.core.evaluations import best_above, best_evaluation, front
from deepband.core.exact_numbers import as_number
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import counted
from deepband.interfaces.cli.option_names import in_words_of_command
from deepband.study.forecast import Forecast

ANY_BUDGET = "best on any budget"
"""What `study.best` is called wherever it is shown."""


MOST_METRICS = 20
"""How many metrics of an evaluation are shown."""


def say(text: object) -> None:
    """Print lines of text with control characters escaped."""
    for line in str(text).splitlines() or [""]:
        click.echo(printable(line))


def command(name: str, study: Path, *more: str) -> str:
    """A command of deepband for a study, to be typed in a shell."""
    return shlex.join(["deepband", name, str(study), *more])


@contextmanager
def show_warnings(kind: type[Warning]) -> Iterator[None]:
    """Print warnings of this block in one line each, without the place in the source code: all of
    this kind, and others unless they are filtered out."""

    def show_warning(message: Warning | str, *_: Any, **__: Any) -> None:
        click.echo(f"Warning: {printable(in_words_of_command(str(message)))}", err=True)

    with warnings.catch_warnings():
        warnings.simplefilter("always", kind)
        warnings.showwarning = show_warning
        yield


def show(value: object, as_json: bool, text: object = None) -> None:
    """Print a value as JSON, or else `text`, by default its own."""
    if as_json:
        click.echo(json.dumps(_plain(value), indent=2, allow_nan=False, default=str))
    else:
        say(value if text is None else text)


def describe(state: State, best: Evaluation | None, label: str = ANY_BUDGET) -> str:
    """The best evaluation in a few lines. `label` says which one it is."""
    if best is None:
        return f"{label}: none yet, because {no_result(state)}"
    found = f"{label}: {best.value:.6g} with budget {best.budget:.6g}"
    lines = [f"{found} (bracket {best.bracket}, index {best.index}, rung {best.rung})"]
    lines += [f"         {metric}" for metric in _metric_lines(best.metrics)]
    lines += [f"         {name} = {value!r}" for name, value in best.config.items()]
    return "\n".join(lines)


def describe_both(state: State, study: Path) -> str:
    """The best evaluation on any budget and, if it is another one, that on the highest budget. With
    several objectives, the size of the front."""
    if state.criteria.several:
        found = counted(len(front(state)), "evaluation")
        return f"front on any budget: {found}; details: {command('front', study)}"
    return "\n".join([describe(state, best_evaluation(state)), *highest_budget(state, study)])


def highest_budget(state: State, study: Path) -> list[str]:
    """The best evaluation on the highest budget in one line, with the command that shows it. There
    is no line if it is also the best on any budget."""
    found = best_above(state)
    if found is None:
        return []
    place = f"bracket {found.bracket}, index {found.index}"
    line = f"on the highest budget, {found.budget:.6g}: {found.value:.6g} ({place})"
    return [f"{line}; details: {command('best', study, '--rung', 'top')}"]


def _metric_lines(metrics: Mapping[str, Any]) -> list[str]:
    """What the objective returned alongside the loss, in its order."""
    lines = [f"{shortened(name, 80)}: {brief(each)}" for name, each in metrics.items()]
    others = len(lines) - MOST_METRICS
    return lines[:MOST_METRICS] + ([f"and {counted(others, 'other metric')}"] if others > 0 else [])


def describe_status(status: Status, notes: Sequence[str] = ()) -> str:
    """The progress of the current run: its brackets and rungs, and the budget spent and left. The
    notes follow the number of results."""
    strategy = f", {status.strategy}" if status.strategy else ""
    size = size_text(status.max_budget, status.width, status.brackets)
    evaluations = counted(status.evaluations, "evaluation")
    evaluations += f", {status.failed} failed" if status.failed else ""
    ahead = f", {status.ahead} ahead for the next deepening" if status.ahead else ""
    spent, left = (f"{as_number(cost):.10g}" for cost in (status.spent, status.left))
    jobs = f"{counted(status.open, 'job')} open, {status.running} running"
    state = status.end if status.done else jobs
    return "\n".join(
        [
            f"run      {status.run}{strategy}, {size}: {state}",
            f"results  {', '.join([evaluations, *notes])}{ahead}",
            f"budget   {spent} spent in this run, {left} left",
            "",
            table(grid(status)),
        ]
    )


def describe_forecasts(forecasts: Sequence[Forecast]) -> str:
    """How long each run takes, one line per run."""
    columns = ["jobs", "time", "busy", "at least", "worthwhile"]
    header = [f"with {counted(forecasts[0].workers, 'worker')}", *columns]
    return table([header, *map(_forecast_row, forecasts)])


def _forecast_row(each: Forecast) -> list[str]:
    if not each.jobs:
        return [each.run, "0", "done", "", "", ""]
    times = duration(each.seconds), f"{each.utilisation:.0%}", duration(each.bound)
    return [each.run, str(each.jobs), *times, counted(each.worth, "worker")]


def _plain(value: Any) -> Any:
    """A value that `json.dumps` can write; infinities and NaN become strings."""
    if isinstance(value, Fraction):
        return as_number(value)
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if is_dataclass(value):
        value = {field.name: getattr(value, field.name) for field in fields(value)}
    elif hasattr(value, "_asdict"):
        value = value._asdict()
    if isinstance(value, Mapping):
        return {str(key): _plain(inner) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(inner) for inner in value]
    return value
