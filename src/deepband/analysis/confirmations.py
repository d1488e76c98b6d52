"""Confirmations: the best configs evaluated again with other seeds, as means and intervals."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from statistics import mean, stdev

from deepband.analysis.text import duration, html_table, table, units
from deepband.core.evaluations import best_evaluation, best_first, evaluation_of
from deepband.core.facts import Config, Confirmed, JobFinished, JobKey
from deepband.core.record_text import record_repr
from deepband.core.records import Evaluation
from deepband.core.state import State

SHARE = 0.95
"""The confidence level of intervals."""


@dataclass(frozen=True, slots=True, repr=False)
class ConfirmedConfig:
    """A config that was evaluated again with other seeds. Values are in the user's direction."""

    bracket: int
    index: int
    rung: int
    budget: int | float
    config: Config
    rank: int
    """Among all results of its rung, from 1 for the best."""
    value: float
    """The result of the search, by which it was selected."""
    values: tuple[float, ...]
    """The finite values of the repetitions, in their order."""
    failures: int
    """How many repetitions failed or had an infinite value."""
    mean: float | None
    """The mean of `values`; None if there is none."""
    low: float | None
    """The lower end of the 95 % interval of the mean (Student's t); None for fewer than two."""
    high: float | None

    __repr__ = record_repr


@dataclass(frozen=True, slots=True, repr=False)
class Confirmations:
    """Configs that were evaluated again, in the order of their original rank. Printed, it is a
    table."""

    configs: tuple[ConfirmedConfig, ...]
    cost: Fraction
    """What all repetitions of these configs cost, each at its full budget."""
    seconds: float
    """How long they took together."""
    maximize: bool
    left_out: Evaluation | None = None
    """`study.best`, if its config is not one of these: it was better with a smaller budget."""

    @property
    def overlap(self) -> bool | None:
        """Whether the intervals of the first two configs overlap. None if one of the intervals is
        missing, or if the two were evaluated with different budgets."""
        if len(self.configs) < 2 or self.configs[0].rung != self.configs[1].rung:
            return None
        one, other = self.configs[:2]
        if one.low is None or one.high is None or other.low is None or other.high is None:
            return None
        return max(one.low, other.low) <= min(one.high, other.high)

    @property
    def best(self) -> ConfirmedConfig | None:
        """The config with the best mean on the highest rung that was confirmed."""
        highest = max((each.rung for each in self.configs if each.values), default=None)
        found = [each for each in self.configs if each.values and each.rung == highest]
        sign = -1 if self.maximize else 1
        return min(found, key=lambda each: sign * (each.mean or 0.0), default=None)

    def __str__(self) -> str:
        if not self.configs:
            return "nothing has been confirmed"
        return "\n".join([table(confirmation_table(self)), *confirmation_notes(self)])

    __repr__ = record_repr

    def _repr_html_(self) -> str:
        header, *rows = confirmation_table(self)
        return html_table(" ".join(confirmation_notes(self)), header, rows)


HEADER = ["rank", "bracket", "index", "budget", "in search", "mean", "95 % interval", "repetitions"]


def confirmation_table(found: Confirmations) -> list[list[str]]:
    """A header, and one row per config."""
    return [HEADER, *map(_row, found.configs)]


def _row(each: ConfirmedConfig) -> list[str]:
    interval = "" if each.low is None else f"{each.low:.6g} to {each.high:.6g}"
    middle = "" if each.mean is None else f"{each.mean:.6g}"
    count = len(each.values) + each.failures
    failed = f", {each.failures} failed" if each.failures else ""
    row = [str(each.rank), str(each.bracket), str(each.index), f"{each.budget:.6g}"]
    return [*row, f"{each.value:.6g}", middle, interval, f"{count}{failed}"]


def confirmation_notes(found: Confirmations) -> list[str]:
    """What follows from the table, and what the repetitions cost."""
    notes = []
    if found.overlap is not None:
        notes.append(
            "The intervals of the first two rows overlap: these repetitions do not separate them."
            if found.overlap
            else "The intervals of the first two rows do not overlap."
        )
    if found.best is not None and len(found.configs) > 1:
        notes.append(f"Best mean: bracket {found.best.bracket}, index {found.best.index}.")
    if found.left_out is not None:
        notes.append(_left_out(found.left_out))
    cost = f"{units(found.cost)} of budget, {duration(found.seconds)}"
    return [*notes, f"Cost of the repetitions: {cost}."]


