"""Draws from the space's own priors, which are uniform unless the space says otherwise."""

from __future__ import annotations

from collections.abc import Sequence

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.space.search_space import Space

CHUNK = 64
"""So many configs are drawn together in a new study."""


class Uniform:
    """The config of (seed, bracket, index), whoever asks for it and when.

    Configs are drawn in chunks, each with a generator of its own, because drawing a vector of
    64 values costs little more than drawing one. Another chunk size draws other values, so it
    is stored with the study.
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
    ) -> list[Config]:
        numbers = {index // self.chunk for index in indices}
        chunks = {number: self._chunk(space, bracket, number, seed) for number in numbers}
        return [chunks[index // self.chunk][index % self.chunk] for index in indices]

    def _chunk(self, space: Space, bracket: int, number: int, seed: int) -> list[Config]:
        import numpy as np

        # RandomState is what ConfigSpace draws with, and its streams are frozen for ever.
        entropy = np.random.SeedSequence(seed, spawn_key=(bracket, number))
        random = np.random.RandomState(np.random.PCG64(entropy))
        return space.configs(space.vectors(self.chunk, random))
