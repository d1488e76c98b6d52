"""Real clusters of Dask and Ray, started and killed by the tests."""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import DeepbandError, InputError, Study
from deepband.export import canonical
from driving import wait_until

pytestmark = [
    pytest.mark.heavy,
    pytest.mark.timeout(240),
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def make_objective(ledger: Path, trap: str = "", seconds: float = 0.02) -> Any:
    """An objective that travels by value. It notes every evaluation that it finishes, and on its
    first call with the budget 3 does what the trap says."""

    def train(config: dict[str, Any], budget: float, context: deepband.Context) -> float:
        import os
        import signal
        import time

        time.sleep(seconds)
        if trap and budget == 3:
            try:
                ledger.with_suffix(".sprung").touch(exist_ok=False)
            except FileExistsError:
                pass
            else:
                if trap == "kill":
                    os.kill(os.getpid(), signal.SIGKILL)
                time.sleep(3600)  # "hang"
        before = 0 if context.previous is None else int((context.previous / "n").read_text())
        (context.path / "n").write_text(str(budget))
        with ledger.open("a") as file:
            file.write(f"{config['x']} {budget} {before}\n")
        return float(config["x"] * 10 % 1 + 1 / budget)

    return train


def open_study(place: Path) -> Study:
    return deepband.open_study(place, space={"x": (0.0, 1.0)}, max_budget=9, seed=2)


def undisturbed(tmp_path: Path) -> list[str]:
    """The export after both runs, in this process."""
    return run_both(tmp_path / "alone.study", make_objective(tmp_path / "alone", seconds=0))


def run_both(place: Path, objective: Any, **how: Any) -> list[str]:
    with open_study(place) as study:
        study.optimize(objective, **how)
        study.deepen("preserving")
        study.optimize(objective, **how)
        assert study.done
        assert study.runs[-1].trained == study.runs[-1].cost_resumed
        return list(canonical(study.state))


def check_once(ledger: Path, place: Path) -> None:
    """Nothing was finished twice, and everything that was recorded was finished."""
    lines = ledger.read_text().splitlines()
    assert len(lines) == len(set(lines))
    with open_study(place) as study:
        assert len(lines) == len(study.evaluations)


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=3, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    import ray

    ray.init(
        "local", num_cpus=3, log_to_driver=False, include_dashboard=False, logging_level="ERROR"
    )
    yield
    ray.shutdown()


def address(client: Any) -> str:
    return "dask://" + str(client.scheduler.address).removeprefix("tcp://")


@pytest.mark.parametrize("ahead", [False, True])
def test_dask_gives_the_same_study(dask: Any, tmp_path: Path, ahead: bool) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    found = run_both(place, make_objective(ledger), executor=dask, ahead=ahead)
    assert found == undisturbed(tmp_path)
    if not ahead:
        check_once(ledger, place)


def test_dask_by_its_address(dask: Any, tmp_path: Path) -> None:
    found = run_both(
        tmp_path / "a.study", make_objective(tmp_path / "ledger"), executor=address(dask), workers=2
    )
    assert found == undisturbed(tmp_path)


@pytest.mark.parametrize("ahead", [False, True])
def test_ray_gives_the_same_study(ray_cluster: None, tmp_path: Path, ahead: bool) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    found = run_both(place, make_objective(ledger), executor="ray", ahead=ahead)
    assert found == undisturbed(tmp_path)
    if not ahead:
        check_once(ledger, place)


@pytest.mark.parametrize("workers", [1, 2, 7, 32])
@pytest.mark.parametrize("cluster", ["dask", "ray"])
def test_any_number_of_places(
    dask: Any, ray_cluster: None, tmp_path: Path, cluster: str, workers: int
) -> None:
    executor = dask if cluster == "dask" else "ray"
    objective = make_objective(tmp_path / "ledger")
    found = run_both(tmp_path / "a.study", objective, executor=executor, workers=workers)
    assert found == undisturbed(tmp_path)
    check_once(tmp_path / "ledger", tmp_path / "a.study")


def test_resources_of_ray(ray_cluster: None, tmp_path: Path) -> None:
    """Two of three processors a job: no two at once."""
    objective = make_objective(tmp_path / "ledger", seconds=0.1)
    start = time.monotonic()
    with open_study(tmp_path / "a.study") as study:
        study.optimize(objective, executor="ray", resources={"num_cpus": 2})
        assert time.monotonic() - start >= 0.1 * len(study.evaluations)


def test_resources_from_a_terminal(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    from distributed import LocalCluster

    monkeypatch.syspath_prepend(tmp_path)  # workers import the objective from here
    (tmp_path / "licensed.py").write_text(
        "space = {'x': (0.0, 1.0)}\ndef train(config, budget): return config['x'] / budget\n"
    )
    with LocalCluster(
        n_workers=1,
        threads_per_worker=1,
        dashboard_address=":0",
        silence_logs=50,
        resources={"licence": 1},
    ) as cluster:
        executor = "dask://" + cluster.scheduler_address.removeprefix("tcp://")
        command = [sys.executable, "-m", "deepband", "run", "a.study", "licensed.py:train"]
        command += ["--max-budget", "3", "--executor", executor, "--resources"]
        refused, done = (
            subprocess.run(
                [*command, given], cwd=tmp_path, capture_output=True, text=True, check=False
            )
            for given in ("licence=2", "licence=1")
        )
    assert refused.returncode == 2
    assert "no Dask worker has the resources {'licence': 2}" in refused.stderr
    assert (done.returncode, done.stderr) == (0, "")
    assert "run 0, max_budget 3: done" in done.stdout


def test_a_dask_worker_that_is_killed(dask: Any, tmp_path: Path) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    found = run_both(place, make_objective(ledger, trap="kill"), executor=dask)
    assert ledger.with_suffix(".sprung").exists()
    assert found == undisturbed(tmp_path)
    check_once(ledger, place)


def test_a_ray_worker_that_is_killed(ray_cluster: None, tmp_path: Path) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    found = run_both(place, make_objective(ledger, trap="kill"), executor="ray")
    assert ledger.with_suffix(".sprung").exists()
    assert found == undisturbed(tmp_path)
    check_once(ledger, place)


@pytest.mark.parametrize("engine", ["dask", "ray"])
def test_a_task_that_never_returns(
    engine: str, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    client = request.getfixturevalue("dask" if engine == "dask" else "ray_cluster")
    found = run_both(
        tmp_path / "a.study",
        make_objective(tmp_path / "ledger", trap="hang"),
        executor=client if engine == "dask" else "ray",
        timeout=5.0,
    )
    assert (tmp_path / "ledger.sprung").exists()
    assert found == undisturbed(tmp_path)
    if engine == "dask":
        client.restart()  # the thread that hangs


def test_a_dask_node_that_is_lost(tmp_path: Path) -> None:
    """A worker with its nanny, started apart from the cluster, all killed in the middle."""
    from distributed import Client, LocalCluster

    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    with (
        LocalCluster(
            n_workers=1, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        node = subprocess.Popen(
            [
                *(sys.executable, "-m", "distributed.cli.dask_worker", cluster.scheduler_address),
                *("--nthreads", "2", "--no-dashboard", "--local-directory", str(tmp_path)),
            ],
            start_new_session=True,
            stderr=subprocess.DEVNULL,
        )
        wait_until(lambda: sum(client.nthreads().values()) == 3)

        def lose() -> None:
            wait_until(lambda: count(ledger) >= 4)
            os.killpg(node.pid, signal.SIGKILL)

        losing = threading.Thread(target=lose)
        losing.start()
        found = run_both(place, make_objective(ledger, seconds=0.3), executor=client)
        losing.join()
        assert node.wait() == -signal.SIGKILL
        assert sum(client.nthreads().values()) == 1
    assert found == undisturbed(tmp_path)
    lines = ledger.read_text().splitlines()
    assert len(lines) <= len(set(lines)) + 2  # what its two threads were doing


def start_dask(folder: Path) -> tuple[str, subprocess.Popen[bytes], subprocess.Popen[bytes]]:
    """A scheduler in a process of its own, and two workers: its address, and both."""

    def start(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", *words, "--scheduler-file", str(file), "--no-dashboard"]
        return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)

    file = folder / "scheduler.json"
    scheduler = start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    wait_until(file.exists)
    place = ("--local-directory", str(folder))
    workers = start("distributed.cli.dask_worker", "--nworkers=2", "--nthreads=1", *place)
    found = json.loads(file.read_text())["address"]
    return found.replace("tcp://", "dask://"), scheduler, workers


def test_a_dask_scheduler_that_is_killed(tmp_path: Path) -> None:
    """In the middle of evaluations. Workers finish these before they notice and end."""
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    found, scheduler, workers = start_dask(tmp_path)

    def kill() -> None:
        wait_until(lambda: count(ledger) >= 4)
        os.killpg(scheduler.pid, signal.SIGKILL)

    killing = threading.Thread(target=kill)
    killing.start()
    with (
        open_study(place) as study,
        pytest.raises(DeepbandError, match=r"connection to the Dask scheduler at .* was lost"),
    ):
        study.optimize(make_objective(ledger, seconds=0.5), executor=found)
    killing.join()
    assert scheduler.wait() == -signal.SIGKILL
    with open_study(place) as study:
        assert 2 <= len(study.evaluations) < 22
        assert all(each.loss is not None for each in study.evaluations)
    assert run_both(place, make_objective(ledger)) == undisturbed(tmp_path)
    check_once(ledger, place)
    workers.wait()


def test_a_ray_node_that_is_lost(tmp_path: Path) -> None:
    """A cluster of two nodes on this machine, of which one is killed in the middle."""
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import threading\n"
        "import cloudpickle, ray, test_clusters\n"
        "from pathlib import Path\n"
        "from ray.cluster_utils import Cluster\n"
        "cloudpickle.register_pickle_by_value(test_clusters)\n"
        "place, ledger = Path(sys.argv[2]), Path(sys.argv[3])\n"
        "cluster = Cluster(initialize_head=True, head_node_args={'num_cpus': 1})\n"
        "node = cluster.add_node(num_cpus=2)\n"
        "ray.init(address=cluster.address, log_to_driver=False)\n"
        "def lose():\n"
        "    test_clusters.wait_until(lambda: test_clusters.count(ledger) >= 4)\n"
        "    cluster.remove_node(node, allow_graceful=False)\n"
        "    ledger.with_suffix('.lost').touch()\n"
        "threading.Thread(target=lose, daemon=True).start()\n"
        "objective = test_clusters.make_objective(ledger, seconds=0.3)\n"
        "test_clusters.run_both(place, objective, executor='ray')\n"
        "ray.shutdown()\n"
        "cluster.shutdown()\n"
    )
    here = str(Path(__file__).parent)
    subprocess.run(
        [sys.executable, "-c", code, here, str(place), str(ledger)],
        env=os.environ | {"PYTHONPATH": here},
        check=True,
        timeout=200,
    )
    assert (tmp_path / "ledger.lost").exists()
    with open_study(place) as study:
        assert list(canonical(study.state)) == undisturbed(tmp_path)


def count(ledger: Path) -> int:
    """How many evaluations were finished."""
    return len(ledger.read_text().splitlines()) if ledger.exists() else 0


def test_a_driver_killed_on_dask_and_the_study_finished_on_ray(
    dask: Any, ray_cluster: None, tmp_path: Path
) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    process = start_driver(place, ledger, address(dask))
    wait_until(lambda: count(ledger) >= 6)
    process.send_signal(signal.SIGKILL)
    process.wait()
    assert count(ledger) < 22
    objective = make_objective(ledger, seconds=0.1)
    found = run_both(place, objective, executor="ray")
    assert found == undisturbed(tmp_path)
    check_once(ledger, place)


def start_driver(place: Path, ledger: Path, executor: str) -> subprocess.Popen[bytes]:
    code = (
        "import sys; sys.path.insert(0, sys.argv[1])\n"
        "import cloudpickle, test_clusters\n"
        "cloudpickle.register_pickle_by_value(test_clusters)\n"
        "from pathlib import Path\n"
        "study = test_clusters.open_study(Path(sys.argv[2]))\n"
        "objective = test_clusters.make_objective(Path(sys.argv[3]), seconds=0.1)\n"
        "study.optimize(objective, executor=sys.argv[4])\n"
    )
    here = str(Path(__file__).parent)
    return subprocess.Popen(
        [sys.executable, "-c", code, here, str(place), str(ledger), executor],
        env=os.environ | {"PYTHONPATH": here},
    )


def test_resources_that_nobody_has(dask: Any, ray_cluster: None, tmp_path: Path) -> None:
    study, objective = open_study(tmp_path / "a.study"), make_objective(tmp_path / "ledger")
    with pytest.raises(InputError, match="no Dask worker has the resources"):
        study.optimize(objective, executor=dask, resources={"GPU": 1})
    with pytest.raises(InputError, match="the Ray cluster has not the resources"):
        study.optimize(objective, executor="ray", resources={"num_gpus": 1})
    with pytest.raises(InputError, match="connected to a Ray cluster already"):
        study.optimize(objective, executor="ray://10.255.255.1:10001")


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[1] / "docs" / "how-to" / "clusters.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "'lr':" in done.stdout


def test_no_cluster_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no Dask scheduler answers at 127.0.0.1:1"):
        open_study(tmp_path / "a.study").optimize(
            make_objective(tmp_path / "ledger"), executor="dask://127.0.0.1:1"
        )
