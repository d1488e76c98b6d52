"""The model of learning curves: how well it predicts, and what skipping and stopping would save.

    python bench/learning_curves.py models            the model against others, on both lists
    python bench/learning_curves.py calibration       coverage of intervals, on reporting data sets
    python bench/learning_curves.py reported          the same with and without reported curves
    python bench/learning_curves.py frontier          what skipping and stopping would save
    python bench/learning_curves.py frontier 3 synthetic  with 3 seeds, on synthetic benchmarks

The surrogates are those of $YAHPO_DATA, a clone of yahpo_data. Without it, benchmarks are
synthetic. Predictions are made in studies with eta 3 and uniform sampling:

first run, promotion      in a run up to 27, when configs are promoted: for these configs
first run, end            after that run: for all configs, on the rungs above their highest
deepened, promotion, end  the same for a run up to 9 that was deepened to 27 (preserving)
new rung                  after the run up to 9: for all configs, on the rung of 27

The results of predictions are known. Errors are in units of regret: 1 is the distance from the best
loss of a data set to the median of random configs with the full budget.
"""

from __future__ import annotations

import os
import sys
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple, TypeAlias

import numpy as np

import curve_frontier
from curve_baselines import BASELINES
from curve_worlds import FULL, World, worlds
from deepband.analysis.learning_curves.curve_model import CurveModel, LossDistribution
from deepband.core.rank_order import Place
from deepband.core.state import State
from deepband.research.suites import SYNTHETIC

DATA = os.environ.get("YAHPO_DATA") or "../shared/yahpo_data"
SHARES = 0.5, 0.8, 0.95
Predictor: TypeAlias = Callable[[State, Sequence[tuple[Place, int]]], list[LossDistribution]]


class Score(NamedTuple):
    """How good one prediction was."""

    group: str
    situation: str
    ahead: int
    """How many rungs above the highest one that the config was evaluated on."""
    below: float
    """The predicted probability of a loss below the actual one."""
    density: float
    """The logarithm of the predicted density of the actual loss, in units of regret."""
    error: float
    """The distance of the median to the actual loss, in units of regret."""


def ours(state: State, jobs: Sequence[tuple[Place, int]]) -> list[LossDistribution]:
    return CurveModel(state).distributions(jobs)


PREDICTORS: dict[str, Predictor] = {"ours": ours, **BASELINES}


def moments(world: World) -> Iterator[tuple[str, State, list[tuple[Place, int]]]]:
    """The situations in which predictions are made: the state, and the jobs to be predicted."""
    state = world.begin(27, State())
    yield from _run(world, state, "first run")
    state = world.finish(world.begin(9, State()))
    yield "new rung", state, [job for job in _above(state, FULL.top) if job[1] == FULL.top]
    world.deepen(state)
    yield from _run(world, state, "deepened")


def _run(
    world: World, state: State, name: str
) -> Iterator[tuple[str, State, list[tuple[Place, int]]]]:
    for bracket, _ in world.run(state):
        progress = state.progress[bracket]
        rungs = range(progress.rung, FULL.top + 1)
        jobs = [((bracket, index), rung) for index in progress.waiting for rung in rungs]
        if jobs:
            yield f"{name}, promotion", state, jobs
    yield f"{name}, end", state, list(_above(state, FULL.top))


def _above(state: State, top: int) -> Iterator[tuple[Place, int]]:
    """All evaluated configs on the rungs above their highest one."""
    highest: dict[Place, int] = defaultdict(int)
    for each in state.all_results():
        place = each.bracket, each.index
        highest[place] = max(highest[place], each.rung)
    return (
        (place, rung) for place in sorted(highest) for rung in range(highest[place] + 1, top + 1)
    )


