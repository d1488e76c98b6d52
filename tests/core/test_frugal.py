"""Frugal deepening through a study: what it does, refuses, shows and keeps."""

from __future__ import annotations

import json
import random
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner

import deepband
from deepband import BudgetError, Context, InputError, Study, UnfinishedError
from deepband.analysis.cells import occupied_cells
from deepband.analysis.export import canonical
from deepband.analysis.quote import quote_table
from deepband.analysis.status import grid, status_of
from deepband.core import hyperband
from deepband.core.extension import options
from deepband.core.facts import Fact
from deepband.core.state import State
from deepband.core.strategies import NAMES, STRATEGIES, StrategyName
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.integrations.tracker import Tracker
from deepband.interfaces.cli import main
from deepband.interfaces.dashboard.config_page import config_page
from deepband.interfaces.dashboard.overview import overview
from deepband.interfaces.report.html_report import make_report
from deepband.storage import state_of
from deepband.storage.sqlite import SqliteStorage
from deepband.study.forecast import forecast
from deepband.study.observers import history
from driving import SPACE, finish, noisy, open_study


def frugal(seed: int = 1, failures: float = 0.0, run: bool = True, **settings: Any) -> Study:
    """A study from 9 to 27, whose top rung had 5 evaluations: two are promoted."""
    study = open_study(**settings)
    finish(study, noisy(seed, failures))
    study.deepen("frugal")
    if run:
        finish(study, noisy(seed, failures))
    return study


def test_the_best_over_all_brackets_go_on_and_nothing_else_happens() -> None:
    study = open_study()
    finish(study, noisy(1))
    drawn = [len(configs) for configs in study.session.state.configs]
    on_top = sorted((e.loss, e.bracket, e.index) for e in study.evaluations if e.rung == 2)
    study.deepen("frugal")
    assert [(job.bracket, job.index, job.rung, job.budget) for job in study.ask_all()] == sorted(
        (bracket, index, 3, 27) for _, bracket, index in on_top[:2]
    )
    assert study.ask() is None
    assert [len(configs) for configs in study.session.state.configs] == [*drawn, 0]
    assert not study.done
    with pytest.raises(UnfinishedError):
        study.deepen("frugal")
    with pytest.raises(UnfinishedError):
        study.deepen("preserving", to=27)
    study.deepen("frugal", to=27)  # where it is


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_script_can_be_run_again(tmp_path: Path, strategy: StrategyName) -> None:
    evaluated: list[float] = []

    def train(config: dict[str, Any], budget: float) -> float:
        evaluated.append(budget)
        return float(config["x"]) / budget

    def script(most: float | None = None) -> None:
        with deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9) as study:
            study.optimize(train, max_cost=most)
            for name, to in [("frugal", 27), (strategy, 27), ("frugal", 81), (strategy, 81)]:
                if study.done:  # else it is stopped here
                    study.deepen(name, to=to)
                    study.optimize(train, max_cost=most)

    for most in range(100, 400, 50):
        script(most)
    script()
    strategies = [run.strategy for run in deepband.open_study(tmp_path / "a.study").runs]
    assert strategies == [None, "frugal", strategy, "frugal", strategy]
    evaluated.clear()
    script()
    assert evaluated == []
    assert len(deepband.open_study(tmp_path / "a.study").runs) == 5


def test_a_level_is_filled_once_and_only_the_current_one() -> None:
    study = frugal()
    study.deepen("frugal")
    finish(study, noisy(1))
    assert study.max_budget == 81
    study.deepen("preserving", to=27)  # it has been there
    assert len(study.runs) == 3
    study.deepen("efficient", to=81)
    finish(study, noisy(1))
    for strategy in NAMES:
        study.deepen(strategy, to=81)
        assert study.quote(strategy, to=81).evaluations_new == (0, 0)
    assert [run.strategy for run in study.runs] == [None, "frugal", "frugal", "efficient"]
    assert study.plan().evaluations == deepband.Schedule.of(3, 1, 81).evaluations


def test_one_rung_at_a_time() -> None:
    study = open_study()
    finish(study, noisy(1))
    for ask in (study.deepen, study.quote):
        with pytest.raises(BudgetError, match=r"one rung at a time. Deepen to 27, run that"):
            ask("frugal", to=81)
    with pytest.raises(BudgetError, match="powers of eta"):
        study.deepen("frugal", to=28)
    assert len(study.runs) == 1


