"""Equal configs that share results: which ones do is a function of the facts, whatever the order in
which jobs finish, and nothing else of the study changes."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable
from itertools import groupby
from pathlib import Path
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import deepband
from cases import MOST, Case, cases, play
from deepband import Evaluation, Job, Study
from deepband.analysis.export import canonical
from deepband.core.facts import evaluated_job, is_shared
from deepband.core.shared_results import identity
from driving import finish, wait_until
from preloaded import Process

SMALL = {"kind": ["a", "b", "c"], "size": (1, 2)}
"""Six configs."""


def open_small(place: Path | None = None, **settings: Any) -> Study:
    settings = {"space": SMALL, "max_budget": 9, "reuse_identical": True, **settings}
    return deepband.open_study(place, **settings)


def deterministic(job: Job) -> object:
    """A loss that depends on the config and the budget alone; one config always fails."""
    config, budget = job.config, job.budget
    if config == {"kind": "c", "size": 2}:
        return RuntimeError("too large")
    return random.Random(f"{config} {budget}").random()


def flaky(job: Job) -> object:
    """The same with failures that depend on the job."""
    failed = random.Random(str(job.key)).random() < 0.4
    return RuntimeError("unlucky") if failed else deterministic(job)


def of(evaluation: Evaluation) -> tuple[int, int]:
    return evaluation.bracket, evaluation.index


def named_in(origin: str) -> tuple[int, int]:
    """The place that an origin names."""
    bracket, index = origin.removeprefix("same as (").removesuffix(")").split(", ")
    return int(bracket), int(index)


def exports(study: Study) -> list[str]:
    """Everything but times and checkpoints."""
    drop = [each._replace(seconds=None) for each in study.evaluations]
    return [*canonical(study.session.state), *map(repr, drop), *map(str, study.explain(0, 0))]


def test_equal_configs_are_evaluated_once_on_a_rung_of_a_bracket() -> None:
    study = open_small()
    jobs = finish(study, lambda job: job.config["size"] / job.budget)
    cells = [(job.bracket, job.rung, str(job.config)) for job in jobs]
    assert len(cells) == len(set(cells))
    assert len(jobs) < len(study.evaluations) == 22
    for each in study.evaluations:
        if each.origin is not None:
            found = {of(other): other for other in study.evaluations if other.rung == each.rung}
            source = found[named_in(each.origin)]
            assert source.origin is None
            assert source.bracket == each.bracket
            assert source.index < each.index
            assert (source.config, source.loss) == (each.config, each.loss)
            assert each.seconds is None


def test_shared_results_cost_nothing() -> None:
    study = open_small()
    jobs = finish(study, deterministic)
    (run,) = study.runs
    assert run.evaluations == len(jobs)
    assert run.added == 22 - len(jobs) > 0
    assert run.cost == sum(job.budget for job in jobs)


def test_by_default_two_equal_configs_are_two_configs() -> None:
    study = open_small(reuse_identical=None)
    assert len(finish(study, deterministic)) == 22
    assert {each.origin for each in study.evaluations} == {None}


def test_metrics_are_shared_too() -> None:
    study = open_small()
    finish(study, lambda job: {"loss": 1.0, "accuracy": job.config["size"]})
    assert all(each.metrics == {"accuracy": each.config["size"]} for each in study.evaluations)


def test_a_failure_is_not_shared() -> None:
    """The next equal config is evaluated instead, until one has a loss."""
    study = open_small(max_budget=27, brackets=1)
    jobs = {job.key for job in finish(study, flaky)}

    def group_of(each: Evaluation) -> str:
        return f"{each.bracket} {each.rung} {each.config}"

    for _, same in groupby(sorted(study.evaluations, key=group_of), key=group_of):
        group = sorted(same, key=lambda each: each.index)
        losses = [each.loss for each in group]
        first = next((i for i, loss in enumerate(losses) if loss is not None), len(group))
        assert [each[:3] in jobs for each in group] == [i <= first for i in range(len(group))]
        assert all(is_shared(each.origin) for each in group[first + 1 :])
    assert study.failures()


def test_an_earlier_run_is_shared_with_every_bracket() -> None:
    study = open_small()
    finish(study, deterministic)
    known = {(each.rung, str(each.config)) for each in study.evaluations if each.loss is not None}
    study.widen(to=5)
    jobs = finish(study, deterministic)
    assert all((job.rung, str(job.config)) not in known for job in jobs)
    crossed = [
        each
        for each in study.evaluations
        if each.origin and each.run == 1 and named_in(each.origin)[0] != each.bracket
    ]
    assert crossed
    assert all(study.evaluations and each.loss is not None for each in crossed)


def small(case: Case, reuse: bool, **settings: Any) -> Study:
    return case.open(space=SMALL, reuse_identical=reuse, **settings)


Orders = st.randoms(use_true_random=False)


@given(cases(), Orders, st.sampled_from([deterministic, flaky]))
def test_the_order_of_results_does_not_matter(
    case: Case, order: random.Random, objective: Callable[[Job], object]
) -> None:
    straight, shuffled = small(case, True), small(case, True)
    runs = played(case, straight, objective)
    others = played(case, shuffled, objective, order)
    assert [sorted(job.key for job in run) for run in runs] == [
        sorted(job.key for job in run) for run in others
    ]
    assert exports(straight) == exports(shuffled)


@given(cases())
def test_losses_are_those_of_a_study_without_it(case: Case) -> None:
    """If the objective is deterministic: the same configs have the same losses on the same rungs,
    and at most as much is evaluated."""
    with_reuse, without = small(case, True), small(case, False)
    runs = played(case, with_reuse, deterministic)
    others = played(case, without, deterministic)
    for run, other in zip(runs, others, strict=True):
        assert {job.key for job in run} <= {job.key for job in other}
    assert list(canonical(with_reuse.session.state)) == list(canonical(without.session.state))
    cost = sum(run.cost for run in with_reuse.runs)
    assert cost <= sum(run.cost for run in without.runs)


@given(cases())
def test_quotes_are_upper_bounds(case: Case) -> None:
    study = small(case, True)
    played(case, study, deterministic)
    deeper = study.session.state.schedule.extended(levels=1)
    assume(deeper.evaluations <= 4 * MOST)
    quote = study.quote("efficient")
    study.deepen("efficient")
    plan = study.plan()
    finish(study, deterministic)
    run = study.runs[-1]
    assert quote.at_most
    assert not quote.exact
    assert quote.cost.low == 0
    assert run.cost <= quote.cost.high
    assert run.cost_resumed <= quote.cost_resumed.high
    assert run.evaluations <= quote.evaluations_new[1]
    assert run.cost <= plan.cost
    assert "at most" in str(quote)
    assert "at most" in str(plan)


def played(
    case: Case,
    study: Study,
    objective: Callable[[Job], object],
    order: random.Random | None = None,
) -> list[list[Job]]:
    """The jobs of each run of a case with another objective."""

    class Played(Case):
        @property
        def objective(self) -> Callable[[Job], object]:
            return objective

    values = {name: getattr(case, name) for name in Case.__dataclass_fields__}
    return play(Played(**values), study, order)


@pytest.mark.parametrize(
    "sampler",
    ["uniform", *(pytest.param(name, marks=pytest.mark.heavy) for name in ("tpe", "prior"))],
)
def test_any_number_of_workers_comes_to_the_same(tmp_path: Path, sampler: str) -> None:
    found = []
    for workers in (1, 3):
        place = tmp_path / f"{workers}.study"
        with open_small(place, max_budget=27, sampler=sampler, parallel=3) as study:
            study.optimize(objective, workers=workers, progress=False)
            study.deepen("efficient")
            study.optimize(objective, workers=workers, progress=False)
            assert any(is_shared(each.origin) for each in study.evaluations)
            found.append(exports(study))
        with deepband.open_study(place) as again:
            assert again.done
            assert exports(again) == found[-1]
    assert found[0] == found[1]


def objective(config: dict[str, Any], budget: float) -> float:
    return random.Random(f"{config} {budget}").random()


@given(cases(), Orders)
def test_processes_that_die_come_to_the_same(case: Case, order: random.Random) -> None:
    """At any commit: also before what is due to be shared is recorded."""
    undisturbed = small(case, True)
    finish(undisturbed, flaky)
    study = small(case, True)
    while not study.done:
        jobs = study.ask_all()
        order.shuffle(jobs)
        for job in jobs[: order.randint(1, max(1, len(jobs)))]:
            study.tell(job, flaky(job))
        facts = list(study.session.storage.load())
        while facts and is_shared(getattr(facts[-1], "origin", None)) and order.random() < 0.5:
            facts.pop()
        study = reopened(facts)
    assert exports(study) == exports(undisturbed)


def reopened(facts: list[Any]) -> Study:
    """A study with these facts, in another process."""
    from deepband.storage import MemoryStorage
    from deepband.study.settings import reopen

    return reopen(MemoryStorage(facts))


DRIVER = """
import os, sys, time
import deepband

