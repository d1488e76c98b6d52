"""Results do not depend on the executor: pools, threads, virtual clocks, work ahead."""

from __future__ import annotations

import os
import random
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future, ProcessPoolExecutor, ThreadPoolExecutor
from dataclasses import replace
from multiprocessing import get_context
from pathlib import Path
from typing import Any, cast

import pytest
from click.testing import CliRunner
from hypothesis import given
from hypothesis import strategies as st

import deepband
from deepband import DeepbandError, InputError, Job, ObjectiveError, StorageError, Study
from deepband.analysis.export import canonical
from deepband.core.hyperband import jobs_ahead
from deepband.core.schedule import Schedule
from deepband.core.strategies import NAMES, STRATEGIES, StrategyName
from deepband.execution import outbox
from deepband.execution.executors import futures, remote
from deepband.execution.executors.remote import _run_shared
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.interfaces.cli import main
from deepband.study.forecast import forecast
from driving import wait_until
from preloaded import Process

SPACE = {"x": (0.0, 1.0)}


def loss(config: dict[str, Any], budget: float) -> float:
    """Crossing curves, the same on every executor."""
    return float(config["x"] + random.Random(f"{config['x']} {budget}").random() / budget)


def open_study(place: Path | None = None, **settings: Any) -> Study:
    given: dict[str, Any] = {"space": SPACE, "max_budget": 9, "seed": 5} | settings
    return deepband.open_study(place, **given)


def run_twice(study: Study, run: Callable[[], object], strategy: StrategyName) -> list[str]:
    """The canonical export after a run, a deepening and another run."""
    run()
    study.deepen(strategy)
    run()
    assert study.done
    return list(canonical(study.session.state))


@pytest.mark.parametrize(
    ("workers", "ahead", "strategy"),
    [
        # Each number of workers with and without work ahead; other strategies are heavy.
        pytest.param(
            workers, ahead, strategy, marks=() if (row + ahead) % 3 == column else pytest.mark.heavy
        )
        for row, workers in enumerate([1, 2, 7, 32])
        for ahead in (False, True)
        for column, strategy in enumerate(STRATEGIES)
    ],
)
def test_the_number_of_workers_does_not_matter(
    workers: int, ahead: bool, strategy: StrategyName
) -> None:
    alone, threads = open_study(), open_study()
    expected = run_twice(alone, lambda: alone.optimize(loss), strategy)
    with ThreadPoolExecutor(workers) as pool:
        assert expected == run_twice(
            threads, lambda: threads.optimize(loss, executor=pool, ahead=ahead), strategy
        )


@given(
    seed=st.integers(0, 1000),
    workers=st.integers(1, 40),
    ahead=st.booleans(),
    strategy=st.sampled_from(list(STRATEGIES)),
    max_cost=st.integers(27, 120),
)
def test_any_order_of_results_and_any_stops_give_the_same_study(
    seed: int, workers: int, ahead: bool, strategy: StrategyName, max_cost: int
) -> None:
    """Adversarial durations on a virtual clock, stopped repeatedly by a small limit."""
    draw = random.Random(seed)
    alone, disturbed = open_study(), open_study()

    def run_in_pieces() -> None:
        while not disturbed.done:
            simulated = SimulatedExecutor(workers, lambda job: draw.paretovariate(0.7), seed)
            disturbed.optimize(loss, executor=simulated, ahead=ahead, max_cost=max_cost)

    expected = run_twice(alone, lambda: alone.optimize(loss), strategy)
    assert run_twice(disturbed, run_in_pieces, strategy) == expected


def test_processes_of_the_standard_library() -> None:
    alone, pooled = open_study(), open_study()
    expected = run_twice(alone, lambda: alone.optimize(loss), "preserving")
    with ProcessPoolExecutor(2, get_context("spawn")) as pool:
        assert expected == run_twice(
            pooled, lambda: pooled.optimize(loss, executor=pool), "preserving"
        )


