"""What a terminal is shown: users' strings as they are, never as markup or control codes."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from dataclasses import fields, is_dataclass
from fractions import Fraction
from typing import Any

import click

from deepband.analysis.formatting import printable, table
from deepband.analysis.summary import Status, grid
from deepband.core.records import Evaluation
from deepband.core.schedule import as_number
from deepband.study.forecast import Forecast


def say(text: object) -> None:
    """Print lines of text, with whatever could move the cursor made visible."""
    for line in str(text).splitlines() or [""]:
        click.echo(printable(line))


def say_json(value: object) -> None:
    """Print a value as JSON."""
    click.echo(json.dumps(_plain(value), indent=2, allow_nan=False, default=str))


def describe(best: Evaluation | None) -> str:
    """An evaluation in a few lines."""
    if best is None:
        return "best     none yet: no evaluation has a finite loss"
    found = f"best     {best.value:.6g} with budget {best.budget:.6g}"
    lines = [f"{found} (bracket {best.bracket}, index {best.index}, rung {best.rung})"]
    lines += [f"         {name} = {value!r}" for name, value in best.config.items()]
    return "\n".join(lines)


def describe_status(status: Status) -> str:
    """The brackets and rungs of the current run, and what is spent and left."""
    strategy = f", {status.strategy}" if status.strategy else ""
    failed = f", {status.failed} failed" if status.failed else ""
    ahead = f", {status.ahead} ahead for the next deepening" if status.ahead else ""
    spent, left = (f"{as_number(cost):.10g}" for cost in (status.spent, status.left))
    state = "done" if status.done else f"{status.open} jobs open, {status.running} running"
    return "\n".join(
        [
            f"run      {status.run}{strategy}, max_budget {status.max_budget:.10g}: {state}",
            f"known    {status.evaluations} evaluations{failed}{ahead}",
            f"budget   {spent} spent in this run, {left} left",
            "",
            table(grid(status)),
        ]
    )


def describe_forecasts(forecasts: Sequence[Forecast]) -> str:
    """How long runs take, a line each."""
    header = [f"with {forecasts[0].workers} workers", "jobs", "time", "busy", "at best", "worth"]
    return table([header, *map(_forecast_row, forecasts)])


def _forecast_row(each: Forecast) -> list[str]:
    if not each.jobs:
        return [each.run, "0", "done", "", "", ""]
    times = _span_of_time(each.seconds), f"{each.utilisation:.0%}", _span_of_time(each.bound)
    return [each.run, str(each.jobs), *times, f"{each.worth} workers"]


def _span_of_time(seconds: float) -> str:
    """Seconds as people say them."""
    if seconds < 60:
        return f"{seconds:.3g} s"
    minutes = round(seconds / 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours} h {minutes:02} min" if hours else f"{minutes} min"


def _plain(value: Any) -> Any:
    """A value of ours as what JSON knows; infinities as texts."""
    if isinstance(value, Fraction):
        return as_number(value)
    if isinstance(value, float) and math.isinf(value):
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
