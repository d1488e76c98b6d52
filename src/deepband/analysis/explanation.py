"""Why a config was or was not promoted, rung by rung and run by run."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace

from deepband.analysis.outcome_text import outcome_text
from deepband.analysis.run_names import stop_reason
from deepband.core.facts import JobFinished, JobKey
from deepband.core.rank_order import fronts, ranked
from deepband.core.record_text import html_table
from deepband.core.runs import Run
from deepband.core.state import State
from deepband.core.strategies import EMPTY
from deepband.errors import counted, read_index


@dataclass(frozen=True, slots=True)
class Verdict:
    """What a run decided about one config on one rung. Printed, it is a sentence.

    `promoted` is None while the rung is undecided, and on the top rung. `rank` counts from 1 among
    the `candidates` that competed for the `slots` left on the rung above; it is None if the config
    did not compete. `loss` (None for a failure, or while there is no result) and `cutoff`, the loss
    of the last config promoted, are minimised; the sentence shows them in the user's direction.
    With several objectives both are None; the sentence names the objectives and the front of both.
    """

    run: int
    strategy: str | None
    rung: int
    budget: int | float
    loss: float | None
    reason: str
    promoted: bool | None = None
    rank: int | None = None
    candidates: int = 0
    slots: int = 0
    cutoff: float | None = None
    width: int = 1
    """The width of the run."""
    new_space: bool = False
    """Whether the run started with another search space."""
    objectives: Mapping[str, float] = field(default_factory=dict)
    """The values of objectives that have names, in the user's direction."""
    front: int | None = None
    """With several objectives, the number of its front among the candidates, from 1."""
    skipped: float | None = None
    """If it was promoted, but not evaluated on the rung above (`optimize(skip=)`): the probability
    that it would have become the best."""

    def __str__(self) -> str:
        details = [self.strategy] if self.strategy else []
        details += [f"width {self.width}"] if self.width > 1 else []
        details += ["new space"] if self.new_space else []
        run = f"run {self.run} ({', '.join(details)})" if details else f"run {self.run}"
        return f"{run}, rung {self.rung}, budget {self.budget}: {self.reason}"