@pytest.mark.usefixtures("without_images")
def test_nobody_to_send_on() -> None:
    """A run that evaluates nothing would only hide that the level is empty."""
    study = open_study()
    finish(study, lambda job: RuntimeError("no") if job.rung == 2 else 0.5)
    for ask in (study.deepen, study.quote):
        with pytest.raises(InputError, match=r"no config to promote.*budget 9 failed. Choose"):
            ask("frugal")
    assert [strategy for strategy, _ in options(study.session.state)] == [*STRATEGIES] * 2
    assert len(forecast(study, 1, 1.0)) == 7
    assert "frugal" not in make_report(study)


def test_failures_stay_behind_and_leave_places_empty() -> None:
    study = open_study()
    finish(study, lambda job: RuntimeError("no") if job.rung == 2 and job.bracket else 0.5)
    study.deepen("frugal")
    assert [job.key for job in study.ask_all()] == [(0, 0, 3)]
    verdict = study.explain(2, 0)[-1]
    assert verdict.promoted is False
    assert verdict.rank is None
    assert "a failure is never promoted" in str(verdict)


def test_every_config_of_the_old_top_rung_is_told_why() -> None:
    study = frugal(run=False)
    explained = [study.explain(e.bracket, e.index) for e in study.evaluations if e.rung == 2]
    verdicts = [next(v for v in each if v.run == 1 and v.rung == 2) for each in explained]
    assert sorted(v.rank or 0 for v in verdicts) == [1, 2, 3, 4, 5]
    assert sum(bool(v.promoted) for v in verdicts) == 2
    second = next(v for v in verdicts if v.rank == 2)
    assert "ranks 2 of 5 over all brackets for 2 slots: promoted (the worst" in str(second)
    assert str(second).startswith("run 1 (frugal), rung 2, budget 9: loss ")
    waiting = [str(v) for each in explained for v in each if v.rung == 3]
    assert len(waiting) == 2
    assert all("waits for its result" in text for text in waiting)
    below = next(
        e for e in study.evaluations if not study.session.state.result(e.bracket, e.index, 2)
    )
    assert {v.run for v in study.explain(below.bracket, below.index)} == {0}


def test_the_price_is_exact_and_small() -> None:
    study = open_study()
    finish(study, noisy(1))
    quote = study.quote("frugal")
    assert quote.exact
    assert quote.title == (
        "deepening 'frugal', max_budget 9 to 27 (outside the paper's guarantees)"
    )
    assert dict(quote.lines())["reused"] == "2 configs, 5 of 22 evaluations"
    assert dict(quote.lines())["new"] == "0 configs, 2 evaluations"
    assert quote.cost.low == 54
    assert quote.cost_resumed.low == 36
    assert quote.cost.of_fresh[0] == pytest.approx(54 / 423)
    study.deepen("frugal")
    assert study.plan().cost == 54
    assert study.plan().cost_resumed == 36
    finish(study, noisy(1))
    fill = study.quote("efficient", to=27)
    assert fill.title == "filling 'efficient', max_budget 27"
    assert fill.cost.spent == sum(run.cost for run in study.runs) == 78 + 54
    assert fill.cost.scratch == deepband.Schedule.of(3, 1, 9).cost + fill.cost.fresh
    assert study.quote("frugal", to=27).cost.high == 0


@pytest.mark.parametrize(("eta", "high"), [(2, 16), (2, 64), (3, 9), (3, 27), (3, 81), (4, 64)])
def test_it_costs_6_to_15_percent_of_a_fresh_run(eta: int, high: int) -> None:
    study = open_study(eta=eta, max_budget=high)
    finish(study, noisy(1))
    quote = study.quote("frugal")
    assert 0.06 <= quote.cost.of_fresh[0] <= 0.15
    assert f"| {eta} | {high} to {high * eta} | {quote.evaluations_new[0]} | " in DEEPENING
    shares = [f"{100 * price.of_fresh[0]:.0f} %" for price in (quote.cost, quote.cost_resumed)]
    assert f"{quote.evaluations_new[0]} | {shares[0]} | {shares[1]} |" in DEEPENING


DEEPENING = (Path(__file__).parents[2] / "docs" / "explanation" / "deepening.md").read_text()


# Beside it: work ahead, configs and results from elsewhere, failures, checkpoints


def with_work_ahead() -> Study:
    study = open_study()
    simulated = SimulatedExecutor(50, lambda job: 1e6 if job.budget == 9 else job.budget)
    study.optimize(lambda config, budget: config["x"] / budget, executor=simulated, ahead=True)
    return study


