"""Hyperband you can extend: continue a finished search with a larger budget."""

from importlib import import_module
from typing import TYPE_CHECKING, Any

from deepband.core.records import Evaluation, Job
from deepband.core.schedule import Schedule
from deepband.errors import (
    BudgetError,
    BusyWarning,
    ClosedError,
    DeepbandError,
    GoneError,
    InputError,
    JobError,
    LockedError,
    NoResultError,
    ObjectiveError,
    ObserverWarning,
    ResultError,
    SmallSpaceWarning,
    SpaceError,
    StorageError,
    UnfinishedError,
    UnknownNameError,
    WaitingWarning,
)
from deepband.samplers import Sampler
from deepband.study.observers import Observer
from deepband.study.settings import open_study
from deepband.study.study import Study

if TYPE_CHECKING:
    from deepband.analysis.advice import Advice
    from deepband.analysis.explanation import Verdict
    from deepband.analysis.quote import Price, Quote
    from deepband.analysis.summary import Plan, RunSummary
    from deepband.execution.objective import Context
    from deepband.study.forecast import Forecast
    from deepband.study.study_plan import StudyPlan, plan

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "BudgetError",
    "BusyWarning",
    "ClosedError",
    "Context",
    "DeepbandError",
    "Evaluation",
    "Forecast",
    "GoneError",
    "InputError",
    "Job",
    "JobError",
    "LockedError",
    "NoResultError",
    "ObjectiveError",
    "Observer",
    "ObserverWarning",
    "Plan",
    "Price",
    "Quote",
    "ResultError",
    "RunSummary",
    "Sampler",
    "Schedule",
    "SmallSpaceWarning",
    "SpaceError",
    "StorageError",
    "Study",
    "StudyPlan",
    "UnfinishedError",
    "UnknownNameError",
    "Verdict",
    "WaitingWarning",
    "open_study",
    "plan",
]

_LATER = {
    "Advice": "deepband.analysis.advice",
    "Context": "deepband.execution.objective",
    "Forecast": "deepband.study.forecast",
    "Plan": "deepband.analysis.summary",
    "Price": "deepband.analysis.quote",
    "Quote": "deepband.analysis.quote",
    "RunSummary": "deepband.analysis.summary",
    "StudyPlan": "deepband.study.study_plan",
    "Verdict": "deepband.analysis.explanation",
    "plan": "deepband.study.study_plan",
}
"""Names whose modules are imported when they are first used, so that `import deepband` is quick."""


def __getattr__(name: str) -> Any:
    if name not in _LATER:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(_LATER[name]), name)
