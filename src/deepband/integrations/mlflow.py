"""MLflow: one parent run per study and one child run per config, whose steps are rungs.

Runs are found by their tags. So a study that is resumed or extended later continues in the same
runs, and no step is logged twice.
"""

from __future__ import annotations

import hashlib
import posixpath
import re
import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from deepband.analysis.run_names import name_of
from deepband.analysis.text import shortened
from deepband.core import hyperband
from deepband.core.exact_numbers import as_number
from deepband.core.facts import Fact
from deepband.core.records import Evaluation
from deepband.core.state import State
from deepband.errors import DeepbandError
from deepband.integrations.tracker import Tracker, criteria_settings, is_rejected, measures
from deepband.system.installation import install_command

if TYPE_CHECKING:
    from mlflow import MlflowClient

__all__ = ["MlflowObserver"]

STUDY, BRACKET, INDEX = "deepband.study", "deepband.bracket", "deepband.index"
ERROR, RUN = "deepband.error", "deepband.run"
FEASIBLE, REJECTED = "deepband.feasible", "deepband.rejected"
PARENT = "mlflow.parentRunId"
MOST_NAME, MOST_VALUE, MOST_ERROR = 250, 6000, 500
MOST_PARAMS, MOST_METRICS = 100, 1000
"""How many MLflow accepts in one batch."""
PAGE = 1000
ALLOWED = re.compile(r"[\w\-. :/]+")


@dataclass(slots=True)
class Run:
    """What is known of an MLflow run."""

    id: str
    status: str
    found: bool = False
    """Whether an earlier process created it, which may not have finished it."""
    steps: dict[str, set[int]] = field(default_factory=dict)
    """By metric: the rungs that are logged, if that was looked up."""


