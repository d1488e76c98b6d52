"""What the trackers share: following a study by its facts, and a queue of evaluations to log.

An observer may receive the same history twice, and its server may be unreachable for a while. So
evaluations stay in the queue until they are logged, and each tracker skips what it already has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from deepband.analysis.metrics import numeric
from deepband.core.criteria import Criteria
from deepband.core.evaluations import evaluation_of
from deepband.core.facts import (
    PRECHECK,
    Fact,
    JobFinished,
    JobKey,
    JobsReopened,
    RunStarted,
    StudyCreated,
)
from deepband.core.records import Evaluation
from deepband.core.state import State


class Tracker:
    """The state of an observed study, and the evaluations that are not logged yet."""

    def __init__(self) -> None:
        self.state = State()
        self._pending: dict[JobKey, Evaluation] = {}
        self._failed: set[tuple[int, int]] = set()
        """The configs that could not be logged at least once."""

    @property
    def constrained(self) -> bool:
        """Whether the study has constraints."""
        return bool(self.state.criteria.constraints)

    def ever_rejected(self, last: Evaluation) -> bool:
        """Whether a config was rejected before it was trained, on this rung or on a lower one."""
        rungs = range(last.bracket, last.rung + 1)
        results = (self.state.result(last.bracket, last.index, rung) for rung in rungs)
        return any(each is not None and each.origin == PRECHECK for each in results)

    def follow(self, facts: Iterable[Fact]) -> None:
        """Update the state and the queue."""
        for fact in facts:
            if isinstance(fact, StudyCreated):  # the whole history follows
                self.state = State()
                self._pending.clear()
            ahead = list(self.state.ahead.results.values())
            self.state.apply([fact])
            if isinstance(fact, JobFinished):
                self._enqueue([fact])
            elif isinstance(fact, RunStarted):
                self._enqueue(ahead)
            elif isinstance(fact, JobsReopened):
                for key in fact.jobs:
                    self._pending.pop(key, None)

    def _enqueue(self, results: Iterable[JobFinished]) -> None:
        """Add results to the queue; those ahead of the next run are added when it starts."""
        for each in results:
            result = self.state.results.get((each.bracket, each.rung), {}).get(each.index)
            if result is not None:
                key = each.bracket, each.index, each.rung
                self._pending[key] = evaluation_of(self.state, result)

    def log_pending(self, log: Callable[[list[Evaluation]], None]) -> None:
        """Log the queue, config by config, from the lowest rung up.

        A config that cannot be logged stays in the queue and is tried last next time, so that it
        does not block others. After a second failure the rest waits too: the tracker seems to be
        unreachable.
        """
        failure: Exception | None = None
        for key, evaluations in self._by_config():
            try:
                log(evaluations)
            except Exception as error:
                self._failed.add(key)
                if failure is not None:
                    raise
                failure = error
                continue
            for each in evaluations:
                del self._pending[each.bracket, each.index, each.rung]
        if failure is not None:
            raise failure

    def _by_config(self) -> list[tuple[tuple[int, int], list[Evaluation]]]:
        found: dict[tuple[int, int], list[Evaluation]] = {}
        for _, each in sorted(self._pending.items()):
            found.setdefault((each.bracket, each.index), []).append(each)
        return sorted(found.items(), key=lambda item: item[0] in self._failed)


def measures(evaluation: Evaluation, constrained: bool = False) -> dict[str, float]:
    """The numbers of an evaluation by name, the user's metrics first and those that are optimised
    last; empty if it failed. Objectives that have names are `objectives.NAME`.

    If the study is `constrained`, `feasible` is 1 or 0. It is all that a config has which was
    rejected before it was trained. Training that was stopped early has no loss, but the budget
    after which it was.
    """
    if is_rejected(evaluation):
        return {"feasible": 0.0}
    if evaluation.error is not None:
        return {}
    metrics = numeric(evaluation.metrics)
    named = {f"objectives.{name}": each for name, each in evaluation.objectives.items()}
    single = {"value": evaluation.value, "loss": evaluation.loss}
    if evaluation.stopped_after is not None:
        named, single = {}, {"stopped_after": evaluation.stopped_after}
    return {
        **{f"metrics.{name}": float(each) for name, each in metrics.items()},
        "budget": float(evaluation.budget),
        **({"feasible": float(evaluation.feasible)} if constrained else {}),
        **named,
        **{name: each for name, each in single.items() if each is not None},
    }


def is_rejected(evaluation: Evaluation) -> bool:
    """Whether a config was rejected before it was trained, so that its losses mean nothing."""
    return evaluation.origin == PRECHECK


def criteria_settings(criteria: Criteria) -> dict[str, object]:
    """What a study optimises, and within which bounds, as parameters of its run."""
    named: dict[str, object] = {f"objective {name}": each for name, each in criteria.objectives}
    bounds = {f"constraint {name}": _bounds(*each) for name, each in criteria.constraints}
    single = {} if criteria.several else {"maximize": criteria.maximize}
    return {**single, **named, **bounds}


def _bounds(lower: float | None, upper: float | None) -> str:
    if lower is None:
        return f"at most {upper:.10g}"
    return f"at least {lower:.10g}" if upper is None else f"from {lower:.10g} to {upper:.10g}"
