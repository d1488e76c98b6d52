"""How long a run will take with a number of workers, estimated on a virtual clock.

Unknown losses are sampled from the recorded losses on the same rung, on the assumption that new
configs are about as good as old ones.
"""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from numbers import Integral

from deepband.core.exact_numbers import is_finite
from deepband.core.extension import options
from deepband.core.facts import PRECHECK, Config, JobFinished
from deepband.core.records import Job
from deepband.core.state import State
from deepband.errors import InputError, shown
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.samplers import Uniform
from deepband.study.study import Study

SAVING = 0.1
"""Doubling the workers is worthwhile if it saves at least this share of the time."""


@dataclass(frozen=True, slots=True)
class Forecast:
    """The estimated time of a run with a number of workers."""

    run: str
    """The current one, or a way to extend it."""
    workers: int
    jobs: int
    seconds: float
    utilisation: float
    """The share of the workers' time that is spent on jobs."""
    bound: float
    """A lower bound on the seconds for any order of jobs: all work shared evenly, or one job per
    rung in the longest bracket, whichever takes longer."""
    worth: int
    """How many workers are worthwhile: twice as many would save less than a tenth of the time."""


def forecast(
    study: Study, workers: int, seconds_per_unit: float, *, resumed: bool = False
) -> list[Forecast]:
    """Forecasts for the rest of the current run, and for each way to extend it.

    An evaluation takes `seconds_per_unit` for each unit of its budget. With `resumed`, only the
    difference to the budget of the rung below counts.
    """
    count = isinstance(workers, Integral) and workers >= 1
    if not count or not is_finite(seconds_per_unit) or seconds_per_unit <= 0:
        raise InputError(
            f"workers is {shown(workers)} and seconds_per_unit {shown(seconds_per_unit)}: give a "
            "whole number of 1 or more, and seconds above 0."
        )
    duration = _duration(study.session.state, seconds_per_unit, resumed)
    start = study.copy(_RandomSampler(study.session.learns))
    found, done = _forecast("the current run", start, workers, duration)
    forecasts = [found]
    for strategy, schedule in options(done.session.state):
        larger = done.copy()
        larger.session.start_run(strategy, schedule)
        name = f"{done.session.quote(strategy, schedule).step} {strategy!r}"
        found, _ = _forecast(name, larger, workers, duration)
        forecasts.append(found)
    return forecasts


def _forecast(
    name: str, study: Study, workers: int, duration: Callable[[Job], float]
) -> tuple[Forecast, Study]:
    """The forecast for a study's run, and the study when it is done."""
    found, done = _simulate(name, study, workers, duration)

    def seconds(count: int) -> float:
        if count == workers:
            return found.seconds
        return _simulate(name, study, count, duration)[0].seconds

    return replace(found, worth=_worth(seconds)), done


def _worth(seconds_with: Callable[[int], float]) -> int:
    workers, seconds = 1, seconds_with(1)
    while seconds:
        faster = seconds_with(2 * workers)
        if faster > (1 - SAVING) * seconds:
            break
        workers, seconds = 2 * workers, faster
    return workers


def _simulate(
    name: str, study: Study, workers: int, duration: Callable[[Job], float]
) -> tuple[Forecast, Study]:
    done, path = study.copy(), dict[int, dict[int, float]]()

    def lasting(job: Job) -> float:
        seconds = duration(job)
        path.setdefault(job.bracket, {})[job.rung] = seconds
        return seconds

    simulated = SimulatedExecutor(workers, lasting)
    before = len(study.evaluations)
    done.optimize(_SampledLosses(study.session.state), executor=simulated, progress=False)
    longest = max((sum(rungs.values()) for rungs in path.values()), default=0.0)
    return Forecast(
        run=name,
        workers=workers,
        jobs=len(done.evaluations) - before,
        seconds=simulated.clock,
        utilisation=simulated.utilisation,
        bound=max(simulated.busy / workers, longest),
        worth=workers,
    ), done


class _RandomSampler:
    """Samples like `uniform`, because a forecast needs no good configs. Jobs wait for each other if
    they do with the study's own sampler."""

    def __init__(self, learns: bool) -> None:
        self.learns = learns
        self.draw = Uniform().draw


class _SampledLosses:
    """An objective whose losses are sampled from the recorded losses on the same rung."""

    def __init__(self, state: State) -> None:
        self.known: dict[float, list[object]] = dict(_known_results(state))
        self.names = [*state.criteria.names, *(name for name, _ in state.criteria.constraints)]

    def __call__(self, config: Config, budget: float) -> object:
        draw = random.Random(repr((sorted(config.items()), budget)))
        if found := self.known.get(budget):
            return draw.choice(found)
        number = draw.random()
        return dict.fromkeys(["loss", *self.names], number) if self.names else number


def _known_results(state: State) -> Iterator[tuple[float, list[object]]]:
    for rung, budget in enumerate(state.run.budgets):
        results = [
            each for cell, of in state.results.items() if cell[1] == rung for each in of.values()
        ]
        trained = (each for each in results if each.loss is not None and each.origin != PRECHECK)
        yield budget, [_result(state, each) for each in trained]


def _result(state: State, evaluated: JobFinished) -> object:
    """What the objective returned, or could have returned, for a result."""
    number = evaluated.number
    if number is not None and not state.criteria.needs_mapping:
        return state.criteria.value(number)
    named = state.criteria.values(evaluated.loss) or {"loss": state.criteria.value(number or 0.0)}
    return {**(evaluated.metrics or {}), **named}


def _duration(state: State, seconds_per_unit: float, resumed: bool) -> Callable[[Job], float]:
    eta = state.schedule.eta

    def duration(job: Job) -> float:
        saved = job.budget / eta if resumed and job.rung > job.bracket else 0.0
        return seconds_per_unit * (job.budget - saved)

    return duration
