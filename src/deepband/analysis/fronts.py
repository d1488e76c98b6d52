"""The data of charts of several objectives: fronts by run or by rung, and the hypervolume against
the budget spent."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from deepband.analysis.budget_spent import BudgetSpent, cells_in_order, in_order
from deepband.analysis.chart_data import Extension, has_drawable_loss, incumbent
from deepband.analysis.hypervolume import default_reference, dominated, read_reference
from deepband.analysis.run_names import name_of
from deepband.core.facts import JobFinished
from deepband.core.rank_order import non_dominated
from deepband.core.state import State
from deepband.errors import InputError, UnknownNameError, shown

if TYPE_CHECKING:  # loaded only with several objectives
    import numpy as np
    from numpy.typing import NDArray

Point: TypeAlias = tuple[float, float]
Group: TypeAlias = tuple[int, str, list[JobFinished]]


class FrontRow(NamedTuple):
    """One front, as the values of two objectives."""

    number: int
    """Of the run after which it was the front, or of its rung."""
    name: str
    points: tuple[Point, ...]
    """In the user's direction, from left to right."""


@dataclass(frozen=True, slots=True)
class FrontChart:
    """Fronts over two objectives, and all other evaluations that can be drawn."""

    objectives: tuple[str, str]
    directions: tuple[str, str]
    rows: tuple[FrontRow, ...]
    others: tuple[Point, ...]
    """Feasible evaluations that are on none of these fronts."""
    infeasible: tuple[Point, ...]
    projected: bool
    """Whether there are further objectives, so that points of a front may hide behind others."""


class VolumeStep(NamedTuple):
    """A result that enlarged the hypervolume."""

    spent: int | float
    spent_resumed: int | float
    volume: float
    result: JobFinished


@dataclass(frozen=True, slots=True)
class VolumeChart:
    """The hypervolume against the budget spent, in the order in which a single worker evaluates."""

    reference: Mapping[str, float]
    """In the user's direction; empty if there is none yet."""
    steps: tuple[VolumeStep, ...]
    extensions: tuple[Extension, ...]
    spent: int | float
    spent_resumed: int | float


def front_chart(
    state: State, by: str = "run", objectives: Sequence[str] | None = None
) -> FrontChart:
    """The front after each run, or the front on each rung, over two objectives: the given ones, or
    the first two."""
    pair = read_pair(state, objectives)
    drawable = [each for each in state.all_results() if has_drawable_loss(each)]
    feasible = [each for each in drawable if state.standings.is_feasible(each)]
    groups = _by_run(state, feasible) if read_grouping(by) == "run" else _by_rung(state, feasible)
    fronts = [(number, name, _front(state, found)) for number, name, found in groups]
    drawn = {each[:3] for _, _, front in fronts for each in front}

    def points(results: Iterable[JobFinished]) -> tuple[Point, ...]:
        return tuple(sorted(_point(state, each, pair) for each in results))

    directions = dict(state.criteria.objectives)
    return FrontChart(
        objectives=pair,
        directions=(directions[pair[0]], directions[pair[1]]),
        rows=tuple(FrontRow(number, name, points(front)) for number, name, front in fronts),
        others=points(each for each in feasible if each[:3] not in drawn),
        infeasible=points(each for each in drawable if not state.standings.is_feasible(each)),
        projected=len(directions) > 2,
    )


def read_grouping(by: str) -> str:
    """What fronts are drawn by, checked."""
    if by not in ("run", "rung"):
        raise UnknownNameError("way to group fronts", by, ("run", "rung"))
    return by


def read_pair(state: State, given: Sequence[str] | None) -> tuple[str, str]:
    """Two different objectives of a study: the given ones, or the first two."""
    names = state.criteria.names
    if len(names) < 2:
        raise InputError(
            "a front needs two objectives, and the study has one. The plot `incumbent` shows how "
            "its best result improved."
        )
    found = names[:2] if given is None else given
    if not isinstance(found, list | tuple) or len(found) != 2 or found[0] == found[1]:
        raise InputError(
            f"objectives is {shown(given)}: give the names of two, such as "
            f"({names[0]!r}, {names[1]!r})."
        )
    for name in found:
        if name not in names:
            raise UnknownNameError("objective", name, names)
    return found[0], found[1]


def _by_run(state: State, results: Sequence[JobFinished]) -> list[Group]:
    """For each run, all results up to its end."""
    return [
        (run.number, name_of(run), [each for each in results if each.run <= run.number])
        for run in state.runs
    ]


def _by_rung(state: State, results: Sequence[JobFinished]) -> list[Group]:
    """For each rung, the results on it."""
    return [
        (rung, f"rung {rung}, budget {budget:.6g}", [each for each in results if each.rung == rung])
        for rung, budget in enumerate(state.run.budgets)
    ]


def _front(state: State, results: Sequence[JobFinished]) -> list[JobFinished]:
    losses = [state.standings.of(each).losses or () for each in results]
    return [results[position] for position in non_dominated(losses)]


def _point(state: State, result: JobFinished, pair: tuple[str, str]) -> Point:
    values = state.criteria.values(result.loss)
    return values[pair[0]], values[pair[1]]


def volume_chart(state: State, reference: Mapping[str, float] | None = None) -> VolumeChart:
    """How the hypervolume grew over all runs, up to a reference point, by default that of
    `default_reference`."""
    given = default_reference(state) if reference is None else reference
    steps = () if given is None else tuple(_volume_steps(state, read_reference(state, given)))
    costs = incumbent(state)
    return VolumeChart(given or {}, steps, costs.extensions, costs.spent, costs.spent_resumed)


def _volume_steps(state: State, reference: tuple[float, ...]) -> Iterator[VolumeStep]:
    spent, archive, largest = BudgetSpent(state), Archive(), 0.0
    for result in chain.from_iterable(map(in_order, chain.from_iterable(cells_in_order(state)))):
        spent.add([result])
        standing = state.standings.of(result)
        if not standing.finite or not archive.add(standing.losses or ()):
            continue
        volume = dominated(archive.vectors, reference)
        if volume > largest:
            largest = volume
            yield VolumeStep(*spent.totals, volume, result)


class Archive:
    """The vectors of losses that no other one dominates, of those added so far. Adding one takes
    about as long with a thousand vectors as with ten."""

    def __init__(self) -> None:
        self._rows: NDArray[np.float64] | None = None

    def __len__(self) -> int:
        return 0 if self._rows is None else len(self._rows)

    @property
    def vectors(self) -> list[tuple[float, ...]]:
        """The vectors that no other one dominates."""
        return [] if self._rows is None else [tuple(row) for row in self._rows.tolist()]

    def add(self, vector: tuple[float, ...]) -> bool:
        """Add a vector, and return whether no other one dominates it."""
        import numpy as np

        new = np.array([vector])
        rows = self._rows
        if rows is None:
            self._rows = new
            return True
        no_worse, no_better = (rows <= new).all(axis=1), (rows >= new).all(axis=1)
        if (no_worse & ~no_better).any():
            return False
        self._rows = np.concatenate([rows[~no_better | no_worse], new])
        return True
