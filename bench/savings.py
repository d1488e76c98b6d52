"""What `optimize(skip=, stop=)` saves, and what it costs in regret and in waiting.

    python bench/savings.py saved 10         on the reporting data sets, with 10 seeds
    python bench/savings.py saved 2 synthetic
    python bench/savings.py sampled forest 2  with another sampler and 2 seeds
    python bench/savings.py waiting          how much longer a run takes with many workers

`saved` lets the decisions of deepband itself run on studies whose losses are all known, as
`learning_curves.py frontier` does with simulated rules. After a deepening, `skip` has decided in
both runs, and `stop` in the second. `waiting` has losses that are random, so that nothing is
skipped or stopped: it shows what it costs that the promotions of a bracket, or all its jobs, wait
until earlier brackets are complete.
"""

from __future__ import annotations

import os
import random
import sys
from collections.abc import Callable, Iterable, Mapping
from multiprocessing import Pool
from operator import attrgetter
from typing import Any, get_args

import deepband
from curve_frontier import SITUATIONS, End, end, never, show, skipped
from curve_worlds import LARGEST, World, worlds
from deepband.core.facts import ConfigsDrawn, JobKey, RunStopped
from deepband.core.state import State
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.research.benchmark import Problem
from deepband.research.suites import suite
from deepband.samplers import SamplerName
from deepband.study.skips import Skips
from deepband.study.stops import Stops

DATA = os.environ.get("YAHPO_DATA") or "../shared/yahpo_data"
SKIPS = 0.01, 0.05
STOPS = 0.1, 0.05
"""From the largest one: a run that was stopped continues with a smaller one."""
BOTH = 0.01
"""The `skip` that is combined with every `stop`."""
PROCESSES = 2
NOTHING = 1e-12
"""A risk below which nothing is skipped or stopped."""
SKIP_NOTHING, STOP_NEVER = {"skip": NOTHING}, {"stop": NOTHING}


def nothing_to_sample(state: State, keys: Iterable[JobKey]) -> Iterable[ConfigsDrawn]:
    raise AssertionError("all configs of a world exist")


def decide(state: State, skips: Skips | None, stops: Stops | None) -> None:
    while found := (skips and skips.due(state)) or (stops and stops.due(state)):
        state.apply(found)


def finish(world: World, state: State, skips: Skips | None, stops: Stops | None = None) -> State:
    """Evaluate the current run until it is done or stopped."""
    decide(state, skips, stops)
    cells = world.run(state)
    while state.run.stopped is None and next(cells, None):
        decide(state, skips, stops)
    return state


def begun(world: World, situation: str, skips: Skips | None) -> State:
    """The study of a world at the start of the run that is measured."""
    state = State()
    if situation == "one run":
        return world.begin(27, state)
    finish(world, world.begin(9, state), skips)
    world.deepen(state)
    return state


def skipping(world: World, situation: str, risk: float) -> End:
    skips = Skips(risk)
    return end(world, finish(world, begun(world, situation, skips), skips))


def stopping(world: World, situation: str, skip: float | None) -> list[End]:
    """The ends with each of STOPS."""
    skips = Skips(skip) if skip else None
    state, found = begun(world, situation, skips), []
    for risk in STOPS:
        stops, stopped = Stops(risk, nothing_to_sample), state.run.stopped
        if stopped is not None and not stops.keeps(stopped):
            state.apply([RunStopped(state.run.number, None)])
        found.append(end(world, finish(world, state, skips, stops)))
    return found


def ends(world: World) -> tuple[str, dict[str, dict[str, End]]]:
    """By situation and rule, of a data set."""
    found: dict[str, dict[str, End]] = {}
    for situation in SITUATIONS:
        rules = {"full": skipped(world, situation, never)}
        rules |= {f"skip={risk}": skipping(world, situation, risk) for risk in SKIPS}
        for skip, name in ((None, ""), (BOTH, f"skip={BOTH}, ")):
            stopped = stopping(world, situation, skip)
            rules |= {f"{name}stop={r}": e for r, e in zip(STOPS, stopped, strict=True)}
        found[situation] = rules
    return world.data_set, found


def saved(seeds: int, data: str) -> None:
    cases = sorted(worlds(data, "reporting", seeds), key=attrgetter("seed"))
    with Pool(PROCESSES) as pool:
        found = list(pool.imap(ends, cases))
    for situation in SITUATIONS:
        print(f"\n{situation}, {len({name for name, _ in found})} data sets, {seeds} seeds")
        show([(name, rules[situation]) for name, rules in found])