@pytest.mark.parametrize("strategy", STRATEGIES)
@pytest.mark.parametrize("levels", [0, 1])
def test_what_is_ahead_waits_for_the_next_full_run(strategy: StrategyName, levels: int) -> None:
    """And decides nothing before: else the number of workers would."""
    plain, study = open_study(), with_work_ahead()
    plain.optimize(lambda config, budget: config["x"] / budget)
    assert len(study.session.state.ahead.results) == 32
    for each in (plain, study):
        each.deepen("frugal")
        each.optimize(lambda config, budget: config["x"] / budget, ahead=True)
    assert study.runs[1].evaluations == plain.runs[1].evaluations == 2
    assert len(study.session.state.ahead.results) == 32  # no more, no fewer
    assert list(hyperband.jobs_ahead(study.session.state)) == []
    for state in (
        State(history(study.session.state)),
        State(study.session.storage.load()),
        study.session.state.copy(),
    ):
        assert state.ahead.results == study.session.state.ahead.results
        assert state.results == study.session.state.results
    to = 27 * 3**levels
    price, whole = (each.quote("efficient", to=to).cost for each in (study, plain))
    assert price.low + price.spent == whole.low + whole.spent
    assert price.low < whole.low
    for each in (plain, study):
        each.deepen(strategy, to=to)
        assert not each.session.state.ahead.results
        each.optimize(lambda config, budget: config["x"] / budget)
    assert list(canonical(study.session.state)) == list(canonical(plain.session.state))
    assert [run.cost for run in study.runs] == [run.cost for run in plain.runs]
    again = State(study.session.storage.load())
    assert again.results == study.session.state.results
    assert list(canonical(State(history(study.session.state)))) == list(
        canonical(study.session.state)
    )


def test_a_worker_that_still_runs_a_job_ahead_may_tell_it(tmp_path: Path) -> None:
    """Its driver died; the next one deepened frugally meanwhile."""
    study = frugal(run=False, storage=tmp_path / "a.study")
    (job,) = study.session.reserve([(0, 9, 0)])
    study.tell(job, 0.5)
    assert study.session.reserve([(0, 9, 0), (0, 27, 0), (0, 10, 1)]) == []
    assert list(study.session.state.ahead.results) == [(0, 9, 0)]
    check_same(study, tmp_path / "a.study")
    finish(study, noisy(1))
    study.deepen("frugal")
    finish(study, noisy(1))
    check_same(study, tmp_path / "a.study")
    study.deepen("preserving", to=81)
    assert study.session.state.results[0, 0][9].run == 3
    check_same(study, tmp_path / "a.study")


def test_configs_of_yours_wait_until_there_are_places() -> None:
    study = frugal(run=False)
    assert study.enqueue({"x": 0.25}) == (0, 9)
    assert study.enqueue({"x": 0.75}, bracket=3) == (3, 0)
    for index in range(10, 27):
        study.enqueue({"x": index / 100})
    with pytest.raises(InputError, match="no place left"):
        study.enqueue({"x": 0.5})
    assert len(finish(study, noisy(1))) == 2
    study.deepen("preserving", to=27)
    found = {job.key: job.config for job in study.ask_all()}
    assert found[0, 9, 0] == {"x": 0.25}
    assert found[3, 0, 3] == {"x": 0.75}


def test_results_from_elsewhere_find_their_places(tmp_path: Path) -> None:
    study = frugal(run=False, storage=tmp_path / "a.study")
    assert study.add_evaluation({"x": 0.25}, 1, 0.5) == (0, 9, 0)
    assert study.add_evaluation({"x": 0.5}, 27, 0.1) == (3, 0, 3)
    with pytest.raises(InputError, match="deepen first"):
        study.add_evaluations({"x": 0.125}, [(1, 0.5), (3, 0.4)])
    with pytest.raises(InputError, match=r"no rung has this budget.*1, 3, 9, 27\."):
        study.add_evaluation({"x": 0.75}, 81, 0.5)
    assert len(finish(study, noisy(1))) == 2
    assert len(study.session.state.ahead.results) == 2
    quote = study.quote("efficient", to=27)
    study.deepen("efficient", to=27)
    finish(study, noisy(1))
    assert study.runs[-1].cost == quote.cost.low
    assert [run.added for run in study.runs] == [0, 0, 2]
    check_same(study, tmp_path / "a.study")


