"""Rules that look at a study whose run is done and say whether to go deeper.

A rule is a function in `RULES`, and a method of the comparison by its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from deepband.analysis import chart_data
from deepband.study.study import Study

Rule: TypeAlias = Callable[[Study], bool]


def ranks_differ(study: Study) -> bool:
    """PASHA's plain rule (Bohdal et al., 2023): go deeper unless the two top rungs rank those who
    are on both in the same order. Fewer than two rank nobody, and it goes deeper."""
    *_, (_, pairs) = [(-1, []), *chart_data.both_rungs(study.session.state)]
    if len(pairs) < 2:
        return True
    low, high = (
        sorted(range(len(pairs)), key=lambda number: pairs[number][rung]) for rung in (0, 1)
    )
    return low != high


def advised(study: Study) -> bool:
    """What `optimize(deepen="auto")` goes by."""
    return study.advice().deepen


RULES: dict[str, Rule] = {"auto": advised, "pasha": ranks_differ}
