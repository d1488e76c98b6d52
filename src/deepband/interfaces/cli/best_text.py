"""The best evaluation as text for a terminal, and the command that shows the others."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from deepband.analysis.key_figures import no_result
from deepband.analysis.text import brief, shortened
from deepband.core.evaluations import best_above, best_evaluation, front
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import counted
from deepband.interfaces.cli.output import command

ANY_BUDGET = "best on any budget"
"""What `study.best` is called wherever it is shown."""
MOST_METRICS = 20
"""How many metrics of an evaluation are shown."""


def describe(state: State, best: Evaluation | None, label: str = ANY_BUDGET) -> str:
    """The best evaluation in a few lines. `label` says which one it is."""
    if best is None:
        return f"{label}: none yet, because {no_result(state)}"
    found = f"{label}: {best.value:.6g} with budget {best.budget:.6g}"
    lines = [f"{found} (bracket {best.bracket}, index {best.index}, rung {best.rung})"]
    lines += [f"         {metric}" for metric in _metric_lines(best.metrics)]
    lines += [f"         {name} = {value!r}" for name, value in best.config.items()]
    return "\n".join(lines)


def describe_both(state: State, study: Path) -> str:
    """The best evaluation on any budget and, if it is another one, that on the highest budget. With
    several objectives, the size of the front."""
    if state.criteria.several:
        found = counted(len(front(state)), "evaluation")
        return f"front on any budget: {found}; details: {command('front', study)}"
    return "\n".join([describe(state, best_evaluation(state)), *highest_budget(state, study)])


def highest_budget(state: State, study: Path) -> list[str]:
    """The best evaluation on the highest budget in one line, with the command that shows it. There
    is no line if it is also the best on any budget."""
    found = best_above(state)
    if found is None:
        return []
    place = f"bracket {found.bracket}, index {found.index}"
    line = f"on the highest budget, {found.budget:.6g}: {found.value:.6g} ({place})"
    return [f"{line}; details: {command('best', study, '--rung', 'top')}"]


def _metric_lines(metrics: Mapping[str, Any]) -> list[str]:
    """What the objective returned alongside the loss, in its order."""
    lines = [f"{shortened(name, 80)}: {brief(each)}" for name, each in metrics.items()]
    others = len(lines) - MOST_METRICS
    return lines[:MOST_METRICS] + ([f"and {counted(others, 'other metric')}"] if others > 0 else [])
