"""StudyView at a study: everything that only reads."""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable
from dataclasses import replace
from fractions import Fraction
from functools import cached_property
from pathlib import Path
from shutil import rmtree
from tempfile import mkdtemp
from typing import TYPE_CHECKING

from deepband.analysis import advice as advising
from deepband.analysis import explanation as explaining
from deepband.analysis import frames, summary
from deepband.analysis import quote as quoting
from deepband.analysis.formatting import html_table
from deepband.core import hyperband
from deepband.core.evaluations import (
    all_evaluations,
    best_evaluation,
    best_evaluation_at,
    count_evaluations,
)
from deepband.core.records import Evaluation
from deepband.core.schedule import Budget, Schedule, as_number
from deepband.core.state import State
from deepband.core.strategies import StrategyName, check_name
from deepband.errors import NoResultError, SmallSpaceWarning, UnfinishedError
from deepband.plots import Plots
from deepband.samplers.source import ConfigSource
from deepband.space.search_space import Space
from deepband.storage import SqliteStorage, Storage
from deepband.storage.checkpoints import Checkpoints, Keep, retraining_cost
from deepband.study.thread_safety import MethodLock, synchronized

if TYPE_CHECKING:
    import pandas
    import polars


FREE = {"state", "storage", "name", "plot", "maximize", "objective", "space", "learns", "group"}
FREE |= {"lasts", "keep", "files", "checkpoints", "done", "max_budget"}
"""What any thread may read at any time: it is one value, or never changes."""


