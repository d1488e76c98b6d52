"""Random studies for Hypothesis."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import pytest
from hypothesis import strategies as st

from deepband import InputError, Job, Schedule, Study
from deepband.core.strategies import FRUGAL, NAMES, StrategyName
from driving import Objective, finish, noisy, open_study

MOST = 700
"""Evaluations of the deepest run, so that a case takes milliseconds."""


class Step(NamedTuple):
    """An extension. A step that grows nothing fills a frugal run."""

    strategy: StrategyName
    levels: int
    wider: int = 0
    brackets: int = 0
    """How many more brackets, in a study that is limited to some."""

    @property
    def grows(self) -> bool:
        return any(self[1:])

    def target(self, schedule: Schedule) -> dict[str, Any]:
        """What `Study.extend` takes."""
        target: dict[str, Any] = {"max_budget": schedule.budget(schedule.top + self.levels)}
        if self.strategy != FRUGAL:
            target["width"] = schedule.width + self.wider
            if schedule.bracket_limit is not None:
                target["brackets"] = schedule.bracket_limit + self.brackets
        return target

    def schedule(self, old: Schedule) -> Schedule:
        limit = None if old.bracket_limit is None else old.bracket_limit + self.brackets
        return old.extended(self.levels, old.width + self.wider, limit)


@dataclass(frozen=True)
class Case:
    """A first run and extensions, with losses."""

    eta: int
    top: int
    min_budget: Fraction
    width: int
    brackets: int | None
    steps: tuple[Step, ...]
    seed: int
    failures: float
    ties: bool

    @property
    def objective(self) -> Objective:
        return noisy(self.seed, self.failures, self.ties)

    def open(self, schedule: Schedule | None = None, **settings: Any) -> Study:
        """A new study with the first schedule of the case, or with another one."""
        schedule = schedule or self.schedule
        return open_study(
            eta=self.eta,
            min_budget=schedule.unit,
            max_budget=schedule.max_budget,
            width=schedule.width,
            brackets=schedule.bracket_limit,
            **settings,
        )

    @property
    def schedule(self) -> Schedule:
        high = self.min_budget * self.eta**self.top
        return Schedule.of(self.eta, self.min_budget, high, self.width, self.brackets)


@st.composite
def cases(draw: st.DrawFn) -> Case:
    eta = draw(st.integers(2, 6))
    brackets = draw(st.one_of(st.none(), st.integers(1, 3)))
    schedule = Schedule.of(eta, 1, eta ** draw(st.integers(0, 4)), draw(widths), brackets)
    while schedule.evaluations > MOST:
        schedule = Schedule.of(eta, 1, eta ** (schedule.top - 1), 1, brackets)
    first, kept, frugal = schedule, [], False
    for drawn in draw(st.lists(steps(limited=brackets is not None), max_size=5)):
        step = drawn if frugal or drawn.grows else drawn._replace(levels=1)
        if step.schedule(schedule).evaluations <= MOST:
            schedule = step.schedule(schedule)
            kept.append(step)
            frugal = step.strategy == FRUGAL
    return Case(
        eta=eta,
        top=first.top,
        min_budget=draw(st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(5, 2)])),
        width=first.width,
        brackets=brackets,
        steps=tuple(kept),
        seed=draw(st.integers(0, 2**32)),
        failures=draw(st.sampled_from([0.0, 0.1, 0.6, 1.0])),
        ties=draw(st.booleans()),
    )


widths = st.sampled_from([1, 1, 2, 3])


@st.composite
def steps(draw: st.DrawFn, limited: bool = False) -> Step:
    strategy = draw(st.sampled_from(sorted(NAMES)))
    if strategy == FRUGAL:
        return Step(strategy, 1)
    brackets = draw(st.integers(0, 1)) if limited else 0
    return Step(strategy, draw(st.integers(0, 2)), draw(st.integers(0, 2)), brackets)


def play(case: Case, study: Study, order: random.Random | None = None) -> list[list[Job]]:
    """The jobs of each run of a case. A frugal step that is refused because no config can be
    promoted, and a fill after it, are skipped."""
    runs = [finish(study, case.objective, order)]
    for step in case.steps:
        state = study.session.state
        if not step.grows and not state.run.frugal:
            continue
        target, before = step.target(state.schedule), len(study.runs)
        if step.strategy == FRUGAL and all_failed(study):
            with pytest.raises(InputError, match="no config to promote"):
                study.extend(step.strategy, **target)
            continue
        expected = step.schedule(state.schedule)
        study.extend(step.strategy, **target)
        assert len(study.runs) == before + 1
        assert study.session.state.schedule == expected
        runs.append(finish(study, case.objective, order))
        study.extend(step.strategy, **target)  # does nothing
        assert len(study.runs) == before + 1
    return runs


def all_failed(study: Study) -> bool:
    """Whether no config on the top rung has a loss."""
    top = study.session.state.schedule.top
    return all(each.loss is None for each in study.evaluations if each.rung == top)
