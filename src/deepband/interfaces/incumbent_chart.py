"""The best loss against the budget spent, drawn without a plotting library: as lines of text, and
as an SVG file."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from html import escape

from deepband.analysis import chart_data
from deepband.core.state import State

COLUMNS, LINES = 60, 9
WIDTH, HEIGHT, LEFT, RIGHT, TOP, BOTTOM = 640, 320, 64, 24, 40, 48
INK, QUIET, LINE, FLAG = "#1c2024", "#55606c", "#0072b2", "#d55e00"


@dataclass(frozen=True, slots=True)
class IncumbentChart:
    """The points of a staircase, and what its axes are called."""

    points: tuple[tuple[float, float], ...]
    """The budget spent and the value of each improvement; the last point is the end."""
    flags: tuple[tuple[float, str], ...]
    """Where runs after the first began, and what they grew to."""
    x: str
    y: str

    def share(self, value: float) -> float:
        """Where a value lies between the smallest, 0, and the largest, 1. The scale is logarithmic
        if the values span a factor of ten or more."""
        low, high = self.bounds
        scale = math.log if low > 0 and high >= 10 * low else float
        return (scale(value) - scale(low)) / (scale(high) - scale(low)) if high > low else 0.5

    @property
    def bounds(self) -> tuple[float, float]:
        """The smallest and the largest value."""
        values = [value for _, value in self.points]
        return min(values), max(values)

    def value_at(self, spent: float) -> float | None:
        """The best value when this much was spent; None before the first one."""
        return next((value for at, value in reversed(self.points) if at <= spent), None)


def incumbent_chart(state: State, x: str, y: str) -> IncumbentChart:
    """The chart of a study in which training continues from the rung below."""
    found = chart_data.incumbent(state)
    steps = [
        (float(step.spent_resumed), state.criteria.value(step.result.number))
        for step in found.steps
        if chart_data.is_drawable(step.result.number)
    ]
    end = [(float(found.spent_resumed), steps[-1][1])] if steps else []
    flags = tuple((float(each.spent_resumed), each.target) for each in found.extensions)
    return IncumbentChart((*steps, *end), flags, x, y)


def as_text(chart: IncumbentChart) -> str:
    """The chart as lines of text; empty if there is nothing to draw."""
    if not chart.points:
        return ""
    end, (low, high) = chart.points[-1][0], chart.bounds
    labels = {LINES - 1: f"{high:.3g}", 0: f"{low:.3g}"}
    width = max(map(len, labels.values()))
    columns = [_rows(chart, end * n / COLUMNS, end * (n + 1) / COLUMNS) for n in range(COLUMNS)]
    lines = [chart.y]
    for row in reversed(range(LINES)):
        marks = "".join("*" if row in rows else " " for rows in columns)
        lines.append(f"{labels.get(row, ''):>{width}} |{marks}".rstrip())
    lines.append(f"{'':{width}} +{_axis(chart, end)}")
    return "\n".join([*lines, f"{'':{width}}  {f'{end:.6g} {chart.x}':>{COLUMNS}}"])


def _rows(chart: IncumbentChart, start: float, end: float) -> range:
    """The rows that a column of text covers: from the value at its start to the one at its end."""
    before, after = chart.value_at(start), chart.value_at(end)
    if after is None:
        return range(0)
    first = chart.points[0][1] if before is None else before
    top, bottom = sorted(round(chart.share(each) * (LINES - 1)) for each in (first, after))[::-1]
    return range(bottom, top + 1)


def _axis(chart: IncumbentChart, end: float) -> str:
    """The horizontal axis, with a mark where runs after the first began."""
    line = "-" * COLUMNS
    for at, text in reversed(chart.flags):
        column = min(int(at / end * COLUMNS), COLUMNS - len(text) - 2) if end else 0
        label = f"^ {text}"
        line = (line[:column] + label + line[column + len(label) :])[:COLUMNS]
    return line


def as_svg(chart: IncumbentChart, title: str) -> str:
    """The chart as a picture that needs nothing from elsewhere."""
    end, (low, high) = chart.points[-1][0] or 1.0, chart.bounds
    bottom = HEIGHT - BOTTOM

    def across(spent: float) -> float:
        return LEFT + spent / end * (WIDTH - LEFT - RIGHT)

    def up(value: float) -> float:
        return bottom - 8 - chart.share(value) * (bottom - TOP - 16)

    parts = [
        f'<rect width="{WIDTH}" height="{HEIGHT}" fill="#ffffff"/>',
        _text(LEFT, 24, title, INK, size=15),
        *(_grid(up(value), f"{value:.3g}") for value in dict.fromkeys((low, high))),
        *(_flag(across(at), text, bottom) for at, text in chart.flags),
        _staircase([(across(at), up(value)) for at, value in chart.points]),
        _text(WIDTH - RIGHT, bottom + 18, f"{end:.6g}", QUIET, anchor="end"),
        _text((LEFT + WIDTH - RIGHT) / 2, HEIGHT - 10, chart.x, QUIET, anchor="middle"),
        _text(LEFT, bottom + 18, "0", QUIET),
    ]
    size = f'viewBox="0 0 {WIDTH} {HEIGHT}" width="{WIDTH}" height="{HEIGHT}"'
    head = f'<svg xmlns="http://www.w3.org/2000/svg" {size} font-family="sans-serif">'
    return "\n".join([head, *parts, "</svg>", ""])


def _staircase(points: Sequence[tuple[float, float]]) -> str:
    corners = [points[0]]
    for x, y in points[1:]:
        corners += [(x, corners[-1][1]), (x, y)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in corners)
    return f'<polyline points="{path}" fill="none" stroke="{LINE}" stroke-width="2.5"/>'


def _grid(y: float, text: str) -> str:
    line = f'<line x1="{LEFT}" x2="{WIDTH - RIGHT}" y1="{y:.1f}" y2="{y:.1f}" stroke="#d5dae0"/>'
    return line + _text(LEFT - 8, y + 4, text, QUIET, anchor="end")


def _flag(x: float, text: str, bottom: float) -> str:
    place = f'x1="{x:.1f}" x2="{x:.1f}" y1="{TOP}" y2="{bottom}"'
    line = f'<line {place} stroke="{FLAG}" stroke-dasharray="3 3"/>'
    return line + _text(x - 4, TOP - 6, text, FLAG)


def _text(x: float, y: float, text: str, colour: str, size: int = 12, anchor: str = "start") -> str:
    place = f'x="{x:.1f}" y="{y:.1f}" font-size="{size}" text-anchor="{anchor}"'
    return f'<text {place} fill="{colour}">{escape(text)}</text>'
