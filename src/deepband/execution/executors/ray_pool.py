"""A Ray cluster as a pool. Ray does not provide a `concurrent.futures.Executor`, so this does."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any

from deepband.errors import InputError
from deepband.execution.executors.futures import Pool
from deepband.system.installation import install_command

_COUNTED = {"num_cpus": "CPU", "num_gpus": "GPU"}


class RayExecutor(Executor):
    """Runs functions as Ray tasks, without Ray's own retries."""

    def __init__(self, resources: Mapping[str, float]) -> None:
        self.resources = {"num_cpus": 1.0, **resources}
        self._references: dict[Future[Any], Any] = {}

    def submit(self, function: Callable[..., Any], /, *arguments: Any, **named: Any) -> Future[Any]:
        import ray

        own = {name: n for name, n in self.resources.items() if name not in _COUNTED}
        counted = {name: n for name, n in self.resources.items() if name in _COUNTED}
        remote = ray.remote(max_retries=0, resources=own, **counted)(function)
        reference = remote.remote(*arguments, **named)
        future: Future[Any] = reference.future()
        self._references[future] = reference
        future.add_done_callback(lambda done: self._references.pop(done, None))
        return future

    @property
    def running(self) -> Collection[Future[Any]]:
        """The tasks that have not ended."""
        return self._references.keys()

    def end(self, future: Future[Any]) -> None:
        """Kill the process of a task."""
        import ray

        reference = self._references.get(future)
        if reference is not None:
            with suppress(Exception):  # the task or its node may be gone
                ray.cancel(reference, force=True)


class RayPool(Pool):
    """As many concurrent tasks as the cluster has resources for."""

    def __init__(
        self, address: str | None, workers: int | None, resources: Mapping[str, float] | None
    ) -> None:
        self._owned = _connect(address)
        self.tasks = RayExecutor(resources or {})
        super().__init__(self.tasks, workers or 0)
        if self.size() < 1:
            self.close()
            raise InputError(
                f"the Ray cluster does not have the resources {self.tasks.resources} for a single "
                "job: add nodes, or ask for less."
            )

    def size(self) -> int:
        import ray

        if self.workers:
            return self.workers
        available = ray.cluster_resources()
        shares = [
            available.get(_COUNTED.get(name, name), 0.0) / each
            for name, each in self.tasks.resources.items()
            if each
        ]
        return int(min(shares, default=1))

    def end(self, future: Future[Any]) -> None:
        self.tasks.end(future)

    def close(self) -> None:
        import ray

        for future in list(self.tasks.running):
            self.tasks.end(future)
        if self._owned:
            ray.shutdown()


def _connect(address: str | None) -> bool:
    """Connect to a cluster, or start one on this machine. False if there was a connection already,
    which must stay open."""
    try:
        import ray
    except ImportError as error:
        raise InputError(f"Ray is not installed: {install_command('ray')}") from error
    if ray.is_initialized():
        if address is not None:
            raise InputError(
                f"executor is {address!r}, but this process is already connected to a Ray cluster: "
                "give executor='ray' to use that."
            )
        return False
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(
            f"no Ray cluster responds at {address}: {error}. Start one with `ray start --head`, or "
            "give 'ray' to use this machine alone."
        ) from error
    return True
