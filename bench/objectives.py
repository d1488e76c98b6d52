"""Two objectives, the error and the logarithm of the training time, on YAHPO Gym's surrogates:
the hypervolume that our samplers find beside random search, Optuna and SMAC at the same cost.

    python bench/objectives.py                       if $YAHPO_DATA is a clone of yahpo_data
    python bench/objectives.py --tuning --seeds 2    on the data sets for choosing parameters
    python bench/objectives.py --methods gp,random   some methods only

SMAC needs an environment of its own (`make .venv-peers/made`) and is left out where there is none.

Costs are counted as in `deepband compare`: eta 3, budgets 1 to 27, continued training, 1,446 units
or 4.05 full runs for each method. A front consists of configs that were evaluated at max_budget.
Its hypervolume is divided by that of the best known front of the data set: of 20,000 random configs
and of all runs. The reference point is fixed: in each objective, the worst value on the front of
the random configs, plus a tenth of the range of that front.

Each run is kept in a file of the folder --out; a second call runs what is missing.
"""

from __future__ import annotations

import argparse
import json
import os
from collections.abc import Callable, Iterator, Sequence
from contextlib import suppress
from functools import cache
from itertools import count
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple, Protocol

import moocore
import numpy as np
import optuna

import deepband
from deepband.core.facts import Config
from deepband.research.benchmark import Rows
from deepband.research.compare.ledger import ETA, Evaluation, Ledger, SpentError, Task
from deepband.research.compare.method_comparison import seed_of
from deepband.research.compare.peer_process import (
    PEERS_PYTHON,
    HostedTuner,
    installed_tuners,
    started,
    task_of,
)
from deepband.research.compare.peers import suggested
from deepband.research.compare.references import SAMPLE, SEED
from deepband.research.markdown_tables import markdown
from deepband.research.result_files import write_whole
from deepband.research.statistics import Band, Difference, Floats, holm
from deepband.research.yahpo import Scenario
from deepband.research.yahpo_instances import INSTANCES
from deepband.samplers.uniform import Uniform
from deepband.space.search_space import Space
from deepband.study.study import Study

DATA = Path(os.environ.get("YAHPO_DATA") or "../shared/yahpo_data")
MAX_BUDGET = 27
SCENARIOS = {
    "lcbench": "time",
    "rbv2_xgboost": "timetrain",
    "rbv2_ranger": "timetrain",
}
"""By scenario: the output that is the second objective. rbv2_svm is left out, because its best
configs are also fast, and the memory of rbv2_xgboost, because its surrogate predicts 0 for many
configs."""
NAMES = ("error", "log_time")
AMOUNTS = (1.0, 4.0)
"""In full runs."""
MARGIN = 0.1
LEVEL = 0.05
Losses = tuple[float, ...]


class Objectives:
    """The two losses of configs of a data set."""

    def __init__(self, scenario: str, instance: str) -> None:
        self.benchmark, self.time = _scenario(scenario), SCENARIOS[scenario]
        self.problem = self.benchmark.problem(instance)

    def losses(self, configs: Sequence[Config], fidelities: Sequence[float]) -> Floats:
        return self.losses_of(self.benchmark.encode(configs), fidelities)

    def losses_of(self, rows: Rows, fidelities: Sequence[float]) -> Floats:
        outputs = self.benchmark.outputs(rows, self.problem.instance, fidelities)
        accuracy = self.benchmark.accuracy_of(outputs)
        return np.column_stack([1.0 - accuracy, np.log10(np.maximum(outputs[self.time], 1e-3))])

    @property
    def task(self) -> Task:
        return Task(self.problem, _space(self.benchmark.name), MAX_BUDGET)


@cache
def _scenario(name: str) -> Scenario:
    return Scenario(DATA, name)


@cache
def _space(name: str) -> Space:
    return Space(_scenario(name).space)


@cache
def _sample(name: str) -> Rows:
    """Random configs, the same on all data sets of a scenario."""
    return _scenario(name).encode(Uniform().draw(_space(name), (), 0, range(SAMPLE), SEED))


class Tuner(Protocol):
    """Proposes evaluations, one after another, and learns from their losses."""

    def ask(self) -> Evaluation | None: ...

    def tell(self, evaluation: Evaluation, losses: Losses) -> None: ...


