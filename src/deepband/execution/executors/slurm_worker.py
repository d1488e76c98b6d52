"""The function that a job of Slurm calls.

Slurm may start a job again: after preemption, after the loss of a node, or because the job asked
for it shortly before its time limit. Every start is an attempt with its own token, and finds what
the previous one saved as `context.partial`.
"""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from secrets import token_hex
from types import FrameType

import cloudpickle

from deepband.core.records import Attempt
from deepband.errors import StorageError
from deepband.execution.batch import Answer, perform_tasks
from deepband.execution.executors.base import Order
from deepband.execution.executors.remote import Refused, heartbeat, with_device
from deepband.execution.executors.worker_main import captured_output
from deepband.execution.objective import Objective, Task, not_started
from deepband.execution.outbox import Outbox
from deepband.execution.slurm_queue import Place, requeue
from deepband.execution.submissions import OBJECTIVE, Submissions
from deepband.storage.checkpoints import Checkpoints

SECONDS_BETWEEN_LOOKS = 1.0


@dataclass(frozen=True, slots=True)
class SlurmOrder(Order):
    """Tasks on their way to a job of Slurm."""

    place: Place
    requeues: int
    """How often the job may be requeued because of its time limit."""
    gpu: bool
    """Whether the job has a GPU."""


def run_submitted(order: SlurmOrder) -> Answer | Refused:
    """Run the tasks of an order that have no result yet, and write their results to the outbox."""
    outbox, submissions = Outbox(order.folder), Submissions(order.folder)
    if order.gpu:
        order = with_device(order)
    objective = _load(submissions.path(order.place[0]) / OBJECTIVE)
    if isinstance(objective, Refused):
        return objective
    try:
        earlier = outbox.left(order.keys, order.token, outbox.tokens())
        if not submissions.is_open(order.place):  # after looking for results: see Submissions
            return Answer([])
        done = {attempt.job.key for attempt in earlier}
        tasks = [_begun(task) for task in order.tasks if task.job.key not in done]
        if not tasks:
            return Answer(earlier)
        outbox.drop_all(order.key, order.token)
        answer = _run(objective, replace(order, tasks=tasks, token=order.token + token_hex(4)))
    except (OSError, StorageError) as error:
        return Answer([not_started(task, error) for task in order.tasks])
    return answer._replace(attempts=[*earlier, *answer.attempts])


def _load(file: Path) -> Objective | Refused:
    try:
        objective: Objective = cloudpickle.loads(file.read_bytes())
    except Exception as error:
        return Refused(f"{type(error).__name__}: {error}")
    return objective


def _begun(task: Task) -> Task:
    """A task with what an interrupted attempt has saved."""
    context = task.context
    if context is None or (context.path.is_dir() and not _has_content(context.path)):
        return task
    path, partial = Checkpoints(context.path.parents[1]).begin(task.job.key)
    return task._replace(context=replace(context, path=path, partial=partial))


def _run(objective: Objective, order: SlurmOrder) -> Answer:
    outbox, finished = Outbox(order.folder), list[Attempt]()
    file = outbox.job_file(order.key, order.token)
    held_file = outbox.hold(order.keys, order.token, order.seconds, order.device)
    with held_file as held, heartbeat(file):
        _requeue_in_time(order)

        def leave(attempt: Attempt) -> None:
            finished.append(attempt)
            held.leave([attempt])

        with captured_output(outbox, order.keys):
            answer = perform_tasks(objective, order.tasks, leave, interruptible=False)
        held.leave(answer.attempts)
    return answer._replace(attempts=[*finished, *answer.attempts])


def _requeue_in_time(order: SlurmOrder) -> None:
    """Requeue this job when Slurm signals that its time limit is near."""
    count = Submissions(order.folder).path(order.place[0]) / f"{order.place[1]}.requeues"
    folders = [task.context.path for task in order.tasks if task.context is not None]
    arguments = folders, count, order.requeues

    def begin(number: int, frame: FrameType | None) -> None:
        threading.Thread(target=_requeue_when_saved, args=arguments, daemon=True).start()

    signal.signal(_signal(), begin)


def _signal() -> signal.Signals:
    """The signal that submitit asks Slurm to send."""
    return signal.Signals[f"SIG{os.environ.get('SUBMITIT_PREEMPT_SIGNAL', 'USR2')}"]


def _requeue_when_saved(folders: Sequence[Path], count: Path, most: int) -> None:
    """Requeue this job as soon as it has saved anything: otherwise, it would only repeat what it
    has done. If it saves nothing until its time limit, the driver decides what to do."""
    while not any(map(_has_content, folders)):
        time.sleep(SECONDS_BETWEEN_LOOKS)
    with suppress(OSError), count.open("ab") as file:
        file.write(b".")
        file.flush()
        if file.tell() <= most and requeue(_own_job()):
            os._exit(1)  # without a result: this attempt is not finished


def _own_job() -> str:
    """What Slurm calls this job. The last task of an array has the number of the whole array."""
    array, task = (os.environ.get(f"SLURM_ARRAY_{name}_ID") for name in ("JOB", "TASK"))
    return f"{array}_{task}" if array and task else os.environ["SLURM_JOB_ID"]


def _has_content(folder: Path) -> bool:
    with suppress(OSError), os.scandir(folder) as entries:
        return next(entries, None) is not None
    return False
