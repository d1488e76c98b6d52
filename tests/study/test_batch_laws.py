"""Batches change how many configs one call evaluates, and nothing that a study decides: for every
schedule, sampler, executor and limit, and whatever fails."""

from __future__ import annotations

import math
import random
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from fractions import Fraction
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import deepband
from cases import Case, all_failed, cases
from curves import settling, told
from deepband import BatchContext, Evaluation, InputError, Job, Study
from deepband.analysis.export import canonical
from deepband.core.facts import Config
from deepband.core.strategies import FRUGAL
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.space.search_space import Space
from driving import open_study

pytestmark = [
    pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning"),
    pytest.mark.filterwarnings("ignore::deepband.IdleWorkersWarning"),
]

LARGEST = 60
"""Evaluations of the last run of a case."""
SMALL: dict[str, Any] = {"kind": ["a", "b", "c"], "size": (1, 2)}
"""Six configs."""


# What is evaluated


class PoisonError(RuntimeError):
    """Raised by a call that one of its configs ends."""


@dataclass(frozen=True)
class Truth:
    """The result of every evaluation, which depends on the config and the budget only."""

    seed: int = 0
    failures: float = 0.0
    """The share of evaluations that fail."""
    poison: float = 0.0
    """The share of configs that end the call that evaluates them."""
    ties: bool = False
    maximize: bool = False

    def single(self, config: Config, budget: float) -> object:
        """An objective of one config."""
        if self.is_poison(config):
            raise PoisonError("on purpose")
        return self.result(config, budget)

    def is_poison(self, config: Config) -> bool:
        return self.draw("poison", config).random() < self.poison

    def result(self, config: Config, budget: float) -> object:
        draw = self.draw("result", config, budget)
        if draw.random() < self.failures:
            return draw.choice(self.bad_results)
        number = float(draw.randrange(3)) if self.ties else draw.gauss(0, 1)
        name = "value" if self.maximize else "loss"
        return draw.choice([number, {name: number, "seen": draw.random()}])

    @property
    def bad_results(self) -> list[object]:
        infinite = [] if self.maximize else [math.inf]
        return [RuntimeError("failed"), MemoryError(), math.nan, *infinite]

    def draw(self, *about: object) -> random.Random:
        return random.Random(f"{self.seed} {about}")


truths = st.builds(
    Truth,
    seed=st.integers(0, 2**32),
    failures=st.sampled_from([0.0, 0.1, 0.6, 1.0]),
    poison=st.sampled_from([0.0, 0.0, 0.1, 0.4]),
    ties=st.booleans(),
    maximize=st.booleans(),
)


@dataclass
class Batch:
    """An objective of several configs with the same results. It notes how it is called."""

    truth: Truth
    memory: float = math.inf
    """How many configs it can evaluate in one call."""
    calls: list[tuple[float, list[Config]]] = field(default_factory=list)

    def __call__(self, configs: list[Config], budget: float) -> list[object]:
        self.note(configs, budget)
        if any(map(self.truth.is_poison, configs)):
            raise PoisonError("on purpose")
        return [self.truth.result(config, budget) for config in configs]

    def note(self, configs: list[Config], budget: float) -> None:
        self.calls.append((budget, [dict(config) for config in configs]))
        if len(configs) > self.memory:
            raise MemoryError

    @property
    def sizes(self) -> list[tuple[float, int]]:
        """The budget and the number of configs of each call."""
        return [(budget, len(configs)) for budget, configs in self.calls]


@dataclass
class Finishing(Batch):
    """The same, but some results are finished before the call ends, or is ended by a config."""

    def __call__(  # type: ignore[override]
        self, configs: list[Config], budget: float, contexts: list[BatchContext]
    ) -> list[object]:
        self.note(configs, budget)
        returned: list[object] = []
        for config, context in zip(configs, contexts, strict=True):
            if self.truth.is_poison(config):
                raise PoisonError("on purpose")
            result = self.truth.result(config, budget)
            if context.seed % 2:
                context.finish(result)
                result = "finished before"
            returned.append(result)
        return returned


