"""Running the units of a study, one after another or in processes side by side."""

from __future__ import annotations

import gc
import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import TypeVar

from deepband.errors import DeepbandError
from deepband.research.paper.courses import Draws, walk
from deepband.research.paper.results import Folder
from deepband.research.paper.settings import Unit
from deepband.research.yahpo import Scenario

Item = TypeVar("Item")


def do_missing(
    work: Callable[[Item], Item],
    items: Sequence[Item],
    is_done: Callable[[Item], bool],
    workers: int,
    show: Callable[[int, int], None],
) -> None:
    """Do those of the items that are not done; `show` is told how many are, of how many."""
    left = [item for item in items if not is_done(item)]
    before = len(items) - len(left)
    show(before, len(items))
    for number, _ in enumerate(_in_processes(work, left, workers), start=1):
        show(before + number, len(items))


def _in_processes(
    work: Callable[[Item], Item], items: Sequence[Item], workers: int
) -> Iterator[Item]:
    """Do something with each of the items, side by side; yields each as it is done."""
    if workers == 1:
        yield from map(work, items)
        return
    others = multiprocessing.active_children()
    pool = ProcessPoolExecutor(workers, multiprocessing.get_context("spawn"), _follow_the_driver)
    try:
        futures = [pool.submit(work, item) for item in items]
        for future in as_completed(futures):
            yield future.result()
    except BrokenProcessPool as error:
        raise DeepbandError(
            "a worker died, perhaps for want of memory. What is done is kept: run the same "
            "command again to go on, with fewer workers if it happens again."
        ) from error
    finally:
        for process in multiprocessing.active_children():
            if process not in others:  # done or not wanted: parts are whole or not there
                process.terminate()
        pool.shutdown(cancel_futures=True)


def _follow_the_driver() -> None:
    """Leave interrupts to the driver, and end when it ends."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_end_with_the_driver, daemon=True).start()


def _end_with_the_driver() -> None:
    driver = multiprocessing.parent_process()
    if driver is not None:
        driver.join()
        os._exit(1)


def run_unit(folder: Folder, data: Path, unit: Unit) -> Unit:
    """Do a unit and keep its part."""
    draws = _draws(data, unit.scenario)
    with _collector_off():
        seeds = range(folder.seeds)
        rows = walk(draws, unit.instance, unit.eta, unit.courses, seeds, unit.every_step)
        folder.write_part(unit, rows)
    return unit


@cache
def _draws(data: Path, scenario: str) -> Draws:
    """One a scenario and process: the configs of a seed are the same on all data sets."""
    return Draws(Scenario(data, scenario))


@contextmanager
def _collector_off() -> Iterator[None]:
    """Without the garbage collector, which would visit hundreds of thousands of live results
    again and again. A unit leaves no cycles for it."""
    was_on = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_on:
            gc.enable()
