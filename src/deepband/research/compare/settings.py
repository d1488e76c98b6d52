"""What is compared: which methods, on which data sets, with how many seeds."""

from __future__ import annotations

import zlib
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any, NamedTuple

from deepband.errors import InputError, UnknownNameError
from deepband.research.compare.instances import INSTANCES
from deepband.research.compare.ledger import ETA, FULL_RUNS
from deepband.research.compare.methods import GUESSES, METHODS, is_installed
from deepband.research.compare.peers import SMAC_PYTHON
from deepband.research.compare.references import SAMPLE
from deepband.research.paper.settings import MOST_SEEDS, digest, read_scenario
from deepband.research.yahpo import FILES

PACKAGES = ("deepband", "onnxruntime", "numpy", "ConfigSpace", "optuna", "scikit-learn")
QUICK = 2
"""So many data sets of a scenario, in a quick comparison."""


class Unit(NamedTuple):
    """A piece of work: all seeds of a method on one data set."""

    scenario: str
    instance: str
    method: str


@dataclass(frozen=True)
class Settings:
    """What was asked for."""

    data: Path
    instances: str = "reporting"
    seeds: int = 5
    methods: tuple[str, ...] = ()
    """None are all that are installed."""
    max_budget: int = 27
    full_runs: int = FULL_RUNS
    quick: bool = False
    smac_python: Path = SMAC_PYTHON

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise InputError(f"seeds is {self.seeds}: give 1 to {MOST_SEEDS:,}.")
        if self.max_budget not in {ETA**top for top in range(max(GUESSES), 6)}:
            raise InputError(f"max_budget is {self.max_budget}: give 9, 27, 81 or 243.")
        if self.full_runs < 1:
            raise InputError(f"full_runs is {self.full_runs}: give 1 or more.")
        for name in self.methods:
            if name not in METHODS:
                raise UnknownNameError("method", name, METHODS)
            if not is_installed(name, self.smac_python):
                raise InputError(
                    f"{name} needs what is not installed: pip install 'deepband[tpe,forest]', and "
                    f"for smac an interpreter that has it, looked for at {self.smac_python}."
                )

    @cached_property
    def played(self) -> tuple[str, ...]:
        """The methods, in the order of the tables."""
        wanted = self.methods or METHODS
        return tuple(
            name for name in METHODS if name in wanted and is_installed(name, self.smac_python)
        )

    @cached_property
    def problems(self) -> list[tuple[str, str]]:
        """Scenarios and data sets."""
        most = QUICK if self.quick else None
        return [
            (scenario, instance)
            for scenario, listed in INSTANCES[self.instances].items()
            for instance in listed[:most]
        ]

    def units(self) -> Iterator[Unit]:
        """All pieces of work: a method on all data sets, then the next one."""
        for method in self.played:
            for scenario, instance in self.problems:
                yield Unit(scenario, instance, method)

    def describe(self) -> dict[str, Any]:
        """Everything that results depend on, as plain data. Methods are not: some may be added
        later to those that are there."""
        scenarios = {name: read_scenario(self.data, name) for name, _ in self.problems}
        return {
            "instances": [f"{scenario} {instance}" for scenario, instance in self.problems],
            "seeds": self.seeds,
            "eta": ETA,
            "max_budget": self.max_budget,
            "full_runs": self.full_runs,
            "sample": SAMPLE,
            "files": {
                name: {file: digest(scenario.folder / file) for file in FILES}
                for name, scenario in scenarios.items()
            },
            "versions": {name: _version(name) for name in PACKAGES},
        }


def seed_of(scenario: str, instance: str, seed: int) -> int:
    """The seed of a run, the same for all methods and another on each data set, so that what is
    found on two data sets does not hang together. Studies that follow each other add 1 to it."""
    return zlib.crc32(f"{scenario} {instance} {seed}".encode()) // 4


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not there"
