"""The sampler protocol."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.space.search_space import Space


@runtime_checkable
class Sampler(Protocol):
    """Supplies new configs. They must be a function of the arguments of `draw` and nothing else, so
    that a study does not depend on the number of workers or on interruptions."""

    @property
    def learns(self) -> bool:
        """Whether it uses observations. A sampler that does not receives none.

        With a sampler that learns, brackets run sequentially, lowest first, and the new configs of
        a bracket are sampled in groups, each when those before it are evaluated on the starting
        rung.
        """

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
    ) -> list[Config]:
        """The configs of a bracket at these indices, in their order.

        With a sampler that learns, the indices are those of one group, or what remains of it after
        a deepening or an enqueued config cut it: derive the random generator from the seed, the
        bracket and the first index. `observations`, sorted by bracket, index and rung, are all
        evaluations of earlier runs, those that the current run needs in lower brackets, and those
        of the earlier groups of this bracket on its starting rung. Other results would depend on
        the order in which they arrive.
        """
