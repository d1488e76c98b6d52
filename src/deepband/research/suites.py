"""Collections of benchmarks that `--data` selects: YAHPO Gym's surrogates, or synthetic ones."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cache, partial
from pathlib import Path
from typing import TypeAlias

from deepband.errors import InputError, UnknownNameError
from deepband.research import synthetic, yahpo_instances
from deepband.research.benchmark import Benchmark
from deepband.research.yahpo import Scenario
from deepband.research.yahpo_columns import SCENARIOS
from deepband.space.search_space import Space

SYNTHETIC = "synthetic"
DataSets: TypeAlias = Mapping[str, tuple[str, ...]]
"""Names of data sets, by benchmark."""


@dataclass(frozen=True)
class Suite:
    """Benchmarks by name, and how their data sets are divided."""

    read: Callable[[str], Benchmark]
    names: tuple[str, ...]
    instances: Mapping[str, DataSets]
    """The data sets for choosing parameters ("tuning") and for reporting ("reporting")."""
    packages: tuple[str, ...] = ()
    """What it needs in addition to deepband's own dependencies."""
    brief: bool = False
    """Whether a comparison leaves out `gp` and methods of other packages unless they are named:
    they take minutes, the others seconds."""
    note: str = ""
    """What readers of results must know about the benchmarks."""

    def check(self, name: str) -> None:
        """Raise UnknownNameError unless there is a benchmark of this name."""
        if name not in self.names:
            raise UnknownNameError("scenario", name, self.names)


def suite(data: str | Path) -> Suite:
    """Return the suite that `--data` selects: `synthetic`, or the folder of YAHPO Gym's data."""
    if data == SYNTHETIC:
        return SYNTHETIC_SUITE
    if not Path(data).is_dir():
        raise InputError(
            f"There is no folder {str(data)!r}. Give --data {SYNTHETIC}, or the folder of a clone "
            "of https://github.com/slds-lmu/yahpo_data."
        )
    return Suite(
        partial(Scenario, Path(data)),
        tuple(SCENARIOS),
        yahpo_instances.INSTANCES,
        packages=("onnxruntime",),
    )


SYNTHETIC_SUITE = Suite(
    synthetic.Family,
    tuple(synthetic.CURVES),
    {
        "tuning": dict.fromkeys(synthetic.CURVES, synthetic.INSTANCES[:2]),
        "reporting": dict.fromkeys(synthetic.CURVES, synthetic.INSTANCES[2:]),
    },
    brief=True,
    note=(
        "Synthetic benchmarks: learning curves by formula, not measurements of real training. "
        "They do not reproduce the paper's figures or those of the documentation."
    ),
)


@cache
def read_benchmark(data: str | Path, name: str) -> Benchmark:
    """Return a benchmark, which is read once per process."""
    return suite(data).read(name)


@cache
def read_space(data: str | Path, name: str) -> Space:
    """Return the search space of a benchmark."""
    return Space(read_benchmark(data, name).space)