def check_same(study: Study, path: Path) -> None:
    """What is read from the file is what the study knows."""
    whole = state_of(SqliteStorage(path))
    assert list(canonical(whole)) == list(canonical(study.session.state))
    assert whole.runs == study.session.state.runs
    assert whole.results == study.session.state.results
    assert whole.ahead.results == study.session.state.ahead.results
    assert whole.standings.leaders == study.session.state.standings.leaders
    rungs = [[each.rung for each in state.progress] for state in (whole, study.session.state)]
    assert rungs[0] == rungs[1]


def test_a_result_from_elsewhere_of_who_was_taken_over_below_is_known_early() -> None:
    """It changes nothing about which configs are promoted, and is there when it is needed."""
    study = open_study()
    study.add_evaluations({"x": 0.5}, [(1, 9.0), (3, 9.0)])
    finish(study, noisy(1))
    study.deepen("frugal")
    jobs = {job.key for job in study.ask_all()}
    assert study.add_evaluation({"x": 0.5}, 9, -9.0) == (0, 0, 2)
    assert study.add_evaluation({"x": 0.5}, 27, -9.0) == (0, 0, 3)
    assert set(hyperband.running_jobs(study.session.state)) == jobs
    assert State(study.session.storage.load()).results == study.session.state.results


def test_failures_can_be_tried_again_until_the_run_is_done() -> None:
    study = frugal(run=False)
    first, second = study.ask_all()
    study.tell(first, RuntimeError("out of memory"))
    assert study.retry_failed() == 1
    assert study.ask() == first
    study.tell(first, RuntimeError("again"))
    study.tell(second, 0.5)
    assert study.done
    assert study.retry_failed() == 0


def test_training_goes_on_from_the_checkpoint_below(tmp_path: Path) -> None:
    def train(config: dict[str, Any], budget: float, context: Context) -> float:
        (context.path / "state").write_text(str(budget))
        return float(config["x"]) / budget

    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9)
    study.optimize(train)
    assert study.quote("frugal").retraining == 0
    study.deepen("frugal")
    study.optimize(train)
    run = study.runs[-1]
    assert run.cost == 54
    assert run.cost_resumed == run.trained == 36
    assert {e.resumed_from for e in study.evaluations if e.run == 1} == {2}
    study.deepen("discarding", to=27)
    study.optimize(train)
    assert study.runs[-1].trained <= study.runs[-1].cost


def test_the_quote_tells_what_lost_checkpoints_cost(tmp_path: Path) -> None:
    def train(config: dict[str, Any], budget: float, context: Context) -> float:
        (context.path / "state").write_text(str(budget))
        return float(config["x"]) / budget

    study = deepband.open_study(tmp_path / "a.study", space=SPACE, max_budget=9, keep="top:1")
    study.optimize(train)
    assert study.quote("frugal").retraining == 9  # the second best has to start from scratch
    study.deepen("frugal")
    study.optimize(train)
    assert study.runs[-1].trained == 36 + 9


# In files, and shown


@pytest.mark.parametrize("seed", range(6))
def test_any_place_of_any_course_is_read_back_the_same(seed: int, tmp_path: Path) -> None:
    draw = random.Random(seed)
    path = tmp_path / "a.study"
    study = deepband.open_study(path, space=SPACE, max_budget=3)
    objective = noisy(seed, 0.1)
    reader = SqliteStorage(path)
    followed = state_of(reader)
    for _ in range(4):
        while not study.done:
            jobs = study.ask_all()
            draw.shuffle(jobs)
            count = draw.randint(1, len(jobs))
            study.tell_all([(job, objective(job)) for job in jobs[:count]])
            for job in jobs[count:]:
                study.release(job)
            check_same(study, path)
        study.session.start_run(*draw.choice(list(options(study.session.state))))
        check_same(study, path)
        followed.apply(reader.news(followed) or ())
        assert followed.results == study.session.state.results
        assert followed.runs == study.session.state.runs
    assert list(canonical(State(history(study.session.state)))) == list(
        canonical(study.session.state)
    )


