"""The key figures of a study, which every page shows first: the best result or, with several
objectives, the front, the progress of the run, the time left, and the cost."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from deepband.analysis.cells import CellStatus
from deepband.analysis.durations import resumes, seconds_per_unit, seconds_spent
from deepband.analysis.feasibility import feasibility_notes, is_judged
from deepband.analysis.hypervolume import default_reference, hypervolume
from deepband.analysis.metrics import main_metric
from deepband.analysis.status import Status, stopped_notes
from deepband.analysis.text import about, brief, duration, shortened, units
from deepband.core.costs import costs, paid, slots_left
from deepband.core.evaluations import best_above, best_evaluation, front
from deepband.core.exact_numbers import as_number
from deepband.core.state import State
from deepband.errors import counted


@dataclass(frozen=True, slots=True)
class KeyFigure:
    """One figure with its name and what explains it."""

    key: str
    label: str
    value: str
    detail: str
    share: float | None = None
    """The progress of the run, from 0 to 1; None for other figures."""


def key_figures(state: State, status: Status) -> list[KeyFigure]:
    """The key figures, in the order in which they are shown. The number of running jobs is that of
    the status. Figures that do not apply are left out."""
    figures: list[KeyFigure | None] = [_best(state), _highest(state), _metric(state)]
    if state.criteria.several:
        figures = [_front(state), _hypervolume(state)]
    figures += [_progress(state, status), _time_left(state, status)]
    figures += [_evaluations(state, status), _cost(state)]
    return [figure for figure in figures if figure is not None]


def _best(state: State) -> KeyFigure:
    name = f"best {state.criteria.value_name}"
    best = best_evaluation(state)
    if best is None:
        return KeyFigure("best", name, "none", f"{no_result(state)} yet")
    place = f"budget {best.budget:.6g}, bracket {best.bracket}, index {best.index}"
    return KeyFigure("best", name, brief(best.value), place)


def no_result(state: State) -> str:
    """Why there is no best evaluation and an empty front, in words."""
    feasible = "is feasible and " if is_judged(state) else ""
    return f"no evaluation {feasible}has a finite result"


def _front(state: State) -> KeyFigure:
    found = front(state)
    names = ", ".join(shortened(name, 20) for name in state.criteria.names)
    detail = f"that no other one dominates in {names}" if found else f"{no_result(state)} yet"
    return KeyFigure("front", "front", counted(len(found), "evaluation"), detail)


def _hypervolume(state: State) -> KeyFigure | None:
    reference = default_reference(state)
    if reference is None:
        return None
    return KeyFigure(
        "hypervolume",
        "hypervolume",
        brief(hypervolume(state, reference)),
        f"up to the worst of run 0: {reference_text(reference)}",
    )


def reference_text(reference: Mapping[str, float]) -> str:
    """A reference point in words, such as "error 0.5, latency_ms 80"."""
    return ", ".join(f"{shortened(name, 20)} {value:.4g}" for name, value in reference.items())


def _highest(state: State) -> KeyFigure | None:
    """The best on the highest budget, if the best on any budget is another one."""
    best = best_above(state)
    if best is None:
        return None
    place = f"the highest budget, bracket {best.bracket}, index {best.index}; study.best_at()"
    return KeyFigure("highest", f"best on budget {best.budget:.6g}", brief(best.value), place)


def _metric(state: State) -> KeyFigure | None:
    name, best = main_metric(state), best_evaluation(state)
    if name is None or best is None:
        return None
    return KeyFigure("metric", shortened(name), brief(best.metrics[name]), "of the best config")


def _progress(state: State, status: Status) -> KeyFigure:
    filled = {(cell.bracket, cell.rung): _filled(state, cell) for cell in status.cells}
    evaluated, spent = sum(filled.values()), state.schedule.cost_of(filled)
    whole, slots = spent + status.left, evaluated + sum(slots_left(state).values())
    share = 1.0 if status.done else max(0.0, float(spent / whole)) if whole else 0.0
    detail = f"{evaluated:,} of {counted(slots, 'evaluation')}"
    if not state.standings.stopped:  # what they used is less, and `cost` shows it
        detail += f", {as_number(spent):,.10g} of {units(whole)}"
    percent = int(100 * share)  # 100 % only when it is done
    return KeyFigure("progress", f"progress of run {status.run}", f"{percent} %", detail, share)


def _filled(state: State, cell: CellStatus) -> int:
    """How many slots of a cell have a result that the current run uses."""
    reached = state.progress[cell.bracket].rung >= cell.rung
    return min(cell.slots, cell.evaluated if reached else sum(cell.by_run))


def _time_left(state: State, status: Status) -> KeyFigure | None:
    if status.done:
        return None
    seconds = seconds_left(state, max(status.running, 1))
    if seconds is None:
        return KeyFigure("time", "time left", "unknown", "no evaluation recorded its time yet")
    detail = f"with {counted(max(status.running, 1), 'worker')}"
    detail += "" if status.running else "; nothing is running now"
    return KeyFigure("time", "time left", about(max(1, round(seconds))), detail)


def seconds_left(state: State, workers: int) -> float | None:
    """How long the rest of the current run takes if all workers are always busy, by the measured
    seconds per unit of budget; None if no time was recorded."""
    rate, left = seconds_per_unit(state), slots_left(state)
    if rate is None:
        return None
    schedule = state.schedule
    units = schedule.cost_resumed_of(left) if resumes(state) else schedule.cost_of(left)
    return rate * float(units) / workers


def _evaluations(state: State, status: Status) -> KeyFigure:
    failed = "none failed" if not status.failed else f"{status.failed:,} failed"
    failed = ", ".join([failed, *feasibility_notes(state), *stopped_notes(state)])
    ahead = f", {status.ahead:,} ahead for the next deepening" if status.ahead else ""
    return KeyFigure("evaluations", "evaluations", f"{status.evaluations:,}", f"{failed}{ahead}")


def _cost(state: State) -> KeyFigure:
    rate, spent, name = seconds_per_unit(state), seconds_spent(state), "cost of all runs"
    value = units(costs(state.schedule, list(paid(state))).whole)
    if not spent:
        return KeyFigure("cost", name, value, "no evaluation recorded its time")
    per_unit = "" if rate is None else f", {duration(rate)} per unit"
    return KeyFigure("cost", name, value, f"{duration(spent)} of work{per_unit}")
