"""Drawing the configs that jobs need and that do not exist yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

from deepband import report
from deepband.errors import DeepbandError, shown
from deepband.facts import ConfigsDrawn, JobKey, StudyCreated
from deepband.records import Evaluation
from deepband.samplers import Sampler
from deepband.space import Space
from deepband.state import State


class Drawer:
    """A sampler and the space it draws from, for one study."""

    def __init__(self, created: StudyCreated, space: Space | None, sampler: Sampler) -> None:
        self.created = created
        self.sampler = sampler
        self._space = space
        self._observed: tuple[int, Sequence[Evaluation]] = (0, ())

    def copy(self) -> Drawer:
        """One that observes another study."""
        return Drawer(self.created, self.space, self.sampler)

    @cached_property
    def space(self) -> Space:
        """Made from its description only when it is needed, because that loads ConfigSpace."""
        return self._space or Space.described(self.created.space)

    def missing(self, state: State, keys: Iterable[JobKey]) -> Iterator[ConfigsDrawn]:
        """The configs that these jobs need and that are not drawn yet, in whole chunks."""
        drawn = [len(configs) for configs in state.configs]
        ends: dict[int, int] = {}
        for bracket, index, _ in keys:
            if bracket >= len(drawn) or index >= drawn[bracket]:  # seldom
                ends[bracket] = max(index, ends.get(bracket, 0))
        for bracket, last in ends.items():
            end = (last // self.created.chunk + 1) * self.created.chunk
            ahead = state.is_ahead(bracket, last)
            schedule = state.coming if ahead else state.full.schedule
            first = drawn[bracket] if bracket < len(drawn) else 0
            size = schedule.start_size(bracket)
            yield self._draw(state, bracket, range(first, min(end, size)))

    def _draw(self, state: State, bracket: int, indices: range) -> ConfigsDrawn:
        observations = self._observations(state)
        seed = self.created.seed
        drawn = self.sampler.draw(self.space, observations, bracket, indices, seed)
        configs = tuple(drawn) if isinstance(drawn, Iterable) else ()
        if len(configs) != len(indices) or not all(isinstance(each, dict) for each in configs):
            raise DeepbandError(
                f"the sampler {self.created.sampler!r} was asked for {len(indices)} configs, each "
                f"a dict, and drew {shown(drawn)}."
            )
        return ConfigsDrawn(bracket, indices.start, configs)

    def _observations(self, state: State) -> Sequence[Evaluation]:
        """The evaluations of earlier runs, for a sampler that learns."""
        run = state.run.number
        if self.sampler.learns and self._observed[0] < run:
            earlier = (each for each in report.evaluations(state) if each.run < run)
            self._observed = (run, tuple(earlier))
        return self._observed[1]