# Where it is evaluated


@dataclass(frozen=True)
class Workers:
    """Where batches run."""

    kind: str
    count: int
    seed: int

    @contextmanager
    def executor(self) -> Iterator[Any]:
        if self.kind == "threads":
            with ThreadPoolExecutor(self.count) as pool:
                yield pool
        elif self.kind == "simulated":
            draw = random.Random(self.seed)
            yield SimulatedExecutor(self.count, lambda job: draw.paretovariate(0.7), self.seed)
        else:
            yield None


workers = st.builds(
    Workers,
    kind=st.sampled_from(["inline", "simulated", "threads"]),
    count=st.integers(1, 3),
    seed=st.integers(0, 1000),
)
limits = st.one_of(st.just(True), st.integers(1, 8))
memories = st.sampled_from([math.inf, math.inf, 1, 2, 3, 5])


@st.composite
def small_cases(draw: st.DrawFn) -> Case:
    """Cases whose first run is small; later steps that are too large are left out."""
    case = draw(cases())
    assume(case.schedule.evaluations <= LARGEST)
    return case


Run = Callable[[Study], None]


def played(case: Case, study: Study, run: Run) -> list[str]:
    """The canonical export after all steps of a case that are possible and not too large."""
    run(study)
    for step in case.steps:
        state = study.session.state
        too_large = step.schedule(state.schedule).evaluations > LARGEST
        refused = step.strategy == FRUGAL and all_failed(study)
        if too_large or refused or not (step.grows or state.run.frugal):
            continue
        study.extend(step.strategy, **step.target(state.schedule))
        run(study)
    assert study.done
    return list(canonical(study.session.state))


def one_at_a_time(truth: Truth) -> Run:
    return lambda study: study.optimize(truth.single, first_failures=0)


def in_batches(batch: Batch, limit: int | bool, where: Workers, **more: Any) -> Run:
    def run(study: Study) -> None:
        with where.executor() as executor:
            study.optimize(batch, batch=limit, executor=executor, first_failures=0, **more)

    return run


class Learning:
    """A sampler whose configs depend on everything that it is shown."""

    learns = True

    def draw(
        self,
        space: Space,
        observations: Sequence[Evaluation],
        bracket: int,
        indices: Sequence[int],
        seed: int,
        pending: Sequence[Config] = (),
    ) -> list[Config]:
        seen = [(*each[:3], each.loss) for each in observations]
        generator = random.Random(f"{seed} {bracket} {indices[0]} {seen} {pending}")
        return [{"x": generator.random()} for _ in indices]


# The laws


@given(small_cases(), truths, workers, limits, memories)
def test_batches_give_the_study_of_single_evaluations(
    case: Case, truth: Truth, where: Workers, limit: int | bool, memory: float
) -> None:
    options: dict[str, Any] = {"maximize": truth.maximize}
    expected = played(case, case.open(**options), one_at_a_time(truth))
    batch = Batch(truth, memory)
    assert played(case, case.open(**options), in_batches(batch, limit, where)) == expected


@given(
    st.sampled_from([1, 3]),
    st.sampled_from(["preserving", "efficient", "discarding", "frugal"]),
    truths,
    workers,
    limits,
    memories,
)
def test_results_that_are_finished_early_change_nothing(
    max_budget: int, strategy: Any, truth: Truth, where: Workers, limit: int | bool, memory: float
) -> None:
    """Also if the call raises later."""
    studies = [open_study(max_budget=max_budget, maximize=truth.maximize) for _ in range(2)]
    runs = one_at_a_time(truth), in_batches(Finishing(truth, memory), limit, where)
    for study, run in zip(studies, runs, strict=True):
        run(study)
        if not all_failed(study):
            study.deepen(strategy)
            run(study)
        assert study.done
    assert [*canonical(studies[0].session.state)] == [*canonical(studies[1].session.state)]


