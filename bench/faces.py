"""How quick the page and the report of a large study are, and whether readers slow a driver.

python bench/faces.py
"""

from __future__ import annotations

import multiprocessing
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from multiprocessing.synchronize import Barrier, Event
from pathlib import Path

import deepband
from deepband.analysis.text import table
from deepband.interfaces.dashboard import watchlist
from deepband.interfaces.report.html_report import write_report

SPACE = {"x": (0.0, 1.0), "y": (1e-5, 1.0, "log"), "z": (1, 100), "kind": ["a", "b", "c"]}
READERS, COMMITS = 10, 400


def make(place: Path) -> int:
    """A study of a first run with 140,418 evaluations, deepened and not yet run again."""
    with deepband.open_study(place, space=SPACE, max_budget=59049) as study:
        while jobs := study.ask_all():
            for first in range(0, len(jobs), 4096):
                batch = jobs[first : first + 4096]
                study.tell_all([(job, job.config["x"] + 1 / job.budget) for job in batch])
        study.deepen("efficient")
        return len(study.evaluations)


def time_report(place: Path) -> tuple[float, float]:
    """Seconds and megabytes."""
    start = time.perf_counter()
    write_report(deepband.open_study(place), place.with_name("report.html"))
    elapsed = time.perf_counter() - start
    return elapsed, place.with_name("report.html").stat().st_size / 2**20


def time_update(place: Path) -> float:
    """Milliseconds from a look at a study that has one more evaluation to what pages are sent."""
    watchlist.SECONDS_PER_READ = 0.0
    watched = watchlist.Watched(place)
    watched.overview()
    times = []
    with deepband.open_study(place) as study:
        for _ in range(10):
            job = study.ask()
            assert job is not None
            study.tell(job, 1.0)
            start = time.perf_counter()
            watched.overview()
            times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times)


@contextmanager
def serving(place: Path) -> Iterator[str]:
    command = [sys.executable, "-m", "deepband", "serve", str(place), "--port", "0"]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout
        yield process.stdout.readline().strip()
        process.terminate()


def time_first_view(place: Path) -> float | None:
    """Milliseconds from the address to a page with all cells and the first rows of the table, once
    the server has loaded the study; None without a browser."""
    if shutil.which("chromium") is None or shutil.which("chromedriver") is None:
        return None
    from selenium import webdriver

    options = webdriver.ChromeOptions()
    options.binary_location = str(shutil.which("chromium"))
    for argument in ("--headless=new", "--no-sandbox", "--disable-dev-shm-usage", "--disable-gpu"):
        options.add_argument(argument)
    service = webdriver.ChromeService(str(shutil.which("chromedriver")))
    cells, rows = "#cell-0-0 span", "#evaluations tbody tr"
    shown = f"return document.querySelector({cells!r}) && document.querySelector({rows!r})"
    times = []
    with serving(place) as url, webdriver.Chrome(options=options, service=service) as driver:
        for _ in range(6):
            driver.get("about:blank")
            start = time.perf_counter()
            driver.get(url)
            while not driver.execute_script(shown):
                time.sleep(0.005)
            times.append(time.perf_counter() - start)
    return 1000 * statistics.median(times[1:])  # the first one loads the study


def read_on(place: Path, ready: Barrier, end: Event) -> None:
    """What a server with an open page does, a second apart."""
    watched = watchlist.Watched(place)
    watched.overview()
    ready.wait()
    while not end.wait(1.0):
        watched.overview()


def time_commits(place: Path) -> list[float]:
    times = []
    with deepband.open_study(place) as study:
        for _ in range(COMMITS):
            job = study.ask()
            assert job is not None
            start = time.perf_counter()
            study.tell(job, 1.0)
            times.append(time.perf_counter() - start)
    return times


def time_commits_with_readers(place: Path) -> list[float]:
    spawn = multiprocessing.get_context("spawn")
    ready, end = spawn.Barrier(READERS + 1), spawn.Event()
    readers = [spawn.Process(target=read_on, args=(place, ready, end)) for _ in range(READERS)]
    for reader in readers:
        reader.start()
    ready.wait()
    try:
        return time_commits(place)
    finally:
        end.set()
        for reader in readers:
            reader.join()


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "large.study"
        evaluations = make(place)
        seconds, size = time_report(place)
        view = time_first_view(place)
        update = time_update(place)
        before = time_commits(place)
        during = time_commits_with_readers(place)
        after = time_commits(place)
    alone = statistics.median(before + after)
    watched = statistics.median(during)
    rows = [
        [f"faces of a study of {evaluations:,} evaluations", ""],
        ["report, seconds", f"{seconds:.1f}"],
        ["report, megabytes", f"{size:.2f}"],
        ["first view of the page, ms", "no chromium" if view is None else f"{view:.0f}"],
        ["update of the page, ms", f"{update:.0f}"],
        ["median commit alone, ms", f"{1000 * alone:.2f}"],
        [f"median commit with {READERS} readers, ms", f"{1000 * watched:.2f}"],
        ["ratio", f"{watched / alone:.2f}"],
    ]
    print(table(rows))


if __name__ == "__main__":
    main()
