"""Which courses are walked on which data sets: the paper's study, and what goes beyond it."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from importlib.metadata import version
from pathlib import Path
from typing import Any, NamedTuple

from deepband.core.schedule import as_number, check_eta
from deepband.errors import InputError, UnknownNameError
from deepband.research.paper.courses import METHODS, Course
from deepband.research.yahpo import FILES, Scenario
from deepband.research.yahpo_columns import SCENARIOS

PAPER, BEYOND = "paper", "beyond"
MOST_SEEDS = 10_000
_FIRST_BUDGETS = {"nb301": 32}
_PACKAGES = ("deepband", "onnxruntime", "numpy", "ConfigSpace")


class Unit(NamedTuple):
    """A piece of work: all seeds and methods of a study on one data set with one eta."""

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
        """Whether the results hold every step of a course, and not its end alone."""
        return self.study == BEYOND


def paper_courses(scenario: str, eta: int) -> list[Course]:
    """R = 16, then 16 eta; for nb301 32, then 32 eta."""
    first = Fraction(_FIRST_BUDGETS.get(scenario, 16))
    return [(first, first * eta)]


def beyond_courses(scenario: str, eta: int) -> list[Course]:
    """To the paper's last max_budget from every smaller first guess: all steps from the smallest,
    one after another, and one jump from each."""
    ((*_, last),) = paper_courses(scenario, eta)
    steps = [last]
    while len(steps) < 2 or steps[0] / eta >= eta:  # below it, a first run has a single rung
        steps.insert(0, steps[0] / eta)
    return [tuple(steps), *((first, last) for first in steps[:-1])]


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    data: Path
    scenarios: tuple[str, ...] = tuple(SCENARIOS)
    etas: tuple[int, ...] = (2, 3)
    seeds: int = 30
    studies: tuple[str, ...] = (PAPER,)

    def __post_init__(self) -> None:
        for name in self.scenarios:
            if name not in SCENARIOS:
                raise UnknownNameError("scenario", name, SCENARIOS)
        for eta in self.etas:
            check_eta(eta)
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise InputError(f"seeds is {self.seeds}: give 1 to {MOST_SEEDS:,}.")
        for name in self.scenarios:
            self._check_range(name)

    def units(self) -> Iterator[Unit]:
        """All pieces of work, in the order of the results."""
        for study in self.studies:
            for name in self.scenarios:
                for instance in self._scenario(name).instances:
                    for eta in self.etas:
                        yield Unit(study, name, instance, eta)

    def describe(self) -> dict[str, Any]:
        """Everything that the results depend on, as plain data."""
        return {
            "scenarios": {name: self._describe(name) for name in self.scenarios},
            "etas": list(self.etas),
            "seeds": self.seeds,
            "repl": "seed % 10 + 1",
            "methods": list(METHODS),
            "objective": "accuracy, as a fraction of 1",
            "versions": {name: version(name) for name in _PACKAGES},
        }

    def _check_range(self, name: str) -> None:
        """Refuse budgets that a surrogate does not know; shares of a data set always fit."""
        fidelity = self._scenario(name).fidelity
        for eta in self.etas:
            ((*_, last),) = paper_courses(name, eta)
            if fidelity.whole and last > fidelity.high:
                raise InputError(
                    f"eta is {eta}: {name} would be asked for {last} of its {fidelity.name}, which "
                    f"ends at {fidelity.high}. Give a smaller eta, or other scenarios."
                )

    def _scenario(self, name: str) -> Scenario:
        return read_scenario(self.data, name)

    def _describe(self, name: str) -> dict[str, Any]:
        scenario = self._scenario(name)
        fidelity = scenario.fidelity
        return {
            "instances": len(scenario.instances),
            "fidelity": [fidelity.name, fidelity.low, fidelity.high],
            "max_budgets": {
                str(eta): [as_number(each) for each in paper_courses(name, eta)[0]]
                for eta in self.etas
            },
            "files": {file: digest(scenario.folder / file) for file in FILES},
        }


@cache
def read_scenario(data: Path, name: str) -> Scenario:
    """A scenario, read once by each process."""
    return Scenario(data, name)


def digest(path: Path) -> str:
    """What tells the content of a file from any other."""
    return hashlib.blake2b(path.read_bytes(), digest_size=16).hexdigest()