@pytest.mark.heavy
@pytest.mark.parametrize("workers", [2, 7, 32])
def test_any_number_of_processes_and_random_delays(workers: int, tmp_path: Path) -> None:
    """Also interrupted by a time limit, and with work ahead."""

    def delayed(config: dict[str, Any], budget: float) -> float:
        time.sleep(random.Random().paretovariate(1.5) / 100)
        return loss(config, budget)

    alone, study = open_study(max_budget=27), open_study(tmp_path / "a.study", max_budget=27)

    def run_in_pieces() -> None:
        while not study.done:
            study.optimize(delayed, workers=workers, ahead=True, max_seconds=1.5)

    expected = run_twice(alone, lambda: alone.optimize(loss), "preserving")
    assert run_twice(study, run_in_pieces, "preserving") == expected


# Work ahead


def half_done_with_work_ahead(place: Path | None = None, **more: Any) -> Study:
    """A first run whose last job takes so long that everything else is done before."""
    study = open_study(place)
    simulated = SimulatedExecutor(50, lambda job: 1e6 if job.budget == 9 else job.budget)
    study.optimize(loss, executor=simulated, ahead=True, **more)
    return study


def test_jobs_ahead_are_what_any_deepening_needs_the_shortest_first() -> None:
    study = open_study(max_budget=27)
    ahead = list(jobs_ahead(study.session.state))
    assert [rung for _, _, rung in ahead] == sorted(rung for _, _, rung in ahead)
    study.optimize(loss)
    for strategy in STRATEGIES:
        deeper = study.copy()
        deeper.deepen(strategy)
        first = {job.key for job in deeper.ask_all()}
        assert set(ahead) == {key for key in first if key[0] == key[2]}


def test_what_is_ahead_shows_in_quote_and_status_only() -> None:
    plain = open_study()
    plain.optimize(loss)
    study = half_done_with_work_ahead()
    new = Schedule.of(3, 1, 27).configs - Schedule.of(3, 1, 9).configs
    assert len(study.session.state.ahead.results) == new
    assert study.done
    assert [each._replace(seconds=0) for each in study.evaluations] == [
        each._replace(seconds=0) for each in plain.evaluations
    ]
    assert study.best in study.evaluations
    assert list(canonical(study.session.state)) == list(canonical(plain.session.state))
    assert study.explain(0, 3) == plain.explain(0, 3)
    with pytest.raises(InputError):
        study.explain(0, 9)
    [run], [other] = study.runs, plain.runs
    assert replace(run, seconds=0) == replace(other, seconds=0)
    quote, other_quote = study.quote("efficient"), plain.quote("efficient")
    assert quote.configs_new == 0
    assert quote.evaluations_reused[0] == other_quote.evaluations_reused[0] + new
    assert quote.cost.low + quote.cost.spent == other_quote.cost.low + other_quote.cost.spent
    assert quote.cost.low < other_quote.cost.low


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_a_deepening_takes_over_what_is_ahead(strategy: StrategyName, tmp_path: Path) -> None:
    plain = open_study()
    expected = run_twice(plain, lambda: plain.optimize(loss), strategy)
    half_done_with_work_ahead(tmp_path / "a.study").close()
    evaluated: list[tuple[float, float]] = []

    def counting(config: dict[str, Any], budget: float) -> float:
        evaluated.append((config["x"], budget))
        return loss(config, budget)

    with open_study(tmp_path / "a.study") as study:
        assert len(study.session.state.ahead.results) == 32
        study.deepen(strategy)
        assert not study.session.state.ahead.results
        study.optimize(counting)
        assert list(canonical(study.session.state)) == expected
    second = [each for each in plain.evaluations if each.run == 1]
    assert len(evaluated) == len(second) - 32


def test_a_jump_takes_over_what_is_ahead() -> None:
    plain, study = open_study(), half_done_with_work_ahead()
    plain.optimize(loss)
    for each in (plain, study):
        each.deepen("preserving", to=81)
        each.optimize(loss)
    assert list(canonical(study.session.state)) == list(canonical(plain.session.state))


def test_a_limit_to_what_is_spent_ahead() -> None:
    study = half_done_with_work_ahead(ahead_limit=10)
    spent = [key[2] for key in study.session.state.ahead.results]
    assert sum(3**rung for rung in spent) == 10
    with pytest.raises(InputError, match="ahead_limit is -1"):
        open_study().optimize(loss, ahead=True, ahead_limit=-1)


