"""The Hyperband you can deepen."""

from deepband.analysis.advice import Advice
from deepband.analysis.explanation import Verdict
from deepband.analysis.quote import Price, Quote
from deepband.analysis.summary import Plan, RunSummary
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
)
from deepband.execution.objective import Context
from deepband.samplers import Sampler
from deepband.study.observers import Observer
from deepband.study.settings import open_study
from deepband.study.study import Study

__version__ = "0.1.0"

__all__ = [
    "Advice",
    "BudgetError",
    "BusyWarning",
    "ClosedError",
    "Context",
    "DeepbandError",
    "Evaluation",
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
    "UnfinishedError",
    "UnknownNameError",
    "Verdict",
    "open_study",
]
