"""The contract that every executor fulfils."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import dataclass, field
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias, cast

import pytest

import clusters
import deepband
import slurm as slurm_support
from deepband import DeepbandError, Job
from deepband.core.criteria import Criteria
from deepband.execution import slurm_queue
from deepband.execution.executors.base import Ended, Executor
from deepband.execution.executors.inline import InlineExecutor
from deepband.execution.executors.processes import ProcessExecutor
from deepband.execution.executors.selection import choose
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.execution.loop import POLL_SECONDS
from deepband.execution.objective import Task
from deepband.execution.outbox import Outbox
from deepband.system.interrupts import Interrupts
from driving import wait_until
from preloaded import Process

LONG = 3600.0
"""Seconds. Longer than the time limit of a test."""


def make_objective() -> Any:
    """An objective that is pickled by value and does what its config says."""

    def act(config: dict[str, Any], budget: float) -> float:
        import os
        import signal
        import time
        from pathlib import Path

        if config["do"] == "die":
            os.kill(os.getpid(), signal.SIGKILL)
        if config["do"] == "fail":
            raise ValueError("on purpose")
        if config["do"] == "hold":
            Path(config["gate"]).with_suffix(".begun").touch()
            while not Path(config["gate"]).exists():
                time.sleep(0.01)
            Path(config["gate"]).with_suffix(".ended").touch()
        return float(budget)

    return act


@dataclass
class Bench:
    """An executor with the folder that it shares with its workers."""

    kind: str
    folder: Path
    stack: ExitStack
    request: pytest.FixtureRequest
    outbox: Outbox = field(init=False)
    submitted: int = 0

    def __post_init__(self) -> None:
        self.outbox = Outbox(self.folder)
        self.outbox.make()

    @property
    def gate(self) -> Path:
        """Tasks with the action "hold" end when this exists."""
        return self.folder / "gate"

    def open(self, timeout: float | None = None) -> Executor:
        executor = KINDS[self.kind](self, timeout)
        self.stack.callback(executor.close)
        self.stack.callback(self.gate.touch)  # runs first, so that no task blocks the closing
        return executor

    def task(self, do: str = "return") -> Task:
        self.submitted += 1
        config = {"do": do, "gate": str(self.gate)}
        return Task(Job(0, self.submitted, 0, self.submitted, config), None, Criteria(), True)

    def choose(
        self,
        given: Any,
        workers: int,
        timeout: float | None,
        resources: dict[str, Any] | None = None,
    ) -> Executor:
        return choose(
            given,
            make_objective(),
            Interrupts(),
            self.outbox,
            workers=workers,
            timeout=timeout,
            resources=resources,
        )


Opening: TypeAlias = Callable[[Bench, float | None], Executor]


def inline(bench: Bench, timeout: float | None) -> Executor:
    return bench.choose(None, 1, timeout)


def processes(bench: Bench, timeout: float | None) -> Executor:
    return bench.choose(None, 2, timeout)


def simulated(bench: Bench, timeout: float | None) -> Executor:
    return bench.choose(SimulatedExecutor(2, lambda job: 1e6 * job.budget), 0, timeout)


def threads(bench: Bench, timeout: float | None) -> Executor:
    pool = bench.stack.enter_context(ThreadPoolExecutor(2))
    return bench.choose(pool, 0, timeout)


def process_pool(bench: Bench, timeout: float | None) -> Executor:
    pool = bench.stack.enter_context(ProcessPoolExecutor(2, get_context("spawn")))
    return bench.choose(pool, 0, timeout)


def dask(bench: Bench, timeout: float | None) -> Executor:
    return bench.choose(bench.request.getfixturevalue("dask_client"), 0, timeout)


def ray(bench: Bench, timeout: float | None) -> Executor:
    bench.request.getfixturevalue("ray_cluster")
    return bench.choose("ray", 0, timeout)


def slurm(bench: Bench, timeout: float | None) -> Executor:
    bench.request.getfixturevalue("slurm_cluster")
    return bench.choose("slurm", 2, timeout, slurm_support.RESOURCES)


def loky(bench: Bench, timeout: float | None) -> Executor:
    return bench.choose(bench.request.getfixturevalue("loky_pool"), 0, timeout)


def mpi(bench: Bench, timeout: float | None) -> Executor:
    return bench.choose(bench.request.getfixturevalue("mpi_pool"), 2, timeout)


KINDS: dict[str, Opening] = {
    "inline": inline,
    "simulated": simulated,
    "processes": processes,
    "threads": threads,
    "process pool": process_pool,
    "dask": dask,
    "ray": ray,
    "slurm": slurm,
    "loky": loky,
    "mpi": mpi,
}
CLUSTERS = ("dask", "ray", "slurm")
POOLS = ("process pool", "loky")
"""Executors that break when a worker dies. One of MPI then ends this process, too."""
ELSEWHERE = ("processes", "threads", *POOLS, "mpi", *CLUSTERS)
"""Executors whose tasks run concurrently with the driver, and may time out."""
DYING = ("processes", *CLUSTERS)
"""Executors that survive the death of a worker."""
HEAVY = (*CLUSTERS, "loky", "mpi")


def over(*kinds: str) -> pytest.MarkDecorator:
    """Run a test over these kinds of executors."""
    marked = [
        pytest.param(kind, marks=clusters.MARKS if kind in HEAVY else [], id=kind) for kind in kinds
    ]
    return pytest.mark.parametrize("bench", marked, indirect=True)


@pytest.fixture
def bench(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Bench]:
    with ExitStack() as stack:
        yield Bench(request.param, tmp_path, stack, request)


@pytest.fixture(scope="module")
def dask_client() -> Iterator[Any]:
    with clusters.dask_client(2) as client:
        yield client


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    with clusters.ray_connection(2):
        yield


@pytest.fixture(scope="module")
def slurm_cluster(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with (
        slurm_support.slurm_cluster(tmp_path_factory.mktemp("slurm")),
        pytest.MonkeyPatch.context() as patch,
    ):
        patch.setattr(slurm_queue, "SECONDS_BETWEEN_QUERIES", 1.0)
        yield


@pytest.fixture
def loky_pool() -> Iterator[Any]:
    from loky import ProcessPoolExecutor

    pool = ProcessPoolExecutor(2)
    yield pool
    pool.shutdown(kill_workers=True)


@pytest.fixture(scope="module")
def mpi_pool() -> Iterator[Any]:
    with clusters.mpi_pool(2) as pool:
        yield pool


def losses(all_ended: Iterable[Ended]) -> dict[int, float | None]:
    """By the index of the job."""
    attempts = {each.task.job.index: each.attempt for each in all_ended}
    return {index: each and cast(float, each.outcome.loss) for index, each in attempts.items()}


class TestExecutor:
    """What a driver may rely on. The simulated executor takes no real time for its tasks."""

    @over(*KINDS)
    def test_wait_blocks_up_to_its_limit_when_nothing_runs(self, bench: Bench) -> None:
        executor = bench.open()
        start = time.monotonic()
        assert list(executor.wait(0.3)) == []
        assert time.monotonic() - start >= 0.3

    @over(*ELSEWHERE)
    def test_wait_blocks_up_to_its_limit_when_nothing_ends(self, bench: Bench) -> None:
        executor = bench.open()
        executor.submit([bench.task("hold")])
        start = time.monotonic()
        assert list(executor.wait(0.3)) == []
        assert time.monotonic() - start >= 0.3

    @over(*KINDS)
    def test_wait_returns_as_soon_as_a_task_ends(self, bench: Bench) -> None:
        executor = bench.open()
        executor.submit([bench.task()])
        [ended] = executor.wait(LONG)
        assert ended.attempt is not None
        assert ended.attempt.outcome.loss == 1.0
        assert ended.lost is None

    @over(*ELSEWHERE)
    def test_a_task_that_runs_on_delays_no_other(self, bench: Bench) -> None:
        executor = bench.open()
        executor.submit([bench.task("hold")])
        executor.submit([bench.task()])
        assert losses(executor.wait(LONG)) == {2: 2.0}
        bench.gate.touch()
        assert losses(executor.wait(LONG)) == {1: 1.0}

    @over(*ELSEWHERE)
    def test_wait_returns_as_soon_as_a_task_is_too_late(self, bench: Bench) -> None:
        executor = bench.open(timeout=0.5)
        executor.submit([bench.task("hold")])
        [ended] = executor.wait(LONG)
        assert ended.attempt is None
        assert (ended.lost or "").startswith("Timeout: it took more than 0.5 seconds")

    @over(*KINDS)
    def test_free_counts_the_tasks_that_can_be_submitted(self, bench: Bench) -> None:
        executor = bench.open()
        size = executor.free
        assert size == (1 if bench.kind == "inline" else 2)
        for left in reversed(range(size)):
            executor.submit([bench.task()])
            assert executor.free == left
        ended: list[Ended] = []
        while len(ended) < size:
            ended += executor.wait(LONG)
            assert executor.free == len(ended)

    @over(*KINDS)
    def test_each_task_ends_once(self, bench: Bench) -> None:
        """Including tasks that fail: a failure is a result."""
        executor = bench.open()
        waiting = [bench.task("fail" if number == 4 else "return") for number in range(1, 9)]
        ended: list[Ended] = []
        while len(ended) < 8:
            while waiting and executor.free:
                executor.submit([waiting.pop()])
            ended += executor.wait(LONG)
        assert losses(ended) == {n: None if n == 4 else float(n) for n in range(1, 9)}
        assert set(Counter(each.task.job.key for each in ended).values()) == {1}
        assert list(executor.wait(0.2)) == []

    @over(*KINDS)
    def test_what_an_objective_raises_is_a_result(self, bench: Bench) -> None:
        executor = bench.open()
        executor.submit([bench.task("fail")])
        [ended] = executor.wait(LONG)
        assert ended.attempt is not None
        assert ended.attempt.outcome.loss is None
        assert (ended.attempt.outcome.error or "").startswith("ValueError: on purpose")

    @over(*DYING)
    def test_a_worker_that_dies_loses_its_task_and_no_other(self, bench: Bench) -> None:
        executor = bench.open()
        executor.submit([bench.task("die")])
        [ended] = executor.wait(LONG)
        assert ended.attempt is None
        assert (ended.lost or "").startswith("WorkerDied: ")
        wait_until(lambda: executor.free)
        executor.submit([bench.task()])
        assert losses(executor.wait(LONG)) == {2: 2.0}

    @over(*POOLS)
    def test_a_pool_that_breaks_ends_the_run(self, bench: Bench) -> None:
        executor = bench.open()
        executor.submit([bench.task("die")])
        with pytest.raises(DeepbandError, match=r"accepts no more tasks: (Broken|Terminated)"):
            executor.wait(LONG)

    @over(*KINDS)
    def test_close_ends_what_was_not_begun(self, bench: Bench) -> None:
        executor = bench.open()
        executor.submit([bench.task()])
        executor.close()
        executor.close()
        assert bench.outbox.running() == []

    @over(*ELSEWHERE)
    def test_close_waits_for_no_task_and_wants_no_result(self, bench: Bench) -> None:
        """The task ends after `close` has returned, unless its worker was killed."""
        executor = bench.open()
        executor.submit([bench.task("hold")])
        assert list(executor.wait(0.0)) == []  # some executors start tasks here
        wait_until(bench.gate.with_suffix(".begun").exists)
        executor.close()
        assert bench.outbox.running() == []
        bench.gate.touch()
        bench.stack.close()
        assert list(bench.outbox.results.iterdir()) == []


@pytest.mark.parametrize("executor", [InlineExecutor, ProcessExecutor])
def test_a_driver_that_waits_for_the_worker_of_a_dead_one_does_not_spin(
    executor: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The worker continues until the second driver has waited for it five times."""
    script = tmp_path / "script.py"
    script.write_text(
        "import time\n"
        "from pathlib import Path\n"
        "import deepband\n"
        "def slow(config, budget):\n"
        f"    here = Path({str(tmp_path)!r})\n"
        "    (here / 'begun').touch()\n"
        "    while not (here / 'go').exists():\n"
        "        time.sleep(0.02)\n"
        "    return config['x']\n"
        "study = deepband.open_study('a.study', space={'x': (0.0, 1.0)}, max_budget=1)\n"
        "study.optimize(slow, workers=2)\n"
    )
    driver = Process([script], cwd=tmp_path)
    wait_until((tmp_path / "begun").exists)
    driver.kill()
    driver.wait()
    original, waits = executor.wait, list[float]()

    def counted(self: Any, seconds: float) -> Sequence[Ended]:
        waits.append(time.monotonic())
        if len(waits) > 5:
            (tmp_path / "go").touch()
        return cast("Sequence[Ended]", original(self, seconds))

    monkeypatch.setattr(executor, "wait", counted)
    with deepband.open_study(tmp_path / "a.study") as study:
        study.optimize(make_objective(), workers=1 if executor is InlineExecutor else 2)
        assert [each.error for each in study.evaluations] == [None]
    assert waits[5] - waits[0] >= 5 * POLL_SECONDS
