"""Whether a larger max_budget is likely to pay, from a finished run alone.

Deepen while the best config still improves: it gained more than a tenth of the spread, and more
than the noise, on the top rung. Deepen, too, while the two top rungs rank configs differently
beyond the noise, and if there is no evidence: fewer than two configs are on both rungs, or the best
config by far started on the top one. Otherwise stay. After a frugal deepening, which may leave a
single config on the top rung, one config is enough.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from statistics import median

from deepband.analysis import gains
from deepband.analysis.gains import Gain, Losses
from deepband.analysis.quote import Quote, quote
from deepband.analysis.rank_agreement import Agreement, agreement
from deepband.analysis.text import html_table
from deepband.core.extension import options
from deepband.core.schedule import as_number
from deepband.core.state import State
from deepband.core.strategies import Place

LEAST_GAIN = 0.1
"""The best config still improves if it gained more than this share of the spread."""
FEWEST = 2
"""How many configs must be on both top rungs for the answer to be "stay"."""
# Both are measured by `bench/auto.py`; `docs/explanation/decisions.md` has the numbers.


@dataclass(frozen=True, slots=True)
class Advice:
    """Whether deepening is likely to pay, and why. Printed, it is a table.

    Gains, the spread and the noise are differences of losses. A positive gain is an improvement,
    also if the study maximizes. What cannot be estimated from a small run is None.
    """

    deepen: bool
    reason: str
    max_budget: int | float
    best_budget: int | float | None
    """The highest budget of the best config, which is the one of `study.best`."""
    best_gain: float | None
    """How much it gained on its last rung; None if it has been on one rung only."""
    judged: Place | None
    """The config that decides, as (bracket, index): the best of those promoted to the top rung.
    None if one that started there is better by more than the noise and a tenth of the spread."""
    gain: float | None
    """How much that config gained on the top rung."""
    spread: float | None
    """From the best loss on the top rung to the median on the rung below."""
    noise: float
    """Losses that differ by no more than this count as equal, as PASHA estimates it. 0 if there is
    no sign of noise."""
    crossings: int
    """How many pairs of configs cross back and forth from rung to rung: the basis of the noise."""
    agreement: Agreement | None
    """How similarly the two top rungs rank configs, by finite losses; None if there is one rung."""
    exchanges: int
    """How many pairs the two top rungs rank differently, beyond the noise."""
    gains: tuple[Gain, ...]
    """What each rung gained over the one below it."""
    quotes: tuple[Quote, ...]
    """What each way to continue would cost."""

    def __str__(self) -> str:
        lines = self.lines()
        width = max(len(name) for name, _ in lines)
        return "\n".join([self.title, *(f"  {name:{width}}  {text}" for name, text in lines)])

    def _repr_html_(self) -> str:
        return html_table(self.title, ("", ""), self.lines())

    @property
    def title(self) -> str:
        """The answer, in one line."""
        return f"{'deepen' if self.deepen else 'stay'} at {self.max_budget:.10g}: {self.reason}"

    def lines(self) -> list[tuple[str, str]]:
        """The numbers behind the answer, and the prices, as pairs of a name and a text."""
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
    """The numbers that decide."""

    high: Losses
    both: int
    judged: Place | None
    gain: float | None
    spread: float | None
    noise: float
    crossings: int
    exchanges: int


def look(rungs: Sequence[Losses], least_gain: float = LEAST_GAIN) -> Found:
    """The numbers that decide, from the finite losses on each rung."""
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
        quotes=tuple(quote(state, *option) for option in options(state)),
    )


def _answer(state: State, found: Found) -> tuple[bool, str]:
    """The answer of the rule, unless most evaluations on the top rung failed."""
    top = state.schedule.top
    losses = [loss for of in state.schedule.brackets for loss in state.losses(of, top).values()]
    if found.high and 2 * losses.count(None) > len(losses):
        budget = f"{state.run.budgets[top]:.10g}"
        return False, f"most evaluations with budget {budget} failed: fix that first"
    return decide(found, fewest=1 if state.run.frugal else FEWEST)


def _agreement(rungs: Sequence[Losses], budgets: Sequence[int | float]) -> Agreement | None:
    """The agreement of the two top rungs, by finite losses."""
    if len(rungs) < 2:
        return None
    low, high = rungs[-2:]
    pairs = [(low[place], loss) for place, loss in high.items() if place in low]
    return agreement(len(rungs) - 2, (budgets[-2], budgets[-1]), pairs)


def decide(found: Found, least_gain: float = LEAST_GAIN, fewest: int = FEWEST) -> tuple[bool, str]:
    """Whether to deepen, and the reason in words."""
    gain, spread = found.gain, found.spread
    if not found.high:
        return False, "no config has a finite loss on the top rung"
    if found.both < fewest:
        return True, "too few configs are on both top rungs to tell"
    if gain is None or spread is None:
        return True, "the best config started on the top rung, so its improvement is unknown"
    share = f"{_percent(gain / spread)} of the spread" if spread > 0 else f"{gain:.4g}"
    if gain > max(found.noise, least_gain * spread, 0.0):
        return True, f"the best config still gained {share} on the top rung"
    if found.exchanges:
        return True, "the two top rungs rank configs differently"
    return False, f"the best config gained {_little(gain, found.noise, share)} on the top rung"


def _little(gain: float, noise: float, share: str) -> str:
    if gain <= 0:
        return "nothing"
    return "no more than the noise" if gain <= noise else f"only {share}"


def _judged(low: Losses, high: Losses, width: float) -> Place | None:
    """The config whose gain counts: the best of those promoted to the top rung, unless one that
    started there is better by more than `width`."""
    order = sorted(high, key=lambda place: (high[place], place))
    promoted = next((place for place in order if place in low), None)
    as_good = promoted is not None and high[promoted] - high[order[0]] <= width
    return promoted if as_good else None


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


def _percent(share: float) -> str:
    """A share in percent, with two digits or without decimals."""
    percent = 100 * share
    return f"{percent:.0f} %" if percent >= 10 else f"{percent:.2g} %"


def _count(number: int, name: str) -> str:
    return f"{number} {name}" if number == 1 else f"{number} {name}s"
