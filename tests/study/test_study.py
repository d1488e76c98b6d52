"""Ask, tell, release, deepen, quote and look, as a user would."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import deepband
from deepband import (
    BudgetError,
    ClosedError,
    InputError,
    Job,
    JobError,
    NoResultError,
    SmallSpaceWarning,
    Study,
    UnfinishedError,
    UnknownNameError,
)
from driving import finish, key, noisy, open_study


def asked(study: Study) -> Job:
    job = study.ask()
    assert job is not None
    return job


def finished(max_budget: int = 9, **settings: Any) -> Study:
    study = open_study(max_budget=max_budget, **settings)
    finish(study, noisy(0))
    return study


def test_jobs_come_by_rung_then_bracket_then_index() -> None:
    study = open_study()
    jobs = list(iter(study.ask, None))
    assert [key(job) for job in jobs] == sorted(
        (key(job) for job in jobs), key=lambda each: (each[2], each[0], each[1])
    )
    assert [key(job) for job in jobs] == [key(job) for job in open_study().ask_all()]
    assert len(jobs) == 9 + 5 + 3
    assert study.ask_all() == []
    assert not study.done


def test_a_promotion_is_offered_when_its_rung_is_complete() -> None:
    study = open_study()
    jobs = [job for job in study.ask_all() if job.bracket == 0]
    for job in jobs[:-1]:
        study.tell(job, job.index)
    assert study.ask() is None
    study.tell(jobs[-1], 99)
    assert [key(job) for job in study.ask_all()] == [(0, 0, 1), (0, 1, 1), (0, 2, 1)]


def test_a_job_carries_what_a_worker_needs() -> None:
    study = open_study(space={"lr": (1e-4, 1e-1, "log"), "layers": (1, 8)})
    job = asked(study)
    assert (job.bracket, job.index, job.rung, job.budget) == (0, 0, 0, 1)
    assert 1e-4 <= job.config["lr"] <= 1e-1
    assert type(job.config["lr"]) is float
    assert type(job.config["layers"]) is int


def test_a_released_job_is_offered_again_in_its_turn() -> None:
    study = open_study()
    first, second, third = (asked(study) for _ in range(3))
    study.release(third)
    study.release(first)
    study.release(first)
    assert [key(asked(study)) for _ in range(3)] == [key(first), key(third), (0, 3, 0)]
    study.tell(second, 0.5)


def test_any_open_job_may_be_told_whoever_asked() -> None:
    study, twin = open_study(), open_study()
    jobs = [job._replace(study="") for job in twin.ask_all()]
    for job in reversed(jobs):
        study.tell(job, job.index)
    assert len(study.evaluations) == 17
    assert study.evaluations[5].config == twin.session.state.configs[0][5]


def test_changing_a_jobs_config_changes_nothing_else() -> None:
    study = open_study()
    job = asked(study)
    before = dict(job.config)
    job.config.clear()
    study.tell(job, 0.5)
    assert study.evaluations[0].config == before
    study.evaluations[0].config.clear()
    assert study.evaluations[0].config == before


def test_a_job_is_told_once() -> None:
    study = open_study()
    job = asked(study)
    study.tell(job, 0.5)
    with pytest.raises(JobError, match=r"bracket 0, index 0, rung 0 .* already recorded"):
        study.tell(job, 0.6)
    with pytest.raises(JobError, match="already recorded"):
        study.release(job)


def test_a_job_of_another_study_is_refused() -> None:
    with pytest.raises(JobError, match="another study"):
        open_study().tell(asked(open_study()), 0.5)


def test_a_job_can_be_a_key_and_its_numbers_may_be_of_numpy() -> None:
    study = open_study()
    jobs = {job: job.key for job in study.ask_all()}
    assert len(jobs) == 17
    numbers: list[Any] = [np.int64(0), np.int32(1), np.int64(0), 1, {}]
    study.tell(Job(*numbers), 0.5)
    assert study.evaluations[0].index == 1


@pytest.mark.parametrize(
    "bad", [(0, 0, 1), (0, 9, 0), (0, -1, 0), (1, 0, 0), (3, 0, 3), (-1, 0, 0)]
)
def test_a_job_that_is_not_open_is_refused(bad: tuple[Any, int, int]) -> None:
    with pytest.raises(JobError, match="does not need it"):
        open_study().tell(Job(*bad, 1, {}), 0.5)


@pytest.mark.parametrize(
    "bad",
    [None, (0, 0, 0), "job", Job("0", 0, 0, 1, {}), Job([0], 0, 0, 1, {})],  # type: ignore[arg-type]
)
def test_what_is_no_job_is_refused(bad: Any) -> None:
    with pytest.raises(InputError, match="is not a job"):
        open_study().tell(bad, 0.5)


def test_tell_all_records_all_or_nothing() -> None:
    study = open_study()
    one, two, three = itertools.islice(iter(study.ask, None), 3)
    with pytest.raises(deepband.ResultError):
        study.tell_all([(one, 0.5), (two, "bad"), (three, 0.5)])
    with pytest.raises(JobError, match="twice"):
        study.tell_all([(one, 0.5), (two, 0.5), (one, 0.5)])
    for bad in ([one], None, 3, [(one,)], [(one, 0.5, 0.5)]):
        with pytest.raises(InputError, match="tell_all takes pairs"):
            study.tell_all(bad)  # type: ignore[arg-type]
    assert study.evaluations == []
    study.tell_all((job, 0.5) for job in (one, two, three))
    assert len(study.evaluations) == 3


@pytest.mark.parametrize("error", [ValueError("a bad row"), TypeError("no number"), OSError()])
def test_tell_all_hands_on_what_a_generator_raises(error: Exception) -> None:
    study = open_study()
    job = asked(study)

    def results() -> Iterator[tuple[Job, object]]:
        yield job, 0.5
        raise error

    def pair() -> Iterator[object]:
        yield job
        raise error

    for given in (results(), [pair()]):
        with pytest.raises(type(error)) as caught:
            study.tell_all(given)  # type: ignore[arg-type] # a pair that is a generator
        assert caught.value is error
    assert study.evaluations == []
    study.tell_all([[job, 0.5]])  # type: ignore[list-item] # a pair all the same
    assert len(study.evaluations) == 1


def test_deepening_goes_on_and_can_be_repeated() -> None:
    study = finished()
    study.deepen("efficient", to=9)
    assert len(study.runs) == 1
    study.deepen("efficient", to=27)
    study.deepen("efficient", to=27)
    study.deepen("efficient", to=27.000000001)
    study.deepen("discarding", to=9)
    assert [(run.max_budget, run.strategy) for run in study.runs] == [(9, None), (27, "efficient")]
    finish(study, noisy(0))
    study.deepen()
    assert study.runs[-1].strategy == "preserving"
    assert study.max_budget == 81


@pytest.mark.parametrize(
    ("to", "message"),
    [
        (50, "the nearest values are 27 and 81"),
        (3, "already has 9, and a study never shrinks"),
        (100, "the nearest values are 81 and 243"),
        (27.1, "the nearest values are 27 and 81"),
        (0, "greater than zero"),
        (-9, "greater than zero"),
        ("27", "finite number"),
        (True, "finite number"),
        (float("nan"), "finite number"),
        (3.0**40, "50,000,000 evaluations"),
    ],
)
def test_a_bad_budget_to_deepen_to_is_refused(to: Any, message: str) -> None:
    study = finished()
    for method in (study.deepen, study.quote):
        with pytest.raises(BudgetError, match=message):
            method("preserving", to=to)
    assert len(study.runs) == 1


def test_an_unfinished_run_is_extended_only_on_request() -> None:
    study = open_study()
    study.tell(asked(study), 0.5)
    for method in (study.deepen, study.widen):
        with pytest.raises(UnfinishedError, match="16 jobs are open") as caught:
            method("efficient")
        assert caught.value.open_jobs == 16
    assert "16 jobs of the current run are open" in str(study.quote("efficient"))
    study.deepen("efficient", to=9)
    assert len(study.runs) == 1


def test_an_unknown_strategy_is_refused() -> None:
    study = finished()
    for method in (study.deepen, study.quote):
        with pytest.raises(UnknownNameError, match="Did you mean 'efficient'"):
            method("eficient")  # type: ignore[arg-type] # a type checker sees it too
        for bad in ("", ["efficient"], 3):
            with pytest.raises(UnknownNameError, match="choose from 'discarding'"):
                method(bad)  # type: ignore[arg-type]


def test_a_quote_of_the_worked_example() -> None:
    study = finished(16, eta=2)
    quote = study.quote("efficient")
    assert quote.exact
    assert (quote.configs_reused, quote.configs_new) == (43, 41)
    assert quote.evaluations_reused == (72, 72)
    assert quote.evaluations_new == (80, 80)
    assert [quote.cost.low, quote.cost.fresh, quote.cost.scratch] == [756, 1128, 1500]
    assert quote.cost.of_fresh[0] == pytest.approx(756 / 1128)
    assert quote.cost.of_scratch[0] == pytest.approx(1128 / 1500)
    assert quote.cost_resumed.low + quote.cost_resumed.spent == 800
    other = study.quote("preserving", to=32)
    assert other.cost.low == 756
    assert 756 < other.cost.high <= 1128
    assert not other.exact
    assert str(quote).splitlines() == [
        "deepening 'efficient', max_budget 16 to 32",
        "  reused        43 configs, 72 of 72 evaluations",
        "  new           41 configs, 80 evaluations",
        "  cost          756, 67 % of a fresh run (1128)",
        "    in all      1128, 75 % of every run from scratch (1500)",
        "  cost resumed  522, 65 % of a fresh run (800)",
        "    in all      800, 74 % of every run from scratch (1078)",
    ]


def test_a_quote_of_where_the_study_has_been_is_nothing() -> None:
    quote = finished().quote("preserving", to=9)
    assert quote.evaluations_new == (0, 0)
    assert quote.cost.high == 0
    assert quote.configs_new == 0
    assert quote.evaluations_reused == (22, 22)


def test_quotes_spend_and_change_nothing() -> None:
    study = finished()
    before = (study.runs, study.evaluations)
    study.quote("discarding", to=81)
    assert (study.runs, study.evaluations) == before


def test_best_prefers_the_larger_budget_then_bracket_then_index() -> None:
    study = open_study()
    finish(study, lambda job: 1.0)
    assert (study.best.rung, study.best.bracket, study.best.index) == (2, 0, 0)
    low = study.best_at(0)
    assert (low.rung, low.bracket, low.index, low.budget) == (0, 0, 0, 1)
    bad: Any
    for bad in (3, True, "0", 0.5):
        with pytest.raises(InputError, match=r"no rung .*: give one from 0 to 2"):
            study.best_at(bad)


def test_best_ignores_failures_and_infinity() -> None:
    study = open_study()
    finish(study, lambda job: float("inf") if job.index else RuntimeError())
    assert study.done
    with pytest.raises(
        NoResultError, match="none of the 22 evaluations has a finite result"
    ) as best:
        _ = study.best
    with pytest.raises(NoResultError, match="none of the 9 evaluations on rung 0") as on_rung:
        study.best_at(0)
    assert (best.value.evaluations, best.value.rung) == (22, None)
    assert (on_rung.value.evaluations, on_rung.value.rung) == (9, 0)


def test_without_any_result_there_is_no_best() -> None:
    study = open_study()
    with pytest.raises(NoResultError, match=r"nothing has been evaluated\. Run the study first"):
        _ = study.best
    with pytest.raises(NoResultError, match=r"nothing has been evaluated\."):
        study.best_at()
    with pytest.raises(NoResultError, match="nothing has been evaluated on rung 2"):
        study.best_at(2)
    study.tell(asked(study), 0.5)
    assert study.best == study.best_at() == study.best_at(0) == study.evaluations[0]


def test_best_at_is_by_default_the_highest_rung_with_a_finite_loss() -> None:
    study = open_study()
    finish(study, lambda job: float("nan") if job.rung == 2 else job.index)
    best = study.best_at()
    assert best.rung == 1


def test_runs_tell_what_was_spent() -> None:
    study = finished(16)
    (run,) = study.runs
    assert (run.run, run.strategy, run.max_budget, run.evaluations) == (0, None, 16, 22)
    assert run.cost == 129
    assert run.done
    study.deepen("efficient")
    assert not study.runs[1].done


def test_explain_says_why() -> None:
    study = open_study()
    finish(study, lambda job: job.index / 10)
    lines = [str(verdict) for verdict in study.explain(0, 0)]
    assert lines == [
        "run 0, rung 0, budget 1: loss 0 ranks 1 of 9 for 3 slots: promoted "
        "(the worst promoted has loss 0.2)",
        "run 0, rung 1, budget 3: loss 0 ranks 1 of 3 for 1 slot: promoted "
        "(the worst promoted has loss 0)",
        "run 0, rung 2, budget 9: loss 0 on the top rung",
    ]
    (loser,) = study.explain(0, 5)
    assert (loser.promoted, loser.rank, loser.candidates, loser.slots) == (False, 6, 9, 3)
    assert loser.cutoff == 0.2

    study.deepen("efficient")
    kept = study.explain(0, 1)[2]
    assert (kept.run, kept.strategy, kept.promoted) == (1, "efficient", None)
    assert "18 jobs of this rung are open" in kept.reason
    finish(study, lambda job: -1.0 if job.index >= 9 else job.index / 10)
    kept = study.explain(0, 1)[2]
    assert kept.promoted
    assert "revokes no promotion" in kept.reason

    study.deepen("discarding")
    finish(study, lambda job: -float(job.index))
    outsider = study.explain(0, 0)[-1]
    assert "did not reach this rung" in outsider.reason
    assert outsider.promoted is False
    assert outsider.rank is None


def test_explain_speaks_in_the_users_sign() -> None:
    study = open_study(maximize=True)
    finish(study, lambda job: 1 - job.index / 10)
    assert "value 0.9 ranks 2 of 9" in str(study.explain(0, 1)[0])


@pytest.mark.parametrize(
    ("bracket", "index", "message"),
    [
        (3, 0, "no bracket 3: give one from 0 to 2"),
        (0, 9, "with index 9: give one from 0 to 8"),
        (0, -1, "-1"),
        (0.5, 0, "no bracket 0.5"),
        ("0", 0, "no bracket '0'"),
        (0, None, "None"),
    ],
)
def test_explain_of_nothing_is_refused(bracket: Any, index: Any, message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_study().explain(bracket, index)


def test_the_plan_is_what_happens() -> None:
    study = open_study(max_budget=27)
    plan = study.plan()
    finish(study, noisy(1))
    (run,) = study.runs
    assert (plan.evaluations, plan.cost, plan.cost_resumed) == (
        run.evaluations,
        run.cost,
        run.cost_resumed,
    )
    assert str(plan).splitlines() == [
        "rung        0   1  2   3",
        "budget      1   3  9  27",
        "bracket 0  27   9  3   1",
        "bracket 1      12  4   1",
        "bracket 2          6   2",
        "bracket 3              4",
        "49 configs, 69 evaluations, cost 423 (357 when training continues from the rung below)",
    ]


def test_the_plan_warns_of_a_space_that_is_too_small() -> None:
    study = open_study(space={"x": [1, 2, 3], "y": (1, 5)})
    with pytest.warns(SmallSpaceWarning, match="at most 15 different configs and the run needs 17"):
        study.plan()


def test_a_closed_study_can_be_read_and_not_written() -> None:
    with open_study() as study:
        job = asked(study)
        study.tell(job, 0.5)
    study.close()
    assert len(study.evaluations) == 1
    for method in (study.ask, study.ask_all, study.deepen):
        with pytest.raises(ClosedError, match="open it again"):
            method()


@pytest.mark.parametrize("name", ["maximize", "integer_budgets"])
@pytest.mark.parametrize("given", ["no", 2, 0.5])
def test_a_switch_is_a_bool(name: str, given: Any) -> None:
    with pytest.raises(InputError, match=f"{name} is .*: give True or False"):
        open_study(**{name: given})


@pytest.mark.parametrize("seed", [-1, 0.5, "1", True, pytest.param(-(10**5000), id="huge")])
def test_a_bad_seed_is_refused(seed: Any) -> None:
    with pytest.raises(InputError, match="whole number of 0 or more"):
        open_study(seed=seed)


def test_it_introduces_itself() -> None:
    assert repr(open_study()) == "<deepband study: run 0, max_budget 9, 17 jobs open>"