def _left_out(best: Evaluation) -> str:
    place = f"bracket {best.bracket}, index {best.index}, {best.value:.6g} with budget"
    return (
        f"Not among these is study.best ({place} {best.budget:.6g}): only the best configs of the "
        "highest budget are repeated."
    )


def ranked(state: State, rung: int) -> list[JobFinished]:
    """The finite results on a rung of all brackets, best first."""
    results = (
        result for (_, of), cell in state.results.items() if of == rung for result in cell.values()
    )
    return best_first(state, (each for each in results if state.standings.of(each).finite))


def winners(state: State, top: int) -> list[JobKey]:
    """The best configs on the highest rung that has a finite result, best first. Of equal configs
    only the best one counts."""
    found: list[JobKey] = []
    configs: list[Config] = []
    for each in ranked(state, max(state.standings.leaders, default=0)):
        config = state.config(each.bracket, each.index)
        if len(found) < top and config not in configs:
            found.append((each.bracket, each.index, each.rung))
            configs.append(config)
    return found


def confirmations(state: State, keys: Sequence[JobKey] | None = None) -> Confirmations:
    """What was confirmed: of these jobs, or of all, higher rungs first."""
    repeated: dict[JobKey, list[Confirmed]] = {}
    for (*_, repetition), fact in sorted(state.confirmations.items()):
        assert repetition == fact.repetition
        repeated.setdefault(fact.key[:3], []).append(fact)
    rungs = sorted({rung for _, _, rung in repeated}, reverse=True)
    chosen = [
        (rank, result, facts)
        for rung in rungs
        for rank, result in enumerate(ranked(state, rung), 1)
        if (facts := repeated.get(key := (result.bracket, result.index, rung)))
        and (keys is None or key in keys)
    ]
    places = {(result.bracket, result.index) for _, result, _ in chosen}
    everything = [fact for _, _, facts in chosen for fact in facts]
    return Confirmations(
        configs=tuple(_confirmed(state, *each) for each in chosen),
        cost=sum((state.schedule.charge(each.rung) for each in everything), Fraction(0)),
        seconds=sum(each.seconds or 0.0 for each in everything),
        maximize=state.created.maximize,
        left_out=_best_outside(state, places) if places else None,
    )


def _best_outside(state: State, places: Collection[tuple[int, int]]) -> Evaluation | None:
    """The best evaluation of the search, unless one of these has its config."""
    best = best_evaluation(state)
    if best is None or best.config in [state.config(*place) for place in places]:
        return None
    return best


def _confirmed(
    state: State, rank: int, result: JobFinished, facts: Sequence[Confirmed]
) -> ConfirmedConfig:
    found = evaluation_of(state, result)
    losses = (fact.loss for fact in facts if not isinstance(fact.loss, tuple))
    values = [state.criteria.value(loss) for loss in losses if loss is not None and loss < math.inf]
    half = half_width(values)
    middle = float(mean(values)) if values else None
    return ConfirmedConfig(
        bracket=found.bracket,
        index=found.index,
        rung=found.rung,
        budget=found.budget,
        config=found.config,
        rank=rank,
        value=found.value or 0.0,
        values=tuple(values),
        failures=len(facts) - len(values),
        mean=middle,
        low=None if middle is None or half is None else middle - half,
        high=None if middle is None or half is None else middle + half,
    )


def half_width(values: Sequence[float]) -> float | None:
    """Half the width of the 95 % interval of a mean; None for fewer than two values."""
    if len(values) < 2:
        return None
    from scipy.special import stdtrit

    try:
        quantile = float(stdtrit(len(values) - 1, (1 + SHARE) / 2))
        return quantile * stdev(values) / math.sqrt(len(values))
    except OverflowError:  # values such as 1.7e308 and -1.7e308
        return math.inf
