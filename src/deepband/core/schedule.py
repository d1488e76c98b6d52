"""How many configs run with which budget: brackets, rungs, sizes and costs, in exact numbers.

A rung is an integer: rung k has the budget `unit * eta**k`. A bracket is named by the rung it
starts on, so that its name stays the same when the study is deepened. Logarithms are avoided:
`floor(log(243) / log(3))` is 4.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction
from functools import lru_cache
from typing import TypeAlias

from deepband.core.exact_numbers import (
    TOLERANCE,
    Budget,
    as_number,
    check_count,
    check_eta,
    read_budget,
)
from deepband.core.record_text import record_repr
from deepband.errors import BudgetError

Cell: TypeAlias = tuple[int, int]
"""A (bracket, rung)."""

MOST_EVALUATIONS = 50_000_000


@dataclass(frozen=True, slots=True)
class Schedule:
    """The brackets and rungs of one run.

    >>> schedule = Schedule.of(eta=3, min_budget=1, max_budget=9)
    >>> [schedule.sizes(bracket) for bracket in schedule.brackets]
    [[9, 3, 1], [5, 1], [3]]
    >>> schedule.evaluations, schedule.cost
    (22, Fraction(78, 1))
    >>> schedule.extended(width=2).sizes(0)
    [18, 6, 2]
    """

    eta: int
    unit: Fraction
    """The budget of rung 0, which deepening does not change."""
    top: int
    """The top rung."""
    width: int = 1
    """How many times as many configs each bracket starts with as in plain Hyperband."""
    bracket_limit: int | None = None
    """How many brackets there are at most, counted from the one that starts on rung 0."""
    whole: bool = False
    """Whether an evaluation costs its budget rounded down, as its job carries it."""
    _counts: Mapping[Cell, int] = field(init=False, repr=False, compare=False)

    __repr__ = record_repr

    def __post_init__(self) -> None:
        check_eta(self.eta)
        check_count("width", self.width)
        if self.bracket_limit is not None:
            check_count("brackets", self.bracket_limit)
        if self.unit <= 0 or self.top < 0:
            raise BudgetError("unit", self.unit, "a schedule needs a positive unit and a top rung.")
        # Bracket 0 alone has eta**top configs: check before numbers of that size are computed.
        if self.top * math.log2(self.eta) > 64:
            raise self._too_large()
        counts = _counts(self.eta, self.top, self.width, len(self.brackets))
        object.__setattr__(self, "_counts", counts)
        if self.evaluations > MOST_EVALUATIONS:
            raise self._too_large()

    def _too_large(self) -> BudgetError:
        where = f"with a smallest budget of {as_number(self.unit)} and eta {self.eta} it needs"
        most = f"more than {MOST_EVALUATIONS:,} evaluations"
        if self.width > 1:
            given = f"at max_budget {as_number(self.max_budget)} it needs {most}."
            return BudgetError("width", self.width, f"{given} Choose a smaller width.")
        return BudgetError(
            "max_budget",
            as_number(self.max_budget),
            f"{where} {most}. Choose a smaller max_budget, or a larger min_budget or eta.",
        )

    @classmethod
    def of(
        cls,
        eta: int,
        min_budget: Budget,
        max_budget: Budget,
        width: int = 1,
        brackets: int | None = None,
        whole: bool = False,
    ) -> Schedule:
        """The schedule of Hyperband between two budgets: with `width` times as many configs, and
        with the first `brackets` brackets only, if they are given. With `whole`, evaluations cost
        whole budgets."""
        eta = check_eta(eta)
        low = read_budget("min_budget", min_budget)
        high = read_budget("max_budget", max_budget)
        limit = high * (1 + TOLERANCE)
        if low > limit:
            raise BudgetError(
                "min_budget",
                min_budget,
                f"it is larger than max_budget, {max_budget!r}. Swap them or lower min_budget.",
            )
        return cls(eta, *_lowest_rung(eta, low, high), width, brackets, whole)

    @property
    def max_budget(self) -> Fraction:
        """The budget of the top rung, exactly."""
        return self.budget(self.top)

    @property
    def brackets(self) -> range:
        """All brackets, each named by the rung it starts on."""
        rungs = self.top + 1
        return range(rungs if self.bracket_limit is None else min(rungs, self.bracket_limit))

    def budget(self, rung: int) -> Fraction:
        """The budget of a rung, exactly."""
        return self.unit * int(self.eta**rung)

    def charge(self, rung: int) -> Fraction:
        """What an evaluation on a rung costs if it pays its full budget."""
        return Fraction(math.floor(self.budget(rung))) if self.whole else self.budget(rung)

    def rungs(self, bracket: int) -> range:
        """The rungs of a bracket, from its starting rung up."""
        return range(bracket, self.top + 1)

    def start_size(self, bracket: int) -> int:
        """How many configs a bracket starts with: n in the paper."""
        return self._counts[bracket, bracket]

    def slots(self, bracket: int, rung: int) -> int:
        """How many configs of a bracket run on a rung, which is its starting rung or above."""
        return self._counts[bracket, rung]

    def sizes(self, bracket: int) -> list[int]:
        """The slots of a bracket on each of its rungs, from its starting rung up."""
        return [self.slots(bracket, rung) for rung in self.rungs(bracket)]

    def cells(self) -> Iterator[Cell]:
        """Every (bracket, rung)."""
        return iter(self._counts)

    def counts(self) -> dict[Cell, int]:
        """The slots of each cell: how many evaluations a fresh run makes there."""
        return dict(self._counts)

    @property
    def configs(self) -> int:
        """How many configs a fresh run samples."""
        return sum(self.start_size(bracket) for bracket in self.brackets)

    @property
    def evaluations(self) -> int:
        """How many evaluations a fresh run makes."""
        return sum(self._counts.values())

    @property
    def cost(self) -> Fraction:
        """What a fresh run costs if every evaluation pays its full budget."""
        return self.cost_of(self.counts())

    @property
    def cost_resumed(self) -> Fraction:
        """What a fresh run costs if training continues from the rung below."""
        return self.cost_resumed_of(self.counts())

    def cost_of(self, counts: Mapping[Cell, int]) -> Fraction:
        """The cost of `counts[cell]` evaluations in each cell, each at its full budget."""
        return self._of_shares(sum(n * self._share(rung) for (_, rung), n in counts.items()))

    def cost_resumed_of(self, counts: Mapping[Cell, int]) -> Fraction:
        """The same if training continues: above its starting rung, a config was always evaluated
        on the rung below, so it pays the difference of the two budgets."""
        saved = sum(
            n * self._share(rung - 1) for (bracket, rung), n in counts.items() if rung > bracket
        )
        return self.cost_of(counts) - self._of_shares(saved)

    def _share(self, rung: int) -> int:
        """The charge of a rung as a number of equal shares. Costs are summed as ints, because sums
        of fractions take most of the time of a quote."""
        budget: int = self.unit.numerator * self.eta**rung
        return budget // self.unit.denominator if self.whole else budget

    def _of_shares(self, number: int) -> Fraction:
        return Fraction(number, 1 if self.whole else self.unit.denominator)

    def rung_of(self, budget: Budget, name: str = "budget") -> int | None:
        """The rung that has a budget (within one part in 10^9), possibly above the top, or None."""
        wanted = read_budget(name, budget)
        rung = 0
        while self.budget(rung) < wanted * (1 - TOLERANCE):
            rung += 1
        return rung if abs(self.budget(rung) - wanted) <= wanted * TOLERANCE else None

    def covers(self, other: Schedule) -> bool:
        """Whether it is at least as deep and wide as another one, and has all its brackets."""
        few, many = (each.bracket_limit or math.inf for each in (other, self))
        return (
            (self.eta, self.unit) == (other.eta, other.unit)
            and self.top >= other.top
            and self.width >= other.width
            and many >= few
        )

    def contains(self, bracket: int, index: int) -> bool:
        """Whether a config with this index starts in this bracket."""
        return 0 <= index < self._counts.get((bracket, bracket), 0)

    def extended(
        self, levels: int = 0, width: int | None = None, brackets: int | None = None
    ) -> Schedule:
        """The schedule with `max_budget * eta**levels`, and with another width and number of
        brackets if they are given. If nothing shrinks, no cell has fewer slots than before."""
        return replace(
            self,
            top=self.top + levels,
            width=self.width if width is None else width,
            bracket_limit=self.bracket_limit if brackets is None else brackets,
        )

    def job_budgets(self, whole: bool = False) -> tuple[int | float, ...]:
        """The budgets of jobs by rung: an int if the budget is an integer or `whole` floors it,
        else the nearest float."""
        return _job_budgets(self, whole)


@lru_cache(maxsize=256)
def _lowest_rung(eta: int, low: Fraction, high: Fraction) -> tuple[Fraction, int]:
    """The budget of rung 0, and the number of rungs above it."""
    top = 0
    while low * eta ** (top + 1) <= high * (1 + TOLERANCE):
        top += 1
    return high / eta**top, top


@lru_cache(maxsize=256)
def _counts(eta: int, top: int, width: int, brackets: int) -> Mapping[Cell, int]:
    """The slots of each cell. Thousands of studies share a few of these tables."""
    counts = {}
    for bracket in range(brackets):
        height = top - bracket
        start = width * -(-(top + 1) * eta**height // (height + 1))
        for rung in range(bracket, top + 1):
            counts[bracket, rung] = start // eta ** (rung - bracket)
    return counts


@lru_cache(maxsize=256)
def _job_budgets(schedule: Schedule, whole: bool) -> tuple[int | float, ...]:
    budgets = [schedule.budget(rung) for rung in range(schedule.top + 1)]
    return tuple(math.floor(each) if whole else as_number(each) for each in budgets)