@pytest.mark.usefixtures("without_images")
def test_every_face_shows_it() -> None:
    study = frugal()
    lines = str(study.plan()).splitlines()
    assert lines[-1] == (
        "2 configs, 2 evaluations, cost 54 (36 when training continues from the rung below)"
    )
    cells = {(cell.bracket, cell.rung): cell for cell in occupied_cells(study.session.state)}
    assert sum(cell.by_run[1] for (_, rung), cell in cells.items() if rung == 3) == 2
    assert (3, 3) not in cells
    shown = grid(status_of(study.session.state))
    assert [row[0] for row in shown] == ["rung", "budget", *(f"bracket {n}" for n in range(4))]
    assert sorted("".join(row[1:]) for row in shown[2:])[:1] == [""]
    text = make_report(study)
    assert "deepened by frugal to 27 (outside the paper's guarantees)" in text
    ways: list[tuple[StrategyName, int]] = [("preserving", 27), ("preserving", 81), ("frugal", 81)]
    for strategy, to in ways:
        step, *_ = row = quote_table([study.quote(strategy, to=to)])[1]
        assert step == ("filling" if to == 27 else "deepening")
        assert all(f">{cell}</t" in text for cell in row)
    names = [each.run for each in forecast(study, 2, 1.0)]
    assert names == [
        "the current run",
        *(f"filling {name!r}" for name in STRATEGIES),
        *(f"deepening {name!r}" for name in NAMES),
        *(f"widening {name!r}" for name in STRATEGIES),
    ]


def test_the_live_page_shows_it() -> None:
    study = frugal(run=False)
    shown = json.loads(json.dumps(overview(study.session.state, frozenset()), allow_nan=False))
    assert shown["status"]["name"] == "run 1, max_budget 27, frugal"
    assert (shown["status"]["open"], shown["status"]["left"]) == (2, 54)
    assert sum(cell["open"] for cell in shown["cells"] if cell["rung"] == 3) == 2
    assert shown["quotes"]["rows"] == []
    finish(study, noisy(1))
    shown = overview(study.session.state, frozenset())
    rows = [row[:3] for row in shown["quotes"]["rows"]]
    assert rows[:3] == [["filling", name, "27"] for name in STRATEGIES]
    assert len(rows) == 10
    study.enqueue({"x": 0.5})
    for bracket, index in [(0, 0), (2, 0), (0, 9)]:
        page = config_page(study.session.state, bracket, index)
        assert page is not None
        assert bool(page["verdicts"]) == (index < 9)


def test_who_follows_is_told_what_is_ahead_when_it_counts() -> None:
    study, following = with_work_ahead(), Tracker()
    logged: list[deepband.Evaluation] = []
    study.observe(Forwarding(following, logged))
    for strategy in ("frugal", "preserving"):
        study.deepen(strategy, to=27)
        study.optimize(lambda config, budget: config["x"] / budget)
        assert sorted(each[:3] for each in logged) == [each[:3] for each in study.evaluations]
    assert {(each[:3], each.run) for each in logged} == {
        (each[:3], each.run) for each in study.evaluations
    }


class Forwarding:
    """An observer that logs into a list."""

    def __init__(self, following: Tracker, logged: list[deepband.Evaluation]) -> None:
        self.following = following
        self.logged = logged

    def observe(self, facts: Sequence[Fact]) -> None:
        self.following.follow(facts)
        self.following.log_pending(self.logged.extend)


def test_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text("def f(config, budget):\n    return config['x'] / budget\n")
    path = str(tmp_path / "a.study")
    with deepband.open_study(path, space=SPACE, max_budget=9) as study:
        finish(study, noisy(1))

    def call(*arguments: str) -> str:
        done = CliRunner().invoke(main, list(arguments))
        assert done.exit_code == 0, done.output
        return done.output

    run = ("run", path, f"{tmp_path / 'train.py'}:f")
    assert "(outside the paper's guarantees)" in call("quote", path, "--strategy", "frugal")
    out = call("deepen", path, "--strategy", "frugal")
    assert "run 1, frugal, max_budget 27" in out
    assert "outside the paper's guarantees; --to 27 with another strategy fills" in out
    sizes = json.loads(call("plan", path, "--json"))["sizes"]
    assert sum(each[-1] for each in sizes.values()) == 2
    assert sum(map(sum, sizes.values())) == 2
    assert "2 jobs open" in call("status", path)
    call(*run)
    assert "nothing to do" in call("deepen", path, "--strategy", "frugal", "--to", "27")
    assert "filling 'preserving', max_budget 27" in call("quote", path, "--to", "27")
    assert "run 2, preserving, max_budget 27" in call("deepen", path, "--to", "27")
    call(*run)
    assert "nothing to do" in call("deepen", path, "--to", "27")
    assert "run 1 (frugal), rung 2" in call("explain", path, "2", "0")
