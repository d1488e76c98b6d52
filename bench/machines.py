"""Many workers: how busy they are, really and on a virtual clock, in which order of jobs, and what
the driver costs.

python bench/machines.py
"""

from __future__ import annotations

import heapq
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import optuna

import deepband
from deepband.analysis.text import table
from deepband.core.schedule import Schedule
from deepband.execution.executors.simulated import SimulatedExecutor

SPACE = {"x": (0.0, 1.0)}
WORKERS = 8
SECONDS = 30
"""That the workers of a run would take if all were always busy."""


def nothing(config: dict[str, Any], budget: float) -> float:
    return float(config["x"])


def seconds_per_unit(max_budget: int) -> float:
    return SECONDS * WORKERS / float(Schedule.of(3, 1, max_budget).cost)


def sleeping(folder: Path, max_budget: int, ahead: bool) -> tuple[float, float]:
    """The wall of a run in processes that sleep, and how busy they were."""
    unit = seconds_per_unit(max_budget)

    def sleep(config: dict[str, Any], budget: float) -> float:
        time.sleep(unit * budget)
        return float(config["x"])

    place = folder / f"{max_budget}-{ahead}.study"
    with deepband.open_study(place, space=SPACE, max_budget=max_budget) as study:
        start = time.perf_counter()
        study.optimize(sleep, workers=WORKERS, ahead=ahead)
        wall = time.perf_counter() - start
        seconds = [each.seconds or 0.0 for each in study.evaluations]
        seconds += [each.seconds or 0.0 for each in study.session.state.ahead.results.values()]
        return wall, sum(seconds) / (WORKERS * wall)


def simulated(max_budget: int) -> float:
    unit = seconds_per_unit(max_budget)
    executor = SimulatedExecutor(WORKERS, lambda job: unit * job.budget)
    deepband.open_study(space=SPACE, max_budget=max_budget).optimize(nothing, executor=executor)
    return executor.clock


def optuna_busy(max_budget: int) -> float:
    """How busy Optuna's threads are: a step a unit of budget, pruned by its Hyperband."""
    optuna.logging.set_verbosity(optuna.logging.WARNING)
    study = optuna.create_study(pruner=optuna.pruners.HyperbandPruner(1, max_budget, 3))
    unit, slept = seconds_per_unit(max_budget), list[float]()

    def objective(trial: optuna.Trial) -> float:
        x = float(trial.suggest_float("x", 0.0, 1.0))
        for step in range(1, max_budget + 1):
            time.sleep(unit)
            slept.append(unit)
            trial.report(x, step)
            if trial.should_prune():
                raise optuna.TrialPruned
        return x

    start = time.perf_counter()
    study.optimize(objective, n_jobs=WORKERS, n_trials=round(1.5 * max_budget))
    return sum(slept) / (WORKERS * (time.perf_counter() - start))


Key = Callable[[int, int, int], tuple[float, ...]]
"""What a free worker minimises, of (bracket, rung, number of the job in order of creation)."""
ORDERS: dict[str, Key] = {
    "one bracket after another": lambda bracket, rung, number: (bracket,),
    "order of creation": lambda bracket, rung, number: (number,),
    "lower rung first": lambda bracket, rung, number: (rung, bracket, number),
    "lower bracket first": lambda bracket, rung, number: (bracket, rung, number),
    "largest job first": lambda bracket, rung, number: (-rung, bracket, number),
}


def share_of_bound(schedule: Schedule, workers: int, order: str) -> float:
    """The bound over the wall of a simulated run with an order of jobs."""
    one_by_one = order == "one bracket after another"
    waiting: list[tuple[tuple[float, ...], int, int, int]] = []
    running: list[tuple[float, int, int]] = []
    left = dict(schedule.counts())
    created, clock = 0, 0.0

    def arrive(bracket: int, rung: int) -> None:
        nonlocal created
        for _ in range(schedule.slots(bracket, rung)):
            key = ORDERS[order](bracket, rung, created)
            heapq.heappush(waiting, (key, created, bracket, rung))
            created += 1

    for bracket in [0] if one_by_one else schedule.brackets:
        arrive(bracket, bracket)
    while waiting or running:
        while waiting and len(running) < workers:
            _, _, bracket, rung = heapq.heappop(waiting)
            heapq.heappush(running, (clock + float(schedule.budget(rung)), bracket, rung))
        clock, bracket, rung = heapq.heappop(running)
        left[bracket, rung] -= 1
        if left[bracket, rung]:
            continue
        if rung < schedule.top:
            arrive(bracket, rung + 1)
        elif one_by_one and bracket < schedule.top:
            arrive(bracket + 1, bracket + 1)
    longest = sum(float(schedule.budget(rung)) for rung in range(schedule.top + 1))
    return max(float(schedule.cost) / workers, longest) / clock


