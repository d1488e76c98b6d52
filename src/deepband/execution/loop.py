"""The loop that keeps workers busy until the run is done, a limit is reached or something fails.

An exception or NaN is a result of the config and is recorded at once. But if the first evaluations
all fail, the objective is at fault: nothing is recorded then, so that a typo does not spoil the
study. A job whose worker died says nothing about its config and is run again, and so do the jobs of
a batch whose call raised.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from itertools import takewhile

from deepband.core import hyperband
from deepband.core.costs import cost_left, trained, untrained
from deepband.core.facts import PRECHECK, JobKey, Outcome
from deepband.core.records import Attempt, Job
from deepband.errors import BatchError, DeepbandError, ObjectiveError, StorageError
from deepband.execution.batch import trained_units
from deepband.execution.executors.base import Ended, Executor, Leaving
from deepband.execution.job_queue import JobQueue, SingleJobs
from deepband.execution.job_session import JobSession
from deepband.execution.limits import Limits
from deepband.execution.objective import Task
from deepband.execution.outbox import Outbox
from deepband.execution.pace import Started
from deepband.execution.precheck import Precheck, rejected, rejection
from deepband.execution.recorder import Recorder
from deepband.execution.recovery import Recovery
from deepband.execution.shared_use import SharedUse, SoleUse
from deepband.execution.task_factory import TaskFactory
from deepband.storage.checkpoints import Checkpoints
from deepband.system.interrupts import Interrupts

FIRST_FAILURES = 3
POLL_SECONDS = 0.1


@dataclass(eq=False, slots=True)
class Call:
    """A call of the objective that is running."""

    size: int
    """The number of its tasks."""
    open: int
    """How many of them have not ended."""
    intact: bool = True
    """Whether none of them was lost or met a fault of the machine, and a single one did not
    fail."""
    lost: str = ""
    """Why tasks were lost."""


class Loop:
    """Carries jobs from a study to an executor, and results back."""

    def __init__(
        self,
        session: JobSession,
        executor: Executor,
        checkpoints: Checkpoints | None,
        *,
        limits: Limits,
        retries: int = 0,
        first_failures: int = FIRST_FAILURES,
        outbox: Outbox | None = None,
        wait: bool = True,
        queue: JobQueue | None = None,
        precheck: Precheck | None = None,
        shared: SharedUse | None = None,
    ) -> None:
        self.session = session
        self.executor = executor
        self.checkpoints = checkpoints
        self.queue: JobQueue = queue or SingleJobs()
        self.precheck = precheck
        self.limits = limits
        self.retries = retries
        self.outbox = outbox
        self.shared = shared or SoleUse(session)
        self.recorder = Recorder(session, checkpoints, outbox, first_failures, self.shared)
        self.running: dict[JobKey, Started] = {}
        """The jobs that have no result yet. Other threads may read it."""
        self.repeated: list[str] = []
        """Why calls with several jobs were repeated in smaller ones."""
        self._recovery = (
            Recovery(session, outbox, self.recorder, self.shared, self.running, wait)
            if outbox
            else None
        )
        self._tasks = TaskFactory(session, checkpoints)
        self._calls: dict[JobKey, Call] = {}
        """The call of the objective that each running job is part of."""
        self._charged: set[JobKey] = set()
        """The jobs that are run again, and have been paid for."""
        self._losses: Counter[JobKey] = Counter()
        """How often a job's worker was lost."""
        self._faults: Counter[JobKey] = Counter()
        """How often a job failed because of the machine."""
        self._stopping = False
        self._at_fault = False
        """Whether the objective is at fault, so that no running job is wanted."""
        self._spent = False
        """Whether the limit of the cost allows no new job. Lost ones have been paid for."""
        self._ahead: deque[JobKey] = deque()
        if limits.ahead_limit != 0:
            self._ahead.extend(hyperband.jobs_ahead(session.state))

    def run(self, interrupts: Interrupts) -> None:
        """Run until there is nothing left to do. After an interrupt, running jobs finish; a second
        interrupt ends them. Jobs that run without this process are left to the next driver."""
        try:
            with self.shared.turn():
                self._recover()
                self._sweep()
            while not interrupts.at_once:
                self._stopping = self._stopping or interrupts.asked or self.limits.out_of_time()
                if self.shared.has_leftovers:
                    with self.shared.turn():
                        self._recover()
                if isinstance(self.queue, SingleJobs):
                    self._fill()  # first, so that workers are busy while results are recorded
                self.recorder.record_trusted()
                self._fill()
                self._fill_ahead()
                if self._is_idle():
                    if not self._settle() and not self._wait_for_others():
                        break
                    continue
                self._collect(self.executor.wait(POLL_SECONDS))
                self._record_orphans()
            self.recorder.record()
        except (DeepbandError, KeyboardInterrupt) as error:
            self._at_fault = isinstance(error, ObjectiveError)
            with suppress(DeepbandError):  # results that arrived before the error
                self.recorder.record_trusted()
            raise
        finally:
            self._end_tasks()
            self._release_running()
            with suppress(DeepbandError), self.shared.turn():
                self._sweep()

    @property
    def leaves(self) -> bool:
        """Whether running jobs are left to the next driver if this one stops."""
        return isinstance(self.executor, Leaving)

    def _end_tasks(self) -> None:
        """End the tasks that are running, or leave them if the next driver may want them."""
        wanted = not (self._at_fault or self.session.done)
        if wanted and isinstance(self.executor, Leaving):
            self.executor.leave()
        else:
            self.executor.close()

    def _is_idle(self) -> bool:
        """Whether there is nothing to wait for, not even room for a job that is ready."""
        if self.session.done or (self._stopping and self.leaves):
            return True
        fresh = not self._spent or self.queue.has_lost
        crowded = fresh and not self._stopping and not self.executor.free
        return not self.running and not (crowded and self.session.has_ready_job)

    def _recover(self) -> None:
        """Take the results that an earlier driver left."""
        if self._recovery:
            self._take(self._recovery.find())

    def _record_orphans(self) -> None:
        """Take the results of jobs that an earlier driver started."""
        if self._recovery:
            self._take(self._recovery.ended())

    def _wait_for_others(self) -> bool:
        """When nothing can start, wait for the results of other processes, if that may help."""
        waits = not (self._stopping or self._spent or self.session.done)
        return waits and self.shared.wait()

    def _fill(self) -> None:
        """Start as many jobs as the executor has room for."""
        while not self._stopping and (free := self.executor.free):
            self._spent = self._spent or self.limits.out_of_jobs()
            jobs = self.queue.next(self.session, free, fresh=not self._spent)
            if not jobs:
                return
            self._spent = not self._start(jobs, self._pay) or self._spent

    def _fill_ahead(self) -> None:
        """Use workers that the current run leaves idle for jobs of the next one."""
        stopping = self._stopping or self._spent
        while not stopping and self._ahead and not self.session.done:
            free = self.executor.free
            jobs = self.queue.next_ahead(self.session, self._ahead, free) if free else []
            if not jobs:
                return
            if not self._start(jobs, self._pay_ahead):
                self._ahead.clear()

    def _start(self, jobs: Sequence[Job], pay: Callable[[Task], bool]) -> bool:
        """Start a call with as many of these jobs as can be paid for, and release the others.
        Returns whether all were started, apart from those that the precheck rejects."""
        if self.precheck is not None:
            jobs = self._checked(jobs, self.precheck)
        now = time.monotonic()
        for job in jobs:
            self.running[job.key] = Started(job, now, 1 / len(jobs))
        tasks = list(takewhile(pay, self._tasks.tasks(jobs)))
        for job in jobs[len(tasks) :]:
            del self.running[job.key]
            self.session.release(job)
        if tasks:
            self._submit(tasks)
        return len(tasks) == len(jobs)

    def _checked(self, jobs: Sequence[Job], precheck: Precheck) -> list[Job]:
        """The jobs that a precheck does not reject. The others are recorded at once, at no cost."""
        try:
            refused = rejected(precheck, jobs)
        except BaseException:
            for job in jobs:
                self.session.release(job)
            raise
        if refused:
            outcome = rejection(self.session.state.criteria)
            self.session.record_outcomes(((job, outcome) for job in refused), PRECHECK)
        keys = {job.key for job in refused}
        return [job for job in jobs if job.key not in keys]

    def _submit(self, tasks: Sequence[Task]) -> None:
        """Start a call with these tasks, and note what share of its time each of them has."""
        call = Call(len(tasks), len(tasks))
        for task in tasks:
            self._calls[task.job.key] = call
        if call.size > 1:
            total = sum(map(trained_units, tasks))
            for task in tasks:
                started = self.running[task.job.key]
                self.running[task.job.key] = started._replace(share=trained_units(task) / total)
        self.executor.submit(tasks)

    def _pay(self, task: Task) -> bool:
        """Count what a task trains, unless that was done before or exceeds the limit."""
        if not self.limits.counts or task.job.key in self._charged:
            return True
        begun = task.context.previous_rung if task.context else None
        return self.limits.spend(trained(self.session.state.schedule, task.job.rung, begun))

    def _pay_ahead(self, task: Task) -> bool:
        """The same for a job of the next run."""
        state = self.session.state
        return self.limits.spend_ahead(state.schedule.charge(task.job.rung), cost_left(state))

    def _settle(self) -> bool:
        """When nothing runs, record unconfirmed failures, if that may make more jobs ready."""
        if self._stopping or self._spent or not self.recorder.pending:
            return False
        self.recorder.record()
        return True

    def _collect(self, all_ended: Sequence[Ended]) -> None:
        """Take in how tasks ended. An error is raised once all of them are taken in; jobs that are
        neither recorded nor lost by then are released with the running ones."""
        valid: list[Attempt] = []
        spoiled: list[Attempt] = []
        lost: dict[Call, list[Job]] = {}
        faults: list[str] = []
        calls: list[Call] = []
        for ended in all_ended:
            call, attempt = self._end(ended), ended.attempt
            calls.append(call)
            if attempt is not None:
                (spoiled if attempt.environment else valid).append(attempt)
            elif ended.fault is not None:
                faults.append(ended.fault)
            else:
                call.lost = ended.lost or "the call ended without a result"
                lost.setdefault(call, []).append(ended.task.job)
        for call, jobs in lost.items():
            valid += self._lose(call, jobs)
        self._judge(valid, conclusive=not any(call.open for call in calls))
        if spoiled:
            self._try_again(spoiled)
        if faults:
            raise BatchError(list(dict.fromkeys(faults)))

    def _end(self, ended: Ended) -> Call:
        """Count a task that has ended in the call that it was part of."""
        key, attempt = ended.task.job.key, ended.attempt
        call = self._calls.pop(key)
        call.open -= 1
        if attempt is None or attempt.environment or (call.size == 1 and attempt.outcome.failed):
            call.intact = False
        if call.intact and not call.open:
            self.queue.succeeded(key[2], call.size)
        return call

    def _lose(self, call: Call, jobs: Sequence[Job]) -> list[Attempt]:
        """Run the jobs of a call that were lost again: those of a batch in smaller ones, a single
        one unless it was lost too often. It is then a failure, which is returned."""
        self._losses.update(job.key for job in jobs if call.size == 1)
        if self._losses[jobs[0].key] > self.retries:
            return [Attempt(job, Outcome(None, call.lost)) for job in jobs]
        self._release(jobs)
        self.queue.retry(jobs, call.size, call.lost)
        if call.size > 1:
            self.repeated.append(call.lost)
        return []

    def _release(self, jobs: Sequence[Job]) -> None:
        """Release jobs, and remember that they have been paid for."""
        for job in jobs:
            self._charged.add(job.key)
            del self.running[job.key]
            self.session.release(job)

    def _try_again(self, attempts: Sequence[Attempt]) -> None:
        """Run jobs again that failed because of the machine, once; then stop. The second attempt
        has a new worker, because the first one may have leaked what is missing."""
        self._release([attempt.job for attempt in attempts])
        self.queue.repeat([attempt.job for attempt in attempts])
        self._faults.update(attempt.job.key for attempt in attempts)
        for attempt in attempts:
            if self._faults[attempt.job.key] > 1:
                reason = (attempt.outcome.error or "").partition("\n")[0]
                raise StorageError(
                    self.session.files,
                    "the objective failed twice because of the machine, not of its config: "
                    f"{reason}. Nothing was recorded for it. Free what is missing (disk space, "
                    "quota, open files) and run again to continue.",
                )

    def _judge(self, attempts: Sequence[Attempt], conclusive: bool) -> None:
        """Let outcomes be recorded, unless they show that the objective is at fault."""
        for attempt in attempts:
            del self.running[attempt.job.key]
            if attempt.outcome.stopped_after is not None:
                self._refund(attempt)
        self._take(attempts, conclusive)

    def _refund(self, attempt: Attempt) -> None:
        """Let other jobs have what training that was stopped early did not use."""
        after, begun = attempt.outcome.stopped_after, attempt.outcome.resumed_from
        schedule = self.session.state.schedule
        self.limits.cost -= untrained(schedule, attempt.job.rung, after, begun)
        self._spent = False

    def _take(self, attempts: Sequence[Attempt], conclusive: bool = True) -> None:
        """Pass outcomes to the recorder. If the objective is at fault, end all running jobs and
        remove their results."""
        try:
            self.recorder.take(attempts, conclusive)
        except ObjectiveError:
            self.executor.close()
            self.recorder.disown(self.running)
            raise

    def _sweep(self) -> None:
        """Remove what attempts saved for jobs that are no longer open. A job ahead may have left
        its result as the run ended, or may still run on an executor that cannot end it: the next
        call records it, with its checkpoint."""
        if self.checkpoints:
            state = self.session.state
            with suppress(OSError, StorageError):
                waiting = self.outbox.waiting() if self.outbox else []
                running = self.outbox.running() if self.outbox else []
                spared = {attempt.job.key for attempts in waiting for attempt in attempts}
                spared.update(key for each in running for key in each.keys)
                self.checkpoints.sweep(lambda key: key in spared or hyperband.is_open(state, *key))

    def _release_running(self) -> None:
        """Release the jobs that have no recorded result."""
        running = [started.job for started in self.running.values()]
        for job in [*running, *(each.job for each in self.recorder.pending)]:
            with suppress(DeepbandError):  # the file is gone: what ended the run says so
                self.session.release(job)
