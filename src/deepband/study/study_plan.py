"""What a study would cost before it exists: its first run, and every way to continue after it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from deepband.analysis.plan import Plan
from deepband.analysis.quote import Quote, comparison
from deepband.analysis.text import about
from deepband.core.exact_numbers import Budget
from deepband.core.facts import Config
from deepband.core.records import Evaluation
from deepband.errors import InputError, counted
from deepband.space.search_space import Space
from deepband.study.extension_request import quote_options
from deepband.study.forecast import Forecast, forecast
from deepband.study.settings import open_study
from deepband.study.study import Study

MOST_SIMULATED = 1_000_000
"""The most evaluations of a first run after which ways to continue are computed."""


@dataclass(frozen=True, slots=True)
class StudyPlan:
    """The first run of a study, and every way to continue after it. Printed, it is two tables."""

    run: Plan
    steps: tuple[Quote, ...]
    """Every way to continue; empty after a first run of more than a million evaluations."""
    forecasts: tuple[Forecast, ...]
    """The time of the first run and of each step, if seconds per unit were given."""

    def __str__(self) -> str:
        lines = [str(self.run)]
        if self.forecasts:
            first = self.forecasts[0]
            lines.append(f"{about(first.seconds)} with {counted(first.workers, 'worker')}")
        if self.steps:
            times = [each.seconds for each in self.forecasts[1:]]
            lines += ["", comparison(self.steps, times or None)]
        return "\n".join(lines)


def plan(
    max_budget: Budget,
    *,
    min_budget: Budget | None = None,
    eta: int | None = None,
    width: int | None = None,
    brackets: int | None = None,
    integer_budgets: bool | None = None,
    workers: int | None = None,
    seconds_per_unit: float | None = None,
) -> StudyPlan:
    """What a study with these settings would evaluate and cost, without a space or an objective.

    With `seconds_per_unit`, how long a unit of budget takes, it also estimates the time of the
    first run and of each way to continue, with a number of `workers`.

    >>> print(plan(max_budget=9).run)
    rung       0  1  2
    budget     1  3  9
    bracket 0  9  3  1
    bracket 1     5  1
    bracket 2        3
    17 configs, 22 evaluations, cost 78 (69 when training continues from the rung below)
    """
    if workers is not None and seconds_per_unit is None:
        raise InputError("workers are for an estimate of the time: give seconds_per_unit, too.")
    study = open_study(
        space={"x": (0.0, 1.0)},
        max_budget=max_budget,
        min_budget=min_budget,
        eta=eta,
        width=width,
        brackets=brackets,
        integer_budgets=integer_budgets,
        sampler=_Placeholders(),
    )
    planned = study.plan()
    if planned.evaluations > MOST_SIMULATED:
        if seconds_per_unit is not None:
            raise InputError(
                f"the run has {planned.evaluations:,} evaluations, too many to simulate: leave out "
                "seconds_per_unit, or choose a smaller max_budget."
            )
        return StudyPlan(planned, (), ())
    forecasts: list[Forecast] = []
    if seconds_per_unit is not None:
        forecasts = forecast(study, 1 if workers is None else workers, seconds_per_unit)
    return StudyPlan(planned, _steps(study), tuple(forecasts))


def _steps(study: Study) -> tuple[Quote, ...]:
    """What each way to continue costs once the run is done. No result is needed to know that."""
    while jobs := study.ask_all():
        study.tell_all([(job, 0.0) for job in jobs])
    return quote_options(study.session)


class _Placeholders:
    """A sampler of configs that are never evaluated."""

    learns = False

    def draw(
        self,
        space: Space,
        observations: Iterable[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
        pending: Sequence[Config] = (),
    ) -> list[Config]:
        return [{} for _ in indices]
