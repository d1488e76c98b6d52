"""A clock without real time, on which a number of workers run items."""

from __future__ import annotations

from heapq import heappop, heappush
from typing import Generic, TypeVar

Item = TypeVar("Item")


class VirtualClock(Generic[Item]):
    """Workers that run items, each for a known time. Times are in any unit; whole ones stay exact.

    >>> clock = VirtualClock[str](workers=2)
    >>> clock.start("long", 3)
    >>> clock.start("short", 1)
    >>> clock.advance(), clock.time, clock.free
    ('short', 1, 1)
    """

    def __init__(self, workers: int) -> None:
        self.workers = workers
        self.time: float = 0
        """The time since the start."""
        self.busy: float = 0
        """The time that workers spent on items that have ended, summed over workers."""
        self.running: dict[Item, float] = {}
        """When each item started that has not ended, in the order in which they started."""
        self._ends: list[tuple[float, float, Item]] = []
        """A heap of the running items, by end."""

    @property
    def free(self) -> int:
        """How many workers run nothing."""
        return self.workers - len(self.running)

    def start(self, item: Item, duration: float, order: float = 0) -> None:
        """Run an item. Items that end at the same time end by `order`, then by their own."""
        self.running[item] = self.time
        heappush(self._ends, (self.time + duration, order, item))

    def next_to_end(self) -> list[Item]:
        """The items that end at the next end of any."""
        return [item for end, _, item in self._ends if end == self._ends[0][0]]

    def advance(self) -> Item:
        """Set the clock to the next end of an item, and return that item."""
        self.time, _, item = heappop(self._ends)
        self.busy += self.time - self.running.pop(item)
        return item
