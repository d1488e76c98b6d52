"""Clusters of Dask and Ray on this machine."""

from __future__ import annotations

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