def test_the_limit_to_what_is_spent_ahead_is_exact() -> None:
    """Three jobs of 0.1 cost 0.3, though 0.1 + 0.1 + 0.1 is more in floats."""
    study = open_study(min_budget=0.1, max_budget=0.9)
    simulated = SimulatedExecutor(50, lambda job: job.budget)
    study.optimize(loss, executor=simulated, ahead=True, ahead_limit=0.3)
    assert sorted(key[2] for key in study.session.state.ahead.results) == [0, 0, 0]


def test_work_ahead_leaves_the_run_what_it_needs() -> None:
    study = open_study()
    simulated = SimulatedExecutor(50, lambda job: job.budget)
    study.optimize(loss, executor=simulated, ahead=True, max_cost=float(study.plan().cost))
    assert study.done
    assert not study.session.state.ahead.results
    with pytest.raises(InputError, match="give both"):
        study.optimize(loss, ahead_limit=5)


def test_a_quote_that_goes_nowhere_takes_nothing_that_is_ahead() -> None:
    plain, study = open_study(), half_done_with_work_ahead()
    plain.optimize(loss)
    assert study.quote("efficient", to=9) == plain.quote("efficient", to=9)


def test_a_copy_goes_its_own_way() -> None:
    study = open_study(sampler=Learning())
    job = study.ask()
    assert job is not None
    forecast(study, 4, 1.0)
    copy = study.copy()
    assert copy.ask() == job  # no worker runs it for the copy
    study.tell(job, 0.5)
    study.optimize(loss)
    assert len(copy.evaluations) == 0
    observed = study.copy()
    study.deepen("preserving")
    observed.optimize(loss)
    assert len(study.runs) == 2
    assert len(observed.runs) == 1


def test_as_many_first_failures_as_an_executor_runs_at_once() -> None:
    def half(config: dict[str, Any], budget: float) -> float:
        if config["x"] < 0.6:
            raise ValueError("half of them fail at once")
        time.sleep(0.2)
        return loss(config, budget)

    study = open_study()
    with ThreadPoolExecutor(17) as pool, pytest.warns(deepband.FailedEvaluationsWarning):
        study.optimize(half, executor=pool)
    assert study.done


def test_nothing_ahead_unless_asked_for() -> None:
    study = open_study()
    study.optimize(loss, executor=SimulatedExecutor(50, lambda job: job.budget))
    assert not study.session.state.ahead.results
    assert not study.session.state.ahead.running


class Learning:
    """A sampler that says it learns."""

    learns = True

    def draw(
        self,
        space: Any,
        observations: Any,
        bracket: int,
        indices: Any,
        seed: int,
        pending: Any = (),
    ) -> list[dict[str, float]]:
        return [{"x": (bracket + index) % 7 / 7} for index in indices]


def test_no_work_ahead_for_samplers_that_learn() -> None:
    study = open_study(sampler=Learning())
    with pytest.raises(InputError, match="learns until then: leave out `ahead`"):
        study.optimize(loss, ahead=True)
    study.optimize(loss)


def test_failures_ahead_are_failures_of_the_next_run() -> None:
    def failing(config: dict[str, Any], budget: float) -> float:
        if config["x"] < 0.2:
            raise ValueError("too small")
        return loss(config, budget)

    study = open_study()
    simulated = SimulatedExecutor(50, lambda job: 1e6 if job.budget == 9 else job.budget)
    with pytest.warns(deepband.FailedEvaluationsWarning):
        study.optimize(failing, executor=simulated, ahead=True)
    failed = sum(result.loss is None for result in study.session.state.ahead.results.values())
    assert failed
    assert study.retry_failed() == failed
    study.deepen("preserving")
    study.optimize(loss)
    plain = open_study()
    with pytest.warns(deepband.FailedEvaluationsWarning):
        plain.optimize(failing)
    plain.deepen("preserving")
    plain.optimize(loss)
    assert list(canonical(study.session.state)) == list(canonical(plain.session.state))


def test_telling_a_job_that_nobody_runs_ahead_is_refused() -> None:
    study = open_study()
    with pytest.raises(deepband.JobError, match="does not need it"):
        study.tell(Job(0, 9, 0, 1, {"x": 0.1}), 0.1)