class Verdicts(tuple[Verdict, ...]):
    """The verdicts about a config: a tuple that is printed as one sentence per line."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "\n".join(map(str, self)) or "nothing has been decided about it yet"

    def _repr_html_(self) -> str:
        header = "run", "strategy", "rung", "budget", "verdict"
        rows = [(v.run, v.strategy or "", v.rung, f"{v.budget:.10g}", v.reason) for v in self]
        return html_table("Why it was or was not promoted", header, rows)


def explain(state: State, bracket: int, index: int) -> Verdicts:
    """The verdicts about a config, in the order of the runs and rungs."""
    schedule = state.full.schedule  # a frugal run has the configs of the run before it
    bracket = read_index("bracket", bracket, len(schedule.brackets))
    size = schedule.start_size(bracket)
    index = read_index(f"config in bracket {bracket} with index", index, size)
    return Verdicts(
        verdict for run in state.runs for verdict in _of_run(state, run, bracket, index)
    )


def _of_run(state: State, run: Run, bracket: int, index: int) -> Iterator[Verdict]:
    if run.frugal:
        yield from _of_frugal_run(state, run, bracket, index)
        return
    for rung in run.schedule.rungs(bracket) if bracket in run.schedule.brackets else ():
        arrived = run.arrived.get((bracket, rung), EMPTY)
        if index in arrived and rung == run.schedule.top:
            yield _top(state, run, bracket, index)
        elif index in arrived and (bracket, rung + 1) not in run.arrived:
            reason = "undecided when the study was extended"
            if run.stopped is not None:
                reason = _unused(state, run, (bracket, index, rung))
            elif run is state.run:
                reason = f"undecided, {_open(state.progress[bracket].open)}"
            yield _verdict(state, run, bracket, index, rung, reason)
        elif (bracket, rung + 1) in run.arrived and (
            index in arrived or index in run.before.get((bracket, rung), EMPTY)
        ):
            yield _decided(state, run, bracket, index, rung)


def _of_frugal_run(state: State, run: Run, bracket: int, index: int) -> Iterator[Verdict]:
    """Whether it was promoted from the rung that was the top one before, and its result there."""
    rung = run.schedule.top - 1
    if index in run.before.get((bracket, rung), EMPTY):
        order, slots = state.frugal_contest(run)
        results = [state.results[of, rung][each] for of, each in order]
        place = (bracket, index)
        rank = order.index(place) + 1 if place in order else None
        verdict = _verdict(state, run, bracket, index, rung, "a failure is never promoted")
        yield _ranked(state, verdict, rank, results, slots, " over all brackets")
    if index in run.arrived.get((bracket, run.schedule.top), EMPTY):
        yield _top(state, run, bracket, index)


def _decided(state: State, run: Run, bracket: int, index: int, rung: int) -> Verdict:
    contest = state.contest(run, bracket, rung)
    slots = contest.free(run.schedule.slots(bracket, rung + 1))
    order = ranked(contest.pool, state.scores(bracket, rung), slots)
    rank = order.index(index) + 1 if index in contest.pool else None
    reason = "did not compete, since it did not reach this rung in this run"
    if index in contest.kept:
        reason = "stays promoted, since this strategy revokes no promotion"
    verdict = _verdict(state, run, bracket, index, rung, reason)
    results = [state.results[bracket, rung][each] for each in order]
    verdict = _ranked(state, verdict, rank, results, slots)
    risk = run.skipped.get((bracket, rung + 1), {}).get(index)
    if risk is not None:
        why = f"it becomes the best with a probability of {risk:.2g}"
        if (bracket, index, rung) in state.standings.stopped:
            why = "its training was stopped early"
        reason = f"{verdict.reason}, and skipped: {why}"
        return replace(verdict, reason=reason, promoted=False, skipped=risk)
    return replace(verdict, promoted=index in run.arrived[bracket, rung + 1])


def _ranked(
    state: State,
    verdict: Verdict,
    rank: int | None,
    results: list[JobFinished],
    slots: int,
    where: str = "",
) -> Verdict:
    """A verdict completed with the rank among `results`, best first. A config that did not compete
    keeps its reason."""
    promoted = rank is not None and rank <= slots
    last = min(slots, len(results)) - 1 if slots and results else None
    numbers = _front_numbers(state, results)
    reason = verdict.reason
    if rank is not None:
        reason = (
            f"{_show(state, results[rank - 1], numbers[rank - 1])} ranks {rank} of "
            f"{len(results)}{where} for "
            f"{slots} slot{'' if slots == 1 else 's'}: "
            f"{'promoted' if promoted else 'not promoted'}"
        )
        if last is not None:
            reason += f" (the worst promoted has {_show(state, results[last], numbers[last])})"
    return replace(
        verdict,
        reason=reason,
        promoted=promoted,
        rank=rank,
        candidates=len(results),
        slots=slots,
        cutoff=None if last is None else results[last].number,
        front=None if rank is None else numbers[rank - 1],
    )


def _front_numbers(state: State, order: list[JobFinished]) -> list[int | None]:
    """By result: the number of its front from 1, or None with a single objective, and for results
    that are infinite, infeasible or failed."""
    standings = {place: state.standings.of(each) for place, each in enumerate(order)}
    found: dict[int, int] = {}
    for number, front in enumerate(fronts(standings), 1) if state.criteria.several else ():
        found |= {place: number for place in front if standings[place].finite}
    return [found.get(place) for place in range(len(order))]


def _top(state: State, run: Run, bracket: int, index: int) -> Verdict:
    top = run.schedule.top
    result = state.results[bracket, top].get(index)
    reason = f"{outcome_text(state, result)} on the top rung" if result else "waits for its result"
    if result is None and run.stopped is not None:
        reason = _unused(state, run, (bracket, index, top))
    return _verdict(state, run, bracket, index, top, reason)


def _unused(state: State, run: Run, key: JobKey) -> str:
    """Why a config on a rung of a stopped run was not evaluated there, or not promoted."""
    result = state.result(*key)
    evaluated = result is not None and result.run <= run.number
    what = "not decided" if evaluated else "not evaluated"
    return f"{what}, since the run was stopped: {stop_reason(run.stopped or 0.0)}"


def _verdict(state: State, run: Run, bracket: int, index: int, rung: int, reason: str) -> Verdict:
    result = state.results[bracket, rung].get(index)
    loss = result.number if result else None
    return Verdict(
        run.number,
        run.strategy,
        rung,
        run.budgets[rung],
        loss,
        reason,
        width=run.schedule.width,
        new_space=run.change is not None,
        objectives=state.criteria.values(result.loss) if result else {},
    )


def _open(jobs: int) -> str:
    return f"{counted(jobs, 'job')} of this rung {'is' if jobs == 1 else 'are'} open"


def _show(state: State, result: JobFinished, front: int | None) -> str:
    text = outcome_text(state, result)
    return text if front is None else f"{text} (front {front})"
