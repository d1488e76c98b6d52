"""The scale of regret on a data set: accuracies of random configs with the largest budget.

Regret 1 is their median. Regret 0 is the known optimum of a synthetic benchmark; otherwise the best
random config, or what a method found if that is better.
"""

from __future__ import annotations

import json
from functools import cache
from pathlib import Path
from typing import NamedTuple

import numpy as np

from deepband.research.benchmark import Rows
from deepband.research.result_files import write_whole
from deepband.research.suites import read_benchmark, read_space
from deepband.samplers.uniform import Uniform

SAMPLE = 20_000
"""The number of random configs, which are the same on all data sets of a benchmark."""
SEED = 2**31
"""The seed of these configs, which no run has."""


class Reference(NamedTuple):
    """The median and the best accuracy of a data set."""

    median: float
    best: float


def reference(out: Path, data: str | Path, scenario: str, instance: str) -> Reference:
    """Return the reference of a data set, from the folder if it was written before."""
    place = out / "references" / f"{scenario}-{instance}.json"
    if not place.exists():
        place.parent.mkdir(parents=True, exist_ok=True)
        made = measured(data, scenario, instance)
        write_whole(place, (json.dumps(made._asdict()) + "\n").encode())
    return Reference(**json.loads(place.read_text()))


def measured(data: str | Path, scenario: str, instance: str) -> Reference:
    """Compute the reference of a data set."""
    benchmark = read_benchmark(data, scenario)
    budgets = np.full(SAMPLE, float(benchmark.fidelity.high))
    found = benchmark.accuracies(_sample(data, scenario), instance, budgets)
    best = benchmark.best_accuracy(instance)
    return Reference(float(np.median(found)), float(found.max()) if best is None else best)


@cache
def _sample(data: str | Path, scenario: str) -> Rows:
    configs = Uniform().draw(read_space(data, scenario), (), 0, range(SAMPLE), SEED)
    return read_benchmark(data, scenario).encode(configs)
