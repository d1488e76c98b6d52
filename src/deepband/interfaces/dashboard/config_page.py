"""The page of one config: its parameters, its evaluations and the decisions about it."""

from __future__ import annotations

from typing import Any

from deepband.analysis.explanation import explain
from deepband.analysis.feasibility import verdict
from deepband.analysis.text import brief
from deepband.core.facts import JobFinished
from deepband.core.state import State


def config_page(state: State, bracket: int, index: int) -> dict[str, Any] | None:
    """The values of the template; None if there is no such config."""
    if bracket >= len(state.progress) or index >= len(state.configs[bracket]):
        return None
    rungs = range(bracket, state.schedule.top + 1)
    cells = [state.results[bracket, rung] for rung in rungs]
    verdicts = () if state.is_ahead(bracket, index) else explain(state, bracket, index)
    return {
        "bracket": bracket,
        "index": index,
        "rungs": rungs,
        "config": state.config(bracket, index).items(),
        "columns": _columns(state),
        "verdicts": list(map(str, verdicts)),
        "rows": [_row(state, cell[index]) for cell in cells if index in cell],
    }


def _row(state: State, result: JobFinished) -> dict[str, Any]:
    below = result.resumed_from
    return {
        "rung": result.rung,
        "budget": f"{state.run.budgets[result.rung]:.10g}",
        "run": result.run,
        "values": _values(state, result),
        "seconds": "" if result.seconds is None else f"{result.seconds:.3g}",
        "resumed_from": "the start" if below is None else f"rung {below}",
        "metrics": [(name, brief(value)) for name, value in (result.metrics or {}).items()],
        "error": result.error,
    }


def _columns(state: State) -> tuple[str, ...]:
    """What the numbers that are optimised are called."""
    return state.criteria.names if state.criteria.several else (state.criteria.value_name,)


def _values(state: State, result: JobFinished) -> list[str]:
    """The numbers that are optimised, or why there are none. The first one says if a config is
    infeasible."""
    others = [""] * (len(_columns(state)) - 1)
    if result.loss is None:
        return ["failed", *others]
    if result.stopped_after is not None:
        return [f"stopped after {result.stopped_after:.6g}", *others]
    found = verdict(state, result)
    if found == "rejected":
        return ["rejected before training", *others]
    losses = result.loss if isinstance(result.loss, tuple) else (result.loss,)
    values = list(state.criteria.values(result.loss).values()) or list(
        map(state.criteria.value, losses)
    )
    texts = list(map(brief, values))
    return [f"{texts[0]} ({found})", *texts[1:]] if found else texts
