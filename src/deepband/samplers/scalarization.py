"""Several objectives and constraints as one loss, which is what the samplers that learn minimise.

If a study has several objectives or constraints, these samplers receive observations with a loss of
their own:

- Feasible results with finite losses have the loss itself or, with several objectives, that of a
  scalarization: `chebyshev` or `front_rank`.
- Feasible results with an infinite loss are worse than these, by the range of these losses.
- Infeasible results are worse by that range once more, and then by their total violation, scaled
  as in `core.rank_order`. So samplers search for feasible configs even if none is known yet.
- Rejected configs have the loss +inf, and failures have none.

A scalarization is random: a function of the seed and of the first of the configs that are sampled
together. So each group of configs aims at another part of the front.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, TypeAlias

from deepband.core.rank_order import Place, Standing, fronts, scaled, total_violations
from deepband.core.records import Evaluation
from deepband.core.state import State

if TYPE_CHECKING:  # imported late, because most studies need none of this
    import numpy as np
    from numpy.random import RandomState
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]
    Scalarization: TypeAlias = Callable[[Floats, NDArray[np.intp], RandomState], Floats]
    """From vectors of losses, one per row, and their rungs, to one loss per row."""

BALANCE = 0.05
"""The weight of the sum in a Chebyshev scalarization, as in ParEGO (Knowles, 2006)."""


def scalarized(
    state: State, observations: Sequence[Evaluation], name: str, seed: int, first: Place
) -> Sequence[Evaluation]:
    """Observations with the losses that a sampler minimises, by the name of its scalarization.
    `first` is the place of the first config to be sampled. With several objectives, `objectives`
    are their losses, scaled to the unit cube on each rung, if all are finite and the result is
    feasible. With one objective and without constraints nothing changes."""
    if state.criteria.ranks_by_loss:
        return observations
    standings = [
        state.standings.of(state.results[each.bracket, each.rung][each.index])
        for each in observations
    ]
    finite = [number for number, each in enumerate(standings) if each.finite]
    if not state.criteria.several or not finite:
        alone = {number: (standings[number].losses or ())[0] for number in finite}
        return _replaced(observations, penalised(standings, alone), {})
    import numpy as np

    raw = np.array([standings[number].losses for number in finite], dtype=np.float64)
    rungs = np.array([observations[number].rung for number in finite])
    random = np.random.RandomState(
        np.random.PCG64(np.random.SeedSequence(seed, spawn_key=(*first, 2)))
    )
    found = SCALARIZATIONS[name](raw, rungs, random).tolist()
    losses = penalised(standings, dict(zip(finite, found, strict=True)))
    vectors = dict(zip(finite, scaled_by_rung(raw, rungs).tolist(), strict=True))
    return _replaced(observations, losses, vectors)


def penalised(standings: Sequence[Standing], scalars: Mapping[int, float]) -> list[float | None]:
    """The losses of all standings, from those that are feasible and finite, by position."""
    worst = max(scalars.values(), default=0.0)
    # At least so much that adding it makes a difference.
    unit = max(worst - min(scalars.values(), default=0.0), 1e-6 * abs(worst)) or 1.0
    infeasible = [n for n, each in enumerate(standings) if each.losses and not each.feasible]
    totals = total_violations([standings[number] for number in infeasible])
    violated = {
        number: worst + unit * (2.0 + total)
        for number, total in zip(infeasible, totals, strict=True)
    }
    infinite = {n: worst + unit for n, each in enumerate(standings) if each.feasible}
    losses = {**infinite, **violated, **scalars}
    return [losses.get(number) for number in range(len(standings))]


def chebyshev(losses: Floats, rungs: NDArray[np.intp], random: RandomState) -> Floats:
    """The largest of the weighted losses, and a little of their sum, so that nothing dominated is
    as good as what dominates it. The weights are random, uniform on the simplex."""
    import numpy as np

    weights = random.dirichlet(np.ones(losses.shape[1]))
    weighted = scaled_by_rung(losses, rungs) * weights
    return np.asarray(weighted.max(axis=1) + BALANCE * weighted.sum(axis=1))


def front_rank(losses: Floats, rungs: NDArray[np.intp], random: RandomState) -> Floats:
    """The position of each row on its rung: front by front, at random within a front."""
    import numpy as np

    found = np.empty(len(losses))
    for rung in sorted(set(rungs.tolist())):
        rows = np.flatnonzero(rungs == rung).tolist()
        shuffled = random.permutation(rows).tolist()
        standings = {row: Standing(tuple(losses[row])) for row in shuffled}
        order = [row for front in fronts(standings) for row in front]
        found[order] = np.arange(len(order))
    return found


SCALARIZATIONS: dict[str, Scalarization] = {"chebyshev": chebyshev, "front rank": front_rank}


def scaled_by_rung(losses: Floats, rungs: NDArray[np.intp]) -> Floats:
    """Losses scaled to the unit cube by their ranges on each rung."""
    import numpy as np

    points = np.empty_like(losses)
    for rung in set(rungs.tolist()):
        points[rungs == rung] = scaled(losses[rungs == rung])
    return points


def _replaced(
    observations: Sequence[Evaluation],
    losses: Sequence[float | None],
    vectors: Mapping[int, Sequence[float]],
) -> list[Evaluation]:
    return [
        each._replace(
            loss=losses[number],
            value=losses[number],
            objectives=dict(zip(each.objectives, vectors.get(number, ()), strict=False)),
        )
        for number, each in enumerate(observations)
    ]