@synchronized(free=FREE)
class StudyView:
    """What can be read of a study that is open."""

    def __init__(self, storage: Storage, state: State, drawer: ConfigSource, keep: Keep) -> None:
        self._storage = storage
        self._state = state
        self._source = drawer
        self._keep = keep
        self._closed = False
        self._method_lock = MethodLock()
        self._forget: Callable[[], object] | None = None
        """Removes the temporary checkpoints of a study in memory."""

    def __repr__(self) -> str:
        run = self._state.run
        return (
            f"<deepband study: run {run.number}, max_budget {self.max_budget}, "
            f"{hyperband.open_jobs(self._state)} jobs open>"
        )

    def _repr_html_(self) -> str:
        """The brackets and rungs of the current run, for a notebook."""
        status = summary.status(self._state)
        header, *rows = summary.grid(status)
        where = "done" if status.done else f"{status.open} jobs open"
        best = best_evaluation(self._state)
        found = "nothing yet" if best is None else f"{best.value:.6g}"
        caption = f"{self.name}: run {status.run}, max_budget {self.max_budget:.10g}, {where}, "
        return html_table(f"{caption}best {found}", header, rows)

    @property
    def state(self) -> State:
        """All that is known, for reports: to be read, not changed."""
        return self._state

    @property
    def storage(self) -> Storage:
        """Where its facts are kept."""
        return self._storage

    @property
    def name(self) -> str:
        """That of its file, or "in memory"."""
        return self._storage.path.name if isinstance(self._storage, SqliteStorage) else "in memory"

    @property
    def plot(self) -> Plots:
        """Plots, with Matplotlib: `study.plot.brackets()` and others."""
        return Plots(self)

    @property
    def maximize(self) -> bool:
        """Whether the larger of two values is the better one."""
        return self._state.created.maximize

    @property
    def objective(self) -> str | None:
        """What is evaluated, as text such as "train.py:objective", if it was named."""
        return self._state.objective

    @property
    def space(self) -> Space:
        """Where configs come from."""
        return self._source.space

    @property
    def learns(self) -> bool:
        """Whether the sampler looks at what was evaluated."""
        return self._source.sampler.learns

    @property
    def group(self) -> int | None:
        """How many configs of a bracket a sampler that learns draws together; None for one that
        does not learn, and draws what anybody asks for."""
        return self._state.created.chunk if self.learns else None

    @property
    def persistent(self) -> bool:
        """Whether the study outlives this process."""
        return isinstance(self._storage, SqliteStorage)

    @property
    def keep(self) -> Keep:
        """Which checkpoints are kept."""
        return self._keep

    @cached_property
    def files(self) -> Path:
        """The folder beside the study file, or a temporary one of a study in memory."""
        if isinstance(self._storage, SqliteStorage):
            return self._storage.files
        folder = mkdtemp(prefix="deepband-")
        self._forget = weakref.finalize(self, rmtree, folder, ignore_errors=True)
        return Path(folder)

    @property
    def checkpoints(self) -> Checkpoints:
        """Where training state is kept."""
        return Checkpoints(self.files / "checkpoints" / self._state.created.study)

    @property
    def done(self) -> bool:
        """Whether every job of the current run is told."""
        return hyperband.is_done(self._state)

    @property
    def best(self) -> Evaluation:
        """The evaluation with the smallest loss on any budget. Raises NoResultError as long as no
        evaluation has a finite loss."""
        found = best_evaluation(self._state)
        if found is None:
            raise NoResultError(count_evaluations(self._state))
        return found

    def best_at(self, rung: int | None = None) -> Evaluation:
        """The best on one rung, by default the highest one that has a finite loss. Raises
        NoResultError if there is none."""
        found = best_evaluation_at(self._state, rung)
        if found is None:
            raise NoResultError(count_evaluations(self._state, rung), rung)
        return found

    @property
    def max_budget(self) -> int | float:
        """That of the current run."""
        return as_number(self._state.schedule.max_budget)

    @property
    def runs(self) -> tuple[summary.RunSummary, ...]:
        """What each run did and what it cost."""
        return summary.runs(self._state, self.done)

    @property
    def evaluations(self) -> list[Evaluation]:
        """Every evaluation, sorted by bracket, index and rung."""
        return list(all_evaluations(self._state))

    def to_pandas(self) -> pandas.DataFrame:
        """Every evaluation as a row of a pandas frame: the columns of the csv export, typed."""
        return frames.to_pandas(self._state)

    def to_polars(self) -> polars.DataFrame:
        """Every evaluation as a row of a Polars frame: the columns of the csv export, typed."""
        return frames.to_polars(self._state)

    def retraining_cost(
        self, strategy: StrategyName = "preserving", schedule: Schedule | None = None
    ) -> Fraction:
        """The most that the next deepening, or that to a schedule, may train again for want of
        checkpoints; nothing if the objective never saved any."""
        has_folder = self.persistent or "files" in vars(self)
        if not has_folder or not self.checkpoints.folder.is_dir():
            return Fraction(0)
        kept = set(self.checkpoints.kept())
        return retraining_cost(self._state, kept, strategy, schedule)

    def explain(self, bracket: int, index: int) -> tuple[explaining.Verdict, ...]:
        """Why a config was or was not promoted, on each rung of each run."""
        return explaining.explain(self._state, bracket, index)

    def plan(self) -> summary.Plan:
        """How many configs the current run puts on which budget.

        Warns when the space has fewer values than that.
        """
        plan = summary.plan(self._state)
        if self.space.size < plan.configs:
            warnings.warn(
                f"the space has at most {self.space.size} different configs and the run needs "
                f"{plan.configs}: some will be evaluated more than once. Widen the space, or "
                "raise min_budget for fewer configs.",
                SmallSpaceWarning,
                stacklevel=2,
            )
        return plan

    def quote(
        self, strategy: StrategyName = "preserving", to: Budget | None = None
    ) -> quoting.Quote:
        """What deepening would re-use, add and cost, before anything is spent."""
        check_name(strategy)
        self._check_done("quote a deepening")
        schedule = hyperband.deepened(self._state, strategy, to)
        quote = quoting.quote(self._state, strategy, schedule)
        return replace(quote, retraining=self.retraining_cost(strategy, schedule))

    def advice(self) -> advising.Advice:
        """Whether deepening is likely to pay, from the finished run alone: how alike the two top
        rungs rank configs, what each rung brought, where the best stopped, and the prices."""
        self._check_done("give advice")
        advice = advising.advise(self._state)
        quotes = [self.quote(each.strategy, each.max_budget) for each in advice.quotes]
        return replace(advice, quotes=tuple(quotes))

    def _check_done(self, action: str) -> None:
        if not self.done:
            raise UnfinishedError(action, hyperband.open_jobs(self._state))
