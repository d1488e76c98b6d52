"""One config, with all that was decided about it."""

from __future__ import annotations

from typing import Any

from deepband.analysis.explanation import explain
from deepband.analysis.formatting import brief
from deepband.core.facts import JobFinished
from deepband.core.state import State


def config_page(state: State, bracket: int, index: int) -> dict[str, Any] | None:
    """What the page of a config shows; None for one that is not drawn."""
    if bracket >= len(state.progress) or index >= len(state.configs[bracket]):
        return None
    rungs = range(bracket, state.schedule.top + 1)
    told = [results[index] for r in rungs if index in (results := state.results[bracket, r])]
    known = not state.is_ahead(bracket, index)
    return {
        "bracket": bracket,
        "index": index,
        "config": state.configs[bracket][index].items(),
        "value_name": "value" if state.created.maximize else "loss",
        "verdicts": [str(verdict) for verdict in explain(state, bracket, index)] if known else [],
        "rows": [_row(state, each) for each in told],
    }


def _row(state: State, told: JobFinished) -> dict[str, Any]:
    return {
        "rung": told.rung,
        "budget": f"{state.run.budgets[told.rung]:.10g}",
        "run": told.run,
        "value": "failed" if told.loss is None else brief(state.value(told.loss)),
        "seconds": "" if told.seconds is None else f"{told.seconds:.3g}",
        "resumed_from": "the start" if told.resumed_from is None else f"rung {told.resumed_from}",
        "metrics": [(name, brief(value)) for name, value in (told.metrics or {}).items()],
        "error": told.error,
    }
