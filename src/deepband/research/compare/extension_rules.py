"""Rules that decide, from the results of a finished run, how to extend a study, and when to stop.

Each rule in `RULES` is a method of the comparison under its name.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import TypeAlias

from deepband.analysis import chart_data
from deepband.research.compare.ledger import Ledger
from deepband.study.extension_policy import WIDENING, Automatic, Extension
from deepband.study.study import Study

Rule: TypeAlias = Callable[[Study, Automatic], Extension | None]
"""The next step of a finished study within limits, or None to stop."""


def limits_of(ledger: Ledger) -> Automatic:
    """The limits of a rule: what every method may spend, up to the right max_budget."""
    task = ledger.task
    most = task.schedule(ledger.width).cost
    return Automatic("preserving", most, None, Fraction(task.max_budget))


def advised(study: Study, limits: Automatic) -> Extension | None:
    """The rule of `Study.auto_extend`."""
    return limits.decide(study.session.state)[0]


def deeper_while_ranks_differ(study: Study, limits: Automatic) -> Extension | None:
    """PASHA's plain rule (Bohdal et al., 2023): deepen unless the two top rungs rank the configs
    that are on both in the same order. With fewer than two such configs, deepen."""
    to = study.session.state.schedule.extended(levels=1).max_budget
    beyond = limits.max_budget_limit is not None and to > limits.max_budget_limit
    return None if beyond or not ranks_differ(study) else Extension(limits.strategy, to)


def ranks_differ(study: Study) -> bool:
    """Whether the two top rungs rank configs differently, or fewer than two configs are on both."""
    *_, (_, pairs) = [(-1, []), *chart_data.both_rungs(study.session.state)]
    if len(pairs) < 2:
        return True
    low, high = (
        sorted(range(len(pairs)), key=lambda number: pairs[number][rung]) for rung in (0, 1)
    )
    return low != high


def always_wider(study: Study, limits: Automatic) -> Extension:
    """Widen until everything is spent."""
    return Extension(WIDENING, width=study.width + 1)


RULES: dict[str, Rule] = {"auto": advised, "pasha": deeper_while_ranks_differ}
"""Rules that stop by themselves, from the smallest first guess."""
