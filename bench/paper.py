"""The paper's study against the bare inference of the evaluations that it needs.

Give the folder of YAHPO Gym's data as an argument, or in YAHPO_DATA.
"""

from __future__ import annotations

import multiprocessing
import os
import resource
import sys
import time
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

from deepband.research.paper.courses import Draws, walk
from deepband.research.paper.replication import Replication, Unit
from deepband.research.result_files import read_columns
from deepband.research.yahpo import Scenario

if TYPE_CHECKING:
    from deepband.research.benchmark import Floats


class Recording(Scenario):
    """Keeps what was asked of it."""

    def __init__(self, data: str | Path, name: str) -> None:
        super().__init__(data, name)
        self.asked: list[tuple[Any, ...]] = []

    def accuracies(self, *asked: Any) -> Floats:
        self.asked.append(asked)
        return super().accuracies(*asked)

    def again(self) -> tuple[int, float]:
        """How many evaluations were asked for, and how long they take and nothing else."""
        start = time.perf_counter()
        count = sum(len(super(Recording, self).accuracies(*asked)) for asked in self.asked)
        return count, time.perf_counter() - start


@cache
def recording(data: Path, name: str) -> Draws:
    return Draws(Recording(data, name))


def bare(data: Path, unit: Unit, seeds: int) -> tuple[int, float]:
    """The evaluations that a unit needs: their number, and the seconds to infer them."""
    draws = recording(data, unit.scenario)
    scenario = draws.benchmark
    assert isinstance(scenario, Recording)
    scenario.asked.clear()
    for _ in walk(draws, unit.instance, unit.eta, unit.courses, range(seeds), unit.every_step):
        pass
    return scenario.again()


def bare_all(replication: Replication, workers: int) -> tuple[int, float]:
    """The same for all units, with as many processes as the study has."""
    context = multiprocessing.get_context("spawn")
    units = list(replication.units())
    with ProcessPoolExecutor(workers, context) as pool:
        futures = [
            pool.submit(bare, Path(replication.data), unit, replication.seeds) for unit in units
        ]
        found = [future.result() for future in futures]
    return sum(count for count, _ in found), sum(seconds for _, seconds in found) / workers


def main() -> None:
    given = sys.argv[1] if len(sys.argv) > 1 else os.environ.get("YAHPO_DATA", "")
    if not given:
        print("paper: not measured, no YAHPO Gym data (set YAHPO_DATA)")
        return
    replication, workers = Replication(data=Path(given)), os.cpu_count() or 1
    with TemporaryDirectory() as folder:
        start = time.perf_counter()
        replication.make(Path(folder) / "results", workers, lambda done, total: None)
        wall = time.perf_counter() - start
        runs = len(read_columns(Path(folder) / "results" / "results.parquet")["seed"])
    driver, worker = (
        resource.getrusage(who).ru_maxrss / 1e3
        for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)
    )
    count, inference = bare_all(replication, workers)
    print(f"paper: {runs:,} runs in {wall:.0f} s with {workers} processes")
    print(f"memory: at most {driver:.0f} MB, and {worker:.0f} MB a process")
    print(f"bare inference of its {count:,} evaluations: {inference:.0f} s")
    print(f"ratio: {wall / inference:.1f}")


if __name__ == "__main__":
    main()