def test_work_ahead_in_processes_and_on_the_command_line(tmp_path: Path) -> None:
    (tmp_path / "train.py").write_text(
        "import time\n"
        "space = {'x': (0.0, 1.0)}\n"
        "def train(config, budget):\n"
        "    time.sleep(0.5 if budget == 9 else 0)\n"
        "    return config['x'] / budget\n"
    )
    study = str(tmp_path / "a.study")
    objective = f"{tmp_path / 'train.py'}:train"
    given = ["run", study, objective, "--max-budget", "9", "--workers", "4"]
    result = CliRunner().invoke(main, [*given, "--ahead", "--ahead-limit", "20"])
    assert result.exit_code == 0, result.output
    shown = CliRunner().invoke(main, ["status", study]).output
    found = re.search(r"(\d+) ahead for the next deepening", shown)
    assert found
    assert 1 <= int(found[1]) <= 18  # of budget 1; the next one has 3
    again = CliRunner().invoke(main, ["deepen", study, "--strategy", "efficient"])
    assert again.exit_code == 0, again.output
    assert "ahead for" not in CliRunner().invoke(main, ["status", study]).output


# Forecasts


QUICK = [(3, 9, 1), (3, 9, 8), (3, 9, 100), (2, 32, 3)]


@pytest.mark.parametrize(
    ("eta", "max_budget", "workers"),
    [
        pytest.param(*each, marks=() if each in QUICK else pytest.mark.heavy)
        for eta, max_budget in [(3, 9), (3, 27), (3, 81), (2, 32)]
        for each in ((eta, max_budget, workers) for workers in (1, 3, 8, 100))
    ],
)
def test_a_forecast_is_what_a_plain_simulation_finds(
    eta: int, max_budget: int, workers: int
) -> None:
    """Compared with slots and end times alone: no study, no losses, no loop."""
    study = open_study(eta=eta, max_budget=max_budget)
    found, *_ = forecast(study, workers, 1.0)
    assert found.jobs == study.plan().evaluations
    assert found.seconds == simulated_seconds(Schedule.of(eta, 1, max_budget), workers)
    longest = sum(eta**rung for rung in range(study.plan().schedule.top + 1))
    assert found.bound == max(float(study.plan().cost) / workers, longest)
    assert found.bound <= found.seconds


def simulated_seconds(schedule: Schedule, workers: int) -> float:
    """A free worker takes the lower rung, then the lower bracket."""
    waiting = {bracket: schedule.start_size(bracket) for bracket in schedule.brackets}
    rungs = {bracket: bracket for bracket in schedule.brackets}
    running: list[tuple[float, int]] = []
    left, clock = dict(waiting), 0.0
    while running or any(waiting.values()):
        for rung, bracket in sorted((rungs[bracket], bracket) for bracket in waiting):
            while waiting[bracket] and len(running) < workers:
                waiting[bracket] -= 1
                running.append((clock + float(schedule.budget(rung)), bracket))
        running.sort()
        clock, bracket = running.pop(0)
        left[bracket] -= 1
        if left[bracket] == 0 and rungs[bracket] < schedule.top:
            rungs[bracket] += 1
            left[bracket] = waiting[bracket] = schedule.slots(bracket, rungs[bracket])
    return clock


def test_forecasts_of_a_study_that_is_half_done() -> None:
    study = open_study(max_budget=9)
    whole, *_ = forecast(study, 1, 2.0)
    assert whole.seconds == 2 * study.plan().cost
    assert whole.bound == whole.seconds
    assert whole.utilisation == 1
    resumed, *_ = forecast(study, 1, 2.0, resumed=True)
    assert resumed.seconds == pytest.approx(2 * float(study.plan().cost_resumed))
    study.optimize(loss, max_cost=30)
    half, *deepened = forecast(study, 4, 2.0)
    assert half.jobs == study.plan().evaluations - len(study.evaluations)
    *deepened, _, _, widened = deepened
    assert [each.run for each in deepened] == [f"deepening {name!r}" for name in NAMES]
    assert widened.run == "widening 'efficient'"
    assert not study.done  # it was only simulated
    *paper, frugal = deepened
    assert min(paper, key=lambda each: each.jobs).run == "deepening 'efficient'"
    assert frugal.jobs == 2


def test_workers_worth_having() -> None:
    study = open_study(max_budget=9)
    found, *_ = forecast(study, 4, 1.0)
    seconds = {n: forecast(study, n, 1.0)[0].seconds for n in (found.worth, 2 * found.worth)}
    assert seconds[2 * found.worth] > 0.9 * seconds[found.worth]
    for workers in (0, -1):
        with pytest.raises(InputError, match="seconds above 0"):
            forecast(study, workers, 1.0)


