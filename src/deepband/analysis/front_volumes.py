"""Several objectives as one number, for advice: hypervolumes in the place of losses.

The reference is `default_reference`, the worst values of the first run. A front counts by its
hypervolume, and a config by the hypervolume of its result alone. The loss of a config is minus this
volume: a result that dominates another one never has a larger loss.
"""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from deepband.analysis.chart_data import has_drawable_loss
from deepband.analysis.hypervolume import default_reference, dominated, read_reference
from deepband.core.facts import JobFinished
from deepband.core.rank_order import Place
from deepband.core.state import State

Vector: TypeAlias = tuple[float, ...]


def loss_alone(losses: Vector, reference: Vector) -> float:
    """Minus the volume that a point dominates by itself."""
    sides = [high - low for low, high in zip(losses, reference, strict=True)]
    return 0.0 - math.prod(sides) if min(sides) > 0 else 0.0


@dataclass(frozen=True, slots=True)
class FrontVolumes:
    """The hypervolumes of the fronts of any configs on the rungs of a study."""

    reference: Vector
    rungs: tuple[Mapping[Place, Vector], ...]
    """By rung: the losses of each config that counts."""

    def of(self, rung: int, places: Iterable[Place] | None = None) -> float:
        """The hypervolume of the front of these configs on a rung, or of all."""
        found = self.rungs[rung]
        chosen = found if places is None else places
        return dominated([found[place] for place in chosen], self.reference)

    def losses(self) -> list[dict[Place, float]]:
        """By rung: the loss of each config alone."""
        return [
            {place: loss_alone(losses, self.reference) for place, losses in rung.items()}
            for rung in self.rungs
        ]


def front_volumes(state: State) -> FrontVolumes | None:
    """The volumes of a study with several objectives; None if its first run has no feasible, finite
    result, because there is no reference then."""
    given = default_reference(state)
    if given is None:
        return None
    reference = read_reference(state, given)
    rungs: list[dict[Place, Vector]] = [{} for _ in range(state.schedule.top + 1)]
    for (bracket, rung), results in sorted(state.results.items()):
        for index, result in sorted(results.items()):
            if counts(state, result) and isinstance(result.loss, tuple):
                rungs[rung][bracket, index] = result.loss
    return FrontVolumes(reference, tuple(rungs))


def counts(state: State, result: JobFinished) -> bool:
    """Whether a result is feasible, and can be computed with."""
    return has_drawable_loss(result) and state.standings.is_feasible(result)