class Row(NamedTuple):
    """A config that was not dominated when it was evaluated at max_budget."""

    spent: float
    """In full runs."""
    error: float
    log_time: float


class Course:
    """One run of a method on a data set: what it spends, and its front."""

    def __init__(self, objectives: Objectives) -> None:
        self.objectives, self.ledger = objectives, Ledger(objectives.task)
        self.rows: list[Row] = []

    def follow(self, tuner: Tuner) -> None:
        """Evaluate what a tuner asks for, until it ends or everything is spent."""
        while (evaluation := tuner.ask()) is not None:
            self.ledger.start(evaluation)
            self.ledger.charge()
            task, budget = self.ledger.task, evaluation.budget
            (found,) = self.objectives.losses([evaluation.config], [task.fidelity(budget)])
            losses = tuple(map(float, found))
            if budget == MAX_BUDGET and not any(_dominates(row[1:], losses) for row in self.rows):
                self.rows.append(Row(self.ledger.spent / task.full_run, *losses))
            tuner.tell(evaluation, losses)


def _dominates(one: Losses, other: Losses) -> bool:
    return all(a <= b for a, b in zip(one, other, strict=True))


Method = Callable[[Course, int], None]


def own(sampler: Any) -> Method:
    """A study with this sampler, widened until everything is spent."""

    def run(course: Course, seed: int) -> None:
        task = course.ledger.task
        study = deepband.open_study(
            space=task.space,
            eta=ETA,
            min_budget=1,
            max_budget=MAX_BUDGET,
            seed=seed,
            objectives=dict.fromkeys(NAMES, "minimize"),
            integer_budgets=False,
            sampler=sampler,
        )
        course.follow(StudyTuner(study))
        while study.width < course.ledger.width:
            study.widen()
            course.follow(StudyTuner(study))

    return run


class StudyTuner:
    """The jobs of a study's current run."""

    def __init__(self, study: Study) -> None:
        self.study = study

    def ask(self) -> Evaluation | None:
        job = self.study.ask()
        if job is None:
            return None
        return Evaluation((job.bracket, job.index), job.config, job.budget, job)

    def tell(self, evaluation: Evaluation, losses: Losses) -> None:
        self.study.tell(evaluation.handle, dict(zip(NAMES, losses, strict=True)))


class RandomTuner:
    """Random configs at max_budget."""

    def __init__(self, task: Task, seed: int) -> None:
        self.task, self.seed, self.indices = task, seed, count()

    def ask(self) -> Evaluation:
        index = next(self.indices)
        (config,) = Uniform().draw(self.task.space, (), 0, [index], self.seed)
        return Evaluation(index, config, MAX_BUDGET)

    def tell(self, evaluation: Evaluation, losses: Losses) -> None:
        """It does not learn."""


class OptunaTuner:
    """A sampler of Optuna at max_budget: it has no pruning with several objectives."""

    def __init__(self, task: Task, sampler: optuna.samplers.BaseSampler) -> None:
        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self.space = task.space
        self.study = optuna.create_study(sampler=sampler, directions=["minimize"] * len(NAMES))

    def ask(self) -> Evaluation:
        trial = self.study.ask()
        return Evaluation(trial.number, suggested(trial, self.space), MAX_BUDGET, trial)

    def tell(self, evaluation: Evaluation, losses: Losses) -> None:
        self.study.tell(evaluation.handle, losses)


def random_search(course: Course, seed: int) -> None:
    course.follow(RandomTuner(course.ledger.task, seed))


def optuna_nsga2(course: Course, seed: int) -> None:
    sampler = optuna.samplers.NSGAIISampler(seed=seed)
    course.follow(OptunaTuner(course.ledger.task, sampler))


def optuna_tpe(course: Course, seed: int) -> None:
    course.follow(OptunaTuner(course.ledger.task, optuna.samplers.TPESampler(seed=seed)))


class ParegoTuner:
    """SMAC's multi-fidelity facade with ParEGO, in the process of another environment."""

    def __init__(self, hosted: HostedTuner) -> None:
        self.hosted = hosted

    def ask(self) -> Evaluation | None:
        return self.hosted.ask()

    def tell(self, evaluation: Evaluation, losses: Losses) -> None:
        self.hosted.send_loss(evaluation, losses)


