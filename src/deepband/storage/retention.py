"""Which checkpoints are kept, and what a deepening costs without the others."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from fractions import Fraction
from typing import NamedTuple

from deepband.core.evaluations import best_first, best_result, front
from deepband.core.facts import JobFinished, JobKey, evaluated_job
from deepband.core.rank_order import Place
from deepband.core.schedule import Schedule
from deepband.core.state import State
from deepband.core.strategies import FRUGAL
from deepband.errors import InputError

KEEP = "'newest' (of each config), 'all', 'none' or 'top:N' (the newest of the N best configs)"


class Keep(NamedTuple):
    """Which checkpoints are kept: all, or the newest of each of the best `configs` and, unless that
    is 0, those of the best evaluations (`protected`)."""

    all: bool
    configs: int | None
    """None means every config."""

    @property
    def nothing(self) -> bool:
        """Whether no checkpoint is kept."""
        return not self.all and self.configs == 0


def read_keep(given: str) -> Keep:
    """The `keep` option of a user as a Keep."""
    named = {"newest": Keep(False, None), "all": Keep(True, None), "none": Keep(False, 0)}
    if given in named:
        return named[given]
    word, _, number = str(given).partition(":")
    if word != "top" or not number.isdecimal():
        raise InputError(f"keep is {given!r}: give {KEEP}.")
    return Keep(False, int(number))


def protected(state: State, keep: Keep) -> set[JobKey]:
    """The checkpoints of the best evaluations, on any rung and on the highest one, which are kept
    whatever became of their configs. None if nothing is to be kept."""
    if keep.configs == 0:
        return set()
    places = (((each.bracket, each.index, each.rung), each.origin) for each in _best(state))
    return {evaluated_job(*place) for place in places}


def _best(state: State) -> list[JobFinished]:
    """The best results, on any rung and on the highest one. With several objectives, the front."""
    if state.criteria.several:
        return front(state)
    best = best_result(state)
    return [] if best is None else [best, state.standings.leaders[max(state.standings.leaders)]]


def superfluous(state: State, keep: Keep, kept: Iterable[JobKey]) -> list[JobKey]:
    """The checkpoints that `keep` does not keep. Configs that still compete for a promotion in the
    current run keep theirs: it may be needed next."""
    if keep.all:
        return []
    best = protected(state, keep)
    newest: dict[Place, int] = {}
    for bracket, index, rung in (kept := [key for key in kept if _is_recorded(state, key)]):
        newest[bracket, index] = max(rung, newest.get((bracket, index), rung))
    ranked = _ranked(state, newest)
    spared = set(ranked[: keep.configs]) | {each for each in ranked if _undecided(state, *each)}
    return [
        (bracket, index, rung)
        for bracket, index, rung in kept
        if (bracket, index) not in spared or rung < newest[bracket, index]
        if (bracket, index, rung) not in best
    ]


def retraining_cost(
    state: State,
    kept: Collection[JobKey],
    strategy: str = "preserving",
    schedule: Schedule | None = None,
) -> Fraction:
    """An upper bound of the budget that the next deepening, or one to `schedule`, spends on
    training again because checkpoints are missing.

    A promoted config continues from the rung below; without a checkpoint there, it spends that
    budget again.
    """
    if strategy == FRUGAL:
        top, (order, slots) = state.schedule.top, state.frugal_contest()
        missing = sum((*config, top) not in kept for config in order[:slots])
        return missing * state.schedule.charge(top)
    deeper, kept = schedule or state.schedule.extended(levels=1), set(kept)
    counts = Counter(
        (bracket, rung)
        for (bracket, rung), results in state.results.items()
        for index, result in results.items()
        if result.loss is not None
        and (bracket, index, rung) not in kept
        and index not in state.results.get((bracket, rung + 1), {})
    )
    return sum(
        (
            min(count, deeper.slots(bracket, rung + 1)) * deeper.charge(rung)
            for (bracket, rung), count in counts.items()
            if rung < deeper.top
        ),
        Fraction(0),
    )


def _is_recorded(state: State, key: JobKey) -> bool:
    bracket, index, rung = key
    return index in state.results.get((bracket, rung), {})


def _ranked(state: State, newest: Mapping[Place, int]) -> list[Place]:
    """Configs by the rung of their newest checkpoint, highest first, and by their rank there."""
    by_rung: dict[int, list[JobFinished]] = {}
    for (bracket, index), rung in newest.items():
        by_rung.setdefault(rung, []).append(state.results[bracket, rung][index])
    ordered = (best_first(state, by_rung[rung]) for rung in sorted(by_rung, reverse=True))
    return [(each.bracket, each.index) for results in ordered for each in results]


def _undecided(state: State, bracket: int, index: int) -> bool:
    progress, run = state.progress[bracket], state.run
    return progress.open > 0 and index in run.arrived[bracket, progress.rung]
