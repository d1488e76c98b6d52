"""Random studies for Hypothesis."""

from __future__ import annotations

import random
from dataclasses import dataclass
from fractions import Fraction

import pytest
from hypothesis import strategies as st

from deepband import InputError, Job, Schedule, Study
from deepband.core.strategies import FRUGAL, NAMES, StrategyName
from driving import Objective, finish, noisy, open_study

MOST = 700
"""Evaluations of the deepest run, so that a case takes milliseconds."""


@dataclass(frozen=True)
class Case:
    """A first run and deepenings (strategy, levels), with losses; 0 levels fill a frugal run."""

    eta: int
    top: int
    min_budget: Fraction
    deepenings: tuple[tuple[StrategyName, int], ...]
    seed: int
    failures: float
    ties: bool

    @property
    def objective(self) -> Objective:
        return noisy(self.seed, self.failures, self.ties)

    def open(self) -> Study:
        return open_study(
            eta=self.eta,
            min_budget=self.min_budget,
            max_budget=self.min_budget * self.eta**self.top,
        )


@st.composite
def cases(draw: st.DrawFn) -> Case:
    eta = draw(st.integers(2, 6))
    top = draw(st.integers(0, 4))
    deepenings = draw(
        st.lists(st.tuples(st.sampled_from(sorted(NAMES)), st.integers(0, 2)), max_size=5)
    )
    while Schedule.of(eta, 1, eta**top).evaluations > MOST:
        top -= 1
    depth, kept, frugal = top, [], False
    for strategy, wanted in deepenings:
        levels = 1 if strategy == FRUGAL else wanted if frugal else max(1, wanted)
        if Schedule.of(eta, 1, eta ** (depth + levels)).evaluations <= MOST:
            depth += levels
            kept.append((strategy, levels))
            frugal = strategy == FRUGAL
    return Case(
        eta=eta,
        top=top,
        min_budget=draw(st.sampled_from([Fraction(1), Fraction(1, 3), Fraction(5, 2)])),
        deepenings=tuple(kept),
        seed=draw(st.integers(0, 2**32)),
        failures=draw(st.sampled_from([0.0, 0.1, 0.6, 1.0])),
        ties=draw(st.booleans()),
    )


def play(case: Case, study: Study, order: random.Random | None = None) -> list[list[Job]]:
    """The jobs of each run of a case. A deepening that is refused because no config can be
    promoted, and a fill after it, are skipped."""
    runs = [finish(study, case.objective, order)]
    for strategy, levels in case.deepenings:
        if not levels and not study.session.state.run.frugal:
            continue
        to, before = study.max_budget * case.eta**levels, len(study.runs)
        if strategy == FRUGAL and all_failed(study):
            with pytest.raises(InputError, match="no config to promote"):
                study.deepen(strategy, to=to)
            continue
        study.deepen(strategy, to=to)
        assert len(study.runs) == before + 1
        assert study.max_budget == pytest.approx(to)
        runs.append(finish(study, case.objective, order))
        study.deepen(strategy, to=to)  # does nothing
        assert len(study.runs) == before + 1
    return runs


def all_failed(study: Study) -> bool:
    """Whether no config on the top rung has a loss."""
    top = study.session.state.schedule.top
    return all(each.loss is None for each in study.evaluations if each.rung == top)
