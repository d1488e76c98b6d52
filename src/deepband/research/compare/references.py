"""The scale of a data set: what configs by chance reach with the largest budget.

Regret 1 is their median, and regret 0 the best of them, or what a method found if that is better.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deepband.research.paper.results import write_whole
from deepband.research.paper.settings import read_scenario
from deepband.research.yahpo import Rows
from deepband.samplers.uniform import Uniform
from deepband.space.search_space import Space

SAMPLE = 20_000
"""Configs drawn by chance, the same on all data sets of a scenario."""
SEED = 2**31
"""Which no run has."""


class Reference(NamedTuple):
    """The median and the best of many configs by chance."""

    median: float
    best: float


def reference(out: Path, data: Path, scenario: str, instance: str) -> Reference:
    """That of a data set, from the folder if it was made before."""
    place = out / "references" / f"{scenario}-{instance}.json"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        made = measured(data, scenario, instance)
        write_whole(place, (json.dumps(made._asdict()) + "\n").encode())
    return Reference(**json.loads(place.read_text()))


def measured(data: Path, scenario: str, instance: str) -> Reference:
    """Asked of the surrogate."""
    read = read_scenario(data, scenario)
    budgets = np.full(SAMPLE, float(read.fidelity.high))
    found = read.accuracies(_sample(data, scenario), instance, budgets)
    return Reference(float(np.median(found)), float(found.max()))


@cache
def _sample(data: Path, scenario: str) -> Rows:
    read = read_scenario(data, scenario)
    return read.encode(Uniform().draw(Space(read.space), (), 0, range(SAMPLE), SEED))