def driver_simulated(workers: int = 512, max_budget: int = 32768) -> tuple[int, float]:
    """The jobs of a large study, and the driver's seconds for each."""
    study = deepband.open_study(space=SPACE, eta=2, max_budget=max_budget)
    start = time.perf_counter()
    study.optimize(nothing, executor=SimulatedExecutor(workers, lambda job: job.budget))
    jobs = study.runs[0].evaluations
    return jobs, (time.perf_counter() - start) / jobs


def driver_dask(folder: Path) -> tuple[int, float, float]:
    """Jobs that do nothing on four Dask workers, with a scheduler in a process of its own: the wall
    and the driver's own seconds for each."""
    from distributed import Client

    file = folder / "scheduler.json"
    engine = [sys.executable, "-m"]
    common = ["--scheduler-file", str(file), "--no-dashboard"]
    scheduler = [*engine, "distributed.cli.dask_scheduler", "--port", "0", *common]
    worker = [*engine, "distributed.cli.dask_worker", "--nthreads", "1", "--no-nanny", *common]
    processes = [
        subprocess.Popen(each, cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
        for each in (scheduler, worker, worker, worker, worker)
    ]
    try:
        with (
            Client(scheduler_file=str(file), set_as_default=False) as client,
            deepband.open_study(folder / "dask.study", space=SPACE, max_budget=243) as study,
        ):
            client.wait_for_workers(4)
            start, own = time.perf_counter(), time.process_time()
            study.optimize(nothing, executor=client)
            jobs = study.runs[0].evaluations
            return jobs, (time.perf_counter() - start) / jobs, (time.process_time() - own) / jobs
    finally:
        for process in processes:
            process.kill()


def main() -> None:
    with tempfile.TemporaryDirectory(dir=".") as name:
        folder = Path(name).resolve()
        rows = [[f"{WORKERS} sleeping workers, {SECONDS} s at best", "27", "81"]]
        real = [sleeping(folder, top, ahead=False) for top in (27, 81)]
        virtual = [simulated(top) for top in (27, 81)]
        ahead = [sleeping(folder, top, ahead=True) for top in (27, 81)]
        rows.append(["bound / wall, real", *(f"{SECONDS / wall:.3f}" for wall, _ in real)])
        rows.append(["bound / wall, simulated", *(f"{SECONDS / wall:.3f}" for wall in virtual)])
        ratios = [wall / other for (wall, _), other in zip(real, virtual, strict=True)]
        rows.append(["real / simulated wall", *(f"{ratio:.3f}" for ratio in ratios)])
        rows.append(["utilisation with work ahead", *(f"{busy:.3f}" for _, busy in ahead)])
        rows.append(["Optuna's threads", *(f"{optuna_busy(top):.3f}" for top in (27, 81))])
        print(table(rows))
        schedules = {
            "27": Schedule.of(3, 1, 27),
            "81": Schedule.of(3, 1, 81),
            "eta 2, 32": Schedule.of(2, 1, 32),
        }
        large = Schedule.of(3, 1, 729)
        header = ["share of the bound, simulated", *(f"8: {label}" for label in schedules)]
        rows = [header + [f"{workers}: 729" for workers in (8, 64, 512)]]
        for order in ORDERS:
            shares = [share_of_bound(schedule, 8, order) for schedule in schedules.values()]
            shares += [share_of_bound(large, workers, order) for workers in (8, 64, 512)]
            rows.append([order, *(f"{share:.2f}" for share in shares)])
        print(f"\n{table(rows)}")
        jobs, seconds = driver_simulated()
        print(f"\ndriver, 512 simulated workers, {jobs:,} jobs: {1e3 * seconds:.3f} ms a job")
        jobs, wall, own = driver_dask(folder)
        print(
            f"driver, 4 Dask workers, {jobs:,} jobs of nothing: {1e3 * own:.2f} ms of the driver's "
            f"own time a job, {1e3 * wall:.2f} ms in all"
        )


if __name__ == "__main__":
    main()
