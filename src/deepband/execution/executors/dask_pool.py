"""A cluster of Dask as a pool."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from deepband.errors import DeepbandError, InputError
from deepband.execution.executors.futures import Pool

if TYPE_CHECKING:
    from distributed import Client

SECONDS_A_COUNT = 2.0
SECONDS_TO_RESTART = 20.0


class DaskPool(Pool):
    """All threads of a cluster's workers, as many as there are at the time."""

    def __init__(
        self,
        client: Client,
        workers: int | None,
        resources: Mapping[str, float] | None,
        owned: bool,
    ) -> None:
        # Dask would take the result of equal arguments from another task, and run one again.
        executor = client.get_executor(pure=False, retries=0, resources=dict(resources or {}))
        super().__init__(executor, workers or 0)
        self.client = client
        self._connection = client.scheduler_comm
        self._address = client.scheduler.address
        _check_resources(client, resources or {})
        self._owned = owned
        self._counted, self._count_at = 0, 0.0
        self._keys: dict[Future[Any], str] = {}

    def size(self) -> int:
        if self.workers:
            return self.workers
        now = time.monotonic()
        if now >= self._count_at:
            with self._connected():
                self._counted = sum(self.client.nthreads().values())
            self._count_at = now + SECONDS_A_COUNT
        return self._counted

    def check(self) -> None:
        """Even a client that has found its scheduler again has forgotten every future."""
        if self.client.status != "running" or self.client.scheduler_comm is not self._connection:
            raise self._lost()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Call the scheduler. Dask has many errors for one that does not answer."""
        try:
            yield
        except Exception as error:
            self.check()
            if isinstance(error, OSError):  # the client has not noticed yet
                raise self._lost() from error
            raise

    def _lost(self) -> DeepbandError:
        return DeepbandError(
            f"the connection to the Dask scheduler at {self._address} was lost. What was recorded "
            "is kept. Run again to continue, on any executor: results that workers still leave in "
            "the study's folder are taken in then."
        )

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        key = f"deepband-{secrets.token_hex(8)}"
        with self._connected():
            future = self.executor.submit(function, *arguments, key=key)
        self._keys[future] = key
        future.add_done_callback(lambda done: self._keys.pop(done, None))
        return future

    def end(self, future: Future[Any]) -> None:
        """End a task with its worker, which its nanny starts again: a thread cannot be ended. A
        worker that has other tasks, too, is left alone."""
        key = self._keys.get(future)
        with suppress(Exception):  # the cluster may be going down, or the worker has no nanny
            tasks = {worker: list(keys) for worker, keys in self.client.processing().items()}
            alone = [worker for worker, keys in tasks.items() if keys == [key]]
            future.cancel()
            self.client.restart_workers(alone, timeout=SECONDS_TO_RESTART, raise_for_error=False)

    def close(self) -> None:
        with suppress(DeepbandError):
            self.check()
            self.executor.shutdown(wait=False)  # asks the scheduler
        if self._owned:
            self.client.close()


def _check_resources(client: Client, wanted: Mapping[str, float]) -> None:
    """Refuse what no worker that is there has; later ones may."""
    there = client.scheduler_info(n_workers=-1)["workers"].values()
    fits = [
        all(worker.get("resources", {}).get(name, 0) >= n for name, n in wanted.items())
        for worker in there
    ]
    if fits and not any(fits):
        raise InputError(
            f"no Dask worker has the resources {dict(wanted)}: start workers with `dask worker "
            "--resources`, or leave them out."
        )


def connect_dask(address: str) -> Client:
    """A client of the scheduler at dask://host:port."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError("Dask is not installed: pip install 'deepband[dask]'") from error
    place = address.removeprefix("dask://")
    try:
        return Client(f"tcp://{place}", timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler answers at {place}: {error}. Start one with `dask scheduler`, and "
            "give its address as dask://host:port."
        ) from error
