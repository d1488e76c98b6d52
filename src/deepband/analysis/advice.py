"""Whether a larger max_budget is likely to pay, from a finished run alone.

Deepen while the best still improves: while the top rung brought it more than a tenth of the spread,
and more than the noise. Deepen, too, while the two top rungs rank configs differently beyond the
noise, and where nothing can be told: fewer than two configs are on both, or the best, by far, began
on the top one. Else stay. A frugal deepening may leave one config on top, which is then enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from deepband.analysis import gains
from deepband.analysis.formatting import html_table
from deepband.analysis.gains import Gain, Losses
from deepband.analysis.quote import Quote, quote
from deepband.analysis.rank_agreement import Agreement, agreement
from deepband.core import hyperband
from deepband.core.schedule import as_number
from deepband.core.state import State
from deepband.core.strategies import Place

LEAST_GAIN = 0.1
"""The best still improves if the top rung brought it more than this share of the spread."""
FEWEST = 2
"""So many must be on both top rungs for a run to tell that it is enough."""
# Both are measured by `bench/auto.py`; `docs/explanation/decisions.md` has the numbers.


@dataclass(frozen=True, slots=True)
class Advice:
    """Whether deepening is likely to pay, and why. Printed, it is a table.

    Gains, the spread and the noise are differences of losses; a positive gain is an improvement,
    also for those who maximise. What a run is too small to tell is None.
    """

    deepen: bool
    reason: str
    max_budget: int | float
    best_budget: int | float | None
    """Where the best config of all stopped: the one of `study.best`."""
    best_gain: float | None
    """What its last rung brought it; None if it has been on no other."""
    judged: Place | None
    """Who decides, as (bracket, index): the best of those who came up to the top rung. None if
    somebody began there and is better, by more than the noise and a tenth of the spread."""
    gain: float | None
    """What the top rung brought that one."""
    spread: float | None
    """From the best on the top rung to the median on the rung below."""
    noise: float
    """Two losses that are no further apart are not told apart: PASHA's estimate. 0 without a sign
    of noise."""
    crossings: int
    """How many pairs cross back and forth from rung to rung: what the noise is estimated from."""
    agreement: Agreement | None
    """How alike the two top rungs rank configs, by finite losses; None if there is one rung."""
    exchanges: int
    """How many pairs the two top rungs rank differently, beyond the noise."""
    gains: tuple[Gain, ...]
    """What each rung brought, beyond the one below it."""
    quotes: tuple[Quote, ...]
    """What each way to go on would cost."""

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join([self.title, *(f"  {name:{width}}  {text}" for name, text in lines)])

    def _repr_html_(self) -> str:
        return html_table(self.title, ("", ""), self.lines())

    @property
    def title(self) -> str:
        """The answer, in a line."""
        return f"{'deepen' if self.deepen else 'stay'} at {self.max_budget:.10g}: {self.reason}"

    def lines(self) -> list[tuple[str, str]]:
        """The reasons in numbers, and the prices: names and texts."""
        return [*self._ranks(), *self._gains(), *self._prices()]

    def _ranks(self) -> Iterator[tuple[str, str]]:
        found = self.agreement
        if found is not None:
            tau = "" if found.tau is None else f", Kendall's tau {found.tau:.2f}"
            yield "on both rungs", f"{_count(found.configs, 'config')}{tau}"
            yield "exchanges", f"{_count(self.exchanges, 'pair')} beyond the noise"
        cross = "crosses" if self.crossings == 1 else "cross"
        pairs = f"{_count(self.crossings, 'pair')} {cross} back and forth"
        yield "noise", f"{self.noise:.4g} ({pairs})"

    def _gains(self) -> Iterator[tuple[str, str]]:
        for each in self.gains:
            budgets = " to ".join(f"{budget:.6g}" for budget in each.budgets)
            best, promoted = _signed(each.incumbent), _signed(each.promoted)
            yield budgets, f"best {best}, {each.configs} on both {promoted} (median)"
        if self.spread is not None:
            yield "spread", f"{self.spread:.4g} from the best to the median of the rung below"
        if self.best_budget is not None:
            last = "" if self.best_gain is None else f", {_signed(self.best_gain)} on its last rung"
            yield "best of all", f"stopped at {self.best_budget:.6g}{last}"

    def _prices(self) -> Iterator[tuple[str, str]]:
        for each in self.quotes:
            verb = "fill" if each.fills else "to"
            name = f"{verb} {each.max_budget:.10g}"
            yield name, f"{each.strategy}, {dict(each.lines())['cost']}"


@dataclass(frozen=True, slots=True)
class Found:
    """What is decided by."""

    high: Losses
    both: int
    judged: Place | None
    gain: float | None
    spread: float | None
    noise: float
    crossings: int
    exchanges: int


def look(rungs: Sequence[Losses], least_gain: float = LEAST_GAIN) -> Found:
    """The numbers that the two top rungs give."""
    low, high = rungs[-2] if len(rungs) > 1 else {}, rungs[-1]
    noise, crossings = gains.noise(rungs)
    spread = median(low.values()) - min(high.values()) if low and high else None
    judged = _judged(low, high, max(noise, least_gain * (spread or 0.0)))
    return Found(
        high=high,
        both=sum(place in low for place in high),
        judged=judged,
        gain=None if judged is None else low[judged] - high[judged],
        spread=spread,
        noise=noise,
        crossings=crossings,
        exchanges=gains.exchanges(low, high, noise),
    )


def advise(state: State) -> Advice:
    """The advice for a state whose current run is done."""
    rungs = gains.losses_by_rung(state)
    found = look(rungs)
    deepen, reason = _answer(state, found)
    best_budget, best_gain = _best_of_all(rungs, state.run.budgets)
    return Advice(
        deepen=deepen,
        reason=reason,
        max_budget=as_number(state.schedule.max_budget),
        best_budget=best_budget,
        best_gain=best_gain,
        judged=found.judged,
        gain=found.gain,
        spread=found.spread,
        noise=found.noise,
        crossings=found.crossings,
        agreement=_agreement(rungs, state.run.budgets),
        exchanges=found.exchanges,
        gains=gains.gains(rungs, state.run.budgets),
        quotes=tuple(quote(state, *option) for option in hyperband.options(state)),
    )


def _answer(state: State, found: Found) -> tuple[bool, str]:
    """What the rule says, unless most of what it would judge by failed."""
    top = state.schedule.top
    losses = [loss for of in state.schedule.brackets for loss in state.losses(of, top).values()]
    if found.high and 2 * losses.count(None) > len(losses):
        budget = f"{state.run.budgets[top]:.10g}"
        return False, f"most evaluations with budget {budget} failed: mend that first"
    return decide(found, fewest=1 if state.run.frugal else FEWEST)


def _agreement(rungs: Sequence[Losses], budgets: Sequence[int | float]) -> Agreement | None:
    """That of the two top rungs, by finite losses."""
    if len(rungs) < 2:
        return None
    low, high = rungs[-2:]
    pairs = [(low[place], loss) for place, loss in high.items() if place in low]
    return agreement(len(rungs) - 2, (budgets[-2], budgets[-1]), pairs)


def decide(found: Found, least_gain: float = LEAST_GAIN, fewest: int = FEWEST) -> tuple[bool, str]:
    """The rule, with the reason in words."""
    gain, spread = found.gain, found.spread
    if not found.high:
        return False, "nobody has a finite loss on the top rung"
    if found.both < fewest:
        return True, "too few configs are on both top rungs to tell"
    if gain is None or spread is None:
        return True, "the best began on the top rung, and nothing shows how it improves"
    share = f"{_percent(gain / spread)} of the spread" if spread > 0 else f"{gain:.4g}"
    if gain > max(found.noise, least_gain * spread, 0.0):
        return True, f"the top rung still brought the best {share}"
    if found.exchanges:
        return True, "the two top rungs do not agree who is better"
    return False, f"the top rung brought the best {_little(gain, found.noise, share)}"


def _little(gain: float, noise: float, share: str) -> str:
    if gain <= 0:
        return "nothing"
    return "no more than the noise" if gain <= noise else f"only {share}"


def _judged(low: Losses, high: Losses, width: float) -> Place | None:
    """Whose gain on the top rung counts: the best of those who came up to it, unless one who began
    there is better by more than a width."""
    order = sorted(high, key=lambda place: (high[place], place))
    came_up = next((place for place in order if place in low), None)
    as_good = came_up is not None and high[came_up] - high[order[0]] <= width
    return came_up if as_good else None


def _best_of_all(
    rungs: Sequence[Losses], budgets: Sequence[int | float]
) -> tuple[int | float | None, float | None]:
    """The budget on which the best config of all stopped, and what that brought it."""
    told = [(loss, -rung, place) for rung, of in enumerate(rungs) for place, loss in of.items()]
    if not told:
        return None, None
    *_, place = min(told)  # of equal losses the one with the larger budget, as `study.best`
    rung = max(rung for rung, of in enumerate(rungs) if place in of)
    below = rungs[rung - 1].get(place) if rung else None
    return budgets[rung], None if below is None else below - rungs[rung][place]


def _signed(gain: float | None) -> str:
    return "unknown" if gain is None else f"{gain:+.4g}"


def _percent(share: float) -> str:
    """Two digits, and no decimals from 10 on."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
