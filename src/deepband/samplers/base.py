"""What a sampler is."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol, runtime_checkable

from deepband.facts import Config
from deepband.records import Evaluation
from deepband.space import Space


@runtime_checkable
class Sampler(Protocol):
    """Draws new configs. What it draws is a function of its arguments and nothing else, so that
    a study does not depend on the number of its workers or on when it was interrupted."""

    @property
    def learns(self) -> bool:
        """Whether it looks at observations; one that does not is given none."""

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
    ) -> list[Config]:
        """The configs of a bracket at these indices, in their order.

        `observations` are the evaluations of all earlier runs, sorted by bracket, index and
        rung: those of the current run would depend on the order in which they arrive.
        """
