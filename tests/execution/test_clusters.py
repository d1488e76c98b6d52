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

import clusters
import deepband
from deepband import DeepbandError, InputError, Study
from deepband.analysis.export import canonical
from driving import wait_until

pytestmark = [pytest.mark.timeout(240), *clusters.MARKS]


def make_objective(ledger: Path, trap: str = "", seconds: float = 0.02) -> Any:
    """An objective that is pickled by value. It logs every evaluation that it finishes, and on its
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
        return list(canonical(study.session.state))


def check_once(ledger: Path, place: Path) -> None:
    """Nothing was finished twice, and everything that was recorded was finished."""
    lines = ledger.read_text().splitlines()
    assert len(lines) == len(set(lines))
    with open_study(place) as study:
        assert len(lines) == len(study.evaluations)


@pytest.fixture(scope="module")
def dask() -> Iterator[Any]:
    with clusters.dask_client(3) as client:
        yield client


@pytest.fixture(scope="module")
def ray_cluster() -> Iterator[None]:
    with clusters.ray_connection(3):
        yield


@pytest.fixture(params=["dask", "ray"])
def executor(request: pytest.FixtureRequest) -> Any:
    """A cluster, as it is given to `optimize`."""
    client = request.getfixturevalue("dask" if request.param == "dask" else "ray_cluster")
    return client or "ray"


def address(client: Any) -> str:
    return "dask://" + str(client.scheduler.address).removeprefix("tcp://")


@pytest.mark.parametrize("ahead", [False, True])
def test_a_cluster_gives_the_same_study(executor: Any, tmp_path: Path, ahead: bool) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    found = run_both(place, make_objective(ledger), executor=executor, ahead=ahead)
    assert found == undisturbed(tmp_path)
    if not ahead:
        check_once(ledger, place)


def test_dask_by_its_address(dask: Any, tmp_path: Path) -> None:
    found = run_both(
        tmp_path / "a.study", make_objective(tmp_path / "ledger"), executor=address(dask), workers=2
    )
    assert found == undisturbed(tmp_path)


@pytest.mark.parametrize("workers", [1, 2, 7, 32])
def test_any_number_of_places(executor: Any, tmp_path: Path, workers: int) -> None:
    objective = make_objective(tmp_path / "ledger")
    found = run_both(tmp_path / "a.study", objective, executor=executor, workers=workers)
    assert found == undisturbed(tmp_path)
    check_once(tmp_path / "ledger", tmp_path / "a.study")


def test_resources_of_ray(ray_cluster: None, tmp_path: Path) -> None:
    """Each job takes two of three CPUs, so no two jobs run concurrently."""
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
    assert done.returncode == 0, done.stderr
    assert "run 0: 6 of 6 evaluations" in done.stderr.splitlines()[-1]
    assert "run 0, max_budget 3: done" in done.stdout


def test_a_worker_that_is_killed(executor: Any, tmp_path: Path) -> None:
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    found = run_both(place, make_objective(ledger, trap="kill"), executor=executor)
    assert ledger.with_suffix(".sprung").exists()
    assert found == undisturbed(tmp_path)
    check_once(ledger, place)


def test_a_task_that_never_returns(executor: Any, tmp_path: Path) -> None:
    objective = make_objective(tmp_path / "ledger", trap="hang")
    found = run_both(tmp_path / "a.study", objective, executor=executor, timeout=5.0)
    assert (tmp_path / "ledger.sprung").exists()
    assert found == undisturbed(tmp_path)
    if executor != "ray":
        executor.restart()  # ends the thread that hangs


def test_a_dask_node_that_is_lost(tmp_path: Path) -> None:
    """A worker with its nanny, started apart from the cluster and killed during the run."""
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    with clusters.dask_client(1) as client:
        node = subprocess.Popen(
            [
                *(sys.executable, "-m", "distributed.cli.dask_worker", client.scheduler.address),
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
    """The address and process of a scheduler, and the process of its two workers."""

    def start(*words: str) -> subprocess.Popen[bytes]:
        command = [sys.executable, "-m", *words, "--scheduler-file", str(file), "--no-dashboard"]
        return subprocess.Popen(command, start_new_session=True, stderr=subprocess.DEVNULL)

    file = folder / "scheduler.json"
    scheduler = start("distributed.cli.dask_scheduler", "--host", "127.0.0.1", "--port", "0")
    wait_until(lambda: file.exists() and is_json(file.read_text()))
    place = ("--local-directory", str(folder))
    workers = start("distributed.cli.dask_worker", "--nworkers=2", "--nthreads=1", *place)
    found: str = json.loads(file.read_text())["address"]
    return found.replace("tcp://", "dask://"), scheduler, workers


def is_json(text: str) -> bool:
    """Dask creates the file of a scheduler first and writes it afterwards."""
    try:
        json.loads(text)
    except json.JSONDecodeError:
        return False
    return True


def test_a_dask_scheduler_that_is_killed(tmp_path: Path) -> None:
    """Workers finish their evaluations before they notice and exit."""
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
    """One of two nodes on this machine is killed during the run."""
    ledger, place = tmp_path / "ledger", tmp_path / "a.study"
    code = (
        "import sys, threading\n"
        "import cloudpickle, ray, test_clusters\n"
        "from pathlib import Path\n"
        "from ray.cluster_utils import Cluster\n"
        "cloudpickle.register_pickle_by_value(test_clusters)\n"
        "place, ledger = Path(sys.argv[1]), Path(sys.argv[2])\n"
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
    subprocess.run(
        [sys.executable, "-c", code, str(place), str(ledger)],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=200,
    )
    assert (tmp_path / "ledger.lost").exists()
    with open_study(place) as study:
        assert list(canonical(study.session.state)) == undisturbed(tmp_path)


def count(ledger: Path) -> int:
    """The number of finished evaluations."""
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
        "import sys, cloudpickle, test_clusters\n"
        "cloudpickle.register_pickle_by_value(test_clusters)\n"
        "from pathlib import Path\n"
        "study = test_clusters.open_study(Path(sys.argv[1]))\n"
        "objective = test_clusters.make_objective(Path(sys.argv[2]), seconds=0.1)\n"
        "study.optimize(objective, executor=sys.argv[3])\n"
    )
    return subprocess.Popen(
        [sys.executable, "-c", code, str(place), str(ledger), executor],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
    )


def test_resources_that_nobody_has(dask: Any, ray_cluster: None, tmp_path: Path) -> None:
    study, objective = open_study(tmp_path / "a.study"), make_objective(tmp_path / "ledger")
    with pytest.raises(InputError, match="no Dask worker has the resources"):
        study.optimize(objective, executor=dask, resources={"GPU": 1})
    with pytest.raises(InputError, match="the Ray cluster does not have the resources"):
        study.optimize(objective, executor="ray", resources={"num_gpus": 1})
    with pytest.raises(InputError, match="already connected to a Ray cluster"):
        study.optimize(objective, executor="ray://10.255.255.1:10001")


def look(config: dict[str, Any], budget: float, context: deepband.Context) -> dict[str, Any]:
    """Which GPU a job sees, and when it ended."""
    time.sleep(0.3)
    visible = os.environ.get("CUDA_VISIBLE_DEVICES")
    until = time.time()
    return {"loss": config["x"], "gpu": visible, "device": context.device, "until": until}


def check_devices(study: Study) -> None:
    """Every job saw one of two GPUs, and no two jobs used one at the same time."""
    metrics = [each.metrics for each in study.evaluations]
    assert {each["device"] for each in metrics} == {"cuda:0"}
    assert {each["gpu"] for each in metrics} == {"0", "1"}
    for one in metrics:
        others = [each for each in metrics if each["gpu"] == one["gpu"] and each is not one]
        assert all(abs(each["until"] - one["until"]) >= 0.3 for each in others)


def test_each_job_on_ray_sees_its_own_gpu(tmp_path: Path) -> None:
    """In a process of its own, because a process connects to one cluster."""
    code = (
        "import sys, cloudpickle, ray, test_clusters\n"
        "from pathlib import Path\n"
        "cloudpickle.register_pickle_by_value(test_clusters)\n"
        "ray.init('local', num_cpus=4, num_gpus=2, log_to_driver=False, include_dashboard=False)\n"
        "with test_clusters.open_study(Path(sys.argv[1])) as study:\n"
        "    how = {'executor': 'ray', 'resources': {'num_gpus': 1}}\n"
        "    study.optimize(test_clusters.look, **how)\n"
        "    test_clusters.check_devices(study)\n"
    )
    subprocess.run(
        [sys.executable, "-c", code, str(tmp_path / "a.study")],
        env=os.environ | {"PYTHONPATH": os.pathsep.join(sys.path)},
        check=True,
        timeout=200,
    )


def test_each_job_on_dask_sees_the_gpu_of_its_worker(tmp_path: Path) -> None:
    """Each worker is started with the GPU that it has, and with room for one job that needs it."""
    import cloudpickle

    with clusters.dask_client(0) as client:
        workers = [
            subprocess.Popen(
                [
                    *(sys.executable, "-m", "distributed.cli.dask_worker"),
                    *(client.scheduler.address, "--nthreads", "2", "--no-dashboard"),
                    *("--resources", "GPU=1", "--local-directory", str(tmp_path)),
                ],
                env=os.environ | {"CUDA_VISIBLE_DEVICES": gpu},
                start_new_session=True,
                stderr=subprocess.DEVNULL,
            )
            for gpu in "01"
        ]
        try:
            wait_until(lambda: sum(client.nthreads().values()) == 4)
            cloudpickle.register_pickle_by_value(sys.modules[__name__])
            with open_study(tmp_path / "a.study") as study:
                study.optimize(look, executor=client, resources={"GPU": 1})
                check_devices(study)
        finally:
            cloudpickle.unregister_pickle_by_value(sys.modules[__name__])
            for worker in workers:
                os.killpg(worker.pid, signal.SIGKILL)
                worker.wait()


def test_the_example_of_the_docs(tmp_path: Path) -> None:
    page = (Path(__file__).parents[2] / "docs" / "how-to" / "clusters.md").read_text()
    (code,) = re.findall(r"```python\n(.*?)```", page, re.DOTALL)
    (tmp_path / "example.py").write_text(code)
    done = subprocess.run(
        [sys.executable, "example.py"], cwd=tmp_path, capture_output=True, text=True, check=True
    )
    assert "'lr':" in done.stdout


def test_no_cluster_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"no Dask scheduler responds at 127.0.0.1:1"):
        open_study(tmp_path / "a.study").optimize(
            make_objective(tmp_path / "ledger"), executor="dask://127.0.0.1:1"
        )
