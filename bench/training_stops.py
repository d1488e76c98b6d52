"""What `optimize(stop_training=)` saves, and what it costs in regret.

    python bench/training_stops.py surrogates uniform 10   with 10 seeds, on reporting data sets
    python bench/training_stops.py surrogates gp 3 tuning  with another sampler, on the other list
    python bench/training_stops.py networks 30             30 studies of real networks

`surrogates` runs whole studies on the data sets of YAHPO Gym whose budgets are epochs: lcbench and,
among the reporting ones, nb301. `networks` trains small networks on the digits of scikit-learn;
training is noisy there. Objectives report their loss after every unit of budget. All studies have
eta 3 and max_budget 27, in one run or deepened from 9, and all arguments are given in both runs.
With uniform sampling, `surrogates` also shows runs that end after some of their brackets.
"""

from __future__ import annotations

import sys
from multiprocessing import Pool
from typing import Any

import numpy as np
from sklearn.datasets import load_digits
from sklearn.metrics import log_loss
from sklearn.model_selection import train_test_split
from sklearn.neural_network import MLPClassifier
from threadpoolctl import threadpool_limits

import deepband
from curve_frontier import SITUATIONS, End, never, show, stopped
from curve_worlds import LARGEST, World, worlds
from deepband.research.statistics import Difference
from deepband.samplers import SamplerName
from savings import (
    BOTH,
    DATA,
    PROCESSES,
    end_of,
    open_sampled,
    problem_of,
    rule_name,
    sampler_named,
)

RULES: tuple[dict[str, float], ...] = (
    {},
    *({"stop_training": risk} for risk in (0.01, 0.02, 0.05, 0.1)),
    *({"skip": BOTH, "stop_training": risk} for risk in (0.01, 0.05)),
    *({"stop": 0.05, "stop_training": risk} for risk in (0.01, 0.05)),
    {"skip": BOTH, "stop": 0.05, "stop_training": 0.01},
    {"skip": BOTH},
    {"stop": 0.05},
)
"""The arguments of each rule that is measured."""


def run_to_end(
    train: Any, space: Any, sampler: SamplerName, seed: int, situation: str, rule: dict[str, float]
) -> deepband.Study:
    """A study with the arguments of a rule, in one run or deepened."""
    study = open_sampled(space, sampler, seed, situation)
    study.optimize(train, progress=False, **rule)  # type: ignore[arg-type] # each is a float
    if study.max_budget < LARGEST:
        study.deepen("preserving")
        study.optimize(train, progress=False, **rule)  # type: ignore[arg-type]
    return study


def surrogates(sampler: SamplerName, seeds: int, chosen: str = "reporting") -> None:
    epochs = (each for each in worlds(DATA, chosen, seeds) if each.group != "rbv2")
    with Pool(PROCESSES) as pool:
        found = pool.starmap(surrogate_ends, [(each, sampler) for each in epochs], chunksize=1)
    for situation in SITUATIONS:
        names = {name for name, _ in found}
        print(f"\n{situation}, {sampler}, {len(names)} {chosen} data sets, {seeds} seeds")
        show([(name, by_situation[situation]) for name, by_situation in found])


def surrogate_ends(world: World, sampler: SamplerName) -> tuple[str, dict[str, dict[str, End]]]:
    """By situation and rule, of a data set with a seed."""
    problem = problem_of(world, DATA)
    high = problem.fidelity.high / LARGEST

    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        steps = range(1, int(budget) + 1)
        losses = 1.0 - problem.accuracies([config] * len(steps), [high * each for each in steps])
        for step, loss in zip(steps, losses.tolist(), strict=True):
            context.report(step, loss)
            if context.should_stop():
                break
        return float(loss)

    def end_with(situation: str, rule: dict[str, float]) -> End:
        given = problem.space, sampler, world.seed, situation, rule
        return end_of(world.regret, run_to_end(train, *given))

    found = {
        situation: {rule_name(rule): end_with(situation, rule) for rule in RULES}
        for situation in SITUATIONS
    }
    if sampler == "uniform":
        for situation, ends in found.items():
            simple = stopped(world, situation, "stop", never)
            ends |= {name: end for name, end in simple.items() if name.startswith("brackets")}
    return world.data_set, found


PIXELS, DIGITS = load_digits(return_X_y=True)
SPLIT = train_test_split(PIXELS / 16.0, DIGITS, test_size=0.4, random_state=0)
TRAINING, VALIDATION = SPLIT[::2], SPLIT[1::2]
NETWORK: dict[str, Any] = {
    "learning_rate_init": (1e-4, 1.0, "log"),
    "alpha": (1e-6, 1.0, "log"),
    "momentum": (0.0, 0.99),
    "batch_size": (16, 256, "log"),
    "width": (4, 128, "log"),
}


def train_network(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
    """The cross-entropy of a network on digits that it was not trained on. Each rung starts from
    scratch with another seed, so that losses on two rungs differ by noise, too."""
    given = dict(config)
    model = MLPClassifier((given.pop("width"),), random_state=context.seed, solver="sgd", **given)
    loss = float("inf")
    for epoch in range(1, int(budget) + 1):
        model.partial_fit(*TRAINING, classes=range(10))
        probabilities = np.nan_to_num(model.predict_proba(VALIDATION[0]), nan=0.1)
        loss = float(log_loss(VALIDATION[1], probabilities, labels=range(10)))
        context.report(epoch, loss)
        if context.should_stop():
            break
    return loss


def networks(studies: int) -> None:
    """Print a row for each situation and rule: what is saved, the best loss, the difference to the
    full run, and in how many studies the best config of the full run was lost."""
    for situation in SITUATIONS:
        with Pool(PROCESSES) as pool:
            rows = pool.starmap(network_ends, [(situation, seed) for seed in range(studies)])
        print(f"\n{situation}, {studies} studies of networks on digits")
        print("| rule | saved | saved, full budgets | best loss | minus full | p | best lost |")
        ends = np.array(rows)
        for rule, own in zip(RULES, ends.swapaxes(0, 1), strict=True):
            full = ends[:, 0]
            saved = 1 - own.mean(axis=0)[:2] / full.mean(axis=0)[:2]
            more = Difference.of(own[:, 2] - full[:, 2])
            lost = int((own[:, 2] > full[:, 2]).sum())
            print(
                f"| {rule_name(rule)} | {100 * saved[0]:.1f} % | {100 * saved[1]:.1f} % "
                f"| {own[:, 2].mean():.4f} | {more} | {more.p:.2g} | {lost} |"
            )


def network_ends(situation: str, seed: int) -> list[End]:
    """By rule, of a study with a seed. In place of the regret: the best loss on the top rung."""
    with threadpool_limits(1):
        found = [
            run_to_end(train_network, NETWORK, "uniform", seed, situation, rule) for rule in RULES
        ]
    return [end_of(lambda loss: loss, study) for study in found]


def main(measure: str = "networks", *given: str) -> None:
    if measure == "networks":
        networks(int(given[0]) if given else 30)
    else:
        name, seeds, *chosen = given
        surrogates(sampler_named(name), int(seeds), *chosen)


if __name__ == "__main__":
    main(*sys.argv[1:])
