"""Random configs from the priors of the space, which are uniform unless it says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.space.search_space import Space

CHUNK = 64
"""How many configs are sampled together in a new study."""


class Uniform:
    """Samples each config as a function of (seed, bracket, index) alone.

    Configs are sampled in chunks, each with its own generator, because sampling a vector of 64
    values takes little longer than sampling one. Another chunk size gives other values, so it is
    stored with the study.
    """

    learns = False

    def __init__(self, chunk: int = CHUNK) -> None:
        self.chunk = chunk

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
        pending: Sequence[Config] = (),
    ) -> list[Config]:
        numbers = {index // self.chunk for index in indices}
        chunks = {number: self._chunk(space, bracket, number, seed) for number in numbers}
        return [chunks[index // self.chunk][index % self.chunk] for index in indices]

    def _chunk(self, space: Space, bracket: int, number: int, seed: int) -> list[Config]:
        import numpy as np

        # ConfigSpace uses RandomState, whose streams NumPy guarantees not to change.
        entropy = np.random.SeedSequence(seed, spawn_key=(bracket, number))
        random = np.random.RandomState(np.random.PCG64(entropy))
        return space.configs(space.vectors(self.chunk, random))
