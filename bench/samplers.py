"""Samplers: the time to draw a config after 1,000 observations. What they find is measured by
`deepband compare`."""

from __future__ import annotations

import time

import numpy as np

from deepband.core.records import Evaluation
from deepband.samplers import SAMPLERS, Uniform
from deepband.space.search_space import Space

OBSERVATIONS = 1000
GROUPS = 20
GROUP = 8
"""How many configs are drawn together."""
SPACE = {
    "lr": (1e-5, 1e-1, "log"),
    "momentum": (0.0, 0.99),
    "decay": (1e-6, 1e-1, "log"),
    "layers": (1, 8),
    "units": (16, 1024, "log"),
    "dropout": (0.0, 0.5),
    "optimizer": ["adam", "sgd", "rmsprop"],
}


def milliseconds(name: str) -> float:
    """A config, at the best of several groups."""
    space = Space(SPACE)
    observations = observed(space)
    sampler = SAMPLERS[name](64)
    sampler.draw(space, observations, 1, range(GROUP), 0)  # loads what it needs
    times = []
    for group in range(GROUPS):
        start = time.perf_counter()
        sampler.draw(space, observations, 1, range(group * GROUP, (group + 1) * GROUP), 0)
        times.append(time.perf_counter() - start)
    return 1000 * min(times) / GROUP


def observed(space: Space) -> list[Evaluation]:
    """Evaluations as a study has them: fewer on the higher rungs."""
    configs = Uniform().draw(space, (), 0, range(OBSERVATIONS), 0)
    loss = np.random.default_rng(0).normal(size=OBSERVATIONS)
    made = []
    for index, config in enumerate(configs):
        for rung in range(1 + (index % 3 == 0) + (index % 9 == 0)):
            value = float(loss[index])
            place = (0, index, rung, 3**rung, config)
            made.append(Evaluation(*place, value, value, 0, None, {}, None, None, ()))
    return made[:OBSERVATIONS]


def main() -> None:
    print(f"ms a config, {OBSERVATIONS} observations, 7 parameters, groups of {GROUP}")
    for name in SAMPLERS:
        print(f"  {name:8}  {milliseconds(name):.3f}")


if __name__ == "__main__":
    main()
