"""The order in which a sampler that learns samples configs, on a virtual clock.

A sampler that learns must not depend on the number of workers, their speed or interruptions. So the
current run is simulated with the declared number of virtual workers, `StudyCreated.parallel`:

- A job takes as much virtual time as its rung has budget, whether it fails, resumes or was
  evaluated long ago. A config that had a result on a rung before the run started, or an imported
  one, takes none.
- Whenever virtual workers are free, they start waiting jobs: of the lowest bracket first, and in it
  by index. A bracket climbs when the last job on its rung ends.
- In the first run, the other brackets start when bracket 0 reaches its top rung: until then there
  is hardly anything to learn from.

A config is sampled with the results of all jobs that have ended when its own job starts. Those of a
bracket that start at the same time are sampled together. The simulation needs no configs, only
losses: it stops where the result of a job that ends is missing, and continues when it is recorded.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import NamedTuple

from deepband.core.facts import Fact, JobFinished, JobKey, JobsReopened, is_shared
from deepband.core.state import State
from deepband.core.virtual_clock import VirtualClock


class Draw(NamedTuple):
    """Configs of a bracket that are sampled together."""

    bracket: int
    indices: range
    seen: int
    """How many jobs had ended, in the order of `VirtualSchedule.ended`."""
    pending: tuple[JobKey, ...]
    """The jobs that were running."""


class VirtualSchedule:
    """The simulation of a study's current run, as far as its results are known."""

    def __init__(self, state: State) -> None:
        run = state.run
        self.run = run.number
        self.ended: list[JobKey] = []
        """The jobs that have ended, in order: by time, then bracket, index and rung."""
        self._clock = VirtualClock[JobKey](state.created.parallel)
        self._brackets = [_Bracket(bracket) for bracket in run.schedule.brackets]
        self._draws: dict[tuple[int, int], Draw] = {}
        """By (bracket, index), of configs that had not been sampled when their jobs started."""
        for bracket in self._brackets:
            bracket.arrive(state, run.schedule.top if run.frugal else bracket.number)
        self._start_jobs(state)
        self.advance(state)

    def advance(self, state: State) -> None:
        """Simulate the run as far as the results of a state go. It must be the state that the
        simulation began with, or one with more results of jobs."""
        while ending := self._clock.next_to_end():
            if not all(_is_recorded(state, key) for key in ending):
                return
            for _ in ending:
                key = self._clock.advance()
                self.ended.append(key)
                self._brackets[key[0]].finish(state)
            self._start_jobs(state)

    def started(self, state: State) -> Iterator[JobKey]:
        """The jobs that have started and have no result, in the order in which they started."""
        return (key for key in self._clock.running if not _is_recorded(state, key))

    def has_started(self, key: JobKey) -> bool:
        """Whether a job is running on the virtual clock."""
        return key in self._clock.running

    def draw_of(self, bracket: int, index: int) -> Draw:
        """The draw that a config belongs to, whose job has started."""
        return self._draws[bracket, index]

    def seen(self, state: State) -> set[JobKey]:
        """The jobs of this run whose results were used to sample a config."""
        drawn = (
            draw.seen
            for (bracket, index), draw in self._draws.items()
            if index < len(state.configs[bracket]) and (bracket, index) not in state.origins
        )
        return set(self.ended[: max(drawn, default=0)])

    @staticmethod
    def is_disrupted_by(fact: Fact) -> bool:
        """Whether a fact changes the part of a run that may have been simulated already, so that
        the simulation must start again: results that were imported, or withdrawn."""
        if isinstance(fact, JobFinished):
            return _is_imported(fact)
        return isinstance(fact, JobsReopened)

    def _start_jobs(self, state: State) -> None:
        for bracket in self._brackets:
            if bracket.number and self.run == 0 and not self._brackets[0].on_top(state):
                return
            while bracket.waiting and self._clock.free:
                self._start_group(state, bracket)

    def _start_group(self, state: State, bracket: _Bracket) -> None:
        """Start as many jobs of a bracket as there are free workers."""
        pending = tuple(self._clock.running)
        rung, duration = bracket.rung, state.schedule.eta**bracket.rung
        count = min(self._clock.free, len(bracket.waiting))
        indices = [bracket.waiting.pop() for _ in range(count)]
        for index in indices:
            self._clock.start((bracket.number, index, rung), duration)
        if rung == bracket.number:
            draw = Draw(
                bracket.number, range(indices[0], indices[-1] + 1), len(self.ended), pending
            )
            self._draws |= {(bracket.number, index): draw for index in indices}


class _Bracket:
    """The rung that a bracket has reached on the virtual clock."""

    def __init__(self, number: int) -> None:
        self.number = number
        self.rung = number
        self.waiting: list[int] = []
        """In descending order, so that the next one is cheap to remove."""
        self._open = 0
        """How many jobs on the rung have not ended."""

    def on_top(self, state: State) -> bool:
        return self.rung == state.schedule.top

    def arrive(self, state: State, rung: int) -> None:
        """Let the configs that were promoted arrive on a rung, and climb on if none of them takes
        time there."""
        run, results = state.run, state.results[self.number, rung]
        arrived = run.arrived[self.number, rung]
        before = run.before.get((self.number, rung), ())
        new = (i for i in arrived if i not in before and not _is_imported(results.get(i)))
        self.rung, self.waiting = rung, sorted(new, reverse=True)
        self._open = len(self.waiting)
        if not self._open:
            self._climb(state)

    def finish(self, state: State) -> None:
        """Count a job of the rung that has ended, and climb after the last."""
        self._open -= 1
        if not self._open:
            self._climb(state)

    def _climb(self, state: State) -> None:
        if not self.on_top(state):
            self.arrive(state, self.rung + 1)


def _is_recorded(state: State, key: JobKey) -> bool:
    bracket, index, rung = key
    return index in state.results[bracket, rung]


def _is_imported(result: JobFinished | None) -> bool:
    """Whether a result was imported, so that it is known at once. One that was taken from an equal
    config of the study is not: it takes the time that the evaluation would have taken."""
    return result is not None and result.imported and not is_shared(result.origin)
