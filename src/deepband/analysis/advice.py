"""Deeper, wider, or done: which next step is likely to pay most, from a finished run alone.

Deepening and widening are judged one by one (`prospects`). If both pay, the advice is the one that
is expected to gain more for the same cost; if neither does, the advice is to stop. With several
objectives, hypervolumes take the place of losses (`front_volumes`).
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal, TypeAlias

from deepband.analysis import gains, plateau, prospects
from deepband.analysis.durations import WORTH_SHOWING
from deepband.analysis.evidence import Evidence, look, look_at_fronts
from deepband.analysis.front_volumes import front_volumes
from deepband.analysis.gains import Gain, Losses
from deepband.analysis.hypervolume import default_reference
from deepband.analysis.prospects import Prospect
from deepband.analysis.quote import Quote
from deepband.analysis.quote_computation import quote
from deepband.analysis.rank_agreement import Agreement, agreement
from deepband.analysis.text import about, html_table
from deepband.core.evaluations import best_first
from deepband.core.exact_numbers import as_number
from deepband.core.extension import options
from deepband.core.rank_order import Place
from deepband.core.state import State
from deepband.errors import counted

Step: TypeAlias = Literal["deepen", "widen", "stop"]


@dataclass(frozen=True, slots=True)
class Advice:
    """Which next step is likely to pay most, and why. Printed, it is a table.

    Gains, the spread and the noise are differences of losses. A positive gain is an improvement,
    also if the study maximizes. What cannot be estimated from a small run is None.

    With several objectives, they are differences of hypervolumes: `gain` and `gains` compare
    fronts, and all else compares configs by the hypervolume that each has alone. The reported
    curves and the best config are then None.
    """

    step: Step
    reason: str
    max_budget: int | float
    width: int
    deepening: Prospect
    """What one level deeper is expected to gain."""
    widening: Prospect
    """What one more width is expected to gain."""
    widening_for_same_cost: float | None
    """What widening is expected to gain for the cost of deepening."""
    best_budget: int | float | None
    """The highest budget of the best config, which is the one of `study.best`."""
    best_gain: float | None
    """How much it gained on its last rung; None if it has been on one rung only."""
    judged: Place | None
    """The config that decides, as (bracket, index): the best of those promoted to the top rung.
    None if one that started there is better by more than the noise and a tenth of the spread. With
    several objectives, the one with the largest hypervolume of those promoted."""
    gain: float | None
    """How much that config gained on the top rung; with several objectives, how much the front of
    those promoted gained."""
    spread: float | None
    """From the best loss on the top rung to the median on the rung below."""
    noise: float
    """Losses that differ by no more than this count as equal, as PASHA estimates it. 0 if there is
    no sign of noise."""
    crossings: int
    """How many pairs of configs cross back and forth from rung to rung: the basis of the noise."""
    last_change: float | None
    """How much the best reported curves still changed at the end of training: the distance of the
    last quarter from the range of the quarter before. None if no curves were reported."""
    agreement: Agreement | None
    """How similarly the two top rungs rank configs, by finite losses; None if there is one rung."""
    exchanges: int
    """How many pairs the two top rungs rank differently, beyond the noise."""
    gains: tuple[Gain, ...]
    """What each rung gained over the one below it."""
    quotes: tuple[Quote, ...]
    """What each way to continue would cost."""
    workers: int = 1
    """The number of workers that times are given for."""
    risk: float | None = None
    """The probability that a config that was not evaluated on the top rung is notably better there
    than the best one: by more than a tenth of the distance from the best loss to the median. None
    if it is unknown, with several objectives or constraints, and in large studies."""
    reference: Mapping[str, float] | None = None
    """With several objectives, the reference of hypervolumes, in the user's direction: the worst
    value of each among the feasible, finite results of the first run."""

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join([self.title, *(f"  {name:{width}}  {text}" for name, text in lines)])

    def _repr_html_(self) -> str:
        return html_table(self.title, (), self.lines())

    @property
    def title(self) -> str:
        """The answer, in one line."""
        width = "" if self.width == 1 else f", width {self.width}"
        return f"{self.step} at {self.max_budget:.10g}{width}: {self.reason}"

    def lines(self) -> list[tuple[str, str]]:
        """The numbers behind the answer, and the prices, as pairs of a name and a text."""
        return [
            *self._reasons(),
            *self._ranks(),
            *self._gains(),
            *self._risk(),
            *self._prospects(),
            *self._prices(),
        ]

    def _reasons(self) -> Iterator[tuple[str, str]]:
        """Why the other step is not advised, where the expected gains alone would suggest it."""
        if self.step == "widen" and not self.deepening.pays:
            yield "why not deepen", self.deepening.reason
        if self.step == "deepen" and not self.widening.pays:
            yield "why not widen", self.widening.reason

    def _ranks(self) -> Iterator[tuple[str, str]]:
        found = self.agreement
        if found is not None:
            tau = "" if found.tau is None else f", Kendall's tau {found.tau:.2f}"
            yield "on both rungs", f"{counted(found.configs, 'config')}{tau}"
            yield "exchanges", f"{counted(self.exchanges, 'pair')} beyond the noise"
        cross = "crosses" if self.crossings == 1 else "cross"
        pairs = f"{counted(self.crossings, 'pair')} {cross} back and forth"
        yield "noise", f"{self.noise:.4g} ({pairs})"

    def _gains(self) -> Iterator[tuple[str, str]]:
        if self.reference is not None:
            values = ", ".join(f"{name} {value:.6g}" for name, value in self.reference.items())
            yield "reference", f"{values}: gains are hypervolumes"
        what = "best" if self.reference is None else "front"
        for each in self.gains:
            budgets = " to ".join(f"{budget:.6g}" for budget in each.budgets)
            best, promoted = _signed(each.incumbent), _signed(each.promoted)
            yield budgets, f"{what} {best}, {each.configs} on both {promoted} (median)"
        if self.spread is not None:
            yield "spread", f"{self.spread:.4g} from the {what} to the median of the rung below"
        if self.best_budget is not None:
            last = "" if self.best_gain is None else f", {_signed(self.best_gain)} on its last rung"
            yield "best of all", f"stopped at {self.best_budget:.6g}{last}"

    def _risk(self) -> Iterator[tuple[str, str]]:
        if self.risk is not None:
            chance = "less than 0.001" if self.risk < 0.001 else f"{self.risk:.2g}"
            yield "others", f"one is notably better at {self.max_budget:.6g}: probability {chance}"

    def _prospects(self) -> Iterator[tuple[str, str]]:
        if self.last_change is not None:
            yield "curves", f"{self.last_change:.4g} in the last quarter of the best ones"
        same = self.widening_for_same_cost
        for name, each in (("deepening", self.deepening), ("widening", self.widening)):
            expected = "unknown" if each.gain is None else f"{each.gain:+.4g}"
            error = "" if each.error is None else f" ± {each.error:.2g}"
            more = f" from {counted(each.configs, 'new config')}" if each.configs else ""
            yield name, f"{expected}{error} expected{more}"
        if same is not None:
            yield "  same cost", f"{same:+.4g} expected if widening costs as much as deepening"

    def _prices(self) -> Iterator[tuple[str, str]]:
        for each in self.quotes:
            yield _target(each), f"{each.strategy}, {dict(each.lines())['cost']}{self._time(each)}"

    def _time(self, quoted: Quote) -> str:
        """How long an extension takes if all workers are always busy, if it takes long enough."""
        seconds = 0.0 if quoted.seconds is None else quoted.seconds[1] / self.workers
        return "" if seconds < WORTH_SHOWING else f", {about(seconds)}"


def _target(quoted: Quote) -> str:
    """Where an extension leads, in two words."""
    if quoted.step == "widening":
        return f"width {quoted.width}"
    return f"{'fill' if quoted.fills else 'to'} {quoted.max_budget:.10g}"


def advise(state: State) -> Advice:
    """The advice for a state whose current run is done."""
    several = state.criteria.several
    volumes = front_volumes(state) if several else None
    rungs = gains.losses_by_rung(state) if volumes is None else volumes.losses()
    found = look(rungs) if volumes is None else look_at_fronts(rungs, volumes)
    change = None if several else plateau.last_change(state)
    deeper, wider = _prospects(state, found, change)
    same = prospects.gain_of_cost(state, found, deeper, wider)
    step, reason = choose(deeper, wider, same)
    best_budget, best_gain = _best_of_all([] if several else rungs, state.run.budgets)
    return Advice(
        step=step,
        reason=reason,
        max_budget=as_number(state.schedule.max_budget),
        width=state.schedule.width,
        deepening=deeper,
        widening=wider,
        widening_for_same_cost=same,
        best_budget=best_budget,
        best_gain=best_gain,
        judged=found.judged,
        gain=found.gain,
        spread=found.spread,
        noise=found.noise,
        crossings=found.crossings,
        last_change=change,
        agreement=_agreement(state, rungs),
        exchanges=found.exchanges,
        gains=gains.gains(rungs, state.run.budgets, volumes),
        quotes=tuple(quote(state, *option) for option in options(state)),
        reference=default_reference(state) if several else None,
    )


def choose(deeper: Prospect, wider: Prospect, same_cost: float | None) -> tuple[Step, str]:
    """The step that pays most for its cost, and the reason in words. What widening gains for the
    cost of deepening decides if both pay."""
    if not deeper.pays and not wider.pays:
        both = [deeper.reason, wider.reason]
        return "stop", ", and ".join(dict.fromkeys(both))
    if not (deeper.pays and wider.pays):
        return ("deepen", deeper.reason) if deeper.pays else ("widen", wider.reason)
    if deeper.gain is None or same_cost is None or deeper.gain >= same_cost:
        return "deepen", deeper.reason
    return "widen", f"{wider.reason}, which is more than deepening gains for its cost"


def _prospects(state: State, found: Evidence, change: float | None) -> tuple[Prospect, Prospect]:
    """Both prospects. Neither pays if most evaluations on the top rung failed."""
    top = state.schedule.top
    cells = [state.results[of, top] for of in state.schedule.brackets]
    losses = [result.loss for cell in cells for result in cell.values()]
    budget = f"{state.run.budgets[top]:.10g}"
    if not found.high:
        failed = Prospect(False, _nothing_counts(state))
    elif 2 * losses.count(None) > len(losses):
        failed = Prospect(False, f"most evaluations with budget {budget} failed: fix that first")
    else:
        return prospects.deepening(state, found, change), prospects.widening(state, found)
    return failed, failed


def _nothing_counts(state: State) -> str:
    """Why no result on the top rung counts."""
    if state.criteria.several and default_reference(state) is None:
        return "no result of the first run is feasible and finite, so there is no reference"
    if state.criteria.constraints or state.standings.rejected:
        return "no config has a feasible, finite result on the top rung"
    return "no config has a finite result on the top rung"


def _agreement(state: State, rungs: Sequence[Losses]) -> Agreement | None:
    """The agreement of the two top rungs, by finite losses or, with several objectives, by the
    order in which configs would be promoted."""
    if len(rungs) < 2:
        return None
    both = [place for place in rungs[-1] if place in rungs[-2]]
    top, budgets = len(rungs) - 1, state.run.budgets
    low, high = rungs[-2:]
    if state.criteria.several:
        low, high = (_positions(state, rung, both) for rung in (top - 1, top))
    pairs = [(low[place], high[place]) for place in both]
    return agreement(top - 1, (budgets[-2], budgets[-1]), pairs)


def _positions(state: State, rung: int, places: Sequence[Place]) -> dict[Place, float]:
    """The positions of configs in the order of a rung."""
    results = [state.results[bracket, rung][index] for bracket, index in places]
    order = best_first(state, results)
    return {(each.bracket, each.index): float(number) for number, each in enumerate(order)}


def _best_of_all(
    rungs: Sequence[Losses], budgets: Sequence[int | float]
) -> tuple[int | float | None, float | None]:
    """The highest budget of the best config of all, and how much it gained there."""
    losses = [(loss, -rung, place) for rung, of in enumerate(rungs) for place, loss in of.items()]
    if not losses:
        return None, None
    *_, place = min(losses)  # ties go to the larger budget, as in `study.best`
    rung = max(rung for rung, of in enumerate(rungs) if place in of)
    below = rungs[rung - 1].get(place) if rung else None
    return budgets[rung], None if below is None else below - rungs[rung][place]


def _signed(gain: float | None) -> str:
    return "unknown" if gain is None else f"{gain:+.4g}"
