"""Hyperband you can extend: continue a finished search with a larger budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deepband.core.records import Evaluation, Job
from deepband.core.schedule import Schedule
from deepband.errors import (
    BatchError,
    BatchWarning,
    BudgetError,
    BusyWarning,
    ClosedError,
    DeepbandError,
    DeviceWarning,
    FailedEvaluationsWarning,
    GoneError,
    IdleWorkersWarning,
    InputError,
    JobError,
    LockedError,
    MissingCurvesWarning,
    NoResultError,
    ObjectiveError,
    ObserverWarning,
    QueueWarning,
    ResultError,
    SeveralObjectivesError,
    SmallSpaceWarning,
    SpaceError,
    StorageError,
    UnfinishedError,
    UnknownNameError,
    UnseededWarning,
    WaitingWarning,
)
from deepband.samplers import Sampler
from deepband.study.observers import Observer
from deepband.study.settings import open_study
from deepband.study.study import Study

if TYPE_CHECKING:
    from deepband.analysis.advice import Advice
    from deepband.analysis.confirmations import Confirmations, ConfirmedConfig
    from deepband.analysis.explanation import Verdict
    from deepband.analysis.failures import FailureGroup, Failures
    from deepband.analysis.learning_curves.prediction import Prediction
    from deepband.analysis.plan import Plan
    from deepband.analysis.quote import Price, Quote
    from deepband.analysis.run_table import RunSummary
    from deepband.execution.batch import BatchContext
    from deepband.execution.context import Context
    from deepband.execution.progress import Progress, RunningEvaluation
    from deepband.storage.saved_objects import load_checkpoint
    from deepband.study.forecast import Forecast
    from deepband.study.study_plan import StudyPlan, plan

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "BatchContext",
    "BatchError",
    "BatchWarning",
    "BudgetError",
    "BusyWarning",
    "ClosedError",
    "Confirmations",
    "ConfirmedConfig",
    "Context",
    "DeepbandError",
    "DeviceWarning",
    "Evaluation",
    "FailedEvaluationsWarning",
    "FailureGroup",
    "Failures",
    "Forecast",
    "GoneError",
    "IdleWorkersWarning",
    "InputError",
    "Job",
    "JobError",
    "LockedError",
    "MissingCurvesWarning",
    "NoResultError",
    "ObjectiveError",
    "Observer",
    "ObserverWarning",
    "Plan",
    "Prediction",
    "Price",
    "Progress",
    "QueueWarning",
    "Quote",
    "ResultError",
    "RunSummary",
    "RunningEvaluation",
    "Sampler",
    "Schedule",
    "SeveralObjectivesError",
    "SmallSpaceWarning",
    "SpaceError",
    "StorageError",
    "Study",
    "StudyPlan",
    "UnfinishedError",
    "UnknownNameError",
    "UnseededWarning",
    "Verdict",
    "WaitingWarning",
    "load_checkpoint",
    "open_study",
    "plan",
]

_LATER = {
    "Advice": "deepband.analysis.advice",
    "BatchContext": "deepband.execution.batch",
    "Confirmations": "deepband.analysis.confirmations",
    "ConfirmedConfig": "deepband.analysis.confirmations",
    "Context": "deepband.execution.context",
    "FailureGroup": "deepband.analysis.failures",
    "Failures": "deepband.analysis.failures",
    "Forecast": "deepband.study.forecast",
    "Plan": "deepband.analysis.plan",
    "Prediction": "deepband.analysis.learning_curves.prediction",
    "Price": "deepband.analysis.quote",
    "Progress": "deepband.execution.progress",
    "Quote": "deepband.analysis.quote",
    "RunSummary": "deepband.analysis.run_table",
    "RunningEvaluation": "deepband.execution.progress",
    "StudyPlan": "deepband.study.study_plan",
    "Verdict": "deepband.analysis.explanation",
    "load_checkpoint": "deepband.storage.saved_objects",
    "plan": "deepband.study.study_plan",
}
"""Names whose modules are imported when they are first used, so that `import deepband` is quick."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
