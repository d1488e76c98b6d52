"""The page of one config: its parameters, its evaluations and the decisions about it."""

from __future__ import annotations

from typing import Any

from deepband.analysis.explanation import explain
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
        "value_name": state.value_name,
        "verdicts": list(map(str, verdicts)),
        "rows": [_row(state, cell[index]) for cell in cells if index in cell],
    }


def _row(state: State, result: JobFinished) -> dict[str, Any]:
    below = result.resumed_from
    return {
        "rung": result.rung,
        "budget": f"{state.run.budgets[result.rung]:.10g}",
        "run": result.run,
        "value": "failed" if result.loss is None else brief(state.value(result.loss)),
        "seconds": "" if result.seconds is None else f"{result.seconds:.3g}",
        "resumed_from": "the start" if below is None else f"rung {below}",
        "metrics": [(name, brief(value)) for name, value in (result.metrics or {}).items()],
        "error": result.error,
    }
