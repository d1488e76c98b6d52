"""What the samplers that learn have in common: a proposal if there is one, otherwise the config
that `uniform` would have sampled at the same index.

Thus each of them samples exactly as `uniform` does until it has enough observations, and always at
every third index (`gp`: every fifth). A third of a study's configs is therefore random whatever the
losses are, and Hyperband's guarantee holds with three times the configs of a bracket (`gp`: five
times).
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
from deepband.system.installation import install_command

if TYPE_CHECKING:
    from numpy.random import RandomState

    Propose: TypeAlias = Callable[
        [Space, Sequence[Evaluation], Sequence[Config], Sequence[int], RandomState],
        list[Config | None],
    ]
    """Proposes configs for indices from observations and pending configs; None stands for a random
    config."""

NEEDS = {
    "tpe": {"optuna": "Optuna"},
    "forest": {"sklearn": "scikit-learn"},
}
"""The optional packages that a sampler imports, and their names in prose."""
SCALARIZATIONS = {
    "tpe": "front rank",
    "forest": "chebyshev",
    "gp": "chebyshev",
    "prior": "front rank",
}
"""By sampler: what makes one loss of several (`scalarization`). `tpe` also uses the vectors."""
EVERY = 3
"""One of this many configs is random."""


class ModelBased:
    """A sampler built on the function `propose` of the module with its name."""

    learns = True

    def __init__(self, name: str, chunk: int = 0) -> None:
        self.name = name
        self.scalarization = SCALARIZATIONS[name]
        self._uniform = Uniform()
        self._propose: Propose | None = None

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
        pending: Sequence[Config] = (),
    ) -> list[Config]:
        import numpy as np

        if self._propose is None:  # imported late, because the module loads large libraries
            check_installed(self.name)
            self._propose = import_module(f"deepband.samplers.{self.name}").propose
        # Three numbers, because `uniform` uses keys of two.
        entropy = np.random.SeedSequence(seed, spawn_key=(bracket, indices[0], 1))
        random = np.random.RandomState(np.random.PCG64(entropy))
        proposed = self._propose(space, observations, pending, indices, random)
        uniform = self._uniform.draw(space, (), bracket, indices, seed) if None in proposed else ()
        fallback = dict(zip(indices, uniform, strict=False))
        return [
            fallback[index] if config is None else config
            for index, config in zip(indices, proposed, strict=True)
        ]


def is_random(index: int, every: int = EVERY) -> bool:
    """Whether a config is always random: the last of every three, or of `every`, so that even in
    high brackets, which have few configs, most are proposed."""
    return index % every == every - 1


def check_installed(name: str) -> None:
    """Raise an InputError that says what to install if a package of a sampler is missing."""
    for package, shown in NEEDS.get(name, {}).items():
        if find_spec(package) is None:
            raise InputError(f"the sampler {name!r} needs {shown}: {install_command(name)}")
