"""Where new configs come from: the table of samplers by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

from deepband.errors import InputError, UnknownNameError, shown
from deepband.samplers.base import Sampler
from deepband.samplers.model_based import ModelBased, check_installed
from deepband.samplers.uniform import CHUNK, Uniform

__all__ = ["GROUP", "SAMPLERS", "Sampler", "SamplerName", "Uniform", "make_sampler"]

SamplerName: TypeAlias = Literal["uniform", "tpe", "forest", "de", "prior"]
"""The samplers that come with deepband."""
GROUP = 8
"""So many configs a sampler that learns draws together."""

SAMPLERS: dict[str, Callable[[int], Sampler]] = {
    "uniform": Uniform,
    "tpe": partial(ModelBased, "tpe"),
    "forest": partial(ModelBased, "forest"),
    "de": partial(ModelBased, "de"),
    "prior": partial(ModelBased, "prior"),
}
"""Each is made with the study's chunk size."""


def make_sampler(given: str | Sampler, chunk: int | None = None) -> tuple[str, Sampler, int]:
    """The name, the sampler, and how many configs it draws together, from a name in the table or a
    sampler of the user's own. `chunk` is that of a study which is there."""
    if isinstance(given, str):
        if given not in SAMPLERS:
            raise UnknownNameError("sampler", given, SAMPLERS)
        if chunk is None:  # a study which is there can be looked at without what draws for it
            check_installed(given)
        made = SAMPLERS[given](chunk or CHUNK)
        return given, made, chunk or _usual(made)
    if isinstance(given, type) or not isinstance(given, Sampler) or not callable(given.draw):
        raise InputError(
            f"a sampler is one of {', '.join(map(repr, SAMPLERS))} or has a method draw(space, "
            f"observations, bracket, indices, seed) and `learns`; {shown(given)} has not."
        )
    return type(given).__name__, given, chunk or _usual(given)


def _usual(sampler: Sampler) -> int:
    return GROUP if sampler.learns else CHUNK
