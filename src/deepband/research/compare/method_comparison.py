"""The comparison as an experiment: which methods run on which data sets, and what is written.

OUT/references/       the scale of each data set
OUT/results.parquet   one row for each new incumbent of a run, and one for its end
OUT/tables.md         answers and tables
OUT/curves.png        regret against budget spent, or against simulated time
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from deepband.core.exact_numbers import check_count
from deepband.core.schedule import Schedule
from deepband.errors import DeepbandError, InputError, UnknownNameError
from deepband.research.compare.anytime_plot import draw_curves
from deepband.research.compare.curves import MEASURES, Curves
from deepband.research.compare.ledger import ETA, WIDTH, Ledger, Task
from deepband.research.compare.methods import (
    GUESSES,
    METHODS,
    SLOW,
    SLOW_SEEDS,
    is_installed,
    is_quick,
    play,
)
from deepband.research.compare.peer_process import HOSTED, PEERS_PYTHON, SEQUENTIAL
from deepband.research.compare.references import SAMPLE, reference
from deepband.research.compare.regret_tables import report
from deepband.research.experiment import Experiment
from deepband.research.result_files import Columns, digests, read_columns, write_joined, write_whole
from deepband.research.suites import read_benchmark, read_space
from deepband.system.installation import install_command

QUICK = 2
"""Data sets per benchmark in a quick comparison."""
INEXACT = ETA**5
"""The max_budget whose logarithm SMAC, BOHB and DEHB compute as slightly less than 5: they would
leave out the lowest rung."""


class Unit(NamedTuple):
    """All seeds of a method on one data set."""

    scenario: str
    instance: str
    method: str


class Row(NamedTuple):
    """A new incumbent, or the end of a run."""

    scenario: str
    instance: str
    method: str
    seed: int
    spent: float
    """In full runs."""
    budget: float
    """The largest budget so far, on which the incumbent is the best."""
    accuracy: float
    """Of the incumbent with the benchmark's largest budget."""
    trained: float
    """The accuracy of the incumbent as it was trained: with the largest budget so far."""
    time: float
    """The simulated time, in that of a full run by workers that are always busy. With one worker,
    it is `spent`."""


