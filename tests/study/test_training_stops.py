"""Training that is stopped early: which configs are is a function of the facts, whatever the order
in which jobs finish and however often the process dies."""

from __future__ import annotations

import math
import os
import random
import signal
import sqlite3
from contextlib import closing
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import deepband
from bowl_study import exported, loss_of, open_study, train_in_steps
from deepband import Context, InputError, Job, StorageError, Study
from deepband.analysis.export import canonical, jsonl, table
from deepband.core.evaluations import best_first
from deepband.core.facts import Outcome
from deepband.core.state import State
from deepband.execution.objective import Task, outcome_of
from deepband.execution.progress_text import amounts
from deepband.storage.sqlite import SqliteStorage
from deepband.study.observers import history
from driving import finish

RISK = 0.4
pytestmark = pytest.mark.filterwarnings("ignore::deepband.FailedEvaluationsWarning")


def train_all(
    configs: list[dict[str, float]], budget: float, contexts: list[deepband.BatchContext]
) -> list[float]:
    losses = []
    for config, context in zip(configs, contexts, strict=True):
        losses.append(train_in_steps({**config, "x": min(config["x"], 0.95)}, budget, context))
        if config["y"] < 0.5:
            context.finish(losses[-1])
    return losses


def stopping(study: Study, risk: float | None = RISK, **given: Any) -> Study:
    study.optimize(train_in_steps, stop_training=risk, progress=False, first_failures=0, **given)
    return study


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
    plain.optimize(train_in_steps, progress=False, first_failures=0)
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
        skips = list(state.runs[run.run].skips())
        assert run.stopped_training == len(own)
        assert run.skipped == len(skips)
        assert run.saved == unused + sum(state.run.budgets[skip.rung] for skip in skips)
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
        text = f"training stopped after {each.stopped_after:.6g}"
        assert any(text in verdict.reason for verdict in verdicts)


@pytest.mark.parametrize("strategy", ["discarding", "preserving", "efficient"])
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
    watch = session.watch(job)
    assert watch is not None
    context = Context(seed=0, path=Path(), watch=replace(watch, persistent=False))
    task = Task(job, context, session.state.criteria, keeps=False)
    try:
        outcome = outcome_of(task, train_in_steps(job.config, job.budget, context))
    except RuntimeError:
        outcome = Outcome(None, "RuntimeError: too large")
    return outcome._replace(curve=tuple(context.reported) or None)


def run_in(order: random.Random, study: Study, **risks: float | None) -> None:
    """Run a study to its end, in any order and with any number of jobs at a time. The process dies
    now and then, with results that are not recorded."""
    while not study.done:
        hand: list[Job] = []
        with study.session.omitting(**risks):
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


def test_results_of_stopped_training_are_ignored_and_exceptions_are_failures() -> None:
    def diverge(config: dict[str, float], budget: float, context: Context) -> object:
        context.report(budget / 3, math.inf)
        assert context.should_stop()
        if config["x"] > 0.5:
            raise RuntimeError("broken")
        context.report(budget, 0.0)  # although it was told to stop
        return {"loss": 0.0, "depth": 3}

    study = open_study()
    with pytest.warns(deepband.FailedEvaluationsWarning):
        study.optimize(diverge, progress=False, first_failures=0)
    for each in study.evaluations:
        assert (each.error is not None) == (each.config["x"] > 0.5)
        assert not each.metrics
        assert each.stopped_after == (None if each.error else each.budget / 3)


def test_stopped_training_leaves_no_checkpoint_to_continue_from() -> None:
    begun: dict[tuple[float, float], float] = {}

    def diverge(config: dict[str, float], budget: float, context: Context) -> float:
        begun[config["x"], budget] = context.previous_budget
        context.save(step=budget)
        context.report(budget / 2, math.nan)
        assert context.should_stop()
        return 0.0

    study = open_study()
    study.optimize(diverge, progress=False, first_failures=0)
    assert set(begun.values()) == {0}
    assert all(each.checkpoint is None for each in study.evaluations)


def test_a_limit_of_the_cost_counts_what_was_used() -> None:
    def half(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget / 2, math.inf)
        assert context.should_stop()
        return 0.0

    study = open_study()
    whole = study.plan().cost
    most = whole / 2 + Fraction(9, 2)  # for the last one
    study.optimize(half, max_cost=most, progress=False, first_failures=0)
    assert study.done
    assert study.runs[0].cost == whole / 2


