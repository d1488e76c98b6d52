"""The comparison as an experiment: which methods run on which data sets, and what is written.

OUT/references/       the scale of each data set
OUT/results.parquet   one row for each new incumbent of a run, and one for its end
OUT/tables.md         answers and tables
OUT/curves.png        regret against budget spent
"""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from deepband.core.schedule import Schedule, check_count
from deepband.errors import InputError, UnknownNameError
from deepband.research.compare.anytime_plot import draw_curves
from deepband.research.compare.curves import MEASURES, Curves
from deepband.research.compare.ledger import ETA, WIDTH, Ledger, Task
from deepband.research.compare.methods import (
    GUESSES,
    METHODS,
    SLOW,
    SLOW_SEEDS,
    is_builtin,
    is_installed,
    play,
)
from deepband.research.compare.peers import HOSTED, PEERS_PYTHON
from deepband.research.compare.references import SAMPLE, reference
from deepband.research.compare.standing_tables import report
from deepband.research.experiment import Experiment
from deepband.research.result_files import Columns, digests, read_columns, write_joined, write_whole
from deepband.research.suites import read_benchmark, read_space
from deepband.system.installation import install_command

QUICK = 2
"""Data sets per benchmark in a quick comparison."""


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


@dataclass(frozen=True, kw_only=True)
class MethodComparison(Experiment[Unit]):
    """Samplers, ways of deepening and other tools, for the same budget."""

    seeds: int = 5
    instances: str = "reporting"
    methods: tuple[str, ...] = ()
    """Empty for all that are installed; on synthetic data, for those of deepband alone."""
    max_budget: int = 27
    width: int = WIDTH
    """Every method may spend what a study of this width spends."""
    quick: bool = False
    peers_python: Path = PEERS_PYTHON

    row = Row

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.max_budget not in {ETA**top for top in range(max(GUESSES), 6)}:
            raise InputError(f"max_budget is {self.max_budget}: give 9, 27, 81 or 243.")
        check_count("width", self.width)
        for name in self.methods:
            if name not in METHODS:
                raise UnknownNameError("method", name, METHODS)
            if not is_installed(name, self.peers_python):
                raise InputError(
                    f"The method {name} needs a package that is not installed: "
                    f"{install_command('tpe,forest')}, or for {', '.join(HOSTED)} a Python "
                    f"interpreter that has them (expected at {self.peers_python})."
                )

    @cached_property
    def played(self) -> tuple[str, ...]:
        """The methods that take part, in the order of the tables."""
        default = filter(is_builtin, METHODS) if self.suite.brief else METHODS
        wanted = self.methods or tuple(default)
        return tuple(
            name for name in METHODS if name in wanted and is_installed(name, self.peers_python)
        )

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
        """Return everything that the results depend on, except for the methods, since more may be
        added later."""
        names = dict.fromkeys(name for name, _ in self.problems)
        return {
            "instances": [f"{scenario} {instance}" for scenario, instance in self.problems],
            "seeds": self.seeds,
            "eta": ETA,
            "max_budget": self.max_budget,
            "width": self.width,
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
            Curves(columns, references, self.limit, measure, tuned) for measure in MEASURES
        )
        write_whole(tables, self.page(report(curves, trained)))
        made = {
            str(file): f"{len(done)} methods on {len(curves.pairs)} data sets",
            str(tables): "answers and tables",
        }
        if draw_curves(curves, figure):
            made[str(figure)] = "regret against budget"
        return made

    def _run(self, unit: Unit, seed: int) -> list[Row]:
        """Run a method once on a data set."""
        problem = read_benchmark(self.data, unit.scenario).problem(unit.instance)
        space = read_space(self.data, unit.scenario)
        ledger = Ledger(Task(problem, space, self.max_budget), self.width)
        play(unit.method, ledger, seed_of(*unit[:2], seed), self.peers_python)
        return rows_of(ledger, unit, seed)


def rows_of(ledger: Ledger, unit: Unit, seed: int) -> list[Row]:
    """Return the incumbents of a run and its end."""
    task, steps = ledger.task, ledger.steps
    tops = [float(task.problem.fidelity.high)] * len(steps)
    found = task.problem.accuracies([step.config for step in steps], tops).tolist()
    rows = [
        Row(*unit, seed, step.spent / task.full_run, float(step.budget), accuracy, step.accuracy)
        for step, accuracy in zip(steps, found, strict=True)
    ]
    return [*rows, rows[-1]._replace(spent=ledger.spent / task.full_run)]


def seed_of(scenario: str, instance: str, seed: int) -> int:
    """Return the seed of a run: the same for all methods, but another one on each data set, so
    that the results of data sets are independent."""
    return zlib.crc32(f"{scenario} {instance} {seed}".encode()) // 4