def test_the_plan_on_the_command_line(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    open_study(place).close()
    shown = CliRunner().invoke(
        main, ["plan", str(place), "--workers", "4", "--seconds-per-unit", "30"]
    )
    assert shown.exit_code == 0, shown.output
    assert "with 4 workers" in shown.output
    assert "deepening 'efficient'" in shown.output
    wrong = CliRunner().invoke(main, ["plan", str(place), "--workers", "4"])
    assert wrong.exit_code == 2
    assert "give --seconds-per-unit" in wrong.output
    with deepband.open_study(place) as study:
        study.optimize(loss, max_cost=3)
    measured = CliRunner().invoke(main, ["plan", str(place), "--workers", "4"])
    assert "with 4 workers" in measured.output


# Executors that misbehave


def test_a_worker_of_another_host_lives_while_it_gives_signs_of_life(tmp_path: Path) -> None:
    box = outbox.Outbox(tmp_path)
    box.make()
    place = box.job_file((0, 1, 0), "token")
    place.write_text('{"pid": 1, "host": "elsewhere", "started": 0, "deadline": null}')
    assert [running.key for running in box.running()] == [(0, 1, 0)]
    os.utime(place, (0, time.time() - outbox.SECONDS_SILENT - 1))
    assert box.running() == []


@pytest.fixture
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """Heartbeats every tenth of a second, and little patience."""
    monkeypatch.setattr(remote, "SECONDS_BETWEEN_HEARTBEATS", 0.1)
    monkeypatch.setattr(futures, "SECONDS_SILENT", 1.5)
    monkeypatch.setattr(futures, "SECONDS_BETWEEN_CHECKS", 0.1)


class Twice(ThreadPoolExecutor):
    """Runs every task twice, and returns the second result."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        super().submit(function, *arguments, **named).result()
        return super().submit(function, *arguments, **named)


def test_a_task_that_the_executor_runs_twice() -> None:
    evaluated: list[tuple[float, float]] = []

    def counting(config: dict[str, Any], budget: float) -> float:
        evaluated.append((config["x"], budget))
        return loss(config, budget)

    study, alone = open_study(), open_study()
    alone.optimize(loss)
    with Twice(2) as pool:
        study.optimize(counting, executor=pool)
    assert list(canonical(study.session.state)) == list(canonical(alone.session.state))
    assert len(evaluated) == len(study.evaluations)


class AtOnceTwice(ThreadPoolExecutor):
    """Runs every task twice concurrently, and returns the second result."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        super().submit(function, *arguments, **named)
        time.sleep(0.1)
        return super().submit(function, *arguments, **named)


def test_a_task_that_runs_twice_at_once() -> None:
    """The second is refused, counts as lost, and is retried."""

    def slow(config: dict[str, Any], budget: float) -> float:
        time.sleep(0.3)
        return loss(config, budget)

    study = open_study(max_budget=1)
    with AtOnceTwice(8) as pool, pytest.warns(deepband.FailedEvaluationsWarning):
        study.optimize(slow, executor=pool, workers=1, retries=0, first_failures=0)
    errors = {each.error for each in study.evaluations}
    assert len(errors) == len(study.evaluations) == 1
    assert "RanTwiceError" in str(errors)


class Shrinking(futures.Pool):
    """Loses half of its workers after a while."""

    def size(self) -> int:
        return 4 if self.submitted < 6 else 2

    submitted = 0
    most = 0

    def submit(self, function: Any, *arguments: Any) -> Future[Any]:
        self.submitted += 1
        self.most = max(self.most, cast("Any", self.executor)._work_queue.qsize())
        return super().submit(function, *arguments)


def test_a_pool_that_shrinks_is_not_flooded(monkeypatch: pytest.MonkeyPatch) -> None:
    pools: list[Shrinking] = []

    def shrinking(executor: Executor, workers: int | None) -> Shrinking:
        pools.append(Shrinking(executor, workers))
        return pools[-1]

    monkeypatch.setattr(futures, "Pool", shrinking)
    study = open_study()
    with ThreadPoolExecutor(2) as pool:
        study.optimize(loss, executor=pool, ahead=True)
    assert study.done
    assert pools[0].most <= 4


def test_places_held_by_tasks_that_hang_are_waited_for(quick: None) -> None:
    release, hung = threading.Event(), list[float]()

    def hanging(config: dict[str, Any], budget: float) -> float:
        if len(hung) < 2:
            hung.append(budget)
            release.wait(30)
        return loss(config, budget)

    study = open_study()
    threading.Timer(1.5, release.set).start()
    with ThreadPoolExecutor(2) as pool:
        study.optimize(hanging, executor=pool, timeout=0.5)
    assert study.done
    assert all(each.loss is not None for each in study.evaluations)


def test_what_a_lost_task_still_does_harms_nobody(quick: None, tmp_path: Path) -> None:
    """The first attempt at each config on rung 1 hangs, is given up, and then fails while the
    second one trains: its end must not touch the checkpoint of the other."""
    begun: set[str] = set()

    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        job, _, _ = context.path.name.partition(".")
        if budget == 3 and job not in begun:
            begun.add(job)
            time.sleep(2.2)
            raise RuntimeError("too late")
        time.sleep(1.0 if budget == 3 else 0.0)
        (context.path / "weights").write_text(str(budget))
        return loss(config, budget)

    study, alone = open_study(tmp_path / "a.study"), open_study()
    alone.optimize(loss)
    with ThreadPoolExecutor(20) as pool:
        study.optimize(train, executor=pool, timeout=1.5)
    assert [each for each in study.evaluations if each.loss is None] == []
    assert list(canonical(study.session.state)) == list(canonical(alone.session.state))


def test_a_broken_pool_is_nobodys_verdict(tmp_path: Path) -> None:
    def dying(config: dict[str, Any], budget: float) -> float:
        if config["x"] < 0.2:
            os.kill(os.getpid(), signal.SIGKILL)
        time.sleep(0.2)
        return loss(config, budget)

    study = open_study()
    with (
        ProcessPoolExecutor(20, get_context("fork")) as pool,
        pytest.raises(DeepbandError, match="BrokenProcessPool"),
    ):
        study.optimize(dying, executor=pool, retries=0)
    assert all(each.loss is not None for each in study.evaluations)


def test_a_broken_pool_ends_a_worker_that_runs_no_python_code(tmp_path: Path) -> None:
    """Signal handlers of Python would have to wait for it."""
    busy = tmp_path / "busy"

    def stuck_or_dying(config: dict[str, Any], budget: float) -> float:
        try:
            busy.touch(exist_ok=False)
        except FileExistsError:
            os.kill(os.getpid(), signal.SIGKILL)
        return sum(range(10**13))

    with (
        ProcessPoolExecutor(2, get_context("fork")) as pool,
        pytest.raises(DeepbandError, match="BrokenProcessPool"),
    ):
        open_study().optimize(stuck_or_dying, executor=pool, retries=0)


def test_a_forked_worker_can_be_terminated() -> None:
    """Although it inherits the signal handlers of its driver."""

    def terminated(config: dict[str, Any], budget: float) -> float:
        os.kill(os.getpid(), signal.SIGTERM)
        return loss(config, budget)

    study = open_study()
    with (
        ProcessPoolExecutor(2, get_context("fork")) as pool,
        pytest.raises(DeepbandError, match="BrokenProcessPool"),
    ):
        study.optimize(terminated, executor=pool)
    assert not study.evaluations


def test_ctrl_c_is_no_verdict_of_a_worker(tmp_path: Path) -> None:
    """A terminal interrupts all processes of a group."""
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "from concurrent.futures import ProcessPoolExecutor\n"
        "from multiprocessing import get_context\n"
        "from pathlib import Path\n"
        "from uuid import uuid4\n"
        "import deepband\n"
        f"here = Path({str(tmp_path)!r})\n"
        "def train(config, budget):\n"
        "    (here / f'begun-{uuid4()}').touch()\n"
        "    time.sleep(0.2)\n"
        "    return config['x']\n"
        "if __name__ == '__main__':\n"
        "    study = deepband.open_study('a.study', space={'x': (0.0, 1.0)}, max_budget=9)\n"
        "    with ProcessPoolExecutor(2, get_context('spawn')) as pool:\n"
        "        study.optimize(train, executor=pool)\n"
    )
    process = subprocess.Popen(
        [sys.executable, str(script)], cwd=tmp_path, start_new_session=True, stderr=subprocess.PIPE
    )
    wait_until(lambda: len(list(tmp_path.glob("begun-*"))) > 6)  # so some have ended
    os.killpg(process.pid, signal.SIGINT)
    process.communicate(timeout=60)
    with open_study(tmp_path / "a.study", seed=0) as study:
        assert study.evaluations
        assert not study.done
        assert all(each.loss is not None for each in study.evaluations)