def test_progress_counts_what_was_used() -> None:
    seen: list[deepband.Progress] = []

    def half(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget / 2, math.inf)
        return 0.0 if context.should_stop() else 1.0

    study = open_study()
    study.optimize(half, progress=seen.append, first_failures=0)
    assert seen[-1].spent == study.runs[0].cost == study.plan().cost / 2
    assert seen[-1].left == 0
    assert seen[-1].stopped_training == seen[-1].evaluations
    assert f"{seen[-1].evaluations} stopped early" in "".join(amounts(seen[-1]))
    assert any("of at most" in "".join(amounts(each)) for each in seen)


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
    study.optimize(noisy, progress=False, first_failures=0)
    study.confirm(noisy, top=2, seeds=4, progress=False)
    losses = [each.loss for each in study.session.state.confirmations.values()]
    assert len(losses) == 8
    assert not {None, math.inf} & set(losses)


@pytest.mark.parametrize("risk", [2, -0.1, math.nan, "much"])
def test_a_risk_is_a_probability(risk: Any) -> None:
    with pytest.raises(InputError, match=r"stop_training is .*: give a probability below 1"):
        open_study().optimize(train_in_steps, stop_training=risk)


def test_work_ahead_is_refused() -> None:
    with pytest.raises(InputError, match="`ahead` would train configs to the end"):
        open_study().optimize(train_in_steps, stop_training=0.1, ahead=True)


def test_an_objective_without_a_context_cannot_be_stopped() -> None:
    with pytest.raises(InputError, match="`stop_training` is given, but the objective takes no"):
        open_study().optimize(lambda config, budget: 0.0, stop_training=0.1)


def test_without_comparable_curves_a_warning_says_that_nothing_can_be_stopped() -> None:
    def silent(config: dict[str, float], budget: float, context: Context) -> float:
        return loss_of(config, budget)

    with pytest.warns(deepband.MissingCurvesWarning, match="stop_training had no effect"):
        open_study().optimize(silent, stop_training=0.1, progress=False)


def test_an_objective_that_always_diverges_is_at_fault() -> None:
    def diverge(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget / 3, math.nan)
        return 0.0 if context.should_stop() else 1.0

    study = open_study()
    with pytest.raises(deepband.ObjectiveError, match="reported a loss that is infinite or NaN"):
        study.optimize(diverge, progress=False)
    assert not study.evaluations
    study.optimize(diverge, progress=False, first_failures=0)
    with pytest.raises(deepband.NoResultError, match="the training of 22 was stopped early"):
        assert study.best


def test_hopeless_configs_are_not_promoted_to_fill_slots() -> None:
    """Those of the run are skipped. A later run without the argument trains them."""
    study = stopping(open_study(max_budget=27), 0.6)
    state = study.session.state
    skips = list(state.run.skips())
    assert skips
    for skip in skips:
        assert (skip.bracket, skip.index, skip.rung - 1) in state.standings.stopped
        (verdict,) = (
            each for each in study.explain(skip.bracket, skip.index) if each.skipped is not None
        )
        assert "its training was stopped early" in verdict.reason
    study.deepen("preserving")
    study.optimize(train_in_steps, progress=False, first_failures=0)
    assert not study.session.state.run.skipped
    assert study.done


def test_stopped_configs_rank_by_how_far_they_were_trained() -> None:
    study = open_study()
    jobs = [job for job in study.ask_all() if job.bracket == 1]
    ends = (1.0, 0.5), (2.0, 0.9), (2.0, 0.7), (2.0, math.nan), (1.0, 0.1)
    outcomes = [Outcome(math.inf, curve=(end,), stopped_after=end[0]) for end in ends]
    study.session.record_outcomes(zip(jobs, outcomes, strict=True))
    order = best_first(study.session.state, study.session.state.results[1, 1].values())
    assert [each.index for each in order] == [2, 1, 3, 4, 0]


def test_what_continues_after_a_stop_trains_the_rest(deepened: Study) -> None:
    """`cost_resumed` counts from where training was stopped, at best."""
    study = deepened.copy()
    before = study.runs[-1].cost_resumed
    study.deepen("preserving")
    quote = study.quote("preserving")
    assert quote.cost_resumed.spent == sum(run.cost_resumed for run in study.runs)
    bracket, index, rung = next(key for key in study.session.state.standings.stopped if key[2] < 3)
    results = study.session.state.results
    results[bracket, rung + 1][index] = results[bracket, rung][index]._replace(
        rung=rung + 1, run=1, loss=0.5, stopped_after=None, curve=None
    )
    after = study.session.state.standings.stopped[bracket, index, rung]
    assert study.runs[1].cost_resumed - before == study.session.state.run.budgets[rung + 1] - after


