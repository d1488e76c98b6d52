"""An executor that submits tasks to Slurm.

Tasks that are submitted together become one job array. Their results come through the outbox, so
they are the same whether this driver, another one, or none is running when they end; Slurm is asked
only how jobs ended that left no result. The study's folder must be on a file system that all nodes
share.
"""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import replace
from secrets import token_hex

from deepband.core.facts import JobKey
from deepband.errors import DeepbandError, InputError, ObjectiveError, QueueWarning, show_warning
from deepband.execution.batch import Answer
from deepband.execution.executors.base import Ended, Timeout, ends, seconds_allowed
from deepband.execution.executors.remote import Refused
from deepband.execution.executors.slurm_call import SlurmCall
from deepband.execution.executors.slurm_messages import end_text, launch_text, refusal_text
from deepband.execution.executors.slurm_parameters import SlurmParameters
from deepband.execution.executors.slurm_worker import SlurmOrder, run_submitted
from deepband.execution.objective import Task
from deepband.execution.outbox import JOBS, Outbox
from deepband.execution.slurm_queue import QueuedJob, SlurmQueue, cancel
from deepband.execution.submissions import Submissions, SubmittedCall

DEFAULT_WORKERS = 100
"""How many jobs wait or run at a time, unless the user says so."""
MOST_IN_ARRAY = 1000
"""Slurm's default limit of the size of a job array."""
SECONDS_BETWEEN_LOOKS = 0.5
SECONDS_TO_FINISH = 10.0
"""How long a job that has written its result may take to end."""
SECONDS_TO_RETRY = 60.0
"""How long to wait after Slurm has refused a submission, if it has accepted others before."""
MOST_LAUNCHES = 5
"""How often a call is submitted again because a node could not start its job, before the run ends.
Slurm often drains such a node, so that the next job starts on another one."""
BLAMELESS = ("NODE_FAIL", "PREEMPTED")
"""How jobs end that are submitted again, whatever `retries` is: it says nothing about them."""