@dataclass(frozen=True, kw_only=True)
class MethodComparison(Experiment[Unit]):
    """Samplers, ways of deepening and other tools, for the same budget."""

    seeds: int = 5
    instances: str = "reporting"
    methods: tuple[str, ...] = ()
    """Empty for all that are installed; on synthetic data, for the quick ones of deepband."""
    max_budget: int = 27
    width: int = WIDTH
    """Every method may spend what a study of this width spends."""
    quick: bool = False
    peers_python: Path = PEERS_PYTHON
    simulated_workers: int = 1
    """With more than one, methods have the same time instead of the same budget."""

    row = Row

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_budget not in {ETA**top for top in range(max(GUESSES), 6)}:
            raise InputError(f"max_budget is {self.max_budget}: give 9, 27, 81 or 243.")
        check_count("width", self.width)
        check_count("simulated_workers", self.simulated_workers)
        self._check_time()
        for name in self.methods:
            if name not in METHODS:
                raise UnknownNameError("method", name, METHODS)
            if problem := self._problem_with(name):
                raise InputError(f"The method {name} {problem}")

    def _check_time(self) -> None:
        """Refuse a time in which a method may not end a single evaluation."""
        spent = float(Schedule.of(ETA, 1, self.max_budget, self.width).cost_resumed)
        if self.simulated_workers * self.max_budget > spent:
            raise InputError(
                f"simulated_workers is {self.simulated_workers}: if they spend what a study of "
                f"width {self.width} spends, their time is shorter than one evaluation at "
                f"max_budget {self.max_budget}. Give at most {spent // self.max_budget:.0f} "
                "workers, or a larger width."
            )

    def _problem_with(self, method: str) -> str:
        """Return why a method cannot be compared with these settings; "" if it can."""
        if self.simulated_workers > 1 and method in SEQUENTIAL:
            return (
                f"is compared on one worker only, but simulated_workers is "
                f"{self.simulated_workers}: leave out {', '.join(SEQUENTIAL)}."
            )
        if self.max_budget == INEXACT and method in HOSTED:
            return (
                f"would start at budget {ETA} instead of 1 with max_budget {INEXACT}, because it "
                f"rounds logarithms of budgets down: leave out {', '.join(HOSTED)}, or give a "
                "smaller max_budget."
            )
        if not is_installed(method, self.peers_python):
            return (
                f"needs a package that is not installed: {install_command('tpe,forest')}, or for "
                f"{', '.join(HOSTED)} a Python interpreter that has them (expected at "
                f"{self.peers_python})."
            )
        return ""

    @cached_property
    def played(self) -> tuple[str, ...]:
        """The methods that take part, in the order of the tables."""
        default = filter(is_quick, METHODS) if self.suite.brief else METHODS
        wanted = self.methods or tuple(default)
        return tuple(name for name in METHODS if name in wanted and not self._problem_with(name))

    @property
    def limit(self) -> float:
        """What a method may spend, in full runs."""
        one, all_runs = (Schedule.of(ETA, 1, self.max_budget, n) for n in (1, self.width))
        return float(all_runs.cost_resumed / one.cost_resumed)

    @cached_property
    def problems(self) -> list[tuple[str, str]]:
        """Names of benchmarks and data sets."""
        most = QUICK if self.quick else None
        return [
            (scenario, instance)
            for scenario, listed in self.suite.instances[self.instances].items()
            for instance in listed[:most]
        ]

    def units(self) -> Iterator[Unit]:
        for method in self.played:
            for scenario, instance in self.problems:
                yield Unit(scenario, instance, method)

    def describe(self) -> dict[str, Any]:
        """Return what the results depend on, except for the methods, since more may be added later,
        and for the versions of tools that run in an environment of their own."""
        names = dict.fromkeys(name for name, _ in self.problems)
        return {
            "instances": [f"{scenario} {instance}" for scenario, instance in self.problems],
            "seeds": self.seeds,
            "eta": ETA,
            "max_budget": self.max_budget,
            "width": self.width,
            "simulated_workers": self.simulated_workers,
            "sample": SAMPLE,
            "files": {name: digests(read_benchmark(self.data, name).files) for name in names},
            "versions": self.versions("optuna", "scikit-learn", "scipy"),
        }

    def part(self, unit: Unit) -> str:
        return f"{unit.method}-{unit.scenario}-{unit.instance}"

    def rows(self, unit: Unit) -> list[Row]:
        return [row for seed in self.seeds_of(unit.method) for row in self._run(unit, seed)]

    def is_complete(self, unit: Unit, columns: Columns) -> bool:
        return set(columns["seed"]) == set(self.seeds_of(unit.method))

    def seeds_of(self, method: str) -> range:
        """Return the seeds of a method, which are fewer if it is slow."""
        return range(min(self.seeds, SLOW_SEEDS) if method in SLOW else self.seeds)

    def present(self, out: Path) -> dict[str, str]:
        """Write tables and the figure for all methods with results on all data sets, including
        those of earlier commands."""
        of = {name: [Unit(*pair, name) for pair in self.problems] for name in METHODS}
        done = {
            name: units
            for name, units in of.items()
            if all(self.is_done(out, unit) for unit in units)
        }
        file, tables, figure = (
            out / each for each in ("results.parquet", "tables.md", "curves.png")
        )
        write_joined(file, [self.place(out, unit) for units in done.values() for unit in units])
        references = {pair: reference(out, self.data, *pair) for pair in self.problems}
        columns = read_columns(file)
        tuned = self.suite.instances["tuning"]
        curves, trained = (
            Curves(columns, references, self.limit, measure, tuned, self.simulated_workers)
            for measure in MEASURES
        )
        write_whole(tables, self.page(report(curves, trained)))
        made = {
            str(file): f"{len(done)} methods on {len(curves.pairs)} data sets",
            str(tables): "answers and tables",
        }
        if draw_curves(curves, figure):
            made[str(figure)] = f"regret against {curves.amount}"
        return made

    def _run(self, unit: Unit, seed: int) -> list[Row]:
        """Run a method once on a data set."""
        problem = read_benchmark(self.data, unit.scenario).problem(unit.instance)
        space = read_space(self.data, unit.scenario)
        task = Task(problem, space, self.max_budget)
        ledger = Ledger(task, self.width, self.simulated_workers)
        play(unit.method, ledger, seed_of(*unit[:2], seed), self.peers_python)
        return rows_of(ledger, unit, seed)


def rows_of(ledger: Ledger, unit: Unit, seed: int) -> list[Row]:
    """Return the incumbents of a run and its end."""
    task, steps = ledger.task, ledger.steps
    if not steps:
        raise DeepbandError(
            f"The method {unit.method} has no result on {unit.scenario} {unit.instance}: no "
            f"evaluation ended within the time of {ledger.workers} simulated workers. Give fewer "
            "workers, or a larger width."
        )
    tops = [float(task.problem.fidelity.high)] * len(steps)
    found = task.problem.accuracies([step.config for step in steps], tops).tolist()
    unit_of_time = task.full_run / ledger.workers
    rows = [
        Row(
            *unit,
            seed,
            step.spent / task.full_run,
            float(step.budget),
            accuracy,
            step.accuracy,
            step.time / unit_of_time,
        )
        for step, accuracy in zip(steps, found, strict=True)
    ]
    ended = rows[-1]._replace(spent=ledger.spent / task.full_run, time=ledger.time / unit_of_time)
    return [*rows, ended]


def seed_of(scenario: str, instance: str, seed: int) -> int:
    """Return the seed of a run: the same for all methods, but another one on each data set, so
    that the results of data sets are independent."""
    return zlib.crc32(f"{scenario} {instance} {seed}".encode()) // 4
