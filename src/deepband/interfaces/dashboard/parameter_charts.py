"""The data of the charts with one line per config: reported learning curves, and parallel
coordinates. Both draw a limited number of points, however large a study is."""

from __future__ import annotations

import math
from collections.abc import Sequence
from itertools import pairwise
from typing import Any

from deepband.analysis import chart_data
from deepband.analysis.importance import Importance
from deepband.analysis.text import shortened
from deepband.core.state import State
from deepband.errors import counted

MOST_REPORTED, MOST_POINTS = 50, 200
"""How many reported curves are drawn, and how many points of each."""
MOST_LINES, MOST_AXES = 200, 20
MOST_SHARES = 15
MOST_CHOICES = 6
"""With more choices, only the first and the last are labelled."""


def reported(state: State) -> list[dict[str, Any]]:
    """The curves that objectives reported, of configs on the highest rungs, each in parts."""
    return [
        {
            "bracket": row.bracket,
            "index": row.index,
            "points": [_thinned(part) for part in _parts(row.curve)],
        }
        for row in chart_data.curves(state, MOST_REPORTED)
        if len(row.curve) > 1
    ]


def _parts(curve: Sequence[tuple[float, float]]) -> list[Sequence[tuple[float, float]]]:
    """The parts of a curve: a config that starts over on a rung reports its first steps again."""
    starts = [n for n in range(1, len(curve)) if curve[n][0] <= curve[n - 1][0]]
    bounds = [0, *starts, len(curve)]
    return [curve[low:high] for low, high in pairwise(bounds)]


def _thinned(curve: Sequence[tuple[float, float]]) -> list[list[float]]:
    """At most MOST_POINTS points of a curve, evenly, with its last one. They are recorded as the
    objective reported them."""
    some = list(curve[:: math.ceil(len(curve) / MOST_POINTS)])
    some += [] if some[-1] == curve[-1] else [curve[-1]]
    return [[step, number] for step, number in some]


def parallel(state: State, order: Sequence[str] = ()) -> dict[str, Any]:
    """Configs of one rung across their parameters, best first. If there are many parameters, those
    that come first in `order` are chosen."""
    rung = chart_data.rung_to_judge(state)
    found = chart_data.on_rung(state, rung)
    every = chart_data.axes(state)
    axes = sorted(every, key=lambda axis: _rank(axis.name, order))[:MOST_AXES]
    return {
        "axes": [{"name": shortened(axis.name, 80), "ticks": _ticks(axis)} for axis in axes],
        "lines": [
            {
                "bracket": result.bracket,
                "index": result.index,
                "places": [_place(axis, config) for axis in axes],
            }
            for result, config in found[:MOST_LINES]
        ],
        "note": _note(state, rung, len(found), len(axes), len(every)),
    }


def _rank(name: str, order: Sequence[str]) -> int:
    return order.index(name) if name in order else len(order)


def _place(axis: chart_data.Axis, config: dict[str, Any]) -> float | None:
    """Where a config lies on an axis; None if it does not have the parameter."""
    place = axis.position(config[axis.name]) if axis.name in config else None
    return None if place is None else round(place, 4)


def _note(state: State, rung: int, configs: int, drawn: int, axes: int) -> str:
    where = f"on rung {rung} (budget {state.run.budgets[rung]:.6g})"
    some = f"The best {MOST_LINES} of {configs:,} configs {where}"
    text = some if configs > MOST_LINES else f"{counted(configs, 'config')} {where}"
    return f"{text}, {drawn} of {axes} parameters" if drawn < axes else text


def _ticks(axis: chart_data.Axis) -> list[list[Any]]:
    if axis.choices is None:
        middle = (axis.low * axis.high) ** 0.5 if axis.log else (axis.low + axis.high) / 2
        return [[y, f"{v:.3g}"] for y, v in ((0.0, axis.low), (0.5, middle), (1.0, axis.high))]
    count = len(axis.choices)
    named = range(count) if count <= MOST_CHOICES else (0, count - 1)
    return [[(number + 0.5) / count, shortened(str(axis.choices[number]), 12)] for number in named]


def importance_chart(found: Importance, objective: str | None = None) -> dict[str, Any]:
    """The parameters with the largest shares, and where they come from. The objective is the one of
    several that they are shares of."""
    shares = [[shortened(name, 40), round(share, 4)] for name, share in found.shares.items()]
    configs = counted(found.evaluations, "config")
    results = "the results" if objective is None else shortened(objective)
    note = f"Share in the variance of {results} of {configs} on rung {found.rung} (fANOVA)."
    if not shares:
        note = "The results so far do not show which parameters matter."
    if len(shares) > MOST_SHARES:
        note += f" The first {MOST_SHARES} of {len(shares)} parameters."
    return {"shares": shares[:MOST_SHARES], "note": note}
