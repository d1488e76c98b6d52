"""What a user is told about jobs that Slurm refused, did not start, or ended without a result."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

from deepband.execution.slurm_queue import QueuedJob, error_text


def refusal_text(error: Exception) -> str:
    """Why a submission failed. submitit shows the command and its output; the last line says it."""
    lines = [line.strip() for line in error_text(error).splitlines() if line.strip()]
    said = [line for line in lines if line.startswith("sbatch:")] or lines[-1:] or ["no reason"]
    reason = "; ".join(
        line.removeprefix("sbatch:").removeprefix(" error:").strip() for line in said
    )
    return (
        f"Slurm refused the jobs: {reason}. Change `resources`, or give fewer `workers` if the "
        "number of your jobs is limited."
    )


def launch_text(job: QueuedJob, times: int) -> str:
    """Why a run ends whose jobs Slurm accepts and nodes do not start."""
    return (
        f"Slurm could not start a job {times} times, the last time as {job.id}: it says "
        f"{job.reason!r}. Ask the administrators about its nodes (`sinfo -R`), or avoid them, "
        'for example with resources={"exclude": "NODE"}. Then run again: nothing is lost.'
    )


def end_text(job: QueuedJob | None, log: Path) -> str:
    """Why a job ended without a result."""
    if job is None:
        return "WorkerDied: Slurm does not know the job any more"
    if job.state == "TIMEOUT":
        return f"Timeout: the job {job.id} reached the time limit of Slurm"
    if job.state == "OUT_OF_MEMORY":
        return f"WorkerDied: out of memory, as Slurm says of the job {job.id}"
    return f"WorkerDied: the job {job.id} ended as {job.state}{_last_line(log)}"


def _last_line(log: Path) -> str:
    """The last line that a job printed, for a message."""
    with suppress(OSError):
        lines = log.read_text(errors="replace")[-2000:].strip().splitlines()
        return f": {lines[-1]}" if lines else ""
    return ""