def test_a_stopped_config_is_predicted_not_evaluated(deepened: Study) -> None:
    each = stopped_of(deepened)[0]
    predicted = deepened.predict(each.bracket, each.index, each.budget)
    assert not predicted.evaluated
    assert math.isfinite(predicted.value)


def test_equal_configs_share_no_stopped_training() -> None:
    given: dict[str, Any] = {"space": {"x": [0.3, 0.9], "y": [0.0, 1.0]}, "reuse_identical": True}
    study = stopping(open_study(**given))
    study.deepen("preserving")
    stopping(study)
    state = study.session.state
    assert any(each.imported for each in state.all_results())
    assert stopped_of(study)
    assert not any(each.imported and each.stopped_after for each in state.all_results())
    assert exported(study) == list(canonical(State(history(state))))


def killed_once(place: Path) -> None:
    """Die like a worker that is killed, the first time."""
    mark = place / "killed"
    if not mark.exists():
        mark.touch()
        os.kill(os.getpid(), signal.SIGKILL)


@pytest.mark.parametrize("moment", ["hopeless", "later"])
@pytest.mark.parametrize("saves", ["save", "files", "nothing"])
def test_a_killed_worker_changes_nothing(tmp_path: Path, saves: str, moment: str) -> None:
    """The attempt after it knows what was reported, also if the objective saves files of its own,
    and is neither compared with the same limits again nor charged for more."""

    def train_saving(config: dict[str, float], budget: float, context: Context) -> float:
        begun = int(context.restore(step=0)["step"]) if saves == "save" else 0
        own = context.partial / "own" if context.partial and saves == "files" else None
        begun = int(own.read_text()) if own and own.exists() else begun
        loss = math.inf
        for step in range(begun + 1, int(budget) + 1):
            loss = loss_of(config, step)
            context.report(step, loss)
            if saves == "save":
                context.save(step=step)
            elif saves == "files":
                (context.path / "own").write_text(str(step))
            hopeless = context.watch is not None and context.watch.curve is not None
            if kills and (hopeless if moment == "hopeless" else (budget, step) == (27, 10)):
                killed_once(tmp_path)
            if context.should_stop():
                break
        return loss

    found = []
    for kills in (False, True):
        study = open_study(tmp_path / f"{kills}.study", max_budget=27, seed=3)
        given: dict[str, Any] = {"workers": 2, "stop_training": 0.2, "progress": False}
        study.optimize(train_saving, **given)
        found.append([fields(each) for each in study.evaluations])
        study.close()
    assert (tmp_path / "killed").exists()
    assert found[0] == found[1]
    assert any(after is not None for *_, after in found[0])
    assert not list(tmp_path.glob("*/checkpoints/*/attempts/*"))


@pytest.mark.parametrize("risk", [None, 0.2])
def test_a_divergence_of_an_interrupted_attempt_is_not_taken_over(
    tmp_path: Path, risk: float | None
) -> None:
    """The objective may have been fixed since."""

    def broken(config: dict[str, float], budget: float, context: Context) -> float:
        watch = context.watch
        if watch is not None and (watch.limits or risk is None):
            context.report(1, math.nan)
            assert watch.curve is not None
            raise KeyboardInterrupt
        return train_in_steps(config, budget, context)

    study, plain = open_study(tmp_path / "a.study"), open_study()
    given: dict[str, Any] = {"stop_training": risk, "progress": False, "first_failures": 0}
    with pytest.raises(KeyboardInterrupt):
        study.optimize(broken, **given)
    for each in (study, plain):
        each.optimize(train_in_steps, **given)
    assert exported(study) == exported(plain)


def test_an_interrupted_attempt_stops_no_training_without_the_argument(tmp_path: Path) -> None:
    def interrupted(config: dict[str, float], budget: float, context: Context) -> float:
        for step in range(1, int(budget) + 1):
            context.report(step, loss_of(config, step))
            if context.watch is not None and context.watch.curve is not None:
                raise KeyboardInterrupt
        return loss_of(config, budget)

    study = open_study(tmp_path / "a.study")
    with pytest.raises(KeyboardInterrupt):
        study.optimize(interrupted, stop_training=RISK, progress=False)
    assert list(tmp_path.glob("**/*.watch"))
    study.optimize(train_in_steps, progress=False, first_failures=0)
    assert study.done
    assert not stopped_of(study)