class SlurmExecutor:
    """Runs tasks as jobs of Slurm: at most `workers` wait or run at a time."""

    def __init__(
        self,
        shipped: bytes,
        parameters: SlurmParameters,
        workers: int,
        outbox: Outbox,
        timeout: Timeout = None,
    ) -> None:
        self._shipped = shipped
        self._parameters = parameters
        self._workers = workers
        self._outbox = outbox
        self._timeout = timeout
        self._folder = outbox.folder.resolve()
        self._submissions = Submissions(self._folder)
        self._queue = SlurmQueue()
        self._unsent: list[SlurmOrder] = []
        self._open: list[SlurmCall] = []
        self._finishing: list[SlurmCall] = []
        """Calls with results, whose jobs may not have ended yet."""
        self._sent: set[str] = set()
        """The tokens of submissions whose folders exist."""
        self._accepted = False
        """Whether Slurm has accepted a submission."""
        self._launches: Counter[str] = Counter()
        """How often nodes could not start the job of a call, by the token of its order."""
        self._send_at = self._look_at = 0.0
        self._error: DeepbandError | None = None
        parameters.executor(self._folder, token_hex(8))  # raises if they are not valid

    @property
    def free(self) -> int:
        return max(0, self._workers - len(self._open) - len(self._unsent))

    def submit(self, tasks: Sequence[Task]) -> None:
        """Remember tasks. They are sent together, by `wait`."""
        seconds, token = seconds_allowed(self._timeout, tasks), token_hex(4)
        given = self._parameters
        place = "", 0  # known when it is sent
        self._unsent.append(
            SlurmOrder(tasks, token, seconds, self._folder, place, given.requeues, given.gpu)
        )

    def wait(self, seconds: float) -> Sequence[Ended]:
        end = time.monotonic() + seconds
        while True:
            if self._error is not None:
                raise self._error
            self._send()
            ended = self._look()
            left = end - time.monotonic()
            if ended or (left <= 0 and self._error is None):
                return ended
            time.sleep(max(0.0, min(left, SECONDS_BETWEEN_LOOKS)))

    def close(self) -> None:
        """Cancel all jobs."""
        calls, self._open, self._unsent = self._open, [], []
        cancel([call.job.job_id for call in calls])
        for call in calls:
            self._disown(call)
        self.leave()

    def leave(self) -> None:
        self._unsent = []
        end = time.monotonic() + SECONDS_TO_FINISH
        self._remove_finished()
        while self._finishing and time.monotonic() < end:
            time.sleep(0.05)
            self._remove_finished()
        self._finishing = []
        self._remove_finished()

    # Submission

    def _send(self) -> None:
        """Submit what is not sent yet, in arrays."""
        while self._unsent and time.monotonic() >= self._send_at:
            orders = self._unsent[:MOST_IN_ARRAY]
            try:
                self._open += self._submitted(orders)
            except SubmissionError as error:
                if not self._accepted:
                    raise
                show_warning(f"{error} It is tried again every minute.", QueueWarning)
                self._send_at = time.monotonic() + SECONDS_TO_RETRY
                return
            self._accepted = True
            del self._unsent[: len(orders)]

    def _submitted(self, orders: Sequence[SlurmOrder]) -> list[SlurmCall]:
        """Submit an array. The files of its calls are written first: if this process is killed now,
        the next driver still knows that the jobs may be in the queue."""
        token = token_hex(8)
        placed = [replace(each, place=(token, number)) for number, each in enumerate(orders)]
        calls = [SubmittedCall(each.place, each.keys, each.token) for each in placed]
        folder = self._submissions.write(calls, self._shipped)
        executor = self._parameters.executor(folder, token)
        sent = time.monotonic()
        try:
            jobs = executor.map_array(run_submitted, placed)
        except Exception as error:  # submitit raises many kinds
            self._submissions.remove(token)
            raise SubmissionError(refusal_text(error)) from error
        self._sent.add(token)
        return [SlurmCall(order, job, sent) for order, job in zip(placed, jobs, strict=True)]

    # Results

    def _look(self) -> list[Ended]:
        """The tasks that have ended."""
        now, ended = time.monotonic(), list[Ended]()
        if now < self._look_at:
            return ended
        self._look_at = now + SECONDS_BETWEEN_LOOKS
        self._remove_finished()
        if self._open:
            tokens = self._outbox.tokens()
            for call in list(self._open):
                ended += self._arrived(call, tokens)
        if self._open and self._queue.update([call.order.place for call in self._open]):
            for call in [each for each in self._open if each.sent < self._queue.asked]:
                ended += self._gone(call, self._queue.find(call.order.place))
        return ended + self._overdue(now)

    def _arrived(self, call: SlurmCall, tokens: dict[JobKey, list[str]]) -> list[Ended]:
        """The ends of a call whose results are all there."""
        order = call.order
        names = [token for key in order.keys for token in tokens.get(key, ())]
        files = sum(name.startswith(order.token) for name in names)
        if files == call.files:
            return []
        call.files = files
        attempts = self._outbox.left(order.keys, order.token, tokens)
        if len(attempts) < len(order.keys):
            return []
        self._finishing.append(call)
        return self._end(call, Answer(attempts))

    def _gone(self, call: SlurmCall, job: QueuedJob | None) -> list[Ended]:
        """The ends of a call whose job has ended without all results. It may take a while until
        this host sees a file that another one has written, so this is believed the second time."""
        if job is not None and not job.ended:
            call.ended = False
            if job.launch_failed:
                self._launch_again(call, job)
            return []
        if not call.ended:
            call.ended = True
            return []
        answer = call.answer()
        if isinstance(answer, Refused):
            self._error = ObjectiveError([f"a worker cannot load the objective: {answer.reason}"])
            return []
        if answer is None and job is not None and job.state in BLAMELESS:
            self._send_again(call)
            return []
        return self._end(call, answer or self._lost(call, end_text(job, call.log)))

    def _launch_again(self, call: SlurmCall, job: QueuedJob) -> None:
        """Submit a call again whose job Slurm holds because a node could not start it. That is not
        the fault of its config, but if it happens again and again, waiting does not help."""
        self._launches[call.order.token] += 1
        if self._launches[call.order.token] > MOST_LAUNCHES:
            self._error = SubmissionError(launch_text(job, MOST_LAUNCHES + 1))
            return
        cancel([job.id])
        self._send_again(call)

    def _send_again(self, call: SlurmCall) -> None:
        self._disown(call)
        self._open.remove(call)
        self._unsent.append(call.order)

    def _overdue(self, now: float) -> list[Ended]:
        """Tasks that took too long. Waiting in the queue does not count, and neither does what an
        attempt took that Slurm has interrupted."""
        timed = [call for call in self._open if call.order.seconds is not None]
        ended, tokens = list[Ended](), self._outbox.tokens(JOBS) if timed else {}
        for call in timed:
            order = call.order
            found = [each for each in tokens.get(order.key, ()) if each.startswith(order.token)]
            attempt = found[0] if found else ""
            if attempt != call.attempt:
                call.attempt, call.started = attempt, now
            if attempt and now - call.started > (order.seconds or 0):
                cancel([call.job.job_id])
                reason = f"Timeout: it took more than {order.seconds:.6g} seconds"
                ended += self._end(call, self._lost(call, reason))
        return ended

    def _lost(self, call: SlurmCall, reason: str) -> Answer:
        """What a call that is given up has left."""
        order, tokens = call.order, self._outbox.tokens()
        self._disown(call)
        return Answer(self._outbox.left(order.keys, order.token, tokens), lost=reason)

    def _end(self, call: SlurmCall, answer: Answer) -> list[Ended]:
        self._open.remove(call)
        self._submissions.end(call.order.place)
        return ends(call.order.tasks, answer)

    def _disown(self, call: SlurmCall) -> None:
        """Let a worker that still runs a call write no result, and one that Slurm starts again have
        nothing to do."""
        self._submissions.end(call.order.place)
        with suppress(DeepbandError):  # a late result is ignored anyway
            self._outbox.drop_all(call.order.key, call.order.token)

    def _remove_finished(self) -> None:
        """Remove the folders of submissions whose jobs have all ended: submitit writes there."""
        self._finishing = [each for each in self._finishing if not each.has_written]
        used = {call.order.place[0] for call in [*self._open, *self._finishing]}
        for token in self._sent - used:
            self._submissions.remove(token)
        self._sent &= used


class SubmissionError(InputError):
    """Slurm did not accept jobs."""
