"""The computation of quotes: the price of an extension, before anything is spent.

`efficient` fills only the free slots, and how many are free does not depend on any loss, so its
price is exact. It is also the least that `preserving` and `discarding` can cost. The most that they
can cost follows from how many configs could arrive on a rung without having been there. `frugal` is
exact too: which configs it promotes is known before it starts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction

from deepband.analysis.durations import resumes, seconds_per_unit
from deepband.analysis.quote import Price, Quote
from deepband.core.costs import costs, counts, missing, paid
from deepband.core.exact_numbers import as_number
from deepband.core.facts import JobFinished
from deepband.core.hyperband import open_jobs
from deepband.core.schedule import Cell, Schedule
from deepband.core.state import State
from deepband.core.strategies import FRUGAL, StrategyName


def quote(state: State, strategy: StrategyName, schedule: Schedule | None) -> Quote:
    """The price of extending a study to a schedule: its own to fill a frugal run, or None if there
    is nothing to do. If equal configs share results, it is an upper bound; so it is if promotions
    were skipped, or training or a run was stopped early, since the extension may do that, too."""
    found = _full_quote(state, strategy, schedule)
    if schedule is None:
        return found
    frugal, training = strategy == FRUGAL, state.standings.stopped
    if not frugal and (training or any(run.skipped for run in state.runs)):
        found = _with_skips(found, state, schedule)
    stopped = not frugal and any(run.stopped is not None for run in state.runs)
    fewer = state.created.reuse_identical or stopped
    if not fewer and (frugal or not training):
        return found
    high = found.cost_resumed.high + (0 if frugal else missing(schedule, training))
    cost = replace(found.cost, low=Fraction(0))
    resumed = replace(found.cost_resumed, low=Fraction(0), high=min(high, cost.high))
    if stopped:
        found = _of_begun(found, state, schedule)
    return replace(
        found,
        evaluations_new=(0 if fewer else found.evaluations_new[0], found.evaluations_new[1]),
        cost=cost,
        cost_resumed=resumed,
        seconds=_seconds(state, resumed if resumes(state) else cost),
        at_most=state.created.reuse_identical,
        stops=stopped,
        stops_training=bool(training) and not frugal,
    )


def _of_begun(found: Quote, state: State, schedule: Schedule) -> Quote:
    """A quote that reuses only the configs of a stopped run that were evaluated."""
    total = found.configs_reused + found.configs_new
    begun = sum(len(state.results[each, each]) for each in state.full.schedule.brackets)
    begun += sum(schedule.contains(*key[:2]) for key in state.ahead.results)
    return replace(found, configs_reused=begun, configs_new=total - begun)


def _with_skips(found: Quote, state: State, schedule: Schedule) -> Quote:
    """A quote whose lower bounds hold if all promotions that can be skipped are."""
    known = _evaluated(state) + counts(state.ahead.results.values())
    cells = _least(schedule, known).items()
    first = {(bracket, rung): n for (bracket, rung), n in cells if bracket == rung}
    cost = replace(found.cost, low=schedule.cost_of(first))
    cost_resumed = replace(found.cost_resumed, low=schedule.cost_resumed_of(first))
    return replace(
        found,
        evaluations_new=(sum(first.values()), found.evaluations_new[1]),
        cost=cost,
        cost_resumed=cost_resumed,
        seconds=_seconds(state, cost_resumed if resumes(state) else cost),
        skips=any(run.skipped for run in state.runs),
    )


def _full_quote(state: State, strategy: StrategyName, schedule: Schedule | None) -> Quote:
    """The price if every config is evaluated."""
    if schedule is None:
        total = _evaluated(state).total()
        configs = state.full.schedule.configs, 0
        found = _quote(state, strategy, state.schedule, {}, {}, configs, total, (total, total))
        return replace(found, reached=True)
    if strategy == FRUGAL:
        return _quote_frugal(state, schedule)
    ahead = [
        result
        for (bracket, index, _), result in state.ahead.results.items()
        if schedule.contains(bracket, index)
    ]
    known = _evaluated(state) + counts(ahead)
    least = _least(schedule, known)
    most = least if strategy == "efficient" else _most(schedule, known)
    old = min(schedule.configs, state.full.schedule.configs + len(ahead))
    configs = old, schedule.configs - old
    reused = _reused(schedule, known, most, strategy)
    found = _quote(state, strategy, schedule, least, most, configs, known.total(), reused, True)
    return replace(found, fills=schedule == state.schedule, unfinished=open_jobs(state))


def _quote(
    state: State,
    strategy: StrategyName,
    schedule: Schedule,
    least: Mapping[Cell, int],
    most: Mapping[Cell, int],
    configs: tuple[int, int],
    known: int,
    reused: tuple[int, int],
    ahead: bool = False,
) -> Quote:
    """A quote between the least and the most new evaluations in each cell, with the number of
    (old, new) configs, of known evaluations, and of those reused. With `ahead`, evaluations ahead
    of the next run count as spent."""
    evaluations = list(paid(state))
    if ahead:
        evaluations += (each for each in state.ahead.results.values() if not each.imported)
    spent = costs(schedule, evaluations, state.standings.stopped)
    cost = _price(state, schedule, least, most, spent.whole, schedule.cost_of)
    cost_resumed = _price(state, schedule, least, most, spent.resumed, schedule.cost_resumed_of)
    return Quote(
        strategy=strategy,
        old_max_budget=as_number(state.schedule.max_budget),
        max_budget=as_number(schedule.max_budget),
        old_width=state.schedule.width,
        width=schedule.width,
        old_brackets=state.schedule.bracket_limit,
        brackets=schedule.bracket_limit,
        configs_reused=configs[0],
        configs_new=configs[1],
        evaluations_known=known,
        evaluations_reused=reused,
        evaluations_new=(sum(least.values()), sum(most.values())),
        cost=cost,
        cost_resumed=cost_resumed,
        seconds=_seconds(state, cost_resumed if resumes(state) else cost),
    )


def _seconds(state: State, price: Price) -> tuple[float, float] | None:
    rate = seconds_per_unit(state)
    return None if rate is None else (rate * float(price.low), rate * float(price.high))


def _quote_frugal(state: State, schedule: Schedule) -> Quote:
    """Exact: the promoted configs are known, and only the results that decide it are reused."""
    order, slots = state.frugal_contest()
    new = Counter((bracket, schedule.top) for bracket, _ in order[:slots])
    top = state.schedule.top
    used = sum(len(state.results[bracket, top]) for bracket in state.schedule.brackets)
    total, configs = _evaluated(state).total(), (new.total(), 0)
    found = _quote(state, FRUGAL, schedule, new, new, configs, total, (used, used))
    stopped = state.standings.stopped
    below = ((*place, top) for place in order[:slots])
    extra = missing(schedule, {key: stopped[key] for key in below if key in stopped})
    resumed = found.cost_resumed
    resumed = replace(resumed, low=resumed.low + extra, high=resumed.high + extra)
    price = resumed if resumes(state) else found.cost
    return replace(found, cost_resumed=resumed, seconds=_seconds(state, price))


def most_of_all_runs(state: State) -> Fraction:
    """The most that all runs up to the current one, done or not, can cost: what was quoted."""
    run = state.run
    known = Counter({cell: len(indices) for cell, indices in run.before.items()})
    known += counts(
        each
        for each in state.all_results()
        if each.imported and each.bracket == each.rung and each.run == run.number
    )
    if run.frugal:
        new: Mapping[Cell, int] = run.counts()
    else:
        new = (_least if run.strategy == "efficient" else _most)(run.schedule, known)
    earlier = [each for each in paid(state) if each.run < run.number or _is_extra(state, each)]
    return costs(run.schedule, earlier).whole + run.schedule.cost_of(new)


def _is_extra(state: State, result: JobFinished) -> bool:
    """Whether it is a late result that the current run does not need so far."""
    cell = result.bracket, result.rung
    late = (result.bracket, result.index, result.rung) in state.late.jobs
    return late and result.index not in state.run.arrived.get(cell, ())


def _evaluated(state: State) -> Counter[Cell]:
    return Counter({cell: len(results) for cell, results in state.results.items()})


def _least(schedule: Schedule, known: Mapping[Cell, int]) -> dict[Cell, int]:
    """New evaluations in each cell if all configs that were ever on a rung keep a slot there."""
    return {cell: max(0, n - known.get(cell, 0)) for cell, n in schedule.counts().items()}


def _most(schedule: Schedule, known: Mapping[Cell, int]) -> dict[Cell, int]:
    """New evaluations in each cell if as many configs as possible arrive that were never there."""
    most: dict[Cell, int] = {}
    for bracket, rung in schedule.cells():
        slots = schedule.slots(bracket, rung)
        here = known.get((bracket, rung), 0)
        if rung == bracket:
            most[bracket, rung] = slots - here
        else:
            below = known.get((bracket, rung - 1), 0) + most[bracket, rung - 1]
            most[bracket, rung] = min(slots, below - here)
    return most


def _reused(
    schedule: Schedule, known: Mapping[Cell, int], most: Mapping[Cell, int], strategy: str
) -> tuple[int, int]:
    total = sum(known.values())
    if strategy == "efficient" or not any(most.values()):
        return total, total
    slots = schedule.counts()
    return (
        sum(n - most[cell] for cell, n in slots.items()),
        sum(min(n, known.get(cell, 0)) for cell, n in slots.items()),
    )


def _price(
    state: State,
    schedule: Schedule,
    least: Mapping[Cell, int],
    most: Mapping[Cell, int],
    spent: Fraction,
    cost: Callable[[Mapping[Cell, int]], Fraction],
) -> Price:
    levels = {schedule, *(run.schedule for run in state.runs)}
    return Price(
        low=cost(least),
        high=cost(most),
        spent=spent,
        fresh=cost(schedule.counts()),
        scratch=sum((cost(level.counts()) for level in levels), Fraction(0)),
    )
