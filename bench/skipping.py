"""What `optimize(skip=)` saves, and what it costs in regret and in waiting.

    python bench/skipping.py saved 10         on the reporting data sets, with 10 seeds
    python bench/skipping.py saved 2 synthetic
    python bench/skipping.py waiting          how much longer a run takes with many workers

`saved` lets the decisions of deepband itself run on studies whose losses are all known, as
`learning_curves.py frontier` does with simulated rules. `waiting` has losses that are random, so
that nothing is skipped: it shows what it costs that the promotions of a bracket wait until earlier
brackets are complete.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Mapping
from operator import attrgetter
from typing import Any

import deepband
from curve_frontier import SITUATIONS, End, end, never, show, skipped
from curve_worlds import World, worlds
from deepband.core.state import State
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.study.skips import Skips

DATA = os.environ.get("YAHPO_DATA") or "../shared/yahpo_data"
RISKS = 0.01, 0.05
NOTHING = 1e-12
"""A risk below which no promotion is."""


def decide(state: State, skips: Skips) -> None:
    while found := skips.due(state):
        state.apply(found)


def finish(world: World, state: State, skips: Skips) -> State:
    decide(state, skips)
    for _ in world.run(state):
        decide(state, skips)
    return state


def ended(world: World, situation: str, risk: float) -> End:
    state, skips = State(), Skips(risk)
    if situation == "one run":
        return end(world, finish(world, world.begin(27, state), skips))
    finish(world, world.begin(9, state), skips)
    world.deepen(state)
    return end(world, finish(world, state, skips))


def saved(seeds: int, data: str) -> None:
    cases = sorted(worlds(data, "reporting", seeds), key=attrgetter("seed"))
    found: dict[str, list[tuple[str, dict[str, End]]]] = {name: [] for name in SITUATIONS}
    for world in cases:
        for situation, rows in found.items():
            ends = {"full": skipped(world, situation, never)}
            ends |= {f"optimize(skip={risk})": ended(world, situation, risk) for risk in RISKS}
            rows.append((world.data_set, ends))
    for situation, rows in found.items():
        print(f"\n{situation}, {len({name for name, _ in rows})} data sets, {seeds} seeds")
        show(rows)


def waiting() -> None:
    print("| workers | hours without `skip` | with it | factor |")
    for workers in (1, 4, 16, 64):
        hours = [_hours(workers, risk) for risk in (None, NOTHING)]
        print(f"| {workers} | {hours[0]:.4g} | {hours[1]:.4g} | {hours[1] / hours[0]:.2f} |")


def _hours(workers: int, risk: float | None) -> float:
    """How long a run up to 81 takes if a unit of budget takes an hour."""
    executor = SimulatedExecutor(workers, lambda job: float(job.budget))
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=81)
    study.optimize(_random_loss, executor=executor, skip=risk)
    assert not study.runs[0].skipped
    return executor.clock


def _random_loss(config: Mapping[str, Any], budget: float) -> float:
    return random.Random(f"{config} {budget}").random()


if __name__ == "__main__":
    if sys.argv[1:2] == ["waiting"]:
        waiting()
    else:
        saved(int(sys.argv[2]), sys.argv[3] if sys.argv[3:] else DATA)