def smac_parego(course: Course, seed: int) -> None:
    task = {**task_of("smac", course.ledger, seed), "objectives": NAMES}
    with started(PEERS_PYTHON.absolute(), task) as hosted:
        course.follow(ParegoTuner(hosted))


OURS = ("uniform", "forest", "tpe", "gp")
PEERS: dict[str, Method] = {
    "random": random_search,
    "optuna-nsga2": optuna_nsga2,
    "optuna-tpe": optuna_tpe,
    "smac-parego": smac_parego,
}
METHODS: dict[str, Method] = {**{name: own(name) for name in OURS}, **PEERS}


class Unit(NamedTuple):
    """One run."""

    method: str
    scenario: str
    instance: str
    seed: int

    @property
    def file(self) -> str:
        return "-".join(map(str, self)) + ".json"


def run(unit: Unit, out: Path) -> None:
    """Do the work of a unit and write its rows."""
    began = _cpu_seconds()
    course = Course(Objectives(unit.scenario, unit.instance))
    with suppress(SpentError):
        METHODS[unit.method](course, seed_of(*unit[1:]))
    written = {"seconds": _cpu_seconds() - began, "rows": course.rows}
    write_whole(out / unit.file, json.dumps(written).encode())


def _cpu_seconds() -> float:
    """Of this process and of those that it has started and that have ended."""
    return sum(os.times()[:4])


class DataSet:
    """The scale of a data set: the reference point and the best known front."""

    def __init__(self, scenario: str, instance: str) -> None:
        objectives = Objectives(scenario, instance)
        high = float(objectives.problem.fidelity.high)
        sampled = objectives.losses_of(_sample(scenario), [high] * SAMPLE)
        self.front = sampled[moocore.is_nondominated(sampled)]
        low, worst = self.front.min(axis=0), self.front.max(axis=0)
        self.reference = worst + MARGIN * (worst - low)
        self.best = self.volume(self.front)

    def volume(self, losses: Floats) -> float:
        return float(moocore.hypervolume(losses, ref=self.reference)) if len(losses) else 0.0


class Results:
    """The hypervolumes of all methods whose runs are complete."""

    def __init__(self, units: Sequence[Unit], out: Path) -> None:
        read = {unit: json.loads((out / unit.file).read_text()) for unit in units}
        self.rows = {unit: np.array(each["rows"]).reshape(-1, 3) for unit, each in read.items()}
        self.seconds = {unit: float(each["seconds"]) for unit, each in read.items()}
        self.methods = list(dict.fromkeys(unit.method for unit in units))
        self.pairs = list(dict.fromkeys((unit.scenario, unit.instance) for unit in units))
        self.scales = {pair: self._scale(pair) for pair in self.pairs}

    def _scale(self, pair: tuple[str, str]) -> DataSet:
        """The scale of a data set, with the fronts of all runs."""
        scale = DataSet(*pair)
        found = [rows[:, 1:] for unit, rows in self.rows.items() if unit[1:3] == pair]
        scale.best = scale.volume(np.concatenate([scale.front, *found]))
        return scale

    def seeds(self, *methods: str) -> set[int]:
        """The seeds that all of these methods have."""
        return set.intersection(
            *({unit.seed for unit in self.rows if unit.method == name} for name in methods)
        )

    def shares(self, method: str, runs: float, seeds: set[int]) -> Floats:
        """Of each data set: the share of the best known hypervolume, on average over seeds."""
        return np.array(
            [
                np.mean([self._share(Unit(method, *pair, seed), runs) for seed in sorted(seeds)])
                for pair in self.pairs
            ]
        )

    def _share(self, unit: Unit, runs: float) -> float:
        rows, scale = self.rows[unit], self.scales[unit[1:3]]
        return scale.volume(rows[rows[:, 0] <= runs * (1 + 1e-9), 1:]) / scale.best

    def best(self) -> str:
        """The best of our samplers after the last amount."""
        ours = [name for name in OURS if name in self.methods]
        return max(ours, key=lambda n: self.shares(n, AMOUNTS[-1], self.seeds(n)).mean())