@given(small_cases(), truths, workers, limits, st.sampled_from([1, 2, 3, 8]))
def test_a_sampler_that_learns_samples_the_same_configs(
    case: Case, truth: Truth, where: Workers, limit: int | bool, parallel: int
) -> None:
    options: dict[str, Any] = {"sampler": Learning(), "parallel": parallel}
    options["maximize"] = truth.maximize
    expected = played(case, case.open(**options), one_at_a_time(truth))
    batch = in_batches(Batch(truth), limit, where)
    assert played(case, case.open(**options), batch) == expected


@pytest.mark.parametrize("sampler", ["prior", pytest.param("gp", marks=pytest.mark.heavy)])
def test_a_sampler_of_deepband_samples_the_same_configs(sampler: str) -> None:
    truth, found = Truth(3, failures=0.1), list[list[str]]()
    everywhere = Workers("inline", 1, 0), Workers("simulated", 2, 1), Workers("threads", 3, 2)
    for run in (one_at_a_time(truth), *(in_batches(Batch(truth), True, on) for on in everywhere)):
        study = open_study(sampler=sampler, parallel=4)
        run(study)
        study.deepen("efficient")
        run(study)
        found.append(list(canonical(study.session.state)))
    assert found[1:] == found[:1] * 3


@given(truths, workers, limits, st.sampled_from([3, 9]), st.integers(1, 2))
def test_equal_configs_share_the_same_results(
    truth: Truth, where: Workers, limit: int | bool, max_budget: int, width: int
) -> None:
    options: dict[str, Any] = {"space": SMALL, "max_budget": max_budget, "width": width}
    options |= {"reuse_identical": True, "maximize": truth.maximize}
    alone, study = open_study(**options), open_study(**options)
    one_at_a_time(truth)(alone)
    batch = Batch(truth)
    in_batches(batch, limit, where)(study)
    assert [*canonical(study.session.state)] == [*canonical(alone.session.state)]
    assert [each.origin for each in study.evaluations] == [e.origin for e in alone.evaluations]


@given(truths, st.integers(2, 9), limits, st.sampled_from(["preserving", "efficient"]))
def test_work_ahead_in_batches_is_taken_over(
    truth: Truth, count: int, limit: int | bool, strategy: Any
) -> None:
    alone, study = (open_study(max_budget=3, maximize=truth.maximize) for _ in range(2))
    batch = Batch(truth)

    def ahead(study: Study) -> None:
        simulated = SimulatedExecutor(count, lambda job: 1e6 if job.budget == 3 else job.budget)
        study.optimize(batch, batch=limit, executor=simulated, ahead=True, first_failures=0)

    for each, run in ((alone, one_at_a_time(truth)), (study, ahead)):
        run(each)
        each.deepen(strategy)
        run(each)
    assert [*canonical(study.session.state)] == [*canonical(alone.session.state)]


def test_idle_workers_evaluate_batches_ahead() -> None:
    study, batch = open_study(), Batch(Truth())
    simulated = SimulatedExecutor(7, lambda job: 1e6 if job.budget == 9 else job.budget)
    study.optimize(batch, batch=True, executor=simulated, ahead=True)
    assert study.done
    assert study.session.state.ahead.results


@given(
    small_cases(),
    truths,
    workers,
    limits,
    memories,
    st.fractions(1, 3, max_denominator=12),
)
def test_a_limit_to_the_cost_holds_and_is_used(
    case: Case,
    truth: Truth,
    where: Workers,
    limit: int | bool,
    memory: float,
    times: Fraction,
) -> None:
    """A config that is run again in a smaller batch is paid for once."""
    case = Case(**{**vars(case), "steps": ()})
    alone, study = (case.open(maximize=truth.maximize) for _ in range(2))
    largest = case.schedule.max_budget
    one_at_a_time(truth)(alone)
    batch, spent = Batch(truth, memory), Fraction(0)
    while not study.done:
        in_batches(batch, limit, where, max_cost=times * largest)(study)
        cost = study.runs[-1].cost - spent
        assert cost <= times * largest
        assert study.done or cost > (times - 1) * largest
        spent += cost
    assert [*canonical(study.session.state)] == [*canonical(alone.session.state)]


