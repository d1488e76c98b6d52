"""Following the advice against always deepening and always widening, at equal cost.

Two comparisons answer different questions. In the same run: what would the other method have found
for what the advice spent on this data set and seed? On average: what would it have found if the
same total had been spent equally on all data sets? The second one also rewards the advice for
spending more where that pays.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from deepband.research.compare.curves import Curves
from deepband.research.compare.methods import BASE, GUESSES, ONCE
from deepband.research.markdown_tables import markdown
from deepband.research.statistics import Difference

ADVISED = "auto"
_SMALLEST = GUESSES[max(GUESSES)]
OTHERS = {
    f"{BASE}{_SMALLEST}": "always deeper",
    f"wider{_SMALLEST}": "always wider",
    f"{ONCE}{_SMALLEST}": "the first guess",
}
"""Methods with the same first guess, and what they do."""


class Match(NamedTuple):
    """The regret of the advice minus that of another method, for the same cost."""

    other: str
    regret: float
    """Of the other method, for the same cost in the same run."""
    difference: Difference
    average: float
    """Of the other method, for the same average cost."""


def matches(curves: Curves) -> Iterator[Match]:
    """Yield the matches of the advice against all others that have results."""
    if ADVISED not in curves.methods:
        return
    own, spent = curves.at(ADVISED, np.inf), float(curves.ends(ADVISED).mean())
    for name, other in OTHERS.items():
        if name in curves.methods:
            same = curves.at_ends(name, ADVISED)
            difference = Difference.of((own - same).mean(axis=1))
            average = float(curves.at(name, spent).mean())
            yield Match(other, float(same.mean()), difference, average)


def equal_cost_report(curves: Curves, trained: Curves) -> str:
    """Return a table for each measure of regret, or nothing if the advice has no results."""
    titles = {"with the largest budget": curves, "as it was trained": trained}
    parts = [part for title, of in titles.items() for part in _table(title, of)]
    return "\n\n".join(["### Deeper, wider or done", *parts]) if parts else ""


def _table(title: str, curves: Curves) -> Iterator[str]:
    rows = [_row(each) for each in matches(curves)]
    if rows:
        spent, regret = curves.ends(ADVISED).mean(), curves.at(ADVISED, np.inf).mean()
        yield (
            f"Regret of the incumbent {title}. Following the advice spends {spent:.3f} full runs "
            f"and has a regret of {regret:z.3f}."
        )
        yield markdown("other, for the same cost, advice minus it, p, on average", rows)


def _row(each: Match) -> list[str]:
    mean, low, high, p, _ = each.difference
    shown = f"{mean:+z.3f} ({low:+z.3f} to {high:+z.3f})"
    return [each.other, f"{each.regret:z.3f}", shown, f"{p:.2g}", f"{each.average:z.3f}"]