def test_a_skip_of_a_config_that_was_stopped_names_no_risk() -> None:
    """It may have diverged, without any risk that training is stopped."""

    def diverge(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(0.5, math.nan if config["y"] > 0.1 else 0.5)
        return 0.0 if context.should_stop() else loss_of(config, budget)

    study = open_study()
    study.optimize(diverge, skip=0.9, progress=False, first_failures=0)
    state = study.session.state
    skips = [
        each for each in state.run.skips() if each[:2] in {k[:2] for k in state.standings.stopped}
    ]
    assert skips
    for skip in skips:
        reasons = " ".join(each.reason for each in study.explain(*skip[:2]))
        assert "skipped: its training was stopped early" in reasons
        assert "stop_training" not in reasons


@pytest.mark.parametrize("kills", [False, True])
def test_training_that_continues_after_a_divergence_has_diverged(
    tmp_path: Path, kills: bool
) -> None:
    def diverge_once(config: dict[str, float], budget: float, context: Context) -> float:
        begun = int(context.restore(step=0)["step"])
        for step in range(begun + 1, int(budget) + 1):
            context.report(step, math.nan if step == 2 else loss_of(config, step))
            context.save(step=step)
            if kills and step == 2:
                killed_once(tmp_path)
            if context.should_stop():
                break
        return loss_of(config, budget)

    study = open_study(tmp_path / "a.study")
    study.optimize(diverge_once, workers=2, first_failures=0, progress=False)
    assert (tmp_path / "killed").exists() is kills
    for each in study.evaluations:
        assert each.stopped_after == (None if each.budget == 1 else 2.0)


def fields(each: deepband.Evaluation) -> tuple[Any, ...]:
    return (each.bracket, each.index, each.rung, each.loss, each.stopped_after)


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


@pytest.mark.parametrize("strategy", ["preserving", "efficient", "discarding"])
def test_a_quote_bounds_the_evaluations_of_a_run_that_stops_training(strategy: Any) -> None:
    """Promotions of configs that were stopped are skipped, so it may make fewer evaluations."""
    for seed in range(4):
        study = stopping(open_study(eta=4, max_budget=4, seed=seed), 0.9)
        quote = study.quote(strategy)
        study.deepen(strategy)
        stopping(study, 0.9)
        run = study.runs[1]
        assert quote.evaluations_new[0] <= run.evaluations <= quote.evaluations_new[1]
        assert quote.cost.low <= run.cost <= quote.cost.high
        assert quote.cost_resumed.low <= run.cost_resumed <= quote.cost_resumed.high
        assert quote.cost_resumed.high <= quote.cost.high


def test_a_quote_after_training_diverged_is_not_above_full_budgets() -> None:
    def diverge(config: dict[str, float], budget: float, context: Context) -> float:
        context.report(budget / 9, math.nan)
        return 0.0 if context.should_stop() else 1.0

    study = open_study(space={"x": (0.0, 1.0)})
    study.optimize(diverge, first_failures=0, progress=False)
    quote = study.quote("efficient")
    assert quote.cost_resumed.high == quote.cost.high
    assert quote.seconds is not None
    rate = sum(each.seconds or 0.0 for each in study.evaluations) / study.runs[0].cost
    assert quote.seconds[1] == pytest.approx(rate * float(quote.cost.high), rel=0.01)


def test_a_frugal_quote_stays_exact(deepened: Study) -> None:
    study = deepened.copy()
    quote = study.quote("frugal")
    assert quote.exact
    assert "stopped" not in str(quote)
    study.deepen("frugal")
    stopping(study)
    run = study.runs[2]
    assert (run.cost, run.cost_resumed) == (quote.cost.low, quote.cost_resumed.low)


def test_an_objective_that_saves_nothing_has_nothing_to_train_again(tmp_path: Path) -> None:
    study = open_study(tmp_path / "a.study")
    study.optimize(train_in_steps, progress=False, first_failures=0)
    assert study.quote().retraining == 0


def test_an_objective_that_cannot_save_has_nothing_to_train_again() -> None:
    study = open_study(keep="none")
    study.optimize(loss_of, progress=False)
    assert study.quote().retraining == 0
