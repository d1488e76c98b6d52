"""The source of configs for a study: samples those that jobs need and that do not exist yet."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from operator import itemgetter
from typing import TYPE_CHECKING, NamedTuple

from deepband.core.evaluations import all_evaluations, evaluation_of
from deepband.core.facts import Config, ConfigsDrawn, JobKey, is_shared
from deepband.core.rank_order import Place
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import DeepbandError, shown
from deepband.samplers import Sampler
from deepband.space.search_space import Space

if TYPE_CHECKING:  # most studies need no simulation
    from deepband.core.virtual_schedule import Draw, VirtualSchedule


class _Known(NamedTuple):
    """Observations that were read for earlier samples of the same simulation."""

    virtual: VirtualSchedule
    earlier: list[Evaluation]
    ended: list[Evaluation]
    """In the order in which they ended on the virtual clock."""


class ConfigSource:
    """A sampler and its space, for one study."""

    def __init__(self, state: State, space: Space | None, sampler: Sampler) -> None:
        """`space` is that of the state, if the caller has it."""
        self.created = state.created
        self.sampler = sampler
        self._spaces = {} if space is None else {len(state.changes): space}
        """By the number of changes. A space is created on first use because that imports
        ConfigSpace."""
        self._known: _Known | None = None

    def copy(self, state: State, sampler: Sampler | None = None) -> ConfigSource:
        """The same source for a copy of the study."""
        return ConfigSource(state, self.space(state), sampler or self.sampler)

    def space(self, state: State) -> Space:
        """The search space that new configs come from."""
        changes = len(state.changes)
        if changes not in self._spaces:
            self._spaces[changes] = Space.described(state.space)
        return self._spaces[changes]

    def missing(
        self, state: State, keys: Iterable[JobKey], virtual: VirtualSchedule | None = None
    ) -> Iterator[ConfigsDrawn]:
        """The configs that these jobs need and that do not exist yet, with those that are sampled
        together with them. If the sampler learns, `virtual` is given, and each fact must be applied
        to the state before the next one is requested."""
        if virtual is None:
            return self._chunks(state, _last_missing(state, keys))
        return self._groups(state, keys, virtual)

    def expected(self, state: State, keys: Iterable[JobKey]) -> Iterator[ConfigsDrawn]:
        """Configs in place of those that these jobs need and that do not exist yet: the same ones
        or, if the sampler learns, random ones."""
        if not self.sampler.learns:
            return self.missing(state, keys)
        from deepband.samplers.uniform import Uniform

        return ConfigSource(state, self.space(state), Uniform()).missing(state, keys)

    def random(self, state: State, bracket: int, indices: Sequence[int]) -> list[Config]:
        """Random configs in these places. They depend on nothing that has been recorded; `uniform`
        samples the same ones."""
        from deepband.samplers.uniform import Uniform

        uniform = Uniform(self.created.chunk)
        return uniform.draw(self.space(state), (), bracket, indices, self.created.seed)

    def _chunks(self, state: State, lasts: Mapping[int, int]) -> Iterator[ConfigsDrawn]:
        """The configs up to these indices, by bracket, and those that are sampled with them."""
        existing = state.configs
        for bracket, last in lasts.items():
            end = (last // self.created.chunk + 1) * self.created.chunk
            ahead = state.is_ahead(bracket, last)
            schedule = state.coming if ahead else state.full.schedule
            first = len(existing[bracket]) if bracket < len(existing) else 0
            size = schedule.start_size(bracket)
            yield self._draw(state, bracket, range(first, min(end, size)))

    def _groups(
        self, state: State, keys: Iterable[JobKey], virtual: VirtualSchedule
    ) -> Iterator[ConfigsDrawn]:
        for bracket, index, _ in keys:
            if index >= len(state.configs[bracket]):
                yield self._group(state, virtual, virtual.draw_of(bracket, index))

    def _group(self, state: State, virtual: VirtualSchedule, draw: Draw) -> ConfigsDrawn:
        """The configs of a draw that do not exist: users may have enqueued the first ones."""
        bracket, indices, seen, running = draw
        new = range(len(state.configs[bracket]), indices.stop)
        pending = [state.configs[of][index] for of, index, rung in running if rung == of]
        fitting = [each for each in pending if not state.changes or self.space(state).has(each)]
        observations = self._observations(state, virtual, seen)
        if not state.criteria.ranks_by_loss:
            observations = self._scalarized(state, observations, (bracket, new.start))
        return self._draw(state, bracket, new, observations, fitting)

    def _scalarized(
        self, state: State, observations: Sequence[Evaluation], first: Place
    ) -> Sequence[Evaluation]:
        """Observations for a sampler of deepband, which minimises one loss. Other samplers receive
        what was recorded."""
        from deepband.samplers.scalarization import scalarized

        name = getattr(self.sampler, "scalarization", None)
        if name is None:
            return observations
        return scalarized(state, observations, name, self.created.seed, first)

    def _draw(
        self,
        state: State,
        bracket: int,
        indices: range,
        observations: Sequence[Evaluation] = (),
        pending: Sequence[Config] = (),
    ) -> ConfigsDrawn:
        given = self.space(state), observations, bracket, indices, self.created.seed
        learns = self.sampler.learns
        drawn = self.sampler.draw(*given, pending) if learns else self.sampler.draw(*given)
        configs = tuple(drawn) if isinstance(drawn, Iterable) else ()
        if len(configs) != len(indices) or not all(isinstance(each, dict) for each in configs):
            raise DeepbandError(
                f"the sampler {self.created.sampler!r} was asked for {len(indices)} configs, each "
                f"a dict, and returned {shown(drawn)}."
            )
        return ConfigsDrawn(bracket, indices.start, configs)

    def _observations(
        self, state: State, virtual: VirtualSchedule, seen: int
    ) -> Sequence[Evaluation]:
        """What a sampler that learns may use: the results of earlier runs, imported ones, and those
        of the first `seen` jobs that ended on the virtual clock."""
        if self._known is None or self._known.virtual is not virtual:
            earlier = (
                each
                for each in all_evaluations(state)
                if each.run < virtual.run or (each.origin and not is_shared(each.origin))
            )
            self._known = _Known(virtual, self._fitting(state, earlier), [])
        known = self._known
        for bracket, index, rung in virtual.ended[len(known.ended) : seen]:
            known.ended.append(evaluation_of(state, state.results[bracket, rung][index]))
        ended = self._fitting(state, known.ended[:seen])
        return sorted([*known.earlier, *ended], key=itemgetter(0, 1, 2))

    def _fitting(self, state: State, evaluations: Iterable[Evaluation]) -> list[Evaluation]:
        """Those whose configs belong to the current space: all, unless the space has changed."""
        if not state.changes:
            return list(evaluations)
        space = self.space(state)
        return [each for each in evaluations if space.has(each.config)]


def _last_missing(state: State, keys: Iterable[JobKey]) -> dict[int, int]:
    """By bracket: the largest index among these jobs that has no config."""
    configs = state.configs
    lasts: dict[int, int] = {}  # faster than dict[int, int](), which every evaluation would pay
    for bracket, index, _ in keys:
        is_new = bracket >= len(configs) or index >= len(configs[bracket])
        if is_new and index > lasts.get(bracket, -1):
            lasts[bracket] = index
    return lasts
