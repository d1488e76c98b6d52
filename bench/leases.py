"""Ask and tell with leases: how fast one process, eight processes and single commands are.

    python bench/leases.py

Every process asks for one job at a time and reports it at once, so that the study itself is all
that is measured. A leased job takes two commits, one for the lease and one for the result. The
first line is a process that keeps the study locked, for which a job takes one commit.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
import time
from multiprocessing import get_context
from multiprocessing.queues import Queue
from multiprocessing.synchronize import Barrier
from pathlib import Path

import deepband
from deepband.analysis.text import table

SPACE = {"x": (0.0, 1.0), "y": (1e-5, 1.0, "log"), "z": (1, 100)}
PROCESSES = 8
SECONDS = 10.0
CALLS = 20
LEASE = 3600.0


def create(path: Path) -> None:
    deepband.open_study(path, space=SPACE, max_budget=6561, width=4).close()


def locked_rate(path: Path) -> float:
    """Evaluations per second of a process that keeps the study locked."""
    create(path)
    count = 0
    with deepband.open_study(path) as study:
        job = study.ask()  # which imports what sampling needs
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            job = study.ask()
            assert job is not None
            study.tell(job, job.config["x"])
            count += 1
    return count / SECONDS


def leased_rate(path: Path, processes: int) -> float:
    """Evaluations per second of all processes together."""
    create(path)
    context = get_context("spawn")
    counts: Queue[int] = context.Queue()
    barrier = context.Barrier(processes)
    given = path, barrier, counts
    started = [context.Process(target=ask_and_tell, args=given) for _ in range(processes)]
    for process in started:
        process.start()
    total = sum(counts.get() for _ in started)
    for process in started:
        process.join()
    return total / SECONDS


def ask_and_tell(path: Path, barrier: Barrier, counts: Queue[int]) -> None:
    count = 0
    with deepband.open_study(path) as study:
        assert study.session.space is not None  # which imports what sampling needs
        one_job(study)
        barrier.wait()
        end = time.perf_counter() + SECONDS
        while time.perf_counter() < end:
            one_job(study)
            count += 1
    counts.put(count)


def one_job(study: deepband.Study) -> None:
    job = study.ask(lease=LEASE)
    assert job is not None
    study.tell(job, job.config["x"])


def command_rate(path: Path) -> float:
    """Commands per second, half of them `ask` and half of them `tell`, one after another."""
    create(path)
    start = time.perf_counter()
    for _ in range(CALLS):
        asked = run("ask", path)
        run("tell", path, asked.split()[0], "0.5")
    return 2 * CALLS / (time.perf_counter() - start)


def run(*given: object) -> str:
    command = [sys.executable, "-m", "deepband", *map(str, given)]
    return subprocess.run(command, capture_output=True, text=True, check=True).stdout


def main() -> None:
    with tempfile.TemporaryDirectory(dir=Path.cwd()) as folder:
        place = Path(folder)
        locked = locked_rate(place / "locked.study")
        alone = leased_rate(place / "alone.study", 1)
        together = leased_rate(place / "together.study", PROCESSES)
        commands = command_rate(place / "commands.study")
    rows = [
        ["", "evaluations/s", "of one process"],
        ["one process, study locked", f"{locked:.0f}", ""],
        ["one process, leases", f"{alone:.0f}", "100 %"],
        [f"{PROCESSES} processes, leases", f"{together:.0f}", f"{together / alone:.0%}"],
        ["commands, one after another", f"{commands / 2:.1f}", ""],
    ]
    print(table(rows))
    print(f"one command takes {1000 / commands:.0f} ms")


if __name__ == "__main__":
    main()