def test_a_driver_killed_with_work_ahead(tmp_path: Path) -> None:
    """Jobs of the current run and ahead of the next one in one bracket, all orphans."""
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "from pathlib import Path\n"
        "from uuid import uuid4\n"
        "import deepband\n"
        f"here = Path({str(tmp_path)!r})\n"
        "def slow(config, budget):\n"
        "    (here / f'begun-{uuid4()}').touch()\n"
        "    while not (here / 'go').exists():\n"
        "        time.sleep(0.02)\n"
        "    return config['x']\n"
        "if __name__ == '__main__':\n"
        "    study = deepband.open_study('a.study', space={'x': (0.0, 1.0)}, max_budget=3)\n"
        "    study.optimize(slow, workers=8, ahead=True)\n"
    )
    process = Process([script], cwd=tmp_path, start_new_session=True)
    wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 8)
    process.kill()
    process.wait()
    (tmp_path / "go").touch()

    def quick_loss(config: dict[str, Any], budget: float) -> float:
        return float(config["x"])

    with open_study(tmp_path / "a.study", max_budget=3, seed=0) as study:
        study.optimize(quick_loss, workers=2)
        assert study.done
        assert len(study.session.state.ahead.results) == 3
    with open_study(tmp_path / "a.study", max_budget=3, seed=0) as study:
        found = run_twice(study, lambda: study.optimize(quick_loss), "preserving")
    alone = open_study(max_budget=3, seed=0)
    assert found == run_twice(alone, lambda: alone.optimize(quick_loss), "preserving")


