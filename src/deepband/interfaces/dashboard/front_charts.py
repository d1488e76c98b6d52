"""What the page of a study with several objectives shows instead of its best evaluation: the front
as a table and as a chart, and the hypervolume."""

from __future__ import annotations

from typing import Any

from deepband.analysis.fronts import Point, front_chart, volume_chart
from deepband.analysis.key_figures import no_result, reference_text
from deepband.analysis.text import brief, shortened
from deepband.core.evaluations import front
from deepband.core.facts import JobFinished
from deepband.core.state import State

MOST_ROWS = 100
"""How many evaluations of the front are listed."""
MOST_DOTS = 500
"""How many evaluations beside the fronts are drawn."""


def objectives(state: State) -> dict[str, Any] | None:
    """The front and the hypervolume; None with a single objective."""
    if not state.criteria.several:
        return None
    found = front(state)
    return {
        "names": [shortened(name) for name in state.criteria.names],
        "rows": [_row(state, each) for each in found[:MOST_ROWS]],
        "more": max(0, len(found) - MOST_ROWS),
        "note": "" if found else f"{no_result(state).capitalize()} yet.",
        "chart": _chart(state),
        "hypervolume": _volume(state),
    }


def _row(state: State, result: JobFinished) -> dict[str, Any]:
    values = state.criteria.values(result.loss)
    return {
        "bracket": result.bracket,
        "index": result.index,
        "rung": result.rung,
        "budget": state.run.budgets[result.rung],
        "values": [brief(value) for value in values.values()],
    }


def _chart(state: State) -> dict[str, Any]:
    found = front_chart(state)
    return {
        "x": shortened(found.objectives[0]),
        "y": shortened(found.objectives[1]),
        "larger": [direction == "maximize" for direction in found.directions],
        "fronts": [{"run": row.number, "points": row.points} for row in found.rows],
        "others": _some(found.others),
        "projected": found.projected,
    }


def _some(points: tuple[Point, ...]) -> tuple[Point, ...]:
    """At most MOST_DOTS points, evenly."""
    return points[:: -(-len(points) // MOST_DOTS) or 1]


def _volume(state: State) -> dict[str, Any]:
    found = volume_chart(state)
    return {
        "steps": [[step.spent, step.spent_resumed, step.volume] for step in found.steps],
        "extensions": [[each.spent, each.target] for each in found.extensions],
        "spent": found.spent,
        "spent_resumed": found.spent_resumed,
        "reference": reference_text(found.reference),
    }
