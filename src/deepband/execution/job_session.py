"""The part of an open study that running its jobs needs."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Protocol, TypeVar

from deepband.core.facts import Outcome
from deepband.core.records import Job
from deepband.core.state import State
from deepband.execution.job_queue import JobSupply
from deepband.execution.progress import Meter
from deepband.execution.task_factory import JobSource
from deepband.storage.checkpoints import Checkpoints

Found = TypeVar("Found")


class JobSession(JobSupply, JobSource, Protocol):
    """Jobs to run, and where their outcomes are recorded."""

    @property
    def learns(self) -> bool: ...
    @property
    def parallel(self) -> int | None: ...
    @property
    def persistent(self) -> bool: ...
    @property
    def files(self) -> Path: ...
    @property
    def checkpoints(self) -> Checkpoints: ...
    @property
    def done(self) -> bool: ...
    @property
    def has_ready_job(self) -> bool: ...
    def lock(self) -> None: ...
    def expects(self, job: Job) -> bool: ...
    def release(self, job: Job) -> None: ...
    def record_outcomes(
        self, pairs: Iterable[tuple[Job, Outcome]], origin: str | None = None
    ) -> None: ...
    def read_state(self, function: Callable[[State], Found], seconds: float) -> Found | None: ...
    def meter(self, workers: int, begun: float) -> Meter: ...
