"""Work on many files in several threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

MOST_THREADS = 16
TRIED = 3
"""How many items are done without threads. The last of them shows how long one takes: the first
ones may have to import modules or create folders."""
SECONDS = 0.002
"""If an item takes less, it consists of Python code, which threads would only delay."""
Item = TypeVar("Item")
Made = TypeVar("Made")


def in_threads(function: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    """What a function returns for each item, in their order. Threads are used if an item takes
    long: large files are read and hashed without the lock of the interpreter."""
    made, seconds = list[Made](), 0.0
    for item in items[:TRIED]:
        start = time.perf_counter()
        made.append(function(item))
        seconds = time.perf_counter() - start
    rest = items[TRIED:]
    threads = min(MOST_THREADS, os.cpu_count() or 1, len(rest))
    if threads < 2 or seconds < SECONDS:
        return made + [function(item) for item in rest]
    with ThreadPoolExecutor(threads) as pool:
        return made + list(pool.map(function, rest))
