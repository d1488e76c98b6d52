"""The Hyperband you can deepen."""

from deepband.errors import (
    BudgetError,
    ClosedError,
    DeepbandError,
    InputError,
    JobError,
    ResultError,
    SmallSpaceWarning,
    SpaceError,
    UnfinishedError,
    UnknownNameError,
)
from deepband.explain import Verdict
from deepband.quote import Price, Quote
from deepband.records import Evaluation, Job
from deepband.report import Plan, RunSummary
from deepband.samplers import Sampler
from deepband.schedule import Schedule
from deepband.study import Study, open_study

__version__ = "0.1.0"

__all__ = [
    "BudgetError",
    "ClosedError",
    "DeepbandError",
    "Evaluation",
    "InputError",
    "Job",
    "JobError",
    "Plan",
    "Price",
    "Quote",
    "ResultError",
    "RunSummary",
    "Sampler",
    "Schedule",
    "SmallSpaceWarning",
    "SpaceError",
    "Study",
    "UnfinishedError",
    "UnknownNameError",
    "Verdict",
    "open_study",
]
