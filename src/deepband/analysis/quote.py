"""Quotes: what an extension would reuse, add and cost, as records, text and tables."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from fractions import Fraction

from deepband.analysis.durations import WORTH_SHOWING
from deepband.analysis.run_names import step_between
from deepband.analysis.text import about, duration, html_table, table, units
from deepband.core.exact_numbers import as_number
from deepband.core.record_text import record_repr
from deepband.core.strategies import FRUGAL, StrategyName
from deepband.errors import counted

OUTSIDE = "outside the paper's guarantees"


@dataclass(frozen=True, slots=True)
class Price:
    """What an extension costs, between two bounds, and what to compare it with."""

    low: Fraction
    high: Fraction
    spent: Fraction
    """What all runs so far have cost."""
    fresh: Fraction
    """What a single fresh run of the new size would cost."""
    scratch: Fraction
    """What fresh runs of every size, those so far and the new one, would cost together."""

    __repr__ = record_repr

    @property
    def of_fresh(self) -> tuple[float, float]:
        """The price as a fraction of a fresh run, low and high."""
        return float(self.low / self.fresh), float(self.high / self.fresh)

    @property
    def of_scratch(self) -> tuple[float, float]:
        """The total spent afterwards as a fraction of all runs from scratch, low and high."""
        low, high = self.spent + self.low, self.spent + self.high
        return float(low / self.scratch), float(high / self.scratch)


@dataclass(frozen=True, slots=True)
class Quote:
    """What extending a study with a strategy reuses, adds and costs. Ranges are (low, high)."""

    strategy: StrategyName
    old_max_budget: int | float
    max_budget: int | float
    old_width: int
    width: int
    old_brackets: int | None
    """The number of brackets that the study is limited to."""
    brackets: int | None
    configs_reused: int
    configs_new: int
    evaluations_known: int
    """How many evaluations the study has."""
    evaluations_reused: tuple[int, int]
    evaluations_new: tuple[int, int]
    cost: Price
    """If every evaluation pays its full budget."""
    cost_resumed: Price
    """If training continues from the rung below, and an evaluation pays the difference."""
    retraining: Fraction = Fraction(0)
    """The most that may be trained again because checkpoints were not kept or are missing."""
    fills: bool = False
    """Whether it fills the slots that a frugal run left out, with the same max_budget."""
    seconds: tuple[float, float] | None = field(default=None, compare=False)
    """How long one worker would take, by the measured seconds per unit of budget; None if no time
    was recorded."""
    reached: bool = False
    """Whether there is nothing to do, because some run has already had the given values."""
    unfinished: int = 0
    """How many jobs of the current run are open. The quote is for an extension right now. Jobs that
    are running and that the new run does not need cost extra."""
    at_most: bool = False
    """Whether only the upper bounds are meaningful, because equal configs share results."""
    skips: bool = False
    """Whether promotions of the study were skipped. The lower bounds then are for a run that skips
    all promotions, and the upper bounds for one that skips none."""
    stops: bool = False
    """Whether a run of the study was stopped. The lower bounds then are 0, and the upper bounds for
    a run that is not stopped."""
    stops_training: bool = False
    """Whether training was stopped early in the study. The lower bounds of costs then are 0, and
    the upper bounds for evaluations that are not stopped."""

    @property
    def exact(self) -> bool:
        """Whether the bounds are equal, as they are for `efficient` and `frugal`."""
        return self.cost.low == self.cost.high

    __repr__ = record_repr

    def __str__(self) -> str:
        lines = (f"  {name:12}  {text}" for name, text in self.lines())
        return "\n".join([self.title, *lines])

    def _repr_html_(self) -> str:
        return html_table(self.title, (), self.lines())

    @property
    def title(self) -> str:
        """What is quoted, in one line."""
        if self.reached:
            return "nothing to do: the study has already been extended that far"
        steps = ", ".join(self._steps())
        mark = f" ({OUTSIDE})" if self.strategy == FRUGAL else ""
        return f"{self.step} {self.strategy!r}, {steps}{mark}"

    @property
    def step(self) -> str:
        """The kind of extension, in one word."""
        if self.fills:
            return "filling"
        old = self.old_max_budget, self.old_width, self.old_brackets
        new = self.max_budget, self.width, self.brackets
        return "deepening" if old == new else step_between(old, new)

    def _steps(self) -> Iterator[str]:
        """What grows, and from what to what."""
        budget = f"{self.max_budget:.10g}"
        if self.old_max_budget != self.max_budget:
            budget = f"{self.old_max_budget:.10g} to {budget}"
        yield f"max_budget {budget}"
        if self.old_width != self.width:
            yield f"width {self.old_width} to {self.width}"
        if self.old_brackets != self.brackets:
            yield f"brackets {self.old_brackets} to {self.brackets}"

    def lines(self) -> list[tuple[str, str]]:
        """What it reuses, adds and costs, as pairs of a name and a text."""
        known = counted(self.evaluations_known, "evaluation")
        reused = f"{_span(*self.evaluations_reused)} of {known}"
        least, most = self.evaluations_new
        evaluations = "evaluation" if most == 1 and (least or self.at_most) else "evaluations"
        new = f"{_span(*self.evaluations_new, self.at_most)} {evaluations}"
        lines = [
            ("reused", f"{counted(self.configs_reused, 'config')}, {reused}"),
            ("new", f"{counted(self.configs_new, 'config')}, {new}"),
        ]
        for name, price in (("cost", self.cost), ("cost resumed", self.cost_resumed)):
            alone = f"{_percent(price.of_fresh, self.at_most)} of a fresh run"
            cost = _span(price.low, price.high, self.at_most)
            lines.append((name, f"{cost}, {alone} ({_show(price.fresh)})"))
            low, high = price.spent + price.low, price.spent + price.high
            scratch = f"of every run from scratch ({_show(price.scratch)})"
            share = _percent(price.of_scratch, self.at_most)
            lines.append(("  in all", f"{_span(low, high, self.at_most)}, {share} {scratch}"))
        if self.seconds is not None and self.seconds[1] >= WORTH_SHOWING:
            short, long = map(duration, self.seconds)
            span = about(self.seconds[1]) if short == long else f"about {short} to {long}"
            span = f"at most {about(self.seconds[1])}" if self.at_most else span
            text = f"{span} with one worker, as measured so far"
            lines.append(("time", text))
        if self.unfinished:
            are = "is" if self.unfinished == 1 else "are"
            text = f"{counted(self.unfinished, 'job')} of the current run {are} open"
            lines.append(("unfinished", f"{text}: finish it, or extend it while it is unfinished"))
        if self.stops or self.stops_training:
            lines.append(("range", "the most if nothing is stopped early or skipped"))
        elif self.skips:
            text = "the least if all promotions are skipped, the most without `skip`"
            lines.append(("range", text))
        if self.retraining:
            text = f"up to {_show(self.retraining)}, because checkpoints are missing"
            lines.append(("retraining", text))
        return lines


def quote_table(quotes: Sequence[Quote]) -> list[list[str]]:
    """A header and one row per quote, for pages. Times are those of one worker, and left out if
    none was measured."""
    header = ["next step", "strategy", "max_budget", "width", "new configs", "evaluations"]
    header += ["cost", "of a fresh run", "cost resumed", "of a fresh run", "in all", "time"]
    rows = [header, *map(_table_row, quotes)]
    return rows if any(row[-1] for row in rows[1:]) else [row[:-1] for row in rows]


def _table_row(each: Quote) -> list[str]:
    row = [each.step, each.strategy, f"{each.max_budget:,.10g}", str(each.width)]
    row += [f"{each.configs_new:,}", _range(*each.evaluations_new, each.at_most)]
    for price in (each.cost, each.cost_resumed):
        share = _percent(price.of_fresh, each.at_most).replace(" to ", "-")
        row += [_range(price.low, price.high, each.at_most), share]
    spent = each.cost.spent
    row.append(_range(spent + each.cost.low, spent + each.cost.high, each.at_most))
    return [*row, "" if each.seconds is None else duration(each.seconds[1])]


def _range(low: Fraction | int, high: Fraction | int, at_most: bool = False) -> str:
    """Two bounds as a short text; one if they are equal or only the upper one says something."""
    bounds = dict.fromkeys(f"{as_number(Fraction(each)):,.10g}" for each in (low, high))
    return f"at most {[*bounds][-1]}" if at_most else "-".join(bounds)


def quote_notes(quotes: Sequence[Quote]) -> list[str]:
    """What the table of quotes does not say by itself."""
    notes = [
        "Cost counts every evaluation at its full budget; cost resumed counts only what is trained "
        "if training continues from the rung below. In all is the total cost of all runs."
    ]
    if any(each.seconds for each in quotes):
        notes.append("The time is for one worker, at the speed measured so far.")
    if any(each.strategy == FRUGAL for each in quotes):
        notes.append(f"frugal is {OUTSIDE}.")
    if any(each.at_most for each in quotes):
        notes.append("Equal configs share results, so the cost may be lower.")
    if any(each.stops or each.stops_training for each in quotes):
        notes.append("Upper bounds are for a run in which nothing is stopped early or skipped.")
    elif any(each.skips for each in quotes):
        notes.append(
            "Lower bounds are for a run that skips all promotions, upper bounds for one that skips "
            "none."
        )
    most = max((each.retraining for each in quotes), default=Fraction(0))
    if most:
        notes.append(f"Because checkpoints are missing, training may repeat up to {units(most)}.")
    return notes


def comparison(quotes: Sequence[Quote], seconds: Sequence[float] | None = None) -> str:
    """A table of several ways to continue: what each adds and costs and, with `seconds`, how long
    it takes."""
    header = ["next step", "strategy", "max_budget", "width", "evaluations", "cost", "of fresh"]
    rows = [[*header, "time"] if seconds else header]
    for number, each in enumerate(quotes):
        row = [each.step, each.strategy, f"{each.max_budget:.10g}", str(each.width)]
        row.append(_span(*each.evaluations_new, each.at_most))
        row.append(_span(each.cost.low, each.cost.high, each.at_most))
        row.append(_percent(each.cost.of_fresh, each.at_most))
        rows.append([*row, duration(seconds[number])] if seconds else row)
    return table(rows)


def _span(low: Fraction | int, high: Fraction | int, at_most: bool = False) -> str:
    if at_most:
        return f"at most {_show(high)}"
    return _show(low) if low == high else f"{_show(low)} to {_show(high)}"


def _percent(shares: tuple[float, float], at_most: bool = False) -> str:
    low, high = (f"{100 * share:.0f}" for share in shares)
    if at_most:
        return f"at most {high} %"
    return f"{low} %" if low == high else f"{low} to {high} %"


def _show(number: Fraction | int) -> str:
    return f"{as_number(Fraction(number)):.10g}"
