"""A call of the objective that was submitted to Slurm, and what its job has left."""

from __future__ import annotations

import pickle
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepband.execution.batch import Answer
from deepband.execution.executors.remote import Refused
from deepband.execution.executors.slurm_worker import SlurmOrder


@dataclass(slots=True, eq=False)
class SlurmCall:
    """A call of the objective that was submitted."""

    order: SlurmOrder
    job: Any
    """submitit's job."""
    sent: float
    files: int = 0
    """How many result files it has left."""
    attempt: str = ""
    """The token of the attempt that runs; empty if none does."""
    started: float = 0.0
    """When that attempt was first seen."""
    ended: bool = False
    """Whether Slurm has reported its end once."""

    @property
    def has_written(self) -> bool:
        """Whether the job has written all that it writes."""
        return bool(self.job.paths.result_pickle.exists())

    @property
    def log(self) -> Path:
        """What the job printed."""
        log: Path = self.job.paths.stdout
        return log

    def answer(self) -> Answer | Refused | None:
        """What the job returned or raised; None if it did neither, or if that cannot be read. The
        file is in a folder that this driver has created."""
        with suppress(Exception):
            kind, found = pickle.loads(self.job.paths.result_pickle.read_bytes())
            if kind == "success" and isinstance(found, Answer | Refused):
                return found
            return Answer([], lost=f"WorkerDied: {str(found).strip().splitlines()[-1]}")
        return None
