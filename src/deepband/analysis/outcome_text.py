"""What came out of an evaluation, in words."""

from __future__ import annotations

from deepband.core.facts import PRECHECK, JobFinished
from deepband.core.state import State


def outcome_text(state: State, result: JobFinished) -> str:
    """What ranks a result, such as "loss 0.25", "error 0.1, latency 20" or "a failure"."""
    if result.loss is None:
        return "a failure"
    if result.origin == PRECHECK:
        return "a rejected config"
    if result.stopped_after is not None:
        return f"training stopped after {result.stopped_after:.6g}"
    named = state.criteria.values(result.loss)
    if result.number is not None and not named:
        named = {state.criteria.value_name: state.criteria.value(result.number)}
    text = ", ".join(f"{name} {each:.6g}" for name, each in named.items())
    return text if state.standings.is_feasible(result) else f"{text} (infeasible)"