def train(config, budget):
    with open(sys.argv[2], "a") as ledger:
        ledger.write("began\\n")
    while os.path.exists(sys.argv[2] + ".hold") and len(open(sys.argv[2]).readlines()) > 20:
        time.sleep(0.01)
    return config["size"] / budget + (config["kind"] == "b")

space = {"kind": ["a", "b", "c"], "size": (1, 2)}
with deepband.open_study(
    sys.argv[1], space=space, max_budget=27, reuse_identical=True
) as study:
    study.optimize(train, workers=2)
    study.deepen("efficient")
    study.optimize(train, workers=2)
"""


def test_a_killed_driver_comes_to_the_same(tmp_path: Path) -> None:
    place, ledger = tmp_path / "a.study", tmp_path / "ledger"
    hold = tmp_path / "ledger.hold"
    hold.touch()
    command = ["-c", DRIVER, place, ledger]
    with Process(command, start_new_session=True) as driver:
        wait_until(lambda: ledger.exists() and len(ledger.read_text().split()) > 20)
        driver.kill()
    hold.unlink()
    assert Process(command).wait() == 0
    other = tmp_path / "b.study"
    assert Process(["-c", DRIVER, other, tmp_path / "undisturbed"]).wait() == 0
    with deepband.open_study(place) as study, deepband.open_study(other) as undisturbed:
        assert exports(study) == exports(undisturbed)
        assert len(ledger.read_text().split()) <= 2 + sum(run.evaluations for run in study.runs)


def test_what_a_killed_process_left_unshared_is_shared_before_an_extension() -> None:
    study = open_small(space={"kind": ["a"]})
    *others, last = study.ask_all()
    assert last.key == (2, 0, 2)
    study.tell_all([(job, 1.0) for job in others])
    while job := study.ask():
        study.tell(job, 1.0)
    study.tell(last, 1.0)
    assert study.done
    facts = list(study.session.storage.load())
    while is_shared(getattr(facts[-1], "origin", None)):
        facts.pop()
    again = reopened(facts)
    assert not again.done
    again.deepen()
    assert len(again.runs) == 2


def test_a_lost_file_loses_nothing(tmp_path: Path) -> None:
    expected = open_small()
    finish(expected, deterministic)
    study = open_small(tmp_path / "a.study")
    jobs = study.ask_all()
    (tmp_path / "a.study").unlink()
    for job in jobs:
        with pytest.raises(deepband.GoneError):
            study.tell(job, deterministic(job))
    study.save_as(tmp_path / "b.study")
    finish(study, deterministic)
    assert exports(study) == exports(expected)


def test_failures_that_are_repeated() -> None:
    study = open_small(brackets=1)
    jobs = study.ask_all()
    study.tell_all([(job, RuntimeError("all fail")) for job in jobs])
    assert study.retry_failed() == len(jobs)
    finish(study, lambda job: 1.0)
    assert study.done
    assert {each.loss for each in study.evaluations} == {1.0}


def test_imported_results_are_shared_with_equal_configs() -> None:
    study = open_small(brackets=1)
    study.add_evaluation({"kind": "a", "size": 1}, 1, 0.125, origin="a paper")
    jobs = study.ask_all()
    assert {"kind": "a", "size": 1} not in [job.config for job in jobs]
    study.tell_all([(job, 1.0) for job in jobs])
    finish(study, lambda job: 1.0)
    first = [each for each in study.evaluations if each.rung == 0]
    same = [each for each in first if each.config == {"kind": "a", "size": 1}]
    assert [each.origin for each in same] == ["a paper", *["same as (0, 0)"] * (len(same) - 1)]


def test_enqueued_configs_share_too() -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9, reuse_identical=True)
    for _ in range(3):
        study.enqueue({"x": 0.5})
    jobs = study.ask_all()
    assert sum(job.config == {"x": 0.5} for job in jobs) == 1
    assert len(jobs) == 17 - 2


def test_a_job_that_waits_is_offered_when_the_first_one_failed() -> None:
    study = deepband.open_study(
        space={"x": (0.0, 1.0)}, max_budget=3, brackets=1, reuse_identical=True
    )
    for _ in range(3):
        study.enqueue({"x": 0.5})
    for index in range(2):
        job = study.ask()
        assert job
        assert job.key == (0, index, 0)
        assert study.ask() is None
        study.tell(job, RuntimeError("failed"))
    job = study.ask()
    assert job
    study.release(job)
    assert study.ask() == job
    study.tell(job, 1.0)
    assert [each.origin for each in study.evaluations] == [None] * 3


def test_the_setting_is_stored_and_compared(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    open_small(place).close()
    with deepband.open_study(place) as study:
        assert study.session.state.created.reuse_identical
        assert study.copy().session.state.created.reuse_identical
    with pytest.raises(deepband.InputError, match="reuse_identical"):
        deepband.open_study(place, reuse_identical=False)
    with pytest.raises(deepband.InputError, match="reuse_identical"):
        deepband.open_study(space=SMALL, max_budget=9, reuse_identical="yes")  # type: ignore[arg-type]


def test_work_ahead_is_refused() -> None:
    with pytest.raises(deepband.InputError, match="leave out `ahead`"):
        open_small().optimize(objective, workers=2, ahead=True, progress=False)


def test_values_are_equal_only_with_the_same_type() -> None:
    values = [1, 1.0, True, "1", None, 0.0, -0.0, [1], [1.0], {"a": 1}, {"a": 2}, [[1]], []]
    counted = Counter(map(identity, values))
    assert set(counted.values()) == {1}
    assert identity([1, {"a": (2, 3)}]) == identity((1, {"a": [2, 3]}))
    thing = object()
    assert identity(thing) == identity(thing) != identity(object())


def test_copies_share_from_there_on() -> None:
    study = open_small()
    study.tell_all([(job, deterministic(job)) for job in study.ask_all()[:3]])
    copy = study.copy()
    finish(copy, deterministic)
    expected = open_small()
    finish(expected, deterministic)
    assert exports(copy) == exports(expected)


def test_a_small_space_is_said_at_the_start_of_a_run() -> None:
    study = open_small(reuse_identical=False)
    with pytest.warns(deepband.SmallSpaceWarning, match="at most 6 different configs") as caught:
        study.optimize(objective, progress=False)
    assert caught[0].filename == __file__
    study.optimize(objective, progress=False)  # nothing is left to evaluate
    with pytest.warns(deepband.SmallSpaceWarning, match="reuse_identical"):
        study.auto_extend(objective, max_cost=10_000, max_budget_limit=27, progress=False)
    open_small().optimize(objective, progress=False)
    open_small().plan()


def test_the_best_has_a_checkpoint_also_if_it_was_shared(tmp_path: Path) -> None:
    def train(config: dict[str, Any], budget: int, context: deepband.Context) -> float:
        context.save(step=budget)
        return random.Random(str(config)).random() + 1 / budget

    shared, space = 0, {"k": ["a", "b", "c"], "n": (1, 3)}
    for seed in range(3):  # with the first one, a shared result becomes the best
        with open_small(tmp_path / f"{seed}.study", seed=seed, space=space) as study:
            study.optimize(train)
            for step in (study.deepen, study.widen):
                step("preserving")
                study.optimize(train)
                for best in (study.best, study.best_at()):
                    shared += is_shared(best.origin)
                    assert deepband.load_checkpoint(best.checkpoint) == {"step": best.budget}
    assert shared


def test_an_origin_with_numbers_that_no_config_has_is_a_text_like_others() -> None:
    """A file from elsewhere may contain any origin, and Python refuses to read such numbers."""
    origin = f"same as ({'9' * 5000}, 0)"
    assert not is_shared(origin)
    assert evaluated_job((0, 1, 2), origin) == (0, 1, 2)
    assert evaluated_job((0, 1, 2), "same as (3, 450)") == (3, 450, 2)
