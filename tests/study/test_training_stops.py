"""Training that is stopped early: which configs are is a function of the facts, whatever the order
in which jobs finish and however often the process dies."""

from __future__ import annotations

import math
import random
import sqlite3
from contextlib import closing
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from deepband import Context, InputError, Job, StorageError, Study
from deepband.analysis.export import canonical, jsonl, table
from deepband.core.evaluations import best_first
from deepband.core.facts import Outcome
from deepband.core.state import State
from deepband.execution.objective import Task, outcome_of
from deepband.storage.sqlite import SqliteStorage
from deepband.study.observers import history
from driving import finish

SPACE = {"x": (0.0, 1.0), "y": (0.0, 1.0)}
RISK = 0.4
pytestmark = pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning")


def loss_of(config: dict[str, float], step: float) -> float:
    """A loss whose order hardly changes with the budget."""
    return (config["x"] - 0.3) ** 2 + 0.1 * config["y"] + 0.2 / step


def train(config: dict[str, float], budget: float, context: Context) -> float:
    """Reports its loss after every unit of budget. Some configs fail."""
    loss = math.inf
    for step in range(int(context.previous_budget) + 1, int(budget) + 1):
        loss = loss_of(config, step)
        context.report(step, loss)
        if context.should_stop():
            return loss
    if config["x"] > 0.95:
        raise RuntimeError("too large")
    return loss


def train_all(
    configs: list[dict[str, float]], budget: float, contexts: list[deepband.BatchContext]
) -> list[float]:
    losses = []
    for config, context in zip(configs, contexts, strict=True):
        losses.append(train({**config, "x": min(config["x"], 0.95)}, budget, context))
        if config["y"] < 0.5:
            context.finish(losses[-1])
    return losses


def open_study(place: Path | None = None, **given: Any) -> Study:
    return deepband.open_study(place, **{"space": SPACE, "max_budget": 9, "seed": 2, **given})


def stopping(study: Study, risk: float | None = RISK, **given: Any) -> Study:
    study.optimize(train, stop_training=risk, progress=False, first_failures=0, **given)
    return study


def exported(study: Study) -> list[str]:
    return list(canonical(study.session.state))


def stopped_of(study: Study) -> list[deepband.Evaluation]:
    return [each for each in study.evaluations if each.stopped_after is not None]


@pytest.fixture(scope="module")
def deepened() -> Study:
    """A study in which training was stopped in both runs."""
    study = stopping(open_study())
    study.deepen("preserving")
    stopping(study)
    assert {each.run for each in stopped_of(study)} == {0, 1}
    return study


def test_without_a_risk_nothing_changes() -> None:
    plain = open_study()
    plain.optimize(train, progress=False, first_failures=0)
    for risk in (None, 0, 0.0):
        assert exported(stopping(open_study(), risk)) == exported(plain)
    assert not stopped_of(plain)
    assert "stopped" not in repr(plain.runs)
    assert "stopped_after" not in next(table(plain.session.state))
    assert "stopped_after" not in next(jsonl(plain.session.state))


def test_a_stopped_evaluation_is_flagged_and_charged_what_it_used(deepened: Study) -> None:
    state, found = deepened.session.state, stopped_of(deepened)
    for each in found:
        assert each.stopped_after is not None
        assert each.rung == each.bracket > 0
        assert each.loss == math.inf
        assert each.stopped_after in state.run.budgets[: each.rung]
        assert each.curve[-1] == (each.stopped_after, loss_of(each.config, each.stopped_after))
        assert each.checkpoint is None
        assert f"stopped after {each.stopped_after:.6g} with budget" in str(each)
    for run in deepened.runs:
        own = [each for each in found if each.run == run.run]
        unused = sum(each.budget - (each.stopped_after or 0) for each in own)
        everything = [each for each in deepened.evaluations if each.run == run.run]
        assert run.stopped_training == len(own)
        assert run.saved == unused
        assert run.cost == sum(each.budget for each in everything) - Fraction(unused)
    assert "stopped early" in repr(deepened.runs)
    assert "at most" in deepened.plan().total
    assert f"{len(found)} stopped early" in deepened._repr_html_() or found
    assert next(table(state)).split(",")[10] == "stopped_after"