def scores(world: World, predictor: Predictor) -> Iterator[Score]:
    for situation, state, jobs in moments(world):
        for (place, rung), found in zip(jobs, predictor(state, jobs), strict=True):
            loss = world.losses[(*place, rung)]
            known = [r for r in range(rung) if state.result(*place, r) is not None]
            error = abs(found.quantile(0.5) - loss) / world.unit
            density = _density(found, loss, world.unit)
            ahead = rung - max(known)
            yield Score(world.group, situation, ahead, found.below(loss), density, error)


def _density(found: LossDistribution, loss: float, unit: float) -> float:
    """At least -10: a single surprise must not decide between models."""
    width = 1e-4 * unit
    between = found.below(loss + width) - found.below(loss - width)
    return float(np.log(max(between * unit / (2 * width), np.exp(-10.0))))


def show(found: Iterable[Score], key: Callable[[Score], tuple[object, ...]]) -> None:
    """Print a row for each key: the number of predictions, coverages, median error."""
    rows = defaultdict(list)
    for score in found:
        rows[key(score)].append(score)
    for name, of in sorted(rows.items(), key=str):
        below = np.array([score.below for score in of])
        inside = [np.mean(np.abs(below - 0.5) < share / 2) for share in SHARES]
        shares = " | ".join(f"{100 * each:.0f}" for each in inside)
        error = np.median([score.error for score in of])
        text = " | ".join(map(str, name))
        print(f"| {text} | {len(of):,} | {shares} | {error:.3f} |")


def models(data: str, seeds: int) -> None:
    for chosen in ("tuning", "reporting"):
        cases = list(worlds(data, chosen, seeds))
        for name, predictor in PREDICTORS.items():
            found = [score for world in cases for score in scores(world, predictor)]
            summarize(f"{name}, {chosen} data sets", found)


def summarize(name: str, found: Sequence[Score]) -> None:
    """Print the log score and the median error, averaged over situations and rungs ahead, and the
    coverage in each situation."""
    rows = defaultdict(list)
    for score in found:
        rows[score.situation, score.ahead].append(score)
    density = np.mean([np.mean([each.density for each in of]) for of in rows.values()])
    error = np.mean([np.median([each.error for each in of]) for of in rows.values()])
    print(f"\n{name}: log score {density:.3f}, median error {error:.3f}", flush=True)
    print("| situation | predictions | 50 % | 80 % | 95 % | median error |")
    show(found, lambda score: (score.situation,))


def reported(data: str, seeds: int) -> None:
    """On benchmarks whose budget is a number of epochs."""
    epochs = [
        each for each in worlds(data, "reporting", seeds) if not each.group.startswith("rbv2")
    ]
    for name, reports in (("without curves", False), ("with curves", True)):
        cases = [replace(world, reports=reports) for world in epochs]
        summarize(name, [score for world in cases for score in scores(world, ours)])


def calibration(data: str, seeds: int) -> None:
    found = [score for world in worlds(data, "reporting", seeds) for score in scores(world, ours)]
    print("| situation | rungs ahead | predictions | 50 % | 80 % | 95 % | median error |")
    show(found, lambda score: (score.situation, score.ahead))
    print("\n| benchmark | situation | predictions | 50 % | 80 % | 95 % | median error |")
    show(found, lambda score: (score.group, score.situation))


COMMANDS: dict[str, tuple[Callable[[str, int], None], int]] = {
    "models": (models, 1),
    "calibration": (calibration, 5),
    "reported": (reported, 5),
    "frontier": (curve_frontier.main, 10),
}
"""By name: what is measured, and with how many seeds."""


def main() -> None:
    name, *given = [*sys.argv[1:], *["calibration"][len(sys.argv) - 1 :]]
    measure, seeds = COMMANDS[name]
    data = given[1] if len(given) > 1 else DATA if Path(DATA).is_dir() else SYNTHETIC
    print(f"{name} on {'synthetic benchmarks' if data == SYNTHETIC else 'surrogates'}")
    measure(data, int(given[0]) if given else seeds)


if __name__ == "__main__":
    main()
