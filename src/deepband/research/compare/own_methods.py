"""Methods of deepband: a sampler, a first guess of max_budget, and a way of extending it.

Each run of a method is one study. When it has finished at the right max_budget, it is widened until
it has the width whose price every method may spend.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import TypeAlias

from deepband import open_study
from deepband.research.compare.extension_rules import Rule, limits_of
from deepband.research.compare.ledger import ETA, Evaluation, Ledger
from deepband.research.compare.tuner import search
from deepband.samplers import SamplerName
from deepband.study.extension_policy import Automatic
from deepband.study.study import Study

Run: TypeAlias = Callable[[Study], None]


def deepen_preserving(study: Study, levels: int, run: Run) -> None:
    """Deepen by `preserving`, one level after another."""
    for _ in range(levels):
        study.deepen("preserving")
        run(study)


def deepen_frugally(study: Study, levels: int, run: Run) -> None:
    """Deepen by `frugal`, one level after another, and fill the last one."""
    for _ in range(levels):
        study.deepen("frugal")
        run(study)
    if levels:
        study.deepen("preserving", to=study.max_budget)
        run(study)


def extend_by_rule(study: Study, rule: Rule, limits: Automatic, run: Run) -> None:
    """Take the steps that a rule decides on until it stops."""
    while (extension := rule(study, limits)) is not None:
        strategy, max_budget, width = extension
        study.extend(strategy, max_budget=max_budget, width=width)
        run(study)


def do_not_deepen(study: Study, levels: int, run: Run) -> None:
    """Stay at the first guess."""


@dataclass(frozen=True)
class OwnMethod:
    """A method of deepband."""

    sampler: SamplerName = "uniform"
    levels: int = 0
    """The first guess is too small by a factor of eta to the power of this."""
    deepen: Callable[[Study, int, Run], None] = deepen_preserving
    widens: bool = True
    """Whether the study is widened while budget is left."""
    rule: Rule | None = None
    """What decides how the study is extended, instead of `deepen` and `widens`."""

    def __call__(self, ledger: Ledger, seed: int) -> None:
        run = partial(_run, ledger)
        study = self._study(ledger, seed)
        run(study)
        if self.rule is not None:
            extend_by_rule(study, self.rule, limits_of(ledger), run)
            return
        self.deepen(study, self.levels, run)
        while self.widens and study.width < ledger.width:
            study.widen()
            run(study)

    def _study(self, ledger: Ledger, seed: int) -> Study:
        return open_study(
            space=ledger.task.space,
            eta=ETA,
            min_budget=1,
            max_budget=ledger.task.max_budget // ETA**self.levels,
            seed=seed,
            maximize=True,
            integer_budgets=False,  # every tool is charged exact budgets
            sampler=self.sampler,
            parallel=ledger.workers,
        )


@dataclass(frozen=True)
class _StudyTuner:
    """The jobs of a study's current run."""

    study: Study

    def ask(self) -> Evaluation | None:
        job = self.study.ask()
        if job is None:
            return None
        return Evaluation((job.bracket, job.index), job.config, job.budget, job)

    def tell(self, evaluation: Evaluation, accuracy: float) -> None:
        self.study.tell(evaluation.handle, accuracy)


def _run(ledger: Ledger, study: Study) -> None:
    search(_StudyTuner(study), ledger)
