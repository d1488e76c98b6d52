"""The evaluations of a state as the records that users see: all of them, and the best."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from deepband.core.facts import PRECHECK, JobFinished, own_copy
from deepband.core.rank_order import non_dominated, ranked
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import NoResultError, read_index


def all_evaluations(state: State) -> Iterator[Evaluation]:
    """Every evaluation, sorted by bracket, index and rung."""
    keys = sorted(
        (bracket, index, rung)
        for (bracket, rung), results in state.results.items()
        for index in results
    )
    return (
        evaluation_of(state, state.results[bracket, rung][index]) for bracket, index, rung in keys
    )


def count_evaluations(state: State, rung: int | None = None) -> int:
    """How many evaluations there are, on one rung or on all."""
    return sum(len(cell) for (_, of), cell in state.results.items() if rung in (None, of))


def no_result(
    state: State, rung: int | None = None, missing: str = "best evaluation"
) -> NoResultError:
    """Why there is no feasible evaluation with a finite result, on one rung or on all."""
    found = [each for each in state.all_results() if rung in (None, each.rung)]
    bad = [
        each for each in found if each.loss is not None and not state.standings.is_feasible(each)
    ]
    rejected = sum(each.origin == PRECHECK for each in bad)
    stopped = sum(each.stopped_after is not None for each in found)
    return NoResultError(len(found), rung, len(bad) - rejected, missing, rejected, stopped)


def evaluation_of(state: State, result: JobFinished) -> Evaluation:
    """One result as the record that users see."""
    bracket, index, rung, run, loss = result[:5]
    number = result.number
    return Evaluation(  # in the order of its fields: with keywords, it takes half as long again
        bracket,
        index,
        rung,
        state.run.budgets[rung],
        own_copy(state.config(bracket, index)),
        number,
        None if number is None else state.criteria.value(number),
        run,
        result.error,
        dict(result.metrics or {}),
        result.seconds,
        result.resumed_from,
        result.curve or (),
        result.origin,
        state.criteria.values(loss),
        state.standings.is_feasible(result),
        result.stopped_after,
    )


def best_result(state: State) -> JobFinished | None:
    """The smallest loss on any rung. Ties go to the larger budget, then to the smaller bracket
    and the smaller index. None with several objectives."""
    leaders = state.standings.leaders.values()
    return min(leaders, key=lambda result: (result.loss, -result.rung), default=None)


def best_first(state: State, results: Iterable[JobFinished]) -> list[JobFinished]:
    """Results on one rung, of any brackets, in the order in which they would be promoted."""
    by_place = {(each.bracket, each.index): each for each in results}
    scores = {place: state.standings.score(each) for place, each in by_place.items()}
    return [by_place[place] for place in ranked(by_place.keys(), scores)]


def front(state: State, rung: int | None = None) -> list[JobFinished]:
    """The feasible results with finite losses that no other one dominates, on a rung or on any,
    sorted by their losses, then by bracket, index and rung."""
    if rung is not None:
        rung = read_index("rung", rung, state.schedule.top + 1)
    candidates = [
        (standing.losses or (), result)
        for result in state.all_results()
        if rung in (None, result.rung)
        if (standing := state.standings.of(result)).finite
    ]
    candidates.sort(key=lambda pair: (pair[0], *pair[1][:3]))
    kept = non_dominated([losses for losses, _ in candidates])
    return [candidates[position][1] for position in kept]


def best_evaluation(state: State) -> Evaluation | None:
    """The result that `best_result` returns, as the record that users see."""
    best = best_result(state)
    return None if best is None else evaluation_of(state, best)


def best_evaluation_at(state: State, rung: int | None = None) -> Evaluation | None:
    """The smallest loss on a rung, by default the highest rung with a finite loss."""
    if rung is None:
        rung = max(state.standings.leaders, default=0)
    leader = state.standings.leaders.get(read_index("rung", rung, state.schedule.top + 1))
    return evaluation_of(state, leader) if leader else None


def best_above(state: State) -> Evaluation | None:
    """The best evaluation on the highest rung with a finite loss, if the best of all is on a lower
    rung; otherwise None, because the best of all is both."""
    leaders, best = state.standings.leaders, best_result(state)
    top = max(leaders, default=0)
    return None if best is None or best.rung == top else evaluation_of(state, leaders[top])
