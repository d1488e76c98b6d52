"""One driver with many workers: how many decisions it makes per second, how busy it keeps the
workers, and how much memory it needs.

python bench/scale.py
"""

from __future__ import annotations

import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

import deepband
from deepband.analysis.text import table
from deepband.core.schedule import Schedule
from deepband.execution.executors.simulated import SimulatedExecutor

SPACE = {"x": (0.0, 1.0)}
WORKERS = (64, 1000)
BUDGETS = (81, 729, 6561)
WIDTHS = (1, 10)
MILLION = 1_000_000
PROCESSES = 4
"""The worker processes of the Dask cluster. Their threads are its workers."""
ON_DASK = ((729, 1), (81, 10))
"""The max_budget and width of the studies on Dask."""
SECONDS = 30
"""That the workers of a Dask cluster take at best."""


def nothing(config: dict[str, Any], budget: float) -> float:
    return float(config["x"])


def bound(schedule: Schedule, workers: int) -> float:
    """A lower bound on the time of a run, in units of budget: all workers are always busy, or one
    config is promoted from the lowest rung to the highest."""
    chain = sum(float(schedule.budget(rung)) for rung in range(schedule.top + 1))
    return max(float(schedule.cost) / workers, chain)


def simulated(max_budget: int, width: int, workers: int) -> list[str]:
    """Evaluations, decisions per second, and what the workers did on a virtual clock."""
    executor = SimulatedExecutor(workers, lambda job: float(job.budget))
    study = deepband.open_study(space=SPACE, max_budget=max_budget, width=width)
    schedule = study.session.state.schedule
    start = time.process_time()
    study.optimize(nothing, executor=executor)
    rate = study.runs[0].evaluations / (time.process_time() - start)
    least = bound(schedule, workers)
    return [
        f"{study.runs[0].evaluations:,}",
        f"{rate:,.0f}",
        f"{executor.utilisation:.2f}",
        f"{least / executor.clock:.2f}",
    ]


def memory(evaluations: int) -> tuple[int, float, float]:
    """The evaluations of a study with at least this many, the memory of its driver in GiB, and its
    seconds."""
    width = -(-evaluations // sum(dict(Schedule.of(3, 1, 6561).counts()).values()))
    start = time.process_time()
    study = deepband.open_study(space=SPACE, max_budget=6561, width=width)
    study.optimize(nothing, executor=SimulatedExecutor(1000, lambda job: float(job.budget)))
    used = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 2**20
    return study.runs[0].evaluations, used, time.process_time() - start


def dask(folder: Path, size: tuple[int, int], workers: int, seconds: float) -> list[str]:
    """A study in a file with this max_budget and width, on a Dask cluster with this many threads in
    a few processes. Its jobs sleep, so that a perfect driver would need `seconds`; with 0 they do
    nothing. The CPU time of the driver includes Dask's scheduler, which runs in the same process.
    """
    from distributed import Client, LocalCluster

    max_budget, width = size
    unit = seconds / bound(Schedule.of(3, 1, max_budget, width=width), workers)

    def sleep(config: dict[str, Any], budget: float) -> float:
        if unit:
            time.sleep(unit * budget)
        return float(config["x"])

    with (
        LocalCluster(
            n_workers=PROCESSES,
            threads_per_worker=workers // PROCESSES,
            dashboard_address=":0",
            silence_logs=50,
            memory_limit=0,
        ) as cluster,
        Client(cluster, set_as_default=False) as client,
        deepband.open_study(
            folder / f"{max_budget}-{width}-{workers}-{seconds}.study",
            space=SPACE,
            max_budget=max_budget,
            width=width,
        ) as study,
    ):
        start, own = time.perf_counter(), time.process_time()
        study.optimize(sleep, executor=client)
        wall, own = time.perf_counter() - start, time.process_time() - own
        busy = sum(each.seconds or 0.0 for each in study.evaluations) / (workers * wall)
        count = study.runs[0].evaluations
    asleep = [f"{busy:.2f}", f"{seconds / wall:.2f}"] if seconds else ["", ""]
    return [f"{count:,}", f"{count / wall:,.0f}", *asleep, f"{1e3 * own / count:.1f}"]


def main() -> None:
    if sys.argv[1:]:
        count, used, seconds = memory(int(sys.argv[1]))
        print(f"{count:,} evaluations: {used:.2f} GiB, {seconds:,.0f} s of the driver")
        return
    head = ["evaluations", "per second", "utilisation", "bound / time"]
    rows = [["max_budget", "width", "simulated workers", *head]]
    for budget in BUDGETS:
        for width in WIDTHS:
            for workers in WORKERS:
                found = simulated(budget, width, workers)
                rows.append([f"{budget:,}", str(width), f"{workers:,}", *found])
    print(table(rows), flush=True)
    rows = [["max_budget", "width", "jobs", "Dask threads", *head, "driver, ms per job"]]
    with tempfile.TemporaryDirectory(dir=".") as name:
        for size in ON_DASK:
            for workers in WORKERS:
                for label, seconds in [("nothing", 0), ("sleep", SECONDS)]:
                    found = dask(Path(name).resolve(), size, workers, seconds)
                    rows.append([*map(str, size), label, f"{workers:,}", *found])
    print(f"\nDask, a study in a file:\n{table(rows)}\n", flush=True)
    subprocess.run([sys.executable, __file__, str(MILLION)], check=True)


if __name__ == "__main__":
    main()
