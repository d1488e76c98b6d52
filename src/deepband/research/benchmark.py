"""The interface of a benchmark: accuracies of configs, by budget and data set.

`yahpo.Scenario` reads surrogates that were fitted to real training runs; `synthetic.Family`
computes learning curves by formula. The paper's study and the comparison run on either.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from deepband.core.facts import Config
from deepband.errors import InputError, UnknownNameError

if TYPE_CHECKING:
    import numpy as np
    from ConfigSpace import ConfigurationSpace
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

MOST_REPL = 10


@dataclass(frozen=True, slots=True)
class Fidelity:
    """The unit of a benchmark's budgets: its name, range, and whether it takes integers only."""

    name: str
    low: float
    high: float
    whole: bool

    def of(self, budget: float) -> float:
        """Return the nearest value that the benchmark accepts: floored if whole, then clipped."""
        value = math.floor(budget) if self.whole else budget
        return min(max(value, self.low), self.high)


class Rows(NamedTuple):
    """Configs as two matrices, with one row per config."""

    categorical: NDArray[np.int32]
    continuous: NDArray[Any]

    def take(self, positions: Any) -> Rows:
        return Rows(self.categorical[positions], self.continuous[positions])

    def joined(self, other: Rows) -> Rows:
        import numpy as np

        return Rows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class Benchmark(ABC):
    """A search space and a fidelity, with one learning-curve model per data set."""

    name: str
    space: ConfigurationSpace
    fidelity: Fidelity
    instances: tuple[str, ...]
    """The names of its data sets."""
    files: tuple[Path, ...]
    """What its accuracies depend on."""

    @abstractmethod
    def encode(self, configs: Iterable[Config]) -> Rows:
        """Return configs as rows, for many calls of `accuracies`."""

    @abstractmethod
    def accuracies(
        self, rows: Rows, instance: str, budgets: Sequence[float] | Floats, repl: Any = 1
    ) -> Floats:
        """Return the accuracy of each row on a data set, as a fraction of 1.

        There is one budget per row, in units of the fidelity. `repl` selects a repetition, 1 to
        10, for all rows or per row; benchmarks without repetitions ignore it.
        """

    def best_accuracy(self, instance: str) -> float | None:
        """Return the largest accuracy with the largest budget, or None if it is unknown."""
        return None

    def problem(self, instance: str, repl: int = 1) -> Problem:
        """Return the objective of one data set."""
        return Problem(self, self.checked(instance), repl)

    def checked(self, instance: str) -> str:
        """Return the name of a data set, or raise UnknownNameError."""
        if str(instance) not in self.instances:
            raise UnknownNameError(f"data set of {self.name}", instance, self.instances)
        return str(instance)


@dataclass(frozen=True)
class Problem:
    """One data set of a benchmark: an objective for studies with `maximize=True`."""

    benchmark: Benchmark
    instance: str
    repl: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.repl <= MOST_REPL:
            raise InputError(f"repl is {self.repl}: give 1 to {MOST_REPL}.")

    @property
    def space(self) -> ConfigurationSpace:
        return self.benchmark.space

    @property
    def fidelity(self) -> Fidelity:
        return self.benchmark.fidelity

    def __call__(self, config: Config, budget: float) -> float:
        """Return the accuracy of one config with a budget in units of the fidelity."""
        return float(self.accuracies([config], [budget])[0])

    def accuracies(self, configs: Sequence[Config], budgets: Sequence[float]) -> Floats:
        """Return the accuracies of many configs, each with its own budget."""
        if len(configs) != len(budgets):
            raise InputError(
                f"There are {len(configs)} configs and {len(budgets)} budgets: "
                "give one budget per config."
            )
        rows = self.benchmark.encode(configs)
        return self.benchmark.accuracies(rows, self.instance, budgets, self.repl)
