"""What the samplers that learn have in common: a proposal where there is one, else what `uniform`
would have drawn in the same place.

So each of them draws exactly as `uniform` does until it has seen enough, and in every third place
for ever: whatever the losses make it believe, a third of a study's configs is drawn by chance
alone, and Hyperband's guarantee holds with three times the configs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from importlib import import_module
from importlib.util import find_spec
from typing import TYPE_CHECKING, TypeAlias

from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.errors import InputError
from deepband.samplers.uniform import Uniform
from deepband.space.search_space import Space

if TYPE_CHECKING:
    from numpy.random import RandomState

    Propose: TypeAlias = Callable[
        [Space, Sequence[Evaluation], Sequence[int], RandomState], list[Config | None]
    ]
    """Configs for indices, from observations; None leaves a place to chance."""

NEEDS = {"tpe": ("optuna", "Optuna"), "forest": ("sklearn", "scikit-learn")}
"""What a sampler imports that may not be installed, and its name."""
EVERY = 3
"""One of so many places is left to chance."""


class ModelBased:
    """A sampler made of a function that proposes."""

    learns = True

    def __init__(self, name: str, chunk: int = 0) -> None:
        self.name = name
        self._uniform = Uniform()
        self._propose: Propose | None = None

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
    ) -> list[Config]:
        proposed = self._proposals(space, observations, bracket, indices, seed)
        if None not in proposed:
            return [config for config in proposed if config is not None]
        by_chance = self._uniform.draw(space, (), bracket, indices, seed)
        return [
            drawn if new is None else new for new, drawn in zip(proposed, by_chance, strict=True)
        ]

    def _proposals(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
    ) -> list[Config | None]:
        import numpy as np

        if self._propose is None:  # late, because it loads what it needs
            check_installed(self.name)
            self._propose = import_module(f"deepband.samplers.{self.name}").propose
        # The first index, because a deepening may cut a group in two. Three numbers, because two
        # are what `uniform` draws with.
        entropy = np.random.SeedSequence(seed, spawn_key=(bracket, indices[0], 1))
        return self._propose(
            space, observations, indices, np.random.RandomState(np.random.PCG64(entropy))
        )


def is_by_chance(index: int) -> bool:
    """Whether a place is left to chance, whatever is known: the last of every three, so that of the
    few configs of a high bracket more are proposed than not."""
    return index % EVERY == EVERY - 1


def check_installed(name: str) -> None:
    """Raise an InputError that says what to install, unless a sampler's imports are there."""
    package, shown = NEEDS.get(name, ("numpy", ""))
    if find_spec(package) is None:
        raise InputError(f"the sampler {name!r} needs {shown}: pip install 'deepband[{name}]'")
