"""A cluster of Ray as a pool. Ray has no `concurrent.futures.Executor`, so this is a thin one."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from concurrent.futures import Executor, Future
from contextlib import suppress
from typing import Any

from deepband.errors import InputError
from deepband.execution.executors.futures import Pool

_COUNTED = {"num_cpus": "CPU", "num_gpus": "GPU"}


class RayExecutor(Executor):
    """Functions as Ray tasks that are never run again by Ray itself."""

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
        """End a task with its process."""
        import ray

        reference = self._references.get(future)
        if reference is not None:
            with suppress(Exception):  # it has ended meanwhile, or its node has
                ray.cancel(reference, force=True)


class RayPool(Pool):
    """As many tasks at once as the cluster has resources for."""

    def __init__(
        self, address: str | None, workers: int | None, resources: Mapping[str, float] | None
    ) -> None:
        self._owned = _connect(address)
        self.tasks = RayExecutor(resources or {})
        super().__init__(self.tasks, workers or 0)
        if self.size() < 1:
            self.close()
            raise InputError(
                f"the Ray cluster has not the resources {self.tasks.resources} for a single job."
            )

    def size(self) -> int:
        import ray

        if self.workers:
            return self.workers
        there = ray.cluster_resources()
        shares = [
            there.get(_COUNTED.get(name, name), 0.0) / each
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
    """Connect to a cluster, or start one on this machine; whether it is ours to leave."""
    try:
        import ray
    except ImportError as error:
        raise InputError("Ray is not installed: pip install 'deepband[ray]'") from error
    if ray.is_initialized():
        if address is not None:
            raise InputError(
                f"this process is connected to a Ray cluster already: give executor='ray', not "
                f"{address!r}."
            )
        return False
    try:
        ray.init(address, log_to_driver=False, logging_level="ERROR")
    except (ConnectionError, ValueError, RuntimeError) as error:
        raise InputError(
            f"no Ray cluster answers at {address}: {error}. Start one with `ray start --head`, or "
            "give 'ray' for this machine alone."
        ) from error
    return True