def test_it_ranks_behind_what_was_trained_to_the_end_and_before_infinity() -> None:
    study = open_study()
    jobs = [job for job in study.ask_all() if job.bracket == 1]
    early = Outcome(math.inf, stopped_after=1.0)
    losses = None, math.inf, math.inf, 1e308, 0.0
    outcomes = [Outcome(loss, None if loss is not None else "an error") for loss in losses]
    study.session.record_outcomes(zip(jobs, [*outcomes[:2], early, *outcomes[3:]], strict=True))
    state = study.session.state
    order = best_first(state, state.results[1, 1].values())
    assert [each.index for each in order] == [4, 3, 2, 1, 0]
    assert state.run.arrived[1, 2] == {4}


def test_explain_names_what_was_stopped(deepened: Study) -> None:
    for each in stopped_of(deepened):
        verdicts = deepened.explain(each.bracket, each.index)
        text = f"training that was stopped after {each.stopped_after:.6g}"
        assert any(text in verdict.reason for verdict in verdicts)


@pytest.mark.parametrize("strategy", ["discarding", "preserving", "efficient", "frugal"])
def test_a_quote_is_an_upper_bound(deepened: Study, strategy: Any) -> None:
    study = deepened.copy()
    quote = study.quote(strategy)
    spent = sum(run.cost for run in study.runs)
    assert quote.cost.spent == spent
    assert quote.cost.low == 0
    assert "the most if nothing is stopped early or skipped" in str(quote)
    study.deepen(strategy)
    keys = {job.key for job in finish(study, lambda job: loss_of(job.config, job.budget))}
    assert not keys & {(each.bracket, each.index, each.rung) for each in deepened.evaluations}
    assert quote.cost.low <= study.runs[2].cost <= quote.cost.high
    if strategy == "efficient":
        assert study.runs[2].cost == quote.cost.high


def evaluated(study: Study, job: Job) -> Outcome:
    """The outcome of a job, by the limits that it has now."""
    session = study.session
    context = Context(seed=0, path=Path(), watch=session.watch(job))
    task = Task(job, context, session.state.criteria, keeps=False)
    try:
        outcome = outcome_of(task, train(job.config, job.budget, context))
    except RuntimeError:
        outcome = Outcome(None, "RuntimeError: too large")
    return outcome._replace(curve=tuple(context.reported) or None)


def run_in(order: random.Random, study: Study, **risks: float | None) -> None:
    """Run a study to its end, in any order and with any number of jobs at a time. The process dies
    now and then, with results that are not recorded."""
    while not study.done:
        hand: list[Job] = []
        with study.session.saving(**risks):
            for _ in range(order.randint(1, 6)):
                hand += study.ask_all(limit=order.randint(1, 4))
                order.shuffle(hand)
                count = order.randint(0, len(hand))
                pairs = [(job, evaluated(study, job)) for job in hand[:count]]
                study.session.record_outcomes(pairs)
                hand = hand[count:]
        for job in hand:
            study.release(job)


@given(
    seed=st.integers(0, 2**32),
    sampler=st.sampled_from(["uniform", "tpe"]),
    skip=st.sampled_from([None, 0.1]),
    stop=st.sampled_from([None, 0.2]),
)
@settings(max_examples=6, deadline=None)
def test_any_order_and_interruption_gives_the_same_study(
    seed: int, sampler: str, skip: float | None, stop: float | None
) -> None:
    given: dict[str, Any] = {"sampler": sampler, "parallel": 3, "seed": seed % 5}
    risks = {"skip": skip, "stop": stop, "stop_training": RISK}
    study, other = open_study(**given), open_study(**given)
    for each, order in ((study, random.Random(seed)), (other, random.Random(seed + 1))):
        run_in(order, each, **risks)
        each.deepen("preserving")
        run_in(order, each, **risks)
    assert exported(study) == exported(other)


