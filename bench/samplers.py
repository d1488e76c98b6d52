"""Samplers: the time to draw a config after 1,000 observations, and what they find on YAHPO Gym's
surrogates beside `uniform`.

    python bench/samplers.py            both, the second if $YAHPO_DATA is a clone of yahpo_data
    python bench/samplers.py 4 10       with four runs' worth of deepening and ten seeds
"""

from __future__ import annotations

import os
import sys
import time
from pathlib import Path

import numpy as np

import deepband
from deepband.benchmarks.yahpo import Problem, Scenario
from deepband.records import Evaluation
from deepband.samplers import GROUP, SAMPLERS, Uniform
from deepband.space import Space

DATA = os.environ.get("YAHPO_DATA", "")
OBSERVATIONS = 1000
GROUPS = 20
SPACE = {
    "lr": (1e-5, 1e-1, "log"),
    "momentum": (0.0, 0.99),
    "decay": (1e-6, 1e-1, "log"),
    "layers": (1, 8),
    "units": (16, 1024, "log"),
    "dropout": (0.0, 0.5),
    "optimizer": ["adam", "sgd", "rmsprop"],
}
PROBLEMS = {
    "lcbench": ("3945", "7593", "34539"),
    "rbv2_xgboost": ("12", "28", "40981"),
}
ETA, RUNGS = 3, 5


def milliseconds(name: str) -> float:
    """A config, at the best of several groups."""
    space = Space(SPACE)
    observations = observed(space)
    sampler = SAMPLERS[name](GROUP)
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


def search(problem: Problem, name: str, seed: int, runs: int) -> float:
    """The best accuracy on the top rung, when a study has run and was deepened by `efficient`."""
    top = float(problem.fidelity.high)
    low = top / ETA ** (RUNGS - 1)
    first = top / ETA ** (runs - 1)
    study = deepband.open_study(
        space=problem.space,
        eta=ETA,
        min_budget=low,
        max_budget=first,
        seed=seed,
        maximize=True,
        sampler=name,
    )
    for run in range(runs):
        if run:
            study.deepen("efficient")
        while not study.done:
            jobs = study.ask_all()
            found = problem.accuracies([job.config for job in jobs], [job.budget for job in jobs])
            study.tell_all(list(zip(jobs, map(float, found), strict=True)))
    best = study.best_at()
    assert best is not None
    return float(best.value or 0.0)


def regrets(names: list[str], seeds: int, runs: int) -> None:
    """Print the mean regret: 0 is the best that anybody found on a data set, 1 the median of
    configs that are drawn by chance."""
    totals: dict[str, list[float]] = {name: [] for name in names}
    for scenario_name, instances in PROBLEMS.items():
        scenario = Scenario(Path(DATA), scenario_name)
        for instance in instances:
            problem = Problem(scenario, instance)
            found = {
                name: np.array([search(problem, name, seed, runs) for seed in range(seeds)])
                for name in names
            }
            drawn = Uniform().draw(Space(problem.space), (), 0, range(500), 1)
            scores = problem.accuracies(drawn, [problem.fidelity.high] * len(drawn))
            best = max(scores.max(), *(each.max() for each in found.values()))
            scale = best - np.median(scores)
            for name in names:
                totals[name] += ((best - found[name]) / scale).tolist()
    for name in names:
        ahead = np.array(totals[name]) - np.array(totals[names[0]])
        better = np.mean(ahead < 0) + 0.5 * np.mean(ahead == 0)
        error = np.std(ahead) / np.sqrt(len(ahead))
        print(
            f"  {name:8}  {np.mean(totals[name]):.4f}   {np.mean(ahead):+.4f} +- {error:.4f}   "
            f"better in {100 * better:.0f} %",
            flush=True,
        )


def main() -> None:
    runs, seeds = (int(each) for each in (sys.argv[1:3] or ("1", "5")))
    print(f"ms a config, {OBSERVATIONS} observations, 7 parameters, groups of {GROUP}")
    for name in SAMPLERS:
        print(f"  {name:8}  {milliseconds(name):.3f}")
    if not DATA:
        print("regret: not measured, no YAHPO Gym data (set YAHPO_DATA)")
        return
    print(f"mean regret on the top rung after {runs} runs, {seeds} seeds; against uniform")
    regrets(list(SAMPLERS), seeds, runs)


if __name__ == "__main__":
    main()
