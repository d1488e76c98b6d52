"""What a sampler is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.space.search_space import Space


@runtime_checkable
class Sampler(Protocol):
    """Draws new configs. What it draws is a function of its arguments and nothing else, so that
    a study does not depend on the number of its workers or on when it was interrupted."""

    @property
    def learns(self) -> bool:
        """Whether it looks at observations; one that does not is given none.

        Under one that learns, brackets run in turn, the lowest first, and a bracket's new configs
        are drawn in groups, each when those before it are evaluated on the starting rung.
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

        Under a sampler that learns the indices are those of one group, or what is left of it where
        a deepening or a config of the user's own cut it: let the generator be a function of the
        seed, the bracket and the first index. `observations` are, sorted by bracket, index and
        rung, all evaluations of earlier runs, those of the current run in lower brackets, and those
        of the earlier groups of this bracket on its starting rung. Others would depend on the order
        in which they arrive.
        """
