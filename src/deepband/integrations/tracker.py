"""What trackers share: a study followed by its facts, and what there is to log of it.

A tracker may be told the same history twice and may be out of reach for a while. So what is to be
logged waits here until it is logged, and the tracker finds out by itself what it has already.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable

from deepband.core.evaluations import evaluation_of
from deepband.core.facts import Fact, JobFinished, JobKey, JobsReopened, RunStarted, StudyCreated
from deepband.core.records import Evaluation
from deepband.core.state import State


class Tracker:
    """A study as an observer knows it, and the evaluations that are not logged yet."""

    def __init__(self) -> None:
        self.state = State()
        self._waiting: dict[JobKey, Evaluation] = {}
        self._failed: set[tuple[int, int]] = set()
        """The configs that could not be logged at some time."""

    def follow(self, facts: Iterable[Fact]) -> None:
        """Take in facts."""
        for fact in facts:
            if isinstance(fact, StudyCreated):  # the whole history follows
                self.state = State()
                self._waiting.clear()
            ahead = list(self.state.ahead.results.values())
            self.state.apply([fact])
            if isinstance(fact, JobFinished):
                self._wait([fact])
            elif isinstance(fact, RunStarted):
                self._wait(ahead)
            elif isinstance(fact, JobsReopened):
                for key in fact.jobs:
                    self._waiting.pop(key, None)

    def _wait(self, told: Iterable[JobFinished]) -> None:
        """Let results wait to be logged; those ahead of the next full run do so when it starts."""
        for each in told:
            known = self.state.results.get((each.bracket, each.rung), {}).get(each.index)
            if known is not None:
                key = each.bracket, each.index, each.rung
                self._waiting[key] = evaluation_of(self.state, known)

    def hand_on(self, log: Callable[[list[Evaluation]], None]) -> None:
        """Log what waits, config by config, from the lowest rung up.

        What fails waits on, and is tried again after everything else: one config that cannot be
        logged is in nobody's way. A second failure ends it for now, as the tracker seems out of
        reach.
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
                del self._waiting[each.bracket, each.index, each.rung]
        if failure is not None:
            raise failure

    def _by_config(self) -> list[tuple[tuple[int, int], list[Evaluation]]]:
        found: dict[tuple[int, int], list[Evaluation]] = {}
        for _, each in sorted(self._waiting.items()):
            found.setdefault((each.bracket, each.index), []).append(each)
        return sorted(found.items(), key=lambda item: item[0] in self._failed)


def measures(evaluation: Evaluation) -> dict[str, float]:
    """The numbers of an evaluation that did not fail, by name: those of the user, then ours."""
    if evaluation.loss is None or evaluation.value is None:
        return {}
    found = {f"metrics.{name}": number(each) for name, each in evaluation.metrics.items()}
    kept = {name: each for name, each in found.items() if each is not None}
    return {
        **kept,
        "budget": float(evaluation.budget),
        "value": evaluation.value,
        "loss": evaluation.loss,
    }


def number(value: object) -> float | None:
    """A metric as a number that can be drawn, if it is one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return None
    try:
        return float(value) if math.isfinite(value) else None
    except OverflowError:
        return None
