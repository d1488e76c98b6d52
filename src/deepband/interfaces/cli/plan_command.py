"""The command that plans: an existing study, or one that does not exist yet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import click

from deepband.analysis.durations import seconds_per_unit as seconds_per_unit_of
from deepband.analysis.plan import Plan
from deepband.analysis.text import duration, table
from deepband.errors import InputError, SmallSpaceWarning, counted
from deepband.interfaces.cli.group import BUDGET, PATH, json_option, main, open_existing
from deepband.interfaces.cli.output import show, show_warnings
from deepband.study.forecast import Forecast, forecast
from deepband.study.study_plan import plan as plan_study

PLANNED = [
    click.option("--max-budget", type=BUDGET, help="The largest budget of a study to plan."),
    click.option("--min-budget", type=BUDGET, help="Its smallest budget.  [default: 1]"),
    click.option("--eta", type=int, help="Its budget factor between rungs.  [default: 3]"),
    click.option("--width", type=int, help="Its width.  [default: 1]"),
    click.option("--brackets", type=int, help="Only its first N brackets."),
]


def _planned_options(command: Callable[..., None]) -> Callable[..., None]:
    for option in reversed(PLANNED):
        command = option(command)
    return command


@main.command()
@click.argument("study", type=PATH, required=False)
@_planned_options
@click.option("--workers", type=int, help="Also estimate the time with this many workers.")
@click.option(
    "--seconds-per-unit",
    type=float,
    help="Also estimate the time at this speed, in seconds per unit of budget.  "
    "[default: as measured]",
)
@click.option("--resumed", is_flag=True, help="Assume that training continues from the rung below.")
@json_option
def plan(
    study: Path | None,
    workers: int | None,
    seconds_per_unit: float | None,
    resumed: bool,
    as_json: bool,
    **settings: Any,
) -> None:
    """Show how many configs run on which budget, and how long it takes.

    Without STUDY, plan a study that does not exist yet: give at least --max-budget.

    With --workers or --seconds-per-unit, the run and each way to continue are simulated on a
    virtual clock. For an existing study, the output also shows the share of the time that workers
    are busy, the least time that any order of jobs could take, and how many workers are worthwhile:
    beyond that number, doubling them saves less than a tenth of the time.
    """
    if study is None:
        _plan_new(settings, workers, seconds_per_unit, as_json)
        return
    if any(value is not None for value in settings.values()):
        raise InputError("an existing study has its own settings: give one or the other.")
    with show_warnings(SmallSpaceWarning):
        opened = open_existing(study)
        planned = opened.plan()
    forecasts = []
    if (workers, seconds_per_unit) != (None, None):
        seconds = seconds_per_unit or seconds_per_unit_of(opened.session.state)
        if seconds is None:
            raise InputError("no evaluation took a measurable time yet: give --seconds-per-unit.")
        forecasts = forecast(opened, workers or 1, seconds, resumed=resumed)
    text = f"{planned}\n\n{_describe_forecasts(forecasts)}" if forecasts else planned
    show(_plan_values(planned) | {"forecasts": forecasts}, as_json, text)


def _plan_new(
    settings: dict[str, Any], workers: int | None, seconds_per_unit: float | None, as_json: bool
) -> None:
    if settings["max_budget"] is None:
        raise InputError("give STUDY, or --max-budget to plan a study that does not exist yet.")
    planned = plan_study(**settings, workers=workers, seconds_per_unit=seconds_per_unit)
    found = {"forecasts": planned.forecasts, "steps": planned.steps}
    show(_plan_values(planned.run) | found, as_json, planned)


def _plan_values(plan: Plan) -> dict[str, Any]:
    names = "budgets", "configs", "evaluations", "cost", "cost_resumed"
    return {name: getattr(plan, name) for name in names} | {
        "width": plan.schedule.width,
        "brackets": plan.schedule.bracket_limit,
        "sizes": {bracket: plan.sizes(bracket) for bracket in plan.schedule.brackets},
    }


def _describe_forecasts(forecasts: Sequence[Forecast]) -> str:
    """How long each run takes, one line per run."""
    columns = ["jobs", "time", "busy", "at least", "worthwhile"]
    header = [f"with {counted(forecasts[0].workers, 'worker')}", *columns]
    return table([header, *map(_forecast_row, forecasts)])


def _forecast_row(each: Forecast) -> list[str]:
    if not each.jobs:
        return [each.run, "0", "done", "", "", ""]
    times = duration(each.seconds), f"{each.utilisation:.0%}", duration(each.bound)
    return [each.run, str(each.jobs), *times, counted(each.worth, "worker")]
