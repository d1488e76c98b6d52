"""The paper's study as an experiment: which methods run on which data sets, and what is written.

OUT/results.parquet   the paper's study, one row per run
OUT/beyond.parquet    several deepenings in sequence and wrong first guesses, one row per run
OUT/tables.md         answers and tables
OUT/data_sets.csv     budgets and accuracies of every data set
OUT/figures/          the paper's figures
"""

from __future__ import annotations

import gc
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

from deepband.core.exact_numbers import as_number, check_count, check_eta
from deepband.errors import InputError
from deepband.research.benchmark import Benchmark
from deepband.research.experiment import Experiment
from deepband.research.paper.courses import METHODS, Course, Draws, Row, baseline_name, walk
from deepband.research.paper.figure_files import draw_all
from deepband.research.paper.savings import comparisons, losses
from deepband.research.paper.summaries import by_benchmark, by_data_set, csv
from deepband.research.paper.tables import report
from deepband.research.result_files import Columns, digests, read_columns, write_joined, write_whole
from deepband.research.suites import read_benchmark

PAPER, BEYOND = "paper", "beyond"
FILES = {PAPER: "results.parquet", BEYOND: "beyond.parquet"}
PAPER_COLUMNS = [name for name in Row._fields if name not in ("first_budget", "runs")]
_FIRST_BUDGETS = {"nb301": 32}


class Unit(NamedTuple):
    """All seeds and methods of a study on one data set with one eta."""

    study: str
    scenario: str
    instance: str
    eta: int

    @property
    def courses(self) -> list[Course]:
        of = {PAPER: paper_courses, BEYOND: beyond_courses}
        return of[self.study](self.scenario, self.eta)

    @property
    def every_step(self) -> bool:
        """Whether the results have a row for every step of a course, not only for its end."""
        return self.study == BEYOND


def paper_courses(scenario: str, eta: int) -> list[Course]:
    """R = 16, then 16 eta; for nb301 32, then 32 eta."""
    first = Fraction(_FIRST_BUDGETS.get(scenario, 16))
    return [(first, first * eta)]


def beyond_courses(scenario: str, eta: int) -> list[Course]:
    """Return courses to the paper's last max_budget from every smaller first guess: all steps from
    the smallest, and one jump from each."""
    ((*_, last),) = paper_courses(scenario, eta)
    steps = [last]
    while len(steps) < 2 or steps[0] / eta >= eta:  # below it, a first run has a single rung
        steps.insert(0, steps[0] / eta)
    return [tuple(steps), *((first, last) for first in steps[:-1])]


@dataclass(frozen=True, kw_only=True)
class Replication(Experiment[Unit]):
    """Starting over and the three deepening strategies, on the same configs."""

    seeds: int = 30
    scenarios: tuple[str, ...] = ()
    """Empty for all benchmarks of the data."""
    etas: tuple[int, ...] = (2, 3)
    studies: tuple[str, ...] = (PAPER,)
    brackets: int | None = None
    """None for all of Hyperband; 1 for successive halving, the view of iSHA."""

    row = Row

    def __post_init__(self) -> None:
        super().__post_init__()
        for eta in self.etas:
            check_eta(eta)
        if self.brackets is not None:
            check_count("brackets", self.brackets)
        for name in self.names:
            self.suite.check(name)
            self._check_range(self._benchmark(name))

    @property
    def names(self) -> tuple[str, ...]:
        return self.scenarios or self.suite.names

    def units(self) -> Iterator[Unit]:
        for study in self.studies:
            for name in self.names:
                for instance in self._benchmark(name).instances:
                    for eta in self.etas:
                        yield Unit(study, name, instance, eta)

    def describe(self) -> dict[str, Any]:
        return {
            "scenarios": {name: self._describe(self._benchmark(name)) for name in self.names},
            "etas": list(self.etas),
            "brackets": "all" if self.brackets is None else self.brackets,
            "seeds": self.seeds,
            "repl": "seed % 10 + 1",
            "methods": list(METHODS),
            "objective": "accuracy, as a fraction of 1",
            "versions": self.versions(),
        }

    def part(self, unit: Unit) -> str:
        return f"{unit.study}/{unit.scenario}-{unit.instance}-eta{unit.eta}"

    def rows(self, unit: Unit) -> list[Row]:
        draws = _draws(self.data, unit.scenario)
        with _collector_off():
            courses, seeds = unit.courses, range(self.seeds)
            rows = walk(
                draws, unit.instance, unit.eta, courses, seeds, unit.every_step, self.brackets
            )
            return sorted(rows, key=_order)

    def is_complete(self, unit: Unit, columns: Columns) -> bool:
        ends = sum(len(course) if unit.every_step else 1 for course in unit.courses)
        return len(columns["seed"]) == self.seeds * len(METHODS) * ends

    def present(self, out: Path) -> dict[str, str]:
        units = list(self.units())
        for study in self.studies:
            parts = [self.place(out, unit) for unit in units if unit.study == study]
            write_joined(out / FILES[study], parts, PAPER_COLUMNS if study == PAPER else None)
        results = read_columns(out / FILES[PAPER])
        beyond = read_columns(out / FILES[BEYOND]) if (out / FILES[BEYOND]).exists() else None
        page = report(
            list(comparisons(results)),
            list(by_benchmark(results)),
            list(losses(beyond, self.brackets)) if beyond else [],
            baseline_name(self.brackets),
        )
        lines = "".join(f"{line}\n" for line in csv(by_data_set(results)))
        write_whole(out / "tables.md", self.page(page))
        write_whole(out / "data_sets.csv", lines.encode())
        draw_all(results, out / "figures", self.brackets)
        made = {FILES[PAPER]: f"{len(results['seed']):,} runs"}
        if beyond:
            made[FILES[BEYOND]] = f"{len(beyond['seed']):,} steps of longer courses"
        made |= {"tables.md": "answers and tables", "data_sets.csv": "every data set"}
        return {str(out / name): what for name, what in (made | {"figures": "PDF and PNG"}).items()}

    def _check_range(self, benchmark: Benchmark) -> None:
        """Reject budgets beyond the range of a benchmark. Shares of a data set always fit."""
        fidelity = benchmark.fidelity
        for eta in self.etas:
            ((*_, last),) = paper_courses(benchmark.name, eta)
            if fidelity.whole and last > fidelity.high:
                raise InputError(
                    f"eta is {eta}: the study would need {last} of the {fidelity.name} of "
                    f"{benchmark.name}, which ends at {fidelity.high}. Give a smaller eta, or "
                    "other scenarios."
                )

    def _benchmark(self, name: str) -> Benchmark:
        self.suite.check(name)
        return read_benchmark(self.data, name)

    def _describe(self, benchmark: Benchmark) -> dict[str, Any]:
        fidelity = benchmark.fidelity
        return {
            "instances": len(benchmark.instances),
            "fidelity": [fidelity.name, fidelity.low, fidelity.high],
            "max_budgets": {
                str(eta): [as_number(each) for each in paper_courses(benchmark.name, eta)[0]]
                for eta in self.etas
            },
            "files": digests(benchmark.files),
        }


def _order(row: Row) -> tuple[Any, ...]:
    return row.seed, row.first_budget, row.max_budget, METHODS.index(row.method), row.runs


@cache
def _draws(data: str | Path, scenario: str) -> Draws:
    """One per process: the configs of a seed are the same on all data sets of a benchmark."""
    return Draws(read_benchmark(data, scenario))


@contextmanager
def _collector_off() -> Iterator[None]:
    """Without the garbage collector, which would visit hundreds of thousands of live results
    again and again. A unit leaves no cycles behind."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