class MlflowObserver:
    """Logs a study to MLflow: `study.observe(MlflowObserver("mlp"))`.

    `study_name` is the name of the study's run in `experiment`, which is created if it does not
    exist. `tracking_uri` is a server or a database such as "sqlite:///mlflow.db"; by default MLflow
    chooses, for example by MLFLOW_TRACKING_URI.

    MLflow shows the last loss of each config, and sorting runs by it compares losses on different
    budgets, as `study.best` does. To compare them on the highest rung, as `study.best_at()` does,
    filter by the metric `budget`. Several objectives are the metrics `objectives.NAME`; no run is
    the best then, and `study.front()` has the configs that no other one dominates.
    """

    def __init__(
        self, study_name: str, *, tracking_uri: str | None = None, experiment: str = "deepband"
    ) -> None:
        try:
            from mlflow import MlflowClient
        except ImportError as error:
            raise DeepbandError(f"this needs MLflow: {install_command('mlflow')}") from error
        self._name = shortened(study_name, MOST_NAME)
        self._experiment_name = experiment
        self._client: MlflowClient = MlflowClient(tracking_uri)
        self._tracker = Tracker()
        self._study = ""
        """The id of the study whose runs were looked up."""
        self._experiment = ""
        self._parent = Run("", "")
        self._run = -1
        """The run of the study that the parent run names."""
        self._children: dict[tuple[int, int], Run] = {}

    def observe(self, facts: Sequence[Fact]) -> None:
        """Log new evaluations, and those that could not be logged before."""
        self._tracker.follow(facts)
        state = self._tracker.state
        if state.created.study != self._study:
            self._find(state)
        if state.run.number != self._run:
            self._client.set_tag(self._parent.id, RUN, name_of(state.run))
            self._run = state.run.number
        self._tracker.log_pending(self._log)
        self._set_status(self._parent, "FINISHED" if hyperband.is_done(state) else "RUNNING")

    def _find(self, state: State) -> None:
        """Look up the runs of a study, and create the parent run if there is none."""
        study = state.created.study
        found = self._client.get_experiment_by_name(self._experiment_name)
        self._experiment = (
            self._client.create_experiment(self._experiment_name)
            if found is None
            else found.experiment_id
        )
        parents, self._children = [], {}
        for run in self._runs(study):
            known, tags = Run(run.info.run_id, run.info.status, found=True), run.data.tags
            if BRACKET in tags:
                self._children[int(tags[BRACKET]), int(tags[INDEX])] = known
            else:
                parents.append(known)
        self._parent = parents[0] if parents else self._create(self._name, {STUDY: study})
        self._log_params(self._parent, _settings(state))
        self._study, self._run = study, -1

    def _runs(self, study: str) -> Iterator[Any]:
        """All runs of a study that are not deleted."""
        page, query = None, f"tags.`{STUDY}` = '{study}'"
        while page != "":
            found = self._client.search_runs(
                [self._experiment], query, max_results=PAGE, page_token=page
            )
            yield from found
            page = found.token or ""

    def _create(self, name: str, tags: dict[str, str]) -> Run:
        run = self._client.create_run(self._experiment, run_name=name, tags=tags)
        return Run(run.info.run_id, run.info.status)

    def _child(self, first: Evaluation) -> Run:
        """The run of a config, created if necessary."""
        key = first.bracket, first.index
        if key not in self._children:
            tags = {STUDY: self._study, BRACKET: str(key[0]), INDEX: str(key[1])}
            tags[PARENT] = self._parent.id
            self._children[key] = self._create(f"{key[0]}-{key[1]}", tags)
            self._log_params(self._children[key], first.config)
        return self._children[key]

    def _log_params(self, run: Run, values: Mapping[str, Any]) -> None:
        from mlflow.entities import Param

        params = [
            Param(acceptable(name), shortened(str(value), MOST_VALUE))
            for name, value in values.items()
        ]
        for start in range(0, len(params), MOST_PARAMS):
            self._client.log_batch(run.id, params=params[start : start + MOST_PARAMS])

    def _log(self, evaluations: Sequence[Evaluation]) -> None:
        """Log the evaluations that a config's run does not have yet, and the status of the last."""
        run = self._child(evaluations[0])
        if run.found and not run.steps:
            self._log_params(run, evaluations[0].config)
        for each in evaluations:
            self._log_metrics(run, each)
        self._tag_feasibility(run, evaluations[-1])
        error = evaluations[-1].error
        if error is not None:
            self._client.set_tag(run.id, ERROR, shortened(error, MOST_ERROR))
        elif run.status == "FAILED":
            self._client.delete_tag(run.id, ERROR)
        self._set_status(run, "FINISHED" if error is None else "FAILED")

    def _log_metrics(self, run: Run, evaluation: Evaluation) -> None:
        """Log an evaluation that is not logged yet. The loss, or the last objective, comes last: a
        run that has it has everything of that rung."""
        from mlflow.entities import Metric

        now = int(time.time() * 1000)
        numbers = measures(evaluation, self._tracker.constrained)
        metrics = [
            Metric(acceptable(name), value, now, evaluation.rung) for name, value in numbers.items()
        ]
        if not metrics or evaluation.rung in self._steps(run, metrics[-1].key):
            return
        for start in range(0, len(metrics), MOST_METRICS):
            self._client.log_batch(run.id, metrics=metrics[start : start + MOST_METRICS])
        self._steps(run, metrics[-1].key).add(evaluation.rung)

    def _steps(self, run: Run, metric: str) -> set[int]:
        """The rungs on which a metric of a run is logged."""
        if metric not in run.steps:
            history = self._client.get_metric_history(run.id, metric) if run.found else []
            run.steps[metric] = {each.step for each in history}
        return run.steps[metric]

    def _tag_feasibility(self, run: Run, last: Evaluation) -> None:
        """Tag a config that can be infeasible: whether it keeps all bounds, or was rejected."""
        rejected = self._tracker.ever_rejected(last)
        if self._tracker.constrained or rejected:
            self._client.set_tag(run.id, FEASIBLE, str(last.feasible).lower())
        if rejected:
            self._client.set_tag(run.id, REJECTED, str(is_rejected(last)).lower())

    def _set_status(self, run: Run, status: str) -> None:
        if run.status == status:
            return
        if status == "RUNNING":
            self._client.update_run(run.id, status)
        else:
            self._client.set_terminated(run.id, status)
        run.status = status


def _settings(state: State) -> dict[str, Any]:
    """The settings of a study, which never change."""
    created, first = state.created, state.runs[0].schedule
    return {
        "eta": created.eta,
        "min_budget": as_number(created.min_budget),
        "first max_budget": as_number(created.max_budget),
        "first width": first.width,
        "first brackets": "all" if first.bracket_limit is None else first.bracket_limit,
        "seed": created.seed,
        "sampler": created.sampler,
        **criteria_settings(state.criteria),
    }


def acceptable(name: str) -> str:
    """A name that MLflow accepts. Invalid characters are replaced and a digest is added, so that
    different names stay different."""
    path = posixpath.normpath(name)
    plain = path == name and path != "." and not path.startswith(("..", "/"))
    if plain and len(name) <= MOST_NAME and ALLOWED.fullmatch(name):
        return name
    digest = hashlib.sha256(name.encode("utf-8", "backslashreplace")).hexdigest()[:8]
    return f"{re.sub(r'[^A-Za-z0-9]+', '_', name)[:100]}-{digest}"
