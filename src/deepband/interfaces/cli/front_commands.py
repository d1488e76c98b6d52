"""The commands of several objectives: front, hypervolume."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import click

from deepband.analysis.export import fields_of
from deepband.analysis.key_figures import no_result, reference_text
from deepband.analysis.text import brief, shortened, table
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import counted
from deepband.interfaces.cli.criteria_options import reference_option
from deepband.interfaces.cli.group import json_option, main, open_existing, study_argument
from deepband.interfaces.cli.output import show

MOST_PARAMETERS = 5
"""How many parameters have a column: a terminal has no room for more."""
rung_option = click.option(
    "--rung", type=int, help="Only evaluations on this rung.  [default: on any]"
)


@main.command()
@study_argument
@rung_option
@json_option
def front(study: Path, rung: int | None, as_json: bool) -> None:
    """List the evaluations that no other one dominates.

    None of the others is better in one objective and not worse in any other. Only feasible
    evaluations with finite results count. --json lists all fields.
    """
    opened = open_existing(study)
    found, state = opened.front(rung), opened.session.state
    records = [{**fields_of(state, each), "checkpoint": each.checkpoint} for each in found]
    show(records, as_json, _describe(state, found, rung))


def _describe(state: State, found: Sequence[Evaluation], rung: int | None) -> str:
    where = "on any budget" if rung is None else f"on rung {rung}"
    if not found:
        return f"front {where}: none yet, because {no_result(state)}"
    parameters = list(dict.fromkeys(name for each in found for name in each.config))
    shown = parameters[:MOST_PARAMETERS]
    names = state.criteria.names or (state.criteria.value_name,)
    header = [*names, "budget", "bracket", "index", "rung", *shown]
    rows = [[shortened(name, 20) for name in header]]
    rows += [_row(names, each, shown) for each in found]
    lines = [f"front {where}: {counted(len(found), 'evaluation')}", table(rows)]
    if len(parameters) > len(shown):
        lines.append(f"and {counted(len(parameters) - len(shown), 'other parameter')}: see --json")
    return "\n".join(lines)


def _row(names: Sequence[str], each: Evaluation, parameters: Sequence[str]) -> list[str]:
    values: Mapping[str, Any] = each.objectives or {names[0]: each.value}
    place = [f"{each.budget:.6g}", str(each.bracket), str(each.index), str(each.rung)]
    config = [brief(each.config.get(name, ""), 20) for name in parameters]
    return [*(brief(values[name], 20) for name in names), *place, *config]


@main.command()
@study_argument
@reference_option
@rung_option
@json_option
def hypervolume(
    study: Path, reference: Mapping[str, float] | None, rung: int | None, as_json: bool
) -> None:
    """Show how much of the space of objectives the front dominates.

    It is the volume between the front and a reference point, which has a value for each objective.
    Larger is better. Without --reference, it is the worst feasible value of each objective in the
    first run, which no later run changes.
    """
    opened = open_existing(study)
    point = opened.reference() if reference is None else reference
    volume = opened.hypervolume(point, rung)
    found: dict[str, Any] = {"hypervolume": volume, "reference": point, "rung": rung}
    where = "" if rung is None else f", on rung {rung}"
    show(found, as_json, f"hypervolume {volume:.6g} up to {reference_text(point)}{where}")
