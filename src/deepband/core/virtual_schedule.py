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
If promotions may be skipped, it also stops where a bracket would climb and this is not decided.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import NamedTuple

from deepband.core.facts import (
    Fact,
    JobFinished,
    JobKey,
    JobSkipped,
    JobsReopened,
    is_shared,
)
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
    """The simulation of a study's current run, as far as its results are known. `held` are the
    brackets of which it is not decided which of the promotions to their rung are skipped."""

    def __init__(self, state: State, held: Collection[int] = ()) -> None:
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
        self.advance(state, held)

    def advance(self, state: State, held: Collection[int] = ()) -> None:
        """Simulate the run as far as the results of a state go. It must be the state that the
        simulation began with, or one with more results of jobs."""
        while all(each.climb(state, each.number in held) for each in self._brackets):
            self._start_jobs(state)
            ending = self._clock.next_to_end()
            if not ending or not all(_is_recorded(state, key) for key in ending):
                return
            for _ in ending:
                key = self._clock.advance()
                self.ended.append(key)
                self._brackets[key[0]].open -= 1

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
        the simulation must start again: results that were imported, or withdrawn, and promotions
        that were skipped."""
        if isinstance(fact, JobFinished):
            return _is_imported(fact)
        return isinstance(fact, JobsReopened | JobSkipped)

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
        self.open = 0
        """How many jobs on the rung have not ended."""

    def on_top(self, state: State) -> bool:
        return self.rung == state.schedule.top

    def arrive(self, state: State, rung: int) -> None:
        """Let the configs that were promoted arrive on a rung."""
        run, results = state.run, state.results[self.number, rung]
        arrived = run.arrived[self.number, rung]
        before = run.before.get((self.number, rung), ())
        new = (i for i in arrived if i not in before and not _is_imported(results.get(i)))
        self.rung, self.waiting = rung, sorted(new, reverse=True)
        self.open = len(self.waiting)

    def climb(self, state: State, held: bool) -> bool:
        """Climb as long as no job on the rung has to end. Returns False if the promotions that come
        next are not decided: with `held`, those to the rung that the state is on."""
        while not self.open and not self.on_top(state):
            if held and self.rung + 1 == state.progress[self.number].rung:
                return False
            self.arrive(state, self.rung + 1)
        return True


def _is_recorded(state: State, key: JobKey) -> bool:
    bracket, index, rung = key
    return index in state.results[bracket, rung]


def _is_imported(result: JobFinished | None) -> bool:
    """Whether a result was imported, so that it is known at once. One that was taken from an equal
    config of the study is not: it takes the time that the evaluation would have taken."""
    return result is not None and result.imported and not is_shared(result.origin)
