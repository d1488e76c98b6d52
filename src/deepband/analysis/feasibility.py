"""How many evaluations violate a constraint, and how many configs were rejected before training."""

from __future__ import annotations

from deepband.core.facts import PRECHECK, JobFinished
from deepband.core.state import State


def is_judged(state: State) -> bool:
    """Whether an evaluation that did not fail can be infeasible in this study."""
    return bool(state.criteria.constraints) or state.standings.rejected


def feasibility_notes(state: State) -> list[str]:
    """The numbers in words, such as "5 infeasible" and "2 rejected"; empty if all are feasible."""
    if not is_judged(state):
        return []
    found = [verdict(state, each) for each in state.all_results()]
    counts = {name: found.count(name) for name in ("infeasible", "rejected")}
    return [f"{count:,} {name}" for name, count in counts.items() if count]


def verdict(state: State, result: JobFinished) -> str | None:
    """Why a result that did not fail cannot be the best: "infeasible" or "rejected", else None."""
    if result.loss is None or state.standings.is_feasible(result):
        return None
    return "rejected" if result.origin == PRECHECK else "infeasible"
