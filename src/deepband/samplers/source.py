"""The source of configs for a study: samples those that jobs need and that do not exist yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from operator import itemgetter

from deepband.core.evaluations import all_evaluations, evaluation_of
from deepband.core.facts import ConfigsDrawn, JobKey
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import DeepbandError, shown
from deepband.samplers import Sampler
from deepband.space.search_space import Space


class ConfigSource:
    """A sampler and its space, for one study."""

    def __init__(self, state: State, space: Space | None, sampler: Sampler) -> None:
        """`space` is that of the state, if the caller has it."""
        self.created = state.created
        self.sampler = sampler
        self._spaces = {} if space is None else {len(state.changes): space}
        """By the number of changes. A space is created on first use because that imports
        ConfigSpace."""
        self._observed: tuple[tuple[int, int], list[Evaluation]] = ((0, 0), [])
        """The observations that stay the same during a (run, bracket)."""

    def copy(self, state: State, sampler: Sampler | None = None) -> ConfigSource:
        """The same source for a copy of the study."""
        return ConfigSource(state, self.space(state), sampler or self.sampler)

    def space(self, state: State) -> Space:
        """The search space that new configs come from."""
        changes = len(state.changes)
        if changes not in self._spaces:
            self._spaces[changes] = Space.described(state.space)
        return self._spaces[changes]

    def missing(self, state: State, keys: Iterable[JobKey]) -> Iterator[ConfigsDrawn]:
        """The configs that these jobs need and that do not exist yet, in whole chunks."""
        existing = state.configs
        lasts: dict[int, int] = {}
        for bracket, index, _ in keys:
            is_new = bracket >= len(existing) or index >= len(existing[bracket])
            if is_new and index > lasts.get(bracket, -1):
                lasts[bracket] = index
        for bracket, last in lasts.items():
            end = (last // self.created.chunk + 1) * self.created.chunk
            ahead = state.is_ahead(bracket, last)
            schedule = state.coming if ahead else state.full.schedule
            first = len(existing[bracket]) if bracket < len(existing) else 0
            size = schedule.start_size(bracket)
            yield self._draw(state, bracket, range(first, min(end, size)))

    def _draw(self, state: State, bracket: int, indices: range) -> ConfigsDrawn:
        observations = self._observations(state, bracket, indices.start)
        seed = self.created.seed
        drawn = self.sampler.draw(self.space(state), observations, bracket, indices, seed)
        configs = tuple(drawn) if isinstance(drawn, Iterable) else ()
        if len(configs) != len(indices) or not all(isinstance(each, dict) for each in configs):
            raise DeepbandError(
                f"the sampler {self.created.sampler!r} was asked for {len(indices)} configs, each "
                f"a dict, and returned {shown(drawn)}."
            )
        return ConfigsDrawn(bracket, indices.start, configs)

    def _observations(self, state: State, bracket: int, first: int) -> Sequence[Evaluation]:
        """What a sampler that learns may use for the group of an index: the results that do not
        depend on the order in which jobs finish."""
        if not self.sampler.learns:
            return ()
        run = state.run.number
        if self._observed[0] != (run, bracket):
            # Late and imported results may come at any time: those that the run needs count.
            arrived = state.run.arrived
            fixed = (
                each
                for each in all_evaluations(state)
                if each.run < run
                or (
                    each.bracket < bracket
                    and each.index in arrived.get((each.bracket, each.rung), ())
                )
            )
            self._observed = (run, bracket), self._fitting(state, fixed)
        start = first // self.created.chunk * self.created.chunk
        results = [state.results[bracket, bracket].get(index) for index in range(start)]
        new = self._fitting(
            state, (evaluation_of(state, each) for each in results if each and each.run == run)
        )
        if not new:
            return tuple(self._observed[1])
        return sorted([*self._observed[1], *new], key=itemgetter(0, 1, 2))

    def _fitting(self, state: State, evaluations: Iterable[Evaluation]) -> list[Evaluation]:
        """Those whose configs belong to the current space: all, unless the space has changed."""
        if not state.changes:
            return list(evaluations)
        space = self.space(state)
        return [each for each in evaluations if space.has(each.config)]