@pytest.mark.parametrize("options", [{"workers": 2}, {"workers": 3, "timeout": 60}])
def test_any_number_of_workers_stops_the_same_training(
    deepened: Study, options: dict[str, Any]
) -> None:
    study = stopping(open_study(), **options)
    study.deepen("preserving")
    assert exported(stopping(study, **options)) == exported(deepened)


def test_batches_stop_training_config_by_config() -> None:
    one, other = open_study(), open_study()
    one.optimize(train_all, stop_training=RISK, batch=True, progress=False)
    other.optimize(train_all, stop_training=RISK, batch=2, workers=2, progress=False)
    assert stopped_of(one)
    assert exported(one) == exported(other)


def test_values_that_are_maximised_are_stopped_as_their_losses(deepened: Study) -> None:
    def train_value(config: dict[str, float], budget: float, context: Context) -> float:
        for step in range(1, int(budget) + 1):
            context.report(step, -loss_of(config, step))
            if context.should_stop():
                break
        return -loss_of(config, budget)

    def train_loss(config: dict[str, float], budget: float, context: Context) -> float:
        for step in range(1, int(budget) + 1):
            context.report(step, loss_of(config, step))
            if context.should_stop():
                break
        return loss_of(config, budget)

    values, losses = open_study(maximize=True), open_study()
    values.optimize(train_value, stop_training=RISK, progress=False)
    losses.optimize(train_loss, stop_training=RISK, progress=False)
    assert stopped_of(losses)
    assert exported(values) == exported(losses)


def test_divergence_stops_training_without_a_risk() -> None:
    def diverge(config: dict[str, float], budget: float, context: Context) -> float | None:
        context.report(0.5, 1.0)
        assert not context.should_stop()
        context.report(0.75, math.nan if config["x"] > 0.5 else 0.5)
        return None if context.should_stop() else config["x"]

    study = open_study()
    study.optimize(diverge, progress=False)
    assert {each.stopped_after for each in study.evaluations} == {None, 0.75}
    for each in study.evaluations:
        assert (each.stopped_after is not None) == (each.config["x"] > 0.5)
        assert each.error is None


def test_metrics_of_stopped_training_are_recorded_and_exceptions_are_failures() -> None:
    def diverge(config: dict[str, float], budget: float, context: Context) -> object:
        context.report(1, math.inf)
        assert context.should_stop()
        if config["x"] > 0.5:
            raise RuntimeError("broken")
        return {"loss": math.nan, "depth": 3}

    study = open_study()
    with pytest.warns(deepband.FailedEvaluationsWarning):
        study.optimize(diverge, progress=False)
    for each in study.evaluations:
        assert (each.error is not None) == (each.config["x"] > 0.5)
        assert each.metrics == ({} if each.error else {"depth": 3})
        assert each.stopped_after == (None if each.error else 1)


def test_training_that_ignores_a_stop_pays_for_what_it_uses() -> None:
    def ignore(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget / 3, math.inf)
        context.should_stop()
        context.report(budget, 0.0)
        return 0.0

    study = open_study()
    study.optimize(ignore, progress=False)
    assert all(each.stopped_after == each.budget for each in study.evaluations)
    assert study.runs[0].cost == study.plan().cost
    assert not study.runs[0].saved


def test_stopped_training_leaves_no_checkpoint_to_continue_from() -> None:
    begun: dict[tuple[float, float], float] = {}

    def diverge(config: dict[str, float], budget: float, context: Context) -> float:
        begun[config["x"], budget] = context.previous_budget
        context.save(step=budget)
        context.report(budget / 2, math.nan)
        assert context.should_stop()
        return 0.0

    study = open_study()
    study.optimize(diverge, progress=False)
    assert set(begun.values()) == {0}
    assert all(each.checkpoint is None for each in study.evaluations)


def test_a_limit_of_the_cost_counts_what_was_used() -> None:
    def half(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget / 2, math.inf)
        assert context.should_stop()
        return 0.0

    study = open_study()
    whole = study.plan().cost
    study.optimize(half, max_cost=whole / 2 + Fraction(9, 2), progress=False)  # for the last one
    assert study.done
    assert study.runs[0].cost == whole / 2


