"""Rules that decide, from the results of a finished run, whether to deepen a study.

Each rule in `RULES` is a method of the comparison under its name.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TypeAlias

from deepband.analysis import chart_data
from deepband.study.study import Study

Rule: TypeAlias = Callable[[Study], bool]


def ranks_differ(study: Study) -> bool:
    """PASHA's plain rule (Bohdal et al., 2023): deepen unless the two top rungs rank the configs
    that are on both in the same order. With fewer than two such configs, deepen."""
    *_, (_, pairs) = [(-1, []), *chart_data.both_rungs(study.session.state)]
    if len(pairs) < 2:
        return True
    low, high = (
        sorted(range(len(pairs)), key=lambda number: pairs[number][rung]) for rung in (0, 1)
    )
    return low != high


def advised(study: Study) -> bool:
    """The rule of `Study.auto_deepen`."""
    return study.advice().deepen


RULES: dict[str, Rule] = {"auto": advised, "pasha": ranks_differ}
