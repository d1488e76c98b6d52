"""Work in several threads: the same results in the same order, with threads only if they help."""

from __future__ import annotations

import threading
import time

import pytest

from deepband.system import thread_pool
from deepband.system.thread_pool import in_threads


@pytest.mark.parametrize("count", [0, 1, 3, 4, 50])
@pytest.mark.parametrize("seconds", [0.0, 0.003])
def test_results_are_in_the_order_of_the_items(count: int, seconds: float) -> None:
    def doubled(item: int) -> int:
        time.sleep(seconds * (item % 3 + 1))
        return 2 * item

    assert in_threads(doubled, range(count)) == [2 * item for item in range(count)]


def test_short_work_has_no_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(thread_pool, "SECONDS", 60.0)
    assert set(in_threads(lambda item: threading.get_ident(), range(50))) == {threading.get_ident()}


def test_long_work_has_threads(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two items wait for each other, which needs two threads."""
    monkeypatch.setattr(thread_pool, "SECONDS", 0.0)
    monkeypatch.setattr("os.cpu_count", lambda: 2)
    meeting = threading.Barrier(2)

    def meet(item: int) -> int:
        return item if item < thread_pool.TRIED else meeting.wait(timeout=60)

    assert sorted(in_threads(meet, range(5))[-2:]) == [0, 1]


def test_what_an_item_raises_is_raised() -> None:
    with pytest.raises(ZeroDivisionError):
        in_threads(lambda item: 1 // (item - 40), range(50))