def test_a_broken_pool_stops_the_run_and_keeps_what_is_known(tmp_path: Path) -> None:
    def dying(config: dict[str, Any], budget: float) -> float:
        if budget == 3:
            os.kill(os.getpid(), signal.SIGKILL)
        return loss(config, budget)

    place = tmp_path / "a.study"
    with (
        open_study(place) as study,
        ProcessPoolExecutor(2, get_context("fork")) as pool,
        pytest.raises(DeepbandError, match=r"accepts no more tasks: BrokenProcessPool"),
    ):
        study.optimize(dying, executor=pool)
    with open_study(place) as study:
        assert 5 <= len(study.evaluations) < 22
        assert all(each.loss is not None for each in study.evaluations)
        study.optimize(loss)
        assert study.done


def test_a_worker_without_a_sign_of_life_is_lost(quick: None, tmp_path: Path) -> None:
    def stopping(config: dict[str, Any], budget: float) -> float:
        try:
            (tmp_path / "stopped").touch(exist_ok=False)
        except FileExistsError:
            return loss(config, budget)
        os.kill(os.getpid(), signal.SIGSTOP)
        return 0.0

    alone, study = open_study(), open_study(tmp_path / "a.study")
    alone.optimize(loss)
    with ProcessPoolExecutor(2, get_context("fork")) as pool:
        study.optimize(stopping, executor=pool)
        assert list(canonical(study.session.state)) == list(canonical(alone.session.state))
        for process in pool._processes.values():
            process.kill()


class Elsewhere(ThreadPoolExecutor):
    """Runs tasks where the study's path means another folder."""

    def __init__(self, workers: int, folder: Path) -> None:
        super().__init__(workers)
        self.folder = folder

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        shipped, order = arguments
        return super().submit(function, shipped, replace(order, folder=self.folder))