@given(small_cases(), truths, st.one_of(st.none(), st.integers(1, 8)))
def test_a_program_that_asks_for_batches_gets_the_same_study(
    case: Case, truth: Truth, limit: int | None
) -> None:
    def run(study: Study) -> None:
        while not study.done:
            ready = Counter(job.budget for job in study.copy().ask_all())
            jobs = study.ask_batch(limit)
            assert {job.budget for job in jobs} == {min(ready)}
            assert len(jobs) == min(limit or math.inf, ready[min(ready)])
            study.tell_all([(job, answer(truth, job)) for job in jobs])

    options: dict[str, Any] = {"maximize": truth.maximize}
    expected = played(case, case.open(**options), one_at_a_time(truth))
    assert played(case, case.open(**options), run) == expected


def answer(truth: Truth, job: Job) -> object:
    try:
        return truth.single(job.config, job.budget)
    except PoisonError as error:
        return error


@given(small_cases(), st.one_of(st.none(), st.integers(1, 8)))
def test_asking_for_batches_hands_out_every_job_once(case: Case, limit: int | None) -> None:
    study = case.open()
    ready = [job.key for job in study.copy().ask_all()]
    batches = list(iter(lambda: study.ask_batch(limit), []))
    assert sorted(job.key for jobs in batches for job in jobs) == sorted(ready)
    budgets = [jobs[0].budget for jobs in batches]
    assert budgets == sorted(budgets)
    assert study.ask() is None


@pytest.mark.parametrize("limit", [0, -1, 2.5, "8"])
def test_a_limit_to_what_is_asked_for_is_a_positive_whole_number(limit: Any) -> None:
    study = open_study()
    with pytest.raises(InputError, match="limit"):
        study.ask_batch(limit)
    assert len(study.ask_all()) == 17


# How jobs are grouped


@given(small_cases(), st.integers(0, 2**32))
def test_one_worker_evaluates_each_budget_of_a_run_in_one_call(case: Case, seed: int) -> None:
    batch = Batch(Truth(seed))
    runs: list[list[tuple[float, int]]] = []

    def run(study: Study) -> None:
        batch.calls.clear()
        study.optimize(batch, batch=True)
        runs.append(batch.sizes)

    study = case.open()
    played(case, study, run)
    for number, calls in enumerate(runs):
        found = Counter(each.budget for each in study.evaluations if each.run == number)
        assert calls == sorted(found.items())


@given(small_cases(), st.integers(0, 2**32), st.integers(1, 9))
def test_a_limit_splits_a_budget_into_as_few_calls_as_possible(
    case: Case, seed: int, limit: int
) -> None:
    batch = Batch(Truth(seed))
    study = case.open()
    study.optimize(batch, batch=limit)
    found = Counter(each.budget for each in study.evaluations)
    assert max(size for _, size in batch.sizes) <= limit
    calls = Counter(budget for budget, _ in batch.sizes)
    assert calls == {budget: math.ceil(count / limit) for budget, count in found.items()}
    budgets = [budget for budget, _ in batch.sizes]
    assert budgets == sorted(budgets)


