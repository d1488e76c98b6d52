"""Evaluating the best configs again with other seeds, with the loop that runs every other job.

A repetition is a job whose bracket also encodes the number of the repetition, so that the files of
two repetitions never have the same name. Their files are in a folder of their own, and nothing that
a repetition saves is kept.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import TypeAlias, TypeVar

from deepband.analysis.confirmations import Confirmations, confirmations, winners
from deepband.core.evaluations import no_result
from deepband.core.exact_numbers import as_number, check_count
from deepband.core.facts import Confirmed, JobKey, Outcome, own_copy
from deepband.core.records import Job
from deepband.core.state import State
from deepband.errors import InputError, JobError, SeveralObjectivesError
from deepband.execution.context import training_seed
from deepband.execution.limits import Limits
from deepband.execution.objective import Objective, takes_context
from deepband.execution.outbox import JOBS, OUTPUT, RESULTS
from deepband.execution.pace import Pace, Started
from deepband.execution.progress import Progress, RunMeter, RunningEvaluation
from deepband.execution.runner import RunOptions, run_jobs
from deepband.execution.submissions import SUBMISSIONS
from deepband.storage.checkpoints import Checkpoints
from deepband.storage.retention import Keep
from deepband.study.session import Session
from deepband.study.user_warnings import warn_of_missing_context
from deepband.system import plain_files

FOLDER = "confirmations"
PER_REPETITION = 1000
"""More than any study has brackets: bracket 0 alone would need 2**1000 configs."""

MOST_SEEDS = 10_000

Found = TypeVar("Found")
Repetition: TypeAlias = tuple[int, int, int, int]
"""A (bracket, index, rung, repetition)."""


def confirm(
    session: Session,
    objective: Objective,
    top: int,
    seeds: int,
    limits: Limits,
    options: RunOptions,
) -> Confirmations:
    """Evaluate the best configs again, as often as there are seeds, and return their means."""
    top, seeds = check_count("top", top), check_seeds(seeds)
    if options.precheck is not None:
        raise InputError(
            "confirm takes no precheck: it repeats configs that have already been trained."
        )
    seeded = takes_context(options.called(objective))
    with session.confirming.lock:  # a second thread waits, and then finds everything recorded
        wanted = repetitions(selected(session.state, top), seeds)
        if missing(session.state, wanted):
            if not seeded:
                warn_of_missing_context()
            session.lock()  # which reads what another process has written since
            wanted = repetitions(selected(session.state, top), seeds)
            _run_repetitions(session, wanted, objective, limits, options)
    return confirmations(session.state, selected(session.state, top))


def check_seeds(given: int) -> int:
    """The number of repetitions as an int. Raises an InputError if it is not positive or too
    large for the names of files."""
    if check_count("seeds", given) > MOST_SEEDS:
        raise InputError(f"seeds is {given}: give at most {MOST_SEEDS:,}.")
    return int(given)


def selected(state: State, top: int) -> list[JobKey]:
    """The results to confirm, or a NoResultError if there is none. Several objectives are refused:
    means and intervals would not decide which config is better."""
    if state.criteria.several:
        raise SeveralObjectivesError(
            state.criteria.names,
            "nothing can be confirmed",
            "Evaluate the configs of `study.front()` with other seeds in your own loop.",
        )
    found = winners(state, top)
    if not found:
        raise no_result(state)
    return found


def repetitions(keys: Sequence[JobKey], seeds: int) -> list[Repetition]:
    """All repetitions of these results: first one of each config, then the next."""
    return [(*key, repetition) for repetition in range(1, seeds + 1) for key in keys]


def missing(state: State, wanted: Iterable[Repetition]) -> list[Repetition]:
    """The repetitions that are not recorded."""
    return [each for each in wanted if each not in state.confirmations]


def _run_repetitions(
    session: Session,
    wanted: Sequence[Repetition],
    objective: Objective,
    limits: Limits,
    options: RunOptions,
) -> None:
    """Run those of the repetitions that are not recorded, and record their results."""
    confirmation = ConfirmationSession(session, wanted)
    try:
        run_jobs(confirmation, objective, limits, options)
    finally:
        if session.persistent:
            confirmation.remove_empty_folders()


class ConfirmationSession:
    """Repetitions of an open study as jobs for the loop."""

    learns = False
    parallel = None
    keep = Keep(False, 0)

    def __init__(self, session: Session, wanted: Sequence[Repetition]) -> None:
        self._session = session
        self._wanted = wanted
        self._running: set[Repetition] = set()

    @property
    def state(self) -> State:
        return self._session.state

    @property
    def persistent(self) -> bool:
        return self._session.persistent

    @property
    def files(self) -> Path:
        return self._session.files / FOLDER

    @property
    def checkpoints(self) -> Checkpoints:
        return Checkpoints(self.files / "checkpoints" / self.state.created.study)

    @property
    def done(self) -> bool:
        return all(each in self.state.confirmations for each in self._wanted)

    @property
    def has_ready_job(self) -> bool:
        return any(self._is_ready(each) for each in self._wanted)

    def lock(self) -> None:
        self._session.lock()

    def read_state(self, function: Callable[[State], Found], seconds: float) -> Found | None:
        return self._session.read_state(function, seconds)

    def meter(self, workers: int, begun: float) -> ConfirmationMeter:
        return ConfirmationMeter(self._wanted, RunMeter(workers, begun))

    def ask(self) -> Job | None:
        ready = (each for each in self._wanted if self._is_ready(each))
        found = next(ready, None)
        return None if found is None else self._hand_out(found)

    def ready_batch(self) -> list[JobKey]:
        """The jobs of all repetitions on the lowest rung that can start."""
        ready = [each for each in self._wanted if self._is_ready(each)]
        lowest = min((each[2] for each in ready), default=0)
        return [(_packed(each), *each[1:3]) for each in ready if each[2] == lowest]

    def reserve(self, keys: Iterable[JobKey]) -> list[Job]:
        """The jobs of those repetitions that can start, including repetitions of earlier calls."""
        found = map(_repetition, keys)
        return [self._hand_out(each) for each in found if self._is_ready(each)]

    def expects(self, job: Job) -> bool:
        found = _repetition(job.key)
        same_study = job.study == self.state.created.study
        return same_study and self._is_open(found) and self._config(found) == job.config

    def release(self, job: Job) -> None:
        self._running.discard(_repetition(job.key))

    def record_outcomes(
        self, pairs: Iterable[tuple[Job, Outcome]], origin: str | None = None
    ) -> None:
        self.lock()
        facts = []
        for job, outcome in pairs:
            found = _repetition(job.key)
            if not self._is_open(found):
                raise JobError(*found[:3], f"it has no repetition {found[3]} to record.")
            facts.append(Confirmed(*found, *outcome[:4]))
        self._session.record(facts)
        self._running -= {fact.key for fact in facts}

    def resumable(self, job: Job) -> list[int]:
        return []

    def seed(self, job: Job) -> int:
        return training_seed(self.state.created.seed, *_repetition(job.key))

    def watch(self, job: Job) -> None:
        """A repetition is never stopped early."""

    def remove_empty_folders(self) -> None:
        """Remove the folders that are now empty."""
        root, study = self._session.files, self.state.created.study
        saved = ("checkpoints", study, "attempts"), ("checkpoints", study), ("checkpoints",)
        for names in (*saved, (JOBS,), (RESULTS,), (OUTPUT,), (SUBMISSIONS,), ()):
            plain_files.remove_empty_folder(root, FOLDER, *names)

    def _is_open(self, found: Repetition) -> bool:
        """Whether the result of a repetition can be recorded: its config has a loss there."""
        bracket, index, rung, _ = found
        result = self.state.results.get((bracket, rung), {}).get(index)
        evaluated = result is not None and result.loss is not None
        return evaluated and found[3] > 0 and found not in self.state.confirmations

    def _is_ready(self, found: Repetition) -> bool:
        return found not in self._running and self._is_open(found)

    def _hand_out(self, found: Repetition) -> Job:
        self._running.add(found)
        _, index, rung, _ = found
        budget, study = self.state.run.budgets[rung], self.state.created.study
        return Job(_packed(found), index, rung, budget, own_copy(self._config(found)), study)

    def _config(self, found: Repetition) -> dict[str, object]:
        return self.state.config(found[0], found[1])


class ConfirmationMeter:
    """Measures the progress of repetitions. Everything else is read by the meter of the run."""

    def __init__(self, wanted: Sequence[Repetition], run: RunMeter) -> None:
        self._wanted = wanted
        self._run = run
        self._pace = Pace()
        self._counted: set[Repetition] | None = None

    @property
    def evaluations(self) -> int:
        return self._pace.evaluations

    def read(self, state: State, running: Sequence[Started], now: float) -> Progress:
        found = self._run.read(state, running, now)
        recorded = [state.confirmations[key] for key in self._wanted if key in state.confirmations]
        left = missing(state, self._wanted)
        self._count(state, recorded)
        spent, more = (_cost(state, keys) for keys in ((fact.key for fact in recorded), left))
        cells = Counter((_packed(each), each[2]) for each in left)
        return replace(
            found,
            evaluations=len(recorded),
            total_evaluations=len(self._wanted),
            failed=sum(fact.loss is None for fact in recorded),
            spent=as_number(spent),
            left=as_number(more),
            total=as_number(spent + more),
            running=tuple(map(_unpacked, found.running)),
            seconds_left=self._pace.seconds_left(cells, running, found.workers, now),
            done=not left,
            confirming=True,
        )

    def _count(self, state: State, recorded: Sequence[Confirmed]) -> None:
        """Let new results set the pace. Those of the first reading are of earlier calls."""
        if self._counted is None:
            schedule = state.schedule
            self._pace.charges = [float(schedule.charge(rung)) for rung in range(schedule.top + 1)]
            self._counted = {fact.key for fact in recorded}
        for fact in recorded:
            if fact.key not in self._counted:
                self._counted.add(fact.key)
                self._pace.add(fact.rung, fact.seconds)


def _cost(state: State, keys: Iterable[Repetition]) -> Fraction:
    """What repetitions cost, each at its full budget."""
    rungs = Counter(rung for _, _, rung, _ in keys)
    costs = (count * state.schedule.charge(rung) for rung, count in rungs.items())
    return sum(costs, Fraction(0))


def _unpacked(running: RunningEvaluation) -> RunningEvaluation:
    repetition, bracket = divmod(running.bracket, PER_REPETITION)
    return replace(running, bracket=bracket, repetition=repetition)


def _packed(found: Repetition) -> int:
    """The bracket of the job that runs a repetition."""
    return found[0] + PER_REPETITION * found[3]


def _repetition(key: JobKey) -> Repetition:
    """The repetition that a job stands for."""
    repetition, bracket = divmod(key[0], PER_REPETITION)
    return bracket, key[1], key[2], repetition
