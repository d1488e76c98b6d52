"""Work on many files in several threads."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

MOST_THREADS = 16
SECONDS = 0.002
"""If an item takes less, it consists of Python code, which threads would only delay."""
Item = TypeVar("Item")
Made = TypeVar("Made")


def in_threads(function: Callable[[Item], Made], items: Sequence[Item]) -> list[Made]:
    """What a function returns for each item, in their order. Threads are used if the first item
    takes long: large files are read and hashed without the lock of the interpreter."""
    start = time.perf_counter()
    first, rest = [function(item) for item in items[:1]], items[1:]
    threads = min(MOST_THREADS, os.cpu_count() or 1, len(rest))
    if threads < 2 or time.perf_counter() - start < SECONDS:
        return first + [function(item) for item in rest]
    with ThreadPoolExecutor(threads) as pool:
        return first + list(pool.map(function, rest))
