"""Where new configs come from: the table of samplers by name."""

from __future__ import annotations

from collections.abc import Callable

from deepband.errors import InputError, UnknownNameError, shown
from deepband.samplers.base import Sampler
from deepband.samplers.uniform import Uniform

__all__ = ["SAMPLERS", "Sampler", "Uniform", "make_sampler"]

SAMPLERS: dict[str, Callable[[int], Sampler]] = {"uniform": Uniform}
"""Each is made with the study's chunk size."""


def make_sampler(given: str | Sampler, chunk: int) -> tuple[str, Sampler]:
    """The name and the sampler, from a name in the table or a sampler of the user's own."""
    if isinstance(given, str):
        if given not in SAMPLERS:
            raise UnknownNameError("sampler", given, SAMPLERS)
        return given, SAMPLERS[given](chunk)
    if isinstance(given, type) or not isinstance(given, Sampler) or not callable(given.draw):
        raise InputError(
            f"a sampler is one of {', '.join(map(repr, SAMPLERS))} or has a method draw(space, "
            f"observations, bracket, indices, seed) and `learns`; {shown(given)} has not."
        )
    return type(given).__name__, given
