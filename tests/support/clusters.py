"""Clusters of Dask and Ray, and processes of MPI, on this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import pytest

MARKS = [
    pytest.mark.heavy,
    pytest.mark.filterwarnings("ignore::ResourceWarning", "ignore::DeprecationWarning"),
    pytest.mark.filterwarnings("ignore::FutureWarning", "ignore::UserWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]
"""For every test that starts a cluster."""

MPI = {
    "OMPI_ALLOW_RUN_AS_ROOT": "1",
    "OMPI_ALLOW_RUN_AS_ROOT_CONFIRM": "1",
    "OMPI_MCA_btl": "self,tcp",
    "OMPI_MCA_btl_tcp_if_include": "lo",
    "OMPI_MCA_oob_tcp_if_include": "lo",
    "OMPI_MCA_rmaps_base_oversubscribe": "1",
}
"""Settings of Open MPI. The tests may run as root, and on fewer cores than there are processes."""


@contextmanager
def dask_client(workers: int) -> Iterator[Any]:
    """A client of a new cluster of workers with one thread each."""
    from distributed import Client, LocalCluster

    with (
        LocalCluster(
            n_workers=workers, threads_per_worker=1, dashboard_address=":0", silence_logs=50
        ) as cluster,
        Client(cluster) as client,
    ):
        yield client


@contextmanager
def ray_connection(workers: int) -> Iterator[None]:
    """Connects this process to a new cluster with this many CPUs."""
    import ray

    ray.init(
        "local",
        num_cpus=workers,
        log_to_driver=False,
        include_dashboard=False,
        logging_level="ERROR",
    )
    yield
    ray.shutdown()


@contextmanager
def mpi_pool(workers: int) -> Iterator[Any]:
    """A pool of processes that MPI starts, and that talk over the loopback interface."""
    os.environ.update(MPI)
    from mpi4py.futures import MPIPoolExecutor

    with MPIPoolExecutor(workers) as pool:
        yield pool
