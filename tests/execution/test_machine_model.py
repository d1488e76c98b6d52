"""A driver, workers that misbehave on purpose, crashes and restarts, against a simple model."""

from __future__ import annotations

import random
import shutil
import tempfile
import warnings
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

import deepband
import oracle
from adversary import LOSS, Adversary, run_with
from deepband import FailedEvaluationsWarning, InputError, Job, JobError, Study, UnfinishedError
from deepband.analysis import export
from deepband.core.facts import JobKey, Outcome
from deepband.core.records import Attempt
from deepband.core.strategies import StrategyName
from deepband.execution.executors.base import Executor
from deepband.execution.limits import Limits
from deepband.execution.outbox import Outbox


class Machine(RuleBasedStateMachine):
    """The model: what was reported, and what the oracle says that a run evaluates."""

    def __init__(self) -> None:
        super().__init__()
        self.folder = Path(tempfile.mkdtemp())
        self.path = self.folder / "a.study"
        self.study = deepband.open_study(self.path, space={"x": (0.0, 1.0)}, max_budget=4, eta=2)
        self.hand: dict[JobKey, Job] = {}
        self.reported: dict[JobKey, object] = {}
        self.runs: list[tuple[str | None, int]] = [(None, 2)]
        """Each with its top rung."""

    def teardown(self) -> None:
        self.study.close()
        shutil.rmtree(self.folder)

    def result(self, job: Job) -> object:
        return LOSS(job)

    @rule(data=st.data())
    def ask(self, data: st.DataObject) -> None:
        jobs = self.study.ask_all() if data.draw(st.booleans()) else [self.study.ask()]
        for job in jobs:
            if job is not None:
                assert job.key not in self.hand
                assert job.key not in self.reported
                self.hand[job.key] = job

    @precondition(lambda self: self.hand)
    @rule(data=st.data())
    def run_some(self, data: st.DataObject) -> None:
        keys = data.draw(st.lists(st.sampled_from(sorted(self.hand)), min_size=1, unique=True))
        self.study.tell_all([(self.hand[key], self.result(self.hand[key])) for key in keys])
        for key in keys:
            self.reported[key] = self.result(self.hand.pop(key))

    @precondition(lambda self: self.reported)
    @rule(data=st.data())
    def duplicate_result(self, data: st.DataObject) -> None:
        bracket, index, rung = data.draw(st.sampled_from(sorted(self.reported)))
        try:
            self.study.tell(Job(bracket, index, rung, 1, {}), 123.0)
        except JobError:
            return
        raise AssertionError("a second result was taken")

    @precondition(lambda self: self.hand)
    @rule(data=st.data())
    def worker_death(self, data: st.DataObject) -> None:
        key = data.draw(st.sampled_from(sorted(self.hand)))
        self.study.release(self.hand.pop(key))

    @rule()
    def crash_and_restart(self) -> None:
        """The driver dies: nothing is closed properly, and the kernel releases the lock."""
        self.study.session.storage.close()
        self.study = deepband.open_study(self.path)
        self.hand.clear()

    @precondition(lambda self: self.hand)
    @rule(data=st.data())
    def late_result(self, data: st.DataObject) -> None:
        """The driver dies, a worker writes its result to the outbox, the next driver records it."""
        keys = data.draw(st.lists(st.sampled_from(sorted(self.hand)), min_size=1, unique=True))
        jobs = [self.hand[key] for key in keys]
        self.crash_and_restart()
        outbox = Outbox(self.study.session.files)
        outbox.make()
        for job in jobs:
            with outbox.hold([job.key], "late", None) as held:
                value = self.result(job)
                failure = Outcome(None, "failed: x")
                outcome = Outcome(value) if isinstance(value, float) else failure
                held.put([Attempt(job, outcome)])
            self.reported[job.key] = value
        with warnings.catch_warnings():  # it may be a failure
            warnings.simplefilter("ignore", FailedEvaluationsWarning)
            self.study.optimize(lambda config, budget: 1.0, max_cost=0)
        assert outbox.waiting() == []

    @rule(seed=st.integers(0), cost=st.integers(0, 12))
    def run_with_an_adversary(self, seed: int, cost: int) -> None:
        """A loop whose workers are lost and late; it stops at a limit, somewhere."""
        for key in list(self.hand):
            self.study.release(self.hand.pop(key))
        run_with(Adversary(random.Random(seed), 3, 0.3), self.study, 10**6, Limits(max_cost=cost))
        for each in self.study.evaluations:
            key = each.bracket, each.index, each.rung
            self.reported.setdefault(key, self.result(Job(*key, 0, {})))

    @precondition(lambda self: self.runs[-1][1] < 5)
    @rule(strategy=st.sampled_from([*oracle.PAPER, "frugal"]))
    def deepen(self, strategy: StrategyName) -> None:
        try:
            self.study.deepen(strategy)
        except UnfinishedError:
            assert not self.study.done
            return
        except InputError:
            top = self.study.session.state.schedule.top
            assert all(each.loss is None for each in self.study.evaluations if each.rung == top)
            return
        self.runs.append((strategy, self.runs[-1][1] + 1))

    @precondition(lambda self: self.study.done)
    @rule(strategy=st.sampled_from(oracle.PAPER))
    def fill(self, strategy: StrategyName) -> None:
        """Only if the last run was frugal."""
        self.study.deepen(strategy, to=self.study.max_budget)
        last, top = self.runs[-1]
        if last == "frugal":
            self.runs.append((strategy, top))
        assert len(self.study.runs) == len(self.runs)

    @invariant()
    def what_is_known_is_what_was_told(self) -> None:
        known = {
            (each.bracket, each.index, each.rung): each.loss for each in self.study.evaluations
        }
        losses = {
            key: value if isinstance(value, float) else None for key, value in self.reported.items()
        }
        assert known == losses

    @invariant()
    def what_is_open_is_what_the_oracle_says(self) -> None:
        """A finished run has evaluated exactly what the definition says."""
        if not self.study.done:
            return

        def loss(bracket: int, index: int, rung: int) -> float | None:
            value = self.reported.get((bracket, index, rung))
            return value if isinstance(value, float) else None

        seen: oracle.Cells = {}
        for strategy, top in self.runs:
            oracle.run(2, top, strategy, seen, loss)
        assert {(b, i, k) for (b, k), indices in seen.items() for i in indices} == set(
            self.reported
        )


def two_runs(executor: Executor, retries: int) -> Study:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9)
    run_with(executor, study, retries)
    study.deepen("preserving")
    run_with(executor, study, retries)
    return study


@given(st.integers(0), st.integers(1, 32), st.sampled_from([0.0, 0.2, 0.6]))
def test_an_adversary_changes_nothing(seed: int, slots: int, losing: float) -> None:
    calm = two_runs(Adversary(random.Random(0), 1, 0.0), retries=0)
    wild = two_runs(Adversary(random.Random(seed), slots, losing), retries=10**6)
    assert list(export.canonical(wild.session.state)) == list(export.canonical(calm.session.state))


@given(st.integers(0), st.integers(0, 3))
def test_workers_that_are_always_lost_fail_after_their_retries(seed: int, retries: int) -> None:
    study = two_runs(Adversary(random.Random(seed), 4, 1.0), retries)
    assert {each.error for each in study.evaluations} == {"WorkerDied: on purpose"}
    assert study.done


TestMachine = Machine.TestCase
TestMachine.settings = settings(
    max_examples=min(40, 2 * settings().max_examples), stateful_step_count=30, deadline=None
)