def test_checkpoints_need_a_shared_folder(tmp_path: Path) -> None:
    def with_context(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        return loss(config, budget)

    study = open_study(tmp_path / "a.study")
    with (
        Elsewhere(2, tmp_path / "elsewhere") as pool,
        pytest.raises(StorageError, match=r"is not shared by all workers: .* cannot see it"),
    ):
        study.optimize(with_context, executor=pool)
    assert not study.evaluations
    with Elsewhere(2, tmp_path / "elsewhere") as pool:
        study.optimize(loss, executor=pool)
    assert study.done


class Untravelled:
    """Can be pickled, but not unpickled."""

    def __call__(self, config: dict[str, Any], budget: float) -> float:
        return 0.0

    def __reduce__(self) -> Any:
        return _raise_there, (os.getpid(),)


def _raise_there(pid: int) -> Untravelled:
    if os.getpid() != pid:
        raise ModuleNotFoundError("No module named 'torch'")
    return Untravelled()


def test_an_objective_that_cannot_be_loaded_there() -> None:
    study = open_study()
    with (
        ProcessPoolExecutor(2, get_context("fork")) as pool,
        pytest.raises(ObjectiveError, match="No module named 'torch'"),
    ):
        study.optimize(Untravelled(), executor=pool)
    assert not study.evaluations


class Silent(Executor):
    """Does not say how many tasks it runs concurrently."""

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        future: Future[Any] = Future()
        future.set_result(function(*arguments, **named))
        return future


def test_an_executor_that_does_not_tell_its_size() -> None:
    study = open_study()
    with pytest.raises(InputError, match="Silent does not say how many tasks it runs concurrently"):
        study.optimize(loss, executor=Silent())
    study.optimize(loss, executor=Silent(), workers=3)
    assert study.done


@pytest.mark.parametrize("given", ["pbs", "Slurm", "dask", 4, "ray:/1"])
def test_no_executor(given: Any) -> None:
    with pytest.raises(InputError, match=r"give 'dask://host:port'"):
        open_study().optimize(loss, executor=given)


def test_slurm_needs_a_study_in_a_file() -> None:
    with pytest.raises(InputError, match="executor is 'slurm', but the study is in memory"):
        open_study().optimize(loss, executor="slurm", resources={"timeout_min": 1})


def test_only_slurm_takes_texts_as_resources() -> None:
    with pytest.raises(InputError, match="the amount of the resource 'partition' is 'gpu'"):
        open_study().optimize(loss, executor="ray", resources={"partition": "gpu"})


def test_resources_without_a_cluster() -> None:
    with pytest.raises(InputError, match="omit them for other executors"):
        open_study().optimize(loss, workers=2, resources={"num_gpus": 1})


def test_the_drivers_files_are_gone_at_the_end(tmp_path: Path) -> None:
    with open_study(tmp_path / "a.study") as study, ThreadPoolExecutor(3) as pool:
        study.optimize(loss, executor=pool)
    assert not list(left_behind(tmp_path / "a.study.files"))


def left_behind(files: Path) -> Iterator[Path]:
    yield from files.glob("jobs/*")
    yield from files.glob("outbox/*")
    yield from files.glob(".driver-*")


class Late(ThreadPoolExecutor):
    """One task of the next run has found the study's folder, but begins only after the run that
    submitted it has ended."""

    def __init__(self) -> None:
        super().__init__(8)
        self.ended = threading.Event()
        self.began: list[Future[Any]] = []

    def submit(self, function: Any, /, *arguments: Any, **named: Any) -> Future[Any]:
        key = arguments[1].key
        if self.began or key[1] < 9 or key[0] > 0:  # not ahead
            return super().submit(function, *arguments, **named)

        def late() -> Any:
            assert self.ended.wait(60)
            return _run_shared(*arguments)

        self.began.append(super().submit(late))
        return self.began[0]


def test_a_task_that_begins_when_nobody_waits_any_more_leaves_no_verdict(tmp_path: Path) -> None:
    """A job ahead that waits in a cluster's queue until after the end of the run."""

    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        (context.path / "weights").write_text(str(budget))
        return loss(config, budget)

    study, alone = open_study(tmp_path / "a.study"), open_study()
    with Late() as pool:
        study.optimize(train, executor=pool, ahead=True)
        pool.ended.set()
        assert pool.began
        wait_until(pool.began[0].done)
        study.deepen("efficient")
        study.optimize(train, executor=pool)
    for strategy in (None, "efficient"):
        if strategy:
            alone.deepen("efficient")
        alone.optimize(loss)
    assert list(canonical(study.session.state)) == list(canonical(alone.session.state))