def table(results: Results, best: str) -> str:
    """Shares by method, and the differences of the best of our samplers from all others."""
    others = [name for name in results.methods if name != best]
    duels = {runs: _duels(results, best, others, runs) for runs in AMOUNTS}
    header = ["method", "seeds", *(f"after {runs:g}" for runs in AMOUNTS)]
    header += [*(f"{best} minus it after {runs:g}" for runs in AMOUNTS), "CPU s"]
    rows = []
    for name in results.methods:
        seeds = results.seeds(name)
        shares = [_band(results.shares(name, runs, seeds)) for runs in AMOUNTS]
        tested = [duels[runs].get(name, "") for runs in AMOUNTS]
        spent = np.mean([s for unit, s in results.seconds.items() if unit.method == name])
        rows.append([name, str(len(seeds)), *shares, *tested, f"{spent:.1f}"])
    return markdown(", ".join(header), rows)


def _band(shares: Floats) -> str:
    mean, low, high = (float(each[0]) for each in Band.of(shares[:, None]))
    return f"{mean:.3f} ({low:.3f} to {high:.3f})"


def _duels(results: Results, best: str, others: Sequence[str], runs: float) -> dict[str, str]:
    found = []
    for name in others:
        seeds = results.seeds(best, name)
        pair = (results.shares(each, runs, seeds) for each in (best, name))
        found.append(Difference.of(np.subtract(*pair)))
    corrected = holm([each.p for each in found])
    return {
        name: f"{each.mean:+.3f}; p {p:.2g}" + ("" if p < LEVEL else " (open)")
        for name, each, p in zip(others, found, corrected, strict=True)
    }


def by_scenario(results: Results) -> str:
    """Shares by scenario after the last amount."""
    names = list(dict.fromkeys(scenario for scenario, _ in results.pairs))
    rows = []
    for method in results.methods:
        shares = results.shares(method, AMOUNTS[-1], results.seeds(method))
        of = np.array([scenario for scenario, _ in results.pairs])
        rows.append([method, *(f"{shares[of == name].mean():.3f}" for name in names)])
    return markdown(", ".join(["method", *names]), rows)


def units(methods: Sequence[str], instances: str, seeds: int, most: int | None) -> Iterator[Unit]:
    """All runs: first one data set of each scenario, so that a part of them is balanced."""
    listed = {name: INSTANCES[instances].get(name, ())[:most] for name in SCENARIOS}
    pairs = [(place, name, each) for name in listed for place, each in enumerate(listed[name])]
    for seed in range(seeds):
        for method in methods:
            for _, scenario, instance in sorted(pairs, key=itemgetter(0)):
                yield Unit(method, scenario, instance, seed)


def missing(wanted: Sequence[Unit], out: Path) -> list[Unit]:
    """The runs that have no file yet, without those of methods that are not installed."""
    is_smac_here = "smac" in installed_tuners(PEERS_PYTHON.absolute())
    left = [each for each in wanted if not (out / each.file).exists()]
    return [each for each in left if each.method != "smac-parego" or is_smac_here]


def complete(wanted: Sequence[Unit], out: Path) -> list[Unit]:
    """The runs of those methods and seeds that have them on all data sets."""
    lacking = {(each.method, each.seed) for each in wanted if not (out / each.file).exists()}
    return [each for each in wanted if (each.method, each.seed) not in lacking]


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tuning", action="store_true")
    parser.add_argument("--seeds", type=int, default=5)
    parser.add_argument("--methods", default=",".join(METHODS))
    parser.add_argument("--most", type=int, help="data sets of each scenario")
    parser.add_argument("--only-tables", action="store_true", help="run nothing")
    parser.add_argument("--out", type=Path, default=Path("build/objectives"))
    parser.add_argument("--best", help="the sampler that is tested against all others")
    given = parser.parse_args()
    if not DATA.is_dir():
        print(f"objectives: not measured, no surrogates at {DATA} (set YAHPO_DATA)")
        return
    given.out.mkdir(parents=True, exist_ok=True)
    names = given.methods.split(",")
    wanted = list(units(names, "tuning" if given.tuning else "reporting", given.seeds, given.most))
    left = [] if given.only_tables else missing(wanted, given.out)
    for number, unit in enumerate(left):
        run(unit, given.out)
        print(f"\r{number + 1} of {len(left)}", end="", flush=True)
    results = Results(complete(wanted, given.out), given.out)
    best = given.best or results.best()
    print(f"\n{len(results.pairs)} data sets, share of the best known hypervolume\n")
    print(table(results, best), by_scenario(results), sep="\n\n")


if __name__ == "__main__":
    main()
