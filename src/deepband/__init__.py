"""The Hyperband you can deepen."""

from deepband.advice import Advice
from deepband.errors import (
    BudgetError,
    BusyWarning,
    ClosedError,
    DeepbandError,
    GoneError,
    HeldError,
    InputError,
    JobError,
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
from deepband.explain import Verdict
from deepband.objective import Context
from deepband.observers import Observer
from deepband.opening import open_study
from deepband.quote import Price, Quote
from deepband.records import Evaluation, Job
from deepband.report import Plan, RunSummary
from deepband.samplers import Sampler
from deepband.schedule import Schedule
from deepband.study import Study

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
    "HeldError",
    "InputError",
    "Job",
    "JobError",
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
