"""Slurm's queue, as its commands show it: which jobs wait or run, and how others ended.

Only `squeue`, `scancel` and `scontrol` are used. Accounting (`sacct`) is not, because many clusters
do not have it.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import time
from collections.abc import Collection, Mapping, Sequence
from contextlib import suppress
from typing import NamedTuple, TypeAlias

from deepband.errors import DeepbandError, QueueWarning, counted, show_warning

SECONDS_BETWEEN_QUERIES = 10.0
"""How often squeue is called. Each call costs the controller of a cluster some work."""
SECONDS_TO_ANSWER = 60.0
ENDED = frozenset(
    [
        "BOOT_FAIL",
        "CANCELLED",
        "COMPLETED",
        "DEADLINE",
        "FAILED",
        "NODE_FAIL",
        "OUT_OF_MEMORY",
        "PREEMPTED",
        "REVOKED",
        "TIMEOUT",
    ]
)
"""The states of jobs that will not run again. All other jobs wait, run or are being requeued."""
STUCK = re.compile(
    "BadConstraints|InvalidAccount|InvalidQOS|JobHeld|AccountNotAllowed|QOSNotAllowed"
    "|Partition(NodeLimit|TimeLimit|Config)"
)
"""Reasons why a job waits that do not change by themselves."""
NOT_LAUNCHED = re.compile("launch.failed.requeued.held")
"""The reason of a job that a node could not start, for example because its prolog failed, or the
node has not ended the previous attempt yet. Slurm requeues the job and holds it: it waits until
somebody releases it."""
_NAME = re.compile(r".*-([0-9a-f]{16})")
"""The name of a job ends with the token of its submission."""

Place: TypeAlias = tuple[str, int]
"""The token of a submission, and the number of a job in it."""


class QueuedJob(NamedTuple):
    """A job of this user, as squeue shows it."""

    id: str
    """What scancel calls it: NUMBER, or NUMBER_INDEX in an array."""
    state: str
    reason: str
    """Why it waits, or how it ended."""

    @property
    def ended(self) -> bool:
        return self.state in ENDED

    @property
    def launch_failed(self) -> bool:
        """Whether it waits for ever, because a node could not start it."""
        return not self.ended and NOT_LAUNCHED.search(self.reason) is not None


class SlurmQueue:
    """The jobs that deepband has submitted, as they were at the last query."""

    def __init__(self) -> None:
        self.asked = -1.0
        """When the last query that was answered began, on the monotonic clock."""
        self._jobs: Mapping[Place, QueuedJob] = {}
        self._due = 0.0
        self._warned: set[str] = set()

    def update(self, wanted: Collection[Place]) -> bool:
        """Ask Slurm again, if the last query is old enough. Returns whether there is an answer. If
        squeue fails, for example because the controller restarts, the last answer stays."""
        now = time.monotonic()
        if now < self._due:
            return False
        try:
            self._jobs, self.asked = _parsed(_squeue()), now
        except (OSError, subprocess.SubprocessError) as error:
            self._warn(
                f"squeue does not answer: {error_text(error)}. The run continues to wait for "
                "results, and asks again."
            )
        self._due = time.monotonic() + SECONDS_BETWEEN_QUERIES
        self._warn_of_stuck(wanted)
        return self.asked == now

    def find(self, place: Place) -> QueuedJob | None:
        """A job; None if Slurm did not know it at the last query."""
        return self._jobs.get(place)

    def cancel(self, places: Collection[Place]) -> None:
        """Cancel those of these jobs that the last query showed, unless they have ended."""
        found = [self._jobs[place] for place in places if place in self._jobs]
        cancel([job.id for job in found if not job.ended])

    def _warn_of_stuck(self, wanted: Collection[Place]) -> None:
        found = [self._jobs[place] for place in wanted if place in self._jobs]
        stuck = [job for job in found if not job.ended and STUCK.search(job.reason)]
        if stuck:
            self._warn(
                f"{counted(len(stuck), 'job')} cannot start, such as {stuck[0].id}: Slurm says "
                f"{stuck[0].reason!r}. Release or change them with scontrol, or cancel them with "
                "scancel: they are then submitted again, with the `resources` of that run."
            )

    def _warn(self, text: str) -> None:
        """Warn once of each problem."""
        start = text.partition(":")[2]
        if start not in self._warned:
            self._warned.add(start)
            show_warning(text, QueueWarning)


def require_slurm() -> None:
    """Raise a DeepbandError if Slurm's commands are not installed."""
    if shutil.which("squeue") is None:
        raise DeepbandError(
            "jobs of this study may still wait or run in Slurm, but there is no squeue here to "
            "ask: run again on a host with Slurm's commands, or give these jobs up with wait=False."
        )


def cancel(ids: Sequence[str]) -> None:
    """Cancel jobs; those that have ended are ignored. A failure is ignored, too: nobody waits for
    the results any more."""
    if ids and shutil.which("scancel"):
        with suppress(OSError, subprocess.SubprocessError):
            subprocess.run(
                ["scancel", "--quiet", *ids],
                stdin=subprocess.DEVNULL,
                capture_output=True,
                check=False,
                timeout=SECONDS_TO_ANSWER,
            )


def requeue(job: str) -> bool:
    """Let Slurm run a job again, after this process has ended. Returns whether it will."""
    try:
        done = subprocess.run(
            ["scontrol", "requeue", job],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            check=False,
            timeout=SECONDS_TO_ANSWER,
        )
    except (OSError, subprocess.SubprocessError):
        return False
    return done.returncode == 0


def error_text(error: Exception) -> str:
    """What a command that failed has printed, or why it could not be called."""
    printed = str(getattr(error, "stderr", None) or "").strip()
    return (printed or str(error)).rstrip(".")


def _squeue() -> str:
    form = "%F|%K|%T|%r|%j"  # the name last, because it may contain anything
    return subprocess.run(
        ["squeue", f"--user={os.getuid()}", "--array", "--states=all", "--noheader", f"-o{form}"],
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        check=True,
        timeout=SECONDS_TO_ANSWER,
    ).stdout


def _parsed(text: str) -> dict[Place, QueuedJob]:
    """The jobs in the output of squeue that deepband has submitted."""
    found: dict[Place, QueuedJob] = {}
    for line in text.splitlines():
        job, index, state, reason, name = line.split("|", 4)
        named = _NAME.fullmatch(name.strip())
        if named is not None:
            single = not index.isdigit()
            place = named[1], 0 if single else int(index)
            found[place] = QueuedJob(job if single else f"{job}_{index}", state, reason)
    return found
