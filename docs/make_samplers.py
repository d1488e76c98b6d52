"""Draws where configs fall, for docs/explanation/samplers.md: `python docs/make_samplers.py`."""

from __future__ import annotations

from pathlib import Path
from typing import Any, get_args

import ConfigSpace
import numpy as np
from matplotlib.figure import Figure

import deepband
from deepband.samplers import SamplerName

DOCS = Path(__file__).parent


def branin(config: dict[str, Any], budget: float) -> float:
    """A valley with three minima, tilted at small budgets."""
    x, y = config["x"], config["y"]
    valley = (y - 5.1 * x**2 / (4 * np.pi**2) + 5 * x / np.pi - 6) ** 2
    return float(valley + 10 * (1 - 1 / (8 * np.pi)) * np.cos(x) + 10 + (x + y) / budget)


def study_with(sampler: SamplerName) -> deepband.Study:
    """Return a study run at 9 and deepened to 81. The default config is near one of the minima."""
    space = ConfigSpace.ConfigurationSpace()
    space.add(ConfigSpace.Float("x", (-5, 10), default=2.0))
    space.add(ConfigSpace.Float("y", (0, 15), default=4.0))
    study = deepband.open_study(space=space, max_budget=9, sampler=sampler, seed=1)
    study.optimize(branin)
    study.deepen("preserving", to=81)
    study.optimize(branin)
    return study


def draw(sampler: SamplerName) -> Figure:
    figure = Figure(figsize=(4.6, 3.6), layout="constrained")
    axes = figure.add_subplot()
    wide, high = np.meshgrid(np.linspace(-5, 10, 120), np.linspace(0, 15, 120))
    height = np.vectorize(lambda x, y: branin({"x": x, "y": y}, np.inf))(wide, high)
    axes.contourf(wide, high, np.log1p(height), levels=12, cmap="Greys_r", alpha=0.6)
    first = [each for each in study_with(sampler).evaluations if each.rung == each.bracket]
    points = [(each.config["x"], each.config["y"], each.run) for each in first]
    for run, colour in ((0, "tab:blue"), (1, "tab:orange")):
        xs, ys = ([each[axis] for each in points if each[2] == run] for axis in (0, 1))
        label = "the first run" if run == 0 else "its deepening"
        axes.scatter(xs, ys, s=14, color=colour, edgecolor="white", lw=0.4, label=label)
    axes.set(xlim=(-5, 10), ylim=(0, 15), xlabel="x", ylabel="y", title=f"sampler={sampler!r}")
    axes.legend(loc="upper right", fontsize=8)
    return figure


def main() -> None:
    sampler: SamplerName
    for sampler in get_args(SamplerName):
        draw(sampler).savefig(DOCS / "images" / f"sampler_{sampler}.png", dpi=110)


if __name__ == "__main__":
    main()
