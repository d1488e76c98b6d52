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

        With a sampler that learns, the order of samples and the results that each of them may use
        follow a virtual clock with the declared number of workers (`open_study(parallel=...)`).
        """

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
        pending: Sequence[Config] = (),
    ) -> list[Config]:
        """The configs of a bracket at these indices, in their order.

        With a sampler that learns, these are the configs of the bracket whose jobs start at the
        same virtual time: derive the random generator from the seed, the bracket and the first
        index. `observations`, sorted by bracket, index and rung, are all evaluations of earlier
        runs, imported ones, and those that have ended in virtual time. `pending` are the configs
        that are being evaluated for the first time then.
        """