def sampled(sampler: SamplerName, seeds: int, data: str) -> None:
    """Print what is saved in studies with a sampler."""
    cases = [(world, sampler, data) for world in worlds(data, "reporting", seeds)]
    with Pool(PROCESSES) as pool:
        found = pool.starmap(sampled_ends, cases, chunksize=1)
    for situation in SITUATIONS:
        names = {name for name, _ in found}
        print(f"\n{situation}, {sampler}, {len(names)} data sets, {seeds} seeds")
        show([(name, by_situation[situation]) for name, by_situation in found])


def sampled_ends(
    world: World, sampler: SamplerName, data: str
) -> tuple[str, dict[str, dict[str, End]]]:
    """By situation and rule, of a data set with a seed."""
    problem = problem_of(world, data)
    high = problem.fidelity.high / LARGEST

    def train(config: dict[str, Any], budget: float) -> float:
        return 1.0 - float(problem.accuracies([config], [high * budget])[0])

    def ends_in(situation: str) -> dict[str, End]:
        """Those of a study that is stopped, continued and completed, without skips and with."""
        found: dict[str, End] = {}
        for skip in (None, BOTH):
            study = open_sampled(problem.space, sampler, world.seed, situation)
            if situation != SITUATIONS[0]:
                study.optimize(train, skip=skip, progress=False)
                study.deepen("preserving")
            for stop in (*STOPS, None):
                study.optimize(train, skip=skip, stop=stop, progress=False)
                given = {"skip": skip, "stop": stop}
                name = rule_name({rule: risk for rule, risk in given.items() if risk})
                found[name] = end_of(world.regret, study)
        return {"full": found.pop("full")} | found

    return world.data_set, {situation: ends_in(situation) for situation in SITUATIONS}


def open_sampled(space: Any, sampler: SamplerName, seed: int, situation: str) -> deepband.Study:
    """A study that reaches the largest budget in one run, or is to be deepened once."""
    first = LARGEST if situation == SITUATIONS[0] else LARGEST // 3
    return deepband.open_study(space=space, sampler=sampler, seed=seed, max_budget=first)


def problem_of(world: World, data: str) -> Problem:
    name, _, instance = world.data_set.partition(" ")
    return suite(data).read(name).problem(instance)


def rule_name(given: Mapping[str, float]) -> str:
    return ", ".join(f"{name}={risk}" for name, risk in given.items()) or "full"


def end_of(regret: Callable[[float], float], study: deepband.Study) -> End:
    """What a study has cost, and the regret of its best config on the top rung."""
    best = study.best_at()
    assert best.loss is not None
    resumed = float(sum(run.cost_resumed for run in study.runs))
    return End(resumed, float(sum(run.cost for run in study.runs)), regret(best.loss))


def waiting() -> None:
    print("| workers | hours | with `skip` | factor | with `stop` | factor |")
    for workers in (1, 2, 4, 16, 64):
        plain, *others = (_hours(workers, **each) for each in ({}, SKIP_NOTHING, STOP_NEVER))
        columns = (f"{hours:.4g} | {hours / plain:.2f}" for hours in others)
        print(f"| {workers} | {plain:.4g} | {' | '.join(columns)} |")


def _hours(workers: int, **risks: Any) -> float:
    """How long a run up to 81 takes if a unit of budget takes an hour."""
    executor = SimulatedExecutor(workers, lambda job: float(job.budget))
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=81)
    study.optimize(_random_loss, executor=executor, **risks)
    assert not study.runs[0].saved
    return executor.clock


def _random_loss(config: Mapping[str, Any], budget: float) -> float:
    return random.Random(f"{config} {budget}").random()


def main(measure: str = "saved", *given: str) -> None:
    if measure == "waiting":
        waiting()
    elif measure == "saved":
        seeds, data = [*given, DATA][:2]
        saved(int(seeds), data)
    else:
        name, seeds, data = [*given, DATA][:3]
        sampled(sampler_named(name), int(seeds), data)


def sampler_named(name: str) -> SamplerName:
    return next(each for each in get_args(SamplerName) if each == name)


if __name__ == "__main__":
    main(*sys.argv[1:])
