"""Numbers that users give, checked and read exactly, and exact numbers as they are shown.

Budgets and costs are fractions: sums of floats would depend on their order, and a tenth is not a
float.
"""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from numbers import Integral, Rational, Real
from typing import TypeAlias

from deepband.errors import BudgetError

Budget: TypeAlias = int | float | Fraction | Decimal
"""The types that users may give as a budget."""

TOLERANCE = Fraction(1, 10**9)
MOST_COUNT = 1_000_000_000


def check_eta(eta: int) -> int:
    """The eta as an int. Raises BudgetError unless it is a whole number of 2 or more."""
    if isinstance(eta, bool) or not isinstance(eta, Integral) or eta < 2:
        raise BudgetError("eta", eta, "give a whole number of 2 or more, such as 3.")
    return int(eta)


def check_count(name: str, given: int) -> int:
    """A width or a number of brackets as an int. Raises BudgetError unless it is positive."""
    if isinstance(given, bool) or not isinstance(given, Integral) or given < 1:
        raise BudgetError(name, given, "give a whole number of 1 or more.")
    if given > MOST_COUNT:
        raise BudgetError(name, given, f"give at most {MOST_COUNT:,}.")
    return int(given)


def read_budget(name: str, given: Budget) -> Fraction:
    """A budget as an exact positive fraction. A float is read as it is printed: 0.1 is a tenth."""
    if not is_finite(given):
        raise BudgetError(name, given, "give a positive, finite number, such as 1 or 0.1.")
    exact = read_exactly(given)
    if float(exact) <= 0:
        raise BudgetError(name, given, "it must be greater than zero.")
    return exact


def is_finite(given: object) -> bool:
    """Whether it is a finite number within the range of floats, and not a bool."""
    if isinstance(given, bool) or not isinstance(given, Real | Decimal):
        return False
    try:
        return math.isfinite(given)
    except (OverflowError, ValueError):  # an int beyond float, a signalling NaN
        return False


def read_exactly(given: Budget) -> Fraction:
    """A finite number as a fraction. A float is read as it is printed: 0.1 is a tenth."""
    if isinstance(given, Integral):
        return Fraction(int(given))
    if isinstance(given, Rational | Decimal):
        return Fraction(given)
    return Fraction(repr(float(given)))


def exceeds(number: Fraction, limit: Fraction) -> bool:
    """Whether it is larger by more than the error of rounding the limit to a float."""
    return number > limit * (1 + TOLERANCE)


def as_number(exact: Fraction) -> int | float:
    """An int if it is an integer, else the nearest float."""
    return exact.numerator if exact.denominator == 1 else float(exact)
