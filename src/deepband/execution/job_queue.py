"""Which jobs are given to one call of the objective: one at a time, or in batches."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Sequence
from itertools import groupby
from operator import itemgetter
from typing import Protocol

from deepband.core.facts import JobKey
from deepband.core.records import Job


class JobSupply(Protocol):
    """The part of an open study that hands out jobs."""

    def ask(self) -> Job | None: ...
    def ready_batch(self) -> list[JobKey]: ...
    def reserve(self, keys: Iterable[JobKey]) -> list[Job]: ...


class JobQueue(Protocol):
    """Decides which jobs the next call of the objective gets."""

    @property
    def has_lost(self) -> bool:
        """Whether lost jobs are to run again before others."""

    def next(self, supply: JobSupply, free: int, fresh: bool = True) -> list[Job]:
        """Ready jobs for one call, marked as running; `free` is the number of calls that can start
        now. If not `fresh`, only jobs that were lost."""

    def next_ahead(self, supply: JobSupply, keys: deque[JobKey], free: int) -> list[Job]:
        """The same for jobs of the next run, which are taken from the front of these."""

    def succeeded(self, rung: int, size: int) -> None:
        """A call with this many jobs has ended, and none was lost."""

    def retry(self, lost: Sequence[Job], size: int, reason: str) -> None:
        """Jobs that were lost in a call with `size` jobs, and were released, are to run again."""

    def repeat(self, jobs: Sequence[Job]) -> None:
        """Jobs that failed because of the machine, and were released, are to run again together."""


class SingleJobs:
    """One job per call."""

    has_lost = False

    def next(self, supply: JobSupply, free: int, fresh: bool = True) -> list[Job]:
        job = supply.ask() if fresh else None
        return [] if job is None else [job]

    def next_ahead(self, supply: JobSupply, keys: deque[JobKey], free: int) -> list[Job]:
        while keys:
            if jobs := supply.reserve([keys.popleft()]):
                return jobs
        return []

    def succeeded(self, rung: int, size: int) -> None:
        pass

    def retry(self, lost: Sequence[Job], size: int, reason: str) -> None:
        pass  # the study offers them again

    def repeat(self, jobs: Sequence[Job]) -> None:
        pass


class Batches:
    """All ready jobs with the lowest budget in one call, or at most `limit` of them.

    Jobs of a call that was lost run again in halves. From then on, new calls on the same rung are
    at most as large as the largest one that has succeeded there since. So are the halves if the
    memory was not sufficient; otherwise, a single config may have been the reason.
    """

    def __init__(self, limit: int | None = None) -> None:
        self._limit = limit
        self._worked: dict[int, int] = {}
        """On each rung on which a call was lost, the largest one that has succeeded since."""
        self._tight: set[int] = set()
        """The rungs on which the memory was not sufficient."""
        self._again: list[Sequence[JobKey]] = []
        """The parts of calls that were lost, the next one last."""

    @property
    def has_lost(self) -> bool:
        return bool(self._again)

    def next(self, supply: JobSupply, free: int, fresh: bool = True) -> list[Job]:
        while self._again:
            if jobs := supply.reserve(self._next_part()):
                return jobs
        keys = supply.ready_batch() if fresh else []
        return supply.reserve(keys[: self._size(keys, free)]) if keys else []

    def next_ahead(self, supply: JobSupply, keys: deque[JobKey], free: int) -> list[Job]:
        while keys:
            _, together = next(groupby(keys, key=itemgetter(2)))  # on the same rung
            count = self._size(list(together), free)
            if jobs := supply.reserve([keys.popleft() for _ in range(count)]):
                return jobs
        return []

    def succeeded(self, rung: int, size: int) -> None:
        if rung in self._worked:
            self._worked[rung] = max(self._worked[rung], size)

    def retry(self, lost: Sequence[Job], size: int, reason: str) -> None:
        rung, half = lost[0].rung, (len(lost) + 1) // 2
        if size > 1:
            self._worked.setdefault(rung, 0)
        if is_out_of_memory(reason):
            self._tight.add(rung)
        keys = [job.key for job in lost]
        self._again += [part for part in (keys[half:], keys[:half]) if part]

    def repeat(self, jobs: Sequence[Job]) -> None:
        for rung in sorted({job.rung for job in jobs}):
            self._again.append([job.key for job in jobs if job.rung == rung])

    def _next_part(self) -> Sequence[JobKey]:
        """The next part of a call that was lost, made as small as its memory requires."""
        part = self._again.pop()
        most = self._size(part, 1) if part[0][2] in self._tight else len(part)
        if part[most:]:
            self._again.append(part[most:])
        return part[:most]

    def _size(self, keys: Sequence[JobKey], free: int) -> int:
        """How many of these jobs, which are on one rung, the next call gets if they are split
        evenly over the calls that can start."""
        even = -(-len(keys) // free)
        limits = (self._limit, self._worked.get(keys[0][2]))
        return min([even, *filter(None, limits)])


def is_out_of_memory(reason: str) -> bool:
    """Whether the reason why a call was lost is that memory was not sufficient."""
    first = reason.partition("\n")[0].lower().replace(" ", "")
    return first.startswith("memoryerror") or "outofmemory" in first
