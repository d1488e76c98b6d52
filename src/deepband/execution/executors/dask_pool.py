"""A Dask cluster as a pool."""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import Future
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any

from deepband.errors import DeepbandError, InputError
from deepband.execution.executors.futures import Pool
from deepband.system.installation import install_command

if TYPE_CHECKING:
    from distributed import Client

SECONDS_BETWEEN_COUNTS = 2.0
SECONDS_TO_RESTART = 20.0


class DaskPool(Pool):
    """All threads of a cluster's workers, as many as there currently are."""

    def __init__(
        self,
        client: Client,
        workers: int | None,
        resources: Mapping[str, float] | None,
        owned: bool,
    ) -> None:
        # By default, Dask reuses results of equal arguments, and runs failed tasks again.
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
            self._count_at = now + SECONDS_BETWEEN_COUNTS
        return self._counted

    def check(self) -> None:
        """Raise if the connection was lost. A client that has reconnected lost all its futures."""
        if self.client.status != "running" or self.client.scheduler_comm is not self._connection:
            raise self._lost()

    @contextmanager
    def _connected(self) -> Iterator[None]:
        """Call the scheduler. Dask raises many kinds of errors if it does not respond."""
        try:
            yield
        except Exception as error:
            self.check()
            if isinstance(error, OSError):  # the client has not noticed yet
                raise self._lost() from error
            raise

    def _lost(self) -> DeepbandError:
        return DeepbandError(
            f"the connection to the Dask scheduler at {self._address} was lost. Recorded results "
            "are kept. Run again to continue, with any executor; results that workers still write "
            "to the study's folder will be recorded then."
        )

    def submit(self, function: Callable[..., Any], *arguments: Any) -> Future[Any]:
        key = f"deepband-{secrets.token_hex(8)}"
        with self._connected():
            future = self.executor.submit(function, *arguments, key=key)
        self._keys[future] = key
        future.add_done_callback(lambda done: self._keys.pop(done, None))
        return future

    def end(self, future: Future[Any]) -> None:
        """Restart the worker of a task, because a thread cannot be killed. A worker that also runs
        other tasks is left alone."""
        key = self._keys.get(future)
        with suppress(Exception):  # the cluster may be shutting down, or the worker has no nanny
            tasks = {worker: list(keys) for worker, keys in self.client.processing().items()}
            alone = [worker for worker, keys in tasks.items() if keys == [key]]
            future.cancel()
            self.client.restart_workers(alone, timeout=SECONDS_TO_RESTART, raise_for_error=False)

    def close(self) -> None:
        with suppress(DeepbandError):
            self.check()
            self.executor.shutdown(wait=False)  # needs the scheduler
        if self._owned:
            self.client.close()


def _check_resources(client: Client, wanted: Mapping[str, float]) -> None:
    """Raise an InputError if there are workers, but none with these resources."""
    workers = client.scheduler_info(n_workers=-1)["workers"].values()
    fits = [
        all(worker.get("resources", {}).get(name, 0) >= n for name, n in wanted.items())
        for worker in workers
    ]
    if fits and not any(fits):
        raise InputError(
            f"no Dask worker has the resources {dict(wanted)}: start workers with `dask worker "
            "--resources`, or omit `resources`."
        )


def connect_dask(address: str) -> Client:
    """A client of the scheduler at dask://host:port."""
    try:
        from distributed import Client
    except ImportError as error:
        raise InputError(f"Dask is not installed: {install_command('dask')}") from error
    server = address.removeprefix("dask://")
    try:
        return Client(f"tcp://{server}", timeout=10, set_as_default=False)
    except (OSError, ValueError) as error:
        raise InputError(
            f"no Dask scheduler responds at {server}: {error}. Start one with `dask scheduler`, "
            "and give its address as dask://host:port."
        ) from error
