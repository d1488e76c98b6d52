"""The limits of one call that runs jobs: its time, its cost, its work ahead, and how many jobs."""

from __future__ import annotations

import math
import time
from decimal import Decimal
from fractions import Fraction
from numbers import Real

from deepband.core.exact_numbers import Budget, check_count, exceeds, is_finite, read_exactly
from deepband.errors import InputError, shown


class Limits:
    """When to stop before the run is done. Costs are exact, and count what is actually trained."""

    def __init__(
        self,
        max_seconds: Budget | None = None,
        max_cost: Budget | None = None,
        ahead_limit: Budget | None = 0,
        max_jobs: int | None = None,
    ) -> None:
        self.max_seconds = _read_limit("max_seconds", max_seconds)
        self.max_cost = _read_limit("max_cost", max_cost)
        self.ahead_limit = _read_limit("ahead_limit", ahead_limit)
        """How much of `cost` may be spent ahead of the next run."""
        self.max_jobs = None if max_jobs is None else check_count("jobs", max_jobs)
        self.jobs = 0
        self.start = time.monotonic()
        self.cost = Fraction(0)
        self.ahead = Fraction(0)

    def out_of_time(self) -> bool:
        return self.max_seconds is not None and time.monotonic() - self.start >= self.max_seconds

    @property
    def counts(self) -> bool:
        """Whether what jobs cost, or how many there are, makes a difference."""
        return self.max_cost is not None or self.max_jobs is not None

    def out_of_jobs(self) -> bool:
        return self.max_jobs is not None and self.jobs >= self.max_jobs

    def spend(self, budget: Fraction) -> bool:
        """Count a job and its budget, unless that would exceed a limit."""
        over = self.max_cost is not None and exceeds(self.cost + budget, self.max_cost)
        if over or self.out_of_jobs():
            return False
        self.cost += budget
        self.jobs += 1
        return True

    def spend_ahead(self, budget: Fraction, needed: Fraction) -> bool:
        """The same for a job ahead, which has its own limit and must leave what the current run
        still needs."""
        if self.ahead_limit is not None and exceeds(self.ahead + budget, self.ahead_limit):
            return False
        if self.max_cost is not None and exceeds(self.cost + budget + needed, self.max_cost):
            return False
        self.ahead += budget
        self.cost += budget
        return True


def read_ahead_limit(ahead: bool, limit: Budget | None) -> Budget | None:
    """How much may be spent ahead of the next run; None if there is no limit."""
    if limit is not None and not ahead:
        raise InputError("ahead_limit bounds what ahead=True spends: give both.")
    return limit if ahead else 0


def _read_limit(name: str, given: Budget | None) -> Fraction | None:
    """A limit as a user gives it; None is none, and so is infinity."""
    if given is None or (isinstance(given, Real | Decimal) and given == math.inf):
        return None
    if not is_finite(given) or given < 0:
        raise InputError(f"{name} is {shown(given)}: give a number of 0 or more.")
    return read_exactly(given)
