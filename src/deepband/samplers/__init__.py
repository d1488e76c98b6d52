"""Samplers, which supply new configs: the table of samplers by name."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from typing import Literal, TypeAlias

from deepband.errors import InputError, UnknownNameError, shown
from deepband.samplers.base import Sampler
from deepband.samplers.uniform import CHUNK, Uniform

__all__ = ["SAMPLERS", "Sampler", "SamplerName", "Uniform", "make_sampler"]

SamplerName: TypeAlias = Literal["uniform", "tpe", "forest", "gp", "prior"]
"""The samplers that come with deepband."""


def _model_based(name: str, chunk: int) -> Sampler:
    from deepband.samplers.model_based import ModelBased  # most studies do not need it

    return ModelBased(name, chunk)


SAMPLERS: dict[str, Callable[[int], Sampler]] = {
    "uniform": Uniform,
    "tpe": partial(_model_based, "tpe"),
    "forest": partial(_model_based, "forest"),
    "gp": partial(_model_based, "gp"),
    "prior": partial(_model_based, "prior"),
}
"""Each is created with the study's chunk size."""
REMOVED = {"de": "uniform"}
"""Samplers that deepband once had. A study of one keeps its configs and continues with another."""


def make_sampler(given: str | Sampler, chunk: int | None = None) -> tuple[str, Sampler, int]:
    """The name, the sampler, and how many configs it samples together, from a name in the table or
    a custom sampler. `chunk` is that of an existing study."""
    if isinstance(given, str):
        name = given if chunk is None else REMOVED.get(given, given)
        if name not in SAMPLERS:
            raise UnknownNameError("sampler", given, SAMPLERS)
        if chunk is None and name != "uniform":
            # An existing study can be read without the sampler's libraries.
            from deepband.samplers.model_based import check_installed

            check_installed(name)
        return given, SAMPLERS[name](chunk or CHUNK), chunk or CHUNK
    if isinstance(given, type) or not isinstance(given, Sampler) or not callable(given.draw):
        raise InputError(
            f"{shown(given)} is not a sampler: give one of {', '.join(map(repr, SAMPLERS))}, or an "
            "object with a method draw(space, observations, bracket, indices, seed, pending) "
            "and `learns`."
        )
    return type(given).__name__, given, chunk or CHUNK