@given(small_cases(), st.integers(2, 5), st.one_of(st.just(True), st.integers(1, 9)))
def test_workers_share_the_jobs_of_a_budget_evenly(
    case: Case, count: int, limit: int | bool
) -> None:
    """Those of the lowest budget; all take the same time, so the first calls end first."""
    study, batch = case.open(), Batch(Truth())
    jobs = study.copy().ask_batch()
    assume(len(jobs) >= count)
    study.optimize(batch, batch=limit, executor=SimulatedExecutor(count, lambda job: 1.0))
    first = batch.sizes[:count]
    assert {budget for budget, _ in first} == {jobs[0].budget}
    sizes = [size for _, size in first]
    most = math.inf if limit is True else limit
    assert sum(sizes) == min(len(jobs), count * most)
    assert max(sizes) <= most
    assert max(sizes) - min(sizes) <= 1


@given(small_cases(), workers, limits)
def test_nothing_is_evaluated_twice(case: Case, where: Workers, limit: int | bool) -> None:
    batch, study = Batch(Truth(case.seed)), case.open()
    played(case, study, in_batches(batch, limit, where))
    evaluated = [(config["x"], budget) for budget, configs in batch.calls for config in configs]
    recorded = [(each.config["x"], each.budget) for each in study.evaluations]
    assert sorted(evaluated) == sorted(recorded)


@given(small_cases(), truths, memories, limits)
def test_a_config_is_evaluated_again_only_in_a_smaller_batch(
    case: Case, truth: Truth, memory: float, limit: int | bool
) -> None:
    study, batch = case.open(maximize=truth.maximize), Batch(truth, memory)
    study.optimize(batch, batch=limit, first_failures=0)
    sizes: dict[tuple[float, float], list[int]] = {}
    for budget, configs in batch.calls:
        for config in configs:
            sizes.setdefault((config["x"], budget), []).append(len(configs))
    for found in sizes.values():
        assert all(later < earlier for earlier, later in pairwise(found))


# Other methods


def train(config: Config, budget: float, context: deepband.Context) -> float:
    """A loss that depends on the seed, too."""
    return float(config["x"]) + 1 / budget + random.Random(context.seed).random() / 10


def train_all(configs: list[Config], budget: float, contexts: list[BatchContext]) -> list[float]:
    return [train(config, budget, each) for config, each in zip(configs, contexts, strict=True)]


@given(workers, limits, st.integers(1, 4), st.integers(1, 4), st.one_of(st.none(), st.just(20)))
def test_repetitions_in_batches_are_those_of_single_evaluations(
    where: Workers, limit: int | bool, top: int, seeds: int, max_cost: int | None
) -> None:
    alone, study = open_study(max_budget=3), open_study(max_budget=3)
    alone.optimize(train)
    alone.confirm(train, top=top, seeds=seeds, max_cost=max_cost)
    study.optimize(train_all, batch=limit)
    with where.executor() as executor:
        found = study.confirm(
            train_all, top=top, seeds=seeds, max_cost=max_cost, batch=limit, executor=executor
        )
    assert found.configs == alone.confirmations.configs
    assert [*canonical(study.session.state)] == [*canonical(alone.session.state)]


def test_one_worker_evaluates_all_repetitions_in_one_call() -> None:
    calls: list[list[BatchContext]] = []

    def noted(configs: list[Config], budget: float, contexts: list[BatchContext]) -> list[float]:
        calls.append(contexts)
        return train_all(configs, budget, contexts)

    study = open_study()
    study.optimize(train)
    study.confirm(noted, top=3, seeds=5, batch=True)
    assert [len(contexts) for contexts in calls] == [15]
    assert {each.previous for each in calls[0]} == {None}
    assert len({each.seed for each in calls[0]}) == 15


@given(workers, limits)
def test_extending_automatically_in_batches_decides_the_same(
    where: Workers, limit: int | bool
) -> None:
    def settle(configs: list[Config], budget: float) -> list[float]:
        return [settling(config, budget) for config in configs]

    alone, study = open_study(max_budget=3), open_study(max_budget=3)
    reason = alone.auto_extend(settling, max_cost=130)
    assert len(alone.runs) > 1
    with where.executor() as executor:
        assert study.auto_extend(settle, max_cost=130, batch=limit, executor=executor) == reason
    assert told(study) == told(alone)