def test_progress_counts_what_was_used() -> None:
    seen: list[deepband.Progress] = []

    def half(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget / 2, math.inf)
        return 0.0 if context.should_stop() else 1.0

    study = open_study()
    study.optimize(half, progress=seen.append)
    assert seen[-1].spent == study.runs[0].cost == study.plan().cost / 2
    assert seen[-1].left == 0


def test_several_objectives_and_constraints_stop_no_training() -> None:
    def both(config: dict[str, float], budget: float, context: Context) -> object:
        context.report(budget, math.nan)
        assert not context.should_stop()
        return {"a": config["x"], "b": config["y"]}

    two: dict[str, Any] = {"objectives": {"a": "minimize", "b": "minimize"}}
    bounded = {"objectives": {"a": "minimize"}, "constraints": {"b": (None, 0.5)}}
    for criteria in (two, bounded):
        study = open_study(**criteria)
        with pytest.raises((InputError, deepband.SeveralObjectivesError), match="stop_training"):
            study.optimize(both, stop_training=0.1)
        study.optimize(both, progress=False)
        assert study.done


def test_a_confirmation_is_never_stopped() -> None:
    def noisy(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget / 2, math.nan if context.seed % 2 else 0.0)
        context.should_stop()
        return config["x"]

    study = open_study()
    study.optimize(noisy, progress=False)
    study.confirm(noisy, top=2, seeds=4, progress=False)
    losses = [each.loss for each in study.session.state.confirmations.values()]
    assert len(losses) == 8
    assert not {None, math.inf} & set(losses)


@pytest.mark.parametrize("risk", [2, -0.1, math.nan, "much"])
def test_a_risk_is_a_probability(risk: Any) -> None:
    with pytest.raises(InputError, match=r"stop_training is .*: give a probability below 1"):
        open_study().optimize(train, stop_training=risk)


def test_work_ahead_is_refused() -> None:
    with pytest.raises(InputError, match="ahead would train configs to the end"):
        open_study().optimize(train, stop_training=0.1, ahead=True)


def test_equal_configs_share_stopped_training() -> None:
    given: dict[str, Any] = {"space": {"x": [0.3, 0.9], "y": [0.0, 1.0]}, "reuse_identical": True}
    study = stopping(open_study(**given))
    study.deepen("preserving")
    stopping(study)
    state = study.session.state
    shared = [
        each for each in state.all_results() if each.imported and each.stopped_after is not None
    ]
    assert shared
    assert exported(study) == list(canonical(State(history(state))))


def test_a_file_and_a_copy_hold_it(deepened: Study, tmp_path: Path) -> None:
    deepened.copy().save_as(tmp_path / "a.study")
    again = deepband.open_study(tmp_path / "a.study")
    assert exported(again) == exported(deepened) == exported(again.copy())
    assert again.evaluations == deepened.evaluations
    assert SqliteStorage(tmp_path / "a.study").problems() == []


@pytest.mark.parametrize("change", ["stopped_after = -1.0", "loss = 0.5", "stopped_after = 0.0"])
def test_a_damaged_file_is_refused(deepened: Study, tmp_path: Path, change: str) -> None:
    from deepband.storage.schema import upgrade

    place = tmp_path / "a.study"
    deepened.copy().save_as(place)
    with closing(sqlite3.connect(place, isolation_level=None)) as file:
        file.execute(f"UPDATE evaluations SET {change} WHERE stopped_after IS NOT NULL")
    with pytest.raises(StorageError, match="checksum"):
        deepband.open_study(place)
    with closing(sqlite3.connect(place, isolation_level=None)) as file:
        file.execute("ALTER TABLE evaluations DROP COLUMN checksum")
        file.execute("PRAGMA user_version = 7")
        upgrade(file)  # which makes the checksums fit
    with pytest.raises(StorageError, match="it was stopped after"):
        deepband.open_study(place)
