"""The figure of anytime curves: regret against budget spent, with intervals over data sets."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np

from deepband.research.compare.curves import Curves
from deepband.research.compare.extension_rules import RULES
from deepband.research.compare.methods import BASE, GUESSES, PEERS, RIGHT, SMALL

if TYPE_CHECKING:
    from matplotlib.axes import Axes

COLOURS = {
    "uniform": "#000000",
    "tpe": "#0072b2",
    "forest": "#009e73",
    "gp": "#f0c000",
    "prior": "#cc79a7",
    "frugal": "#d55e00",
    "random": "#999999",
    "optuna": "#56b4e9",
    "smac": "#8b4513",
    "auto": "#332288",
    "pasha": "#882255",
}
"""By the first word of a method's name (most from Okabe and Ito)."""
FIRST = 0.05
"""The smallest budget in the figure, in full runs."""
SHOWN = 0.01, 2.0
"""The range of regrets in the figure."""


def panels(methods: Sequence[str]) -> dict[str, list[str]]:
    """Return which methods are drawn together: one row of panels per first guess."""
    rows = {"first guess right": list(RIGHT)}
    for ending in GUESSES.values():
        if ending:
            rows[f"too small by {ending[1:]}"] = [n for n in SMALL if n.endswith(ending)]
    rows[list(rows)[-1]] += RULES  # they start with the smallest guess
    found = {title: [n for n in names if n in methods] for title, names in rows.items()}
    return {title: names for title, names in found.items() if names}


def draw_curves(curves: Curves, place: Path) -> bool:
    """Draw one row per first guess, and one column for all data sets and per group of them. Returns
    whether there was anything to draw."""
    from matplotlib.figure import Figure

    groups = [None, *curves.groups]
    rows = panels(curves.methods)
    if not rows:
        return False
    figure = Figure(figsize=(4.5 * len(groups), 3.6 * len(rows)), layout="constrained")
    grid = figure.subplots(len(rows), len(groups), squeeze=False, sharex=True)
    for line, (title, names) in zip(grid, rows.items(), strict=True):
        for ax, group in zip(line, groups, strict=True):
            base = [BASE] if BASE in curves.methods and BASE not in names else []
            _panel(ax, curves, group, [*base, *names])
            ax.set(title=f"{group or 'all data sets'}, {title}")
        line[0].set_ylabel("regret")
        line[0].legend(fontsize="x-small", loc="lower left")
    for ax in grid[-1]:
        ax.set_xlabel("budget spent, in full runs")
    figure.savefig(place, dpi=110, metadata={"Software": None})
    return True


def _panel(ax: Axes, curves: Curves, group: str | None, names: Sequence[str]) -> None:
    spent = np.geomspace(FIRST, curves.limit, 60)
    for name in names:
        band = curves.band(name, group, spent)
        mean, low, high = (each.clip(*SHOWN) for each in band)
        colour = COLOURS.get(name.partition("-")[0])
        style = ":" if name.endswith("random") or name == BASE else "--" if name in PEERS else "-"
        (line,) = ax.plot(spent, mean, style, color=colour, label=name, linewidth=1.4)
        shade = line.get_color()
        ax.fill_between(spent, low, high, color=shade, alpha=0.06, linewidth=0)
    ax.set(xscale="log", yscale="log", ylim=SHOWN)
    ax.axvline(1, color="#bbbbbb", linewidth=0.8)
