"""The hypervolume of a front: how much of the space of objectives it dominates, up to a reference
point. It measures several objectives by one number, which is larger if the front is better."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from deepband.analysis.chart_data import has_drawable_loss
from deepband.core.criteria import is_finite_number
from deepband.core.evaluations import front
from deepband.core.state import State
from deepband.errors import InputError, shown


def hypervolume(state: State, reference: Mapping[str, float], rung: int | None = None) -> float:
    """The hypervolume of the front, on a rung or on any. The reference is in the user's
    direction."""
    point = read_reference(state, reference)
    return dominated([state.standings.of(each).losses or () for each in front(state, rung)], point)


def read_reference(state: State, given: Mapping[str, float]) -> tuple[float, ...]:
    """A reference point as losses. It must have a finite number for each objective."""
    names = state.criteria.names or (state.criteria.value_name,)
    if not isinstance(given, Mapping):
        example = ", ".join(f'"{name}": 1.0' for name in names)
        raise InputError(
            f"the reference is {shown(given)}: give a mapping with a number for each objective, "
            f"such as {{{example}}}."
        )
    if set(given) != set(names):
        raise InputError(
            f"the reference has {', '.join(map(shown, given)) or 'nothing'}: give a number for "
            f"each objective and for nothing else, which are {', '.join(map(repr, names))}."
        )
    for name in names:
        if not is_finite_number(given[name]):
            raise InputError(
                f"the reference of {name!r} is {shown(given[name])}: give a finite number."
            )
    if not state.criteria.objectives:
        return (state.criteria.value(float(given[names[0]])),)  # negating twice changes nothing
    return tuple(state.criteria.minimised(name, float(given[name])) for name in names)


def default_reference(state: State) -> dict[str, float] | None:
    """The worst value of each objective among the feasible, finite results of the first run, in the
    user's direction; None while there is none. Later runs do not change it, so that hypervolumes of
    a study can be compared before and after an extension."""
    found = (each for each in state.all_results() if each.run == 0 and has_drawable_loss(each))
    losses = [
        state.standings.of(each).losses or () for each in found if state.standings.is_feasible(each)
    ]
    if not losses:
        return None
    worst = tuple(max(column) for column in zip(*losses, strict=True))
    if not state.criteria.objectives:
        return {state.criteria.value_name: state.criteria.value(worst[0])}
    return state.criteria.values(worst if state.criteria.several else worst[0])


def dominated(losses: Sequence[tuple[float, ...]], reference: tuple[float, ...]) -> float:
    """The volume that these points dominate up to a reference."""
    inside = [point for point in losses if _is_better(point, reference)]
    if not inside:
        return 0.0
    if len(reference) == 1:
        return reference[0] - min(inside)[0]
    import moocore
    import numpy as np

    return float(moocore.hypervolume(np.array(inside), ref=np.array(reference)))


def _is_better(point: tuple[float, ...], reference: tuple[float, ...]) -> bool:
    return all(one < other for one, other in zip(point, reference, strict=True))
