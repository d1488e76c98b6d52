"""The progress of a confirmation."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import replace

from deepband.core.exact_numbers import as_number
from deepband.core.facts import Confirmed
from deepband.core.state import State
from deepband.execution.pace import Pace, Started
from deepband.execution.progress import Progress, RunMeter, RunningEvaluation
from deepband.study.repetitions import Repetition, cost_of, job_bracket, missing, repetition_of


class ConfirmationMeter:
    """Measures the progress of repetitions. Everything else is read by the meter of the run."""

    def __init__(self, wanted: Sequence[Repetition], run: RunMeter) -> None:
        self._wanted = wanted
        self._run = run
        self._pace = Pace()
        self._counted: set[Repetition] | None = None

    @property
    def evaluations(self) -> int:
        return self._pace.evaluations

    def read(self, state: State, running: Sequence[Started], now: float) -> Progress:
        found = self._run.read(state, running, now)
        recorded = [state.confirmations[key] for key in self._wanted if key in state.confirmations]
        left = missing(state, self._wanted)
        self._count(state, recorded)
        spent, more = (cost_of(state, keys) for keys in ((fact.key for fact in recorded), left))
        cells = Counter((job_bracket(each), each[2]) for each in left)
        return replace(
            found,
            evaluations=len(recorded),
            total_evaluations=len(self._wanted),
            failed=sum(fact.loss is None for fact in recorded),
            spent=as_number(spent),
            left=as_number(more),
            total=as_number(spent + more),
            running=tuple(map(_unpacked, found.running)),
            seconds_left=self._pace.seconds_left(cells, running, found.workers, now),
            done=not left,
            confirming=True,
        )

    def _count(self, state: State, recorded: Sequence[Confirmed]) -> None:
        """Let new results set the pace. Those of the first reading are of earlier calls."""
        if self._counted is None:
            schedule = state.schedule
            self._pace.charges = [float(schedule.charge(rung)) for rung in range(schedule.top + 1)]
            self._counted = {fact.key for fact in recorded}
        for fact in recorded:
            if fact.key not in self._counted:
                self._counted.add(fact.key)
                self._pace.add(fact.rung, fact.seconds)


def _unpacked(running: RunningEvaluation) -> RunningEvaluation:
    key = running.bracket, running.index, running.rung
    bracket, _, _, repetition = repetition_of(key)
    return replace(running, bracket=bracket, repetition=repetition)
