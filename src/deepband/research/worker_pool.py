"""Work in several processes that end with the process that started them."""

from __future__ import annotations

import multiprocessing
import os
import signal
import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, as_completed
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from deepband.errors import DeepbandError

Item = TypeVar("Item")


def do_missing(
    work: Callable[[Item], Item],
    items: Sequence[Item],
    is_done: Callable[[Item], bool],
    workers: int,
    show: Callable[[int, int], None],
) -> None:
    """Do the work of all items that are not done; calls `show(done, total)` after each."""
    left = [item for item in items if not is_done(item)]
    before = len(items) - len(left)
    show(before, len(items))
    for number, _ in enumerate(_in_processes(work, left, workers), start=1):
        show(before + number, len(items))


def _in_processes(
    work: Callable[[Item], Item], items: Sequence[Item], workers: int
) -> Iterator[Item]:
    """Do the work of all items concurrently; yields each item when it is done."""
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
            "A worker process died, perhaps because memory ran out. Finished parts are kept: run "
            "the same command again to resume, with fewer workers if it happens again."
        ) from error
    finally:
        for process in multiprocessing.active_children():
            if process not in others:  # parts are written atomically, so none is left half done
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
