"""The executor for the `executor` and `workers` that a user gives."""

from __future__ import annotations

import concurrent.futures
import math
from collections.abc import Mapping, Sequence
from numbers import Real
from typing import TYPE_CHECKING, Any, TypeAlias

from deepband.errors import InputError, shown
from deepband.execution.devices import Device
from deepband.execution.executors.base import Executor, Timeout
from deepband.execution.executors.inline import InlineExecutor
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.execution.objective import Objective
from deepband.execution.outbox import Outbox
from deepband.system.interrupts import Interrupts

if TYPE_CHECKING:
    from distributed import Client

    from deepband.execution.executors.futures import Pool

    ExecutorSpec: TypeAlias = str | concurrent.futures.Executor | Client | SimulatedExecutor | None
    """The type of the `executor` argument."""

WANTED = (
    "give 'dask://host:port', a dask.distributed.Client, 'ray', 'ray://host:port', 'slurm', or any "
    "concurrent.futures.Executor."
)
SLURM = "slurm"


def choose(
    given: ExecutorSpec,
    objective: Objective,
    interrupts: Interrupts,
    outbox: Outbox | None,
    *,
    workers: int,
    timeout: Timeout,
    resources: Mapping[str, Any] | None,
    devices: Sequence[Device] = (),
) -> Executor:
    """An executor that runs the objective; `workers` is 0 if the user did not give any. `devices`
    has one for each worker, or none."""
    if resources and not (isinstance(given, str) or _is_dask(given)):
        raise InputError(
            "`resources` only apply to Ray, Dask and Slurm: omit them for other executors."
        )
    if isinstance(given, SimulatedExecutor):
        given.objective = objective
        return given
    if is_inline(given, workers, timeout, devices):
        return InlineExecutor(objective, interrupts, outbox)
    assert outbox is not None
    if given is None:
        from deepband.execution.executors.processes import ProcessExecutor  # loads cloudpickle

        return ProcessExecutor(objective, devices or [None] * (workers or 1), outbox, timeout)
    from deepband.execution.executors.futures import FuturesExecutor
    from deepband.execution.executors.serialization import ship

    if given == SLURM:
        return _slurm(ship(objective), outbox, workers, timeout, resources)
    threads = isinstance(given, concurrent.futures.ThreadPoolExecutor)  # need no serialization
    shipped = objective if threads else ship(objective)
    pool = _pool(given, workers or None, resources)
    return FuturesExecutor(shipped, pool, outbox, timeout, gpu=_has_gpu(resources or {}))


def is_inline(
    given: ExecutorSpec, workers: int, timeout: Timeout, devices: Sequence[Device] = ()
) -> bool:
    """Whether jobs run in this process, one after another. With devices they never do, because the
    environment of this process must not change."""
    return given is None and workers <= 1 and timeout is None and not devices


def needs_outbox(
    given: ExecutorSpec, workers: int, timeout: Timeout, devices: Sequence[Device] = ()
) -> bool:
    """Whether results come from elsewhere, and may be lost on the way."""
    inline = is_inline(given, workers, timeout, devices)
    return not isinstance(given, SimulatedExecutor) and not inline


def _is_dask(given: object) -> bool:
    return type(given).__module__.startswith("distributed.") and hasattr(given, "get_executor")


def _slurm(
    shipped: bytes,
    outbox: Outbox,
    workers: int,
    timeout: Timeout,
    resources: Mapping[str, Any] | None,
) -> Executor:
    from deepband.execution.executors.slurm import DEFAULT_WORKERS, SlurmExecutor
    from deepband.execution.executors.slurm_parameters import read_parameters

    most = workers or DEFAULT_WORKERS
    return SlurmExecutor(shipped, read_parameters(resources, most), most, outbox, timeout)


def _pool(given: Any, workers: int | None, resources: Mapping[str, Any] | None) -> Pool:
    _check_numbers(resources or {})
    if isinstance(given, concurrent.futures.Executor):
        from deepband.execution.executors.futures import Pool

        return Pool(given, workers)
    if _is_dask(given):
        from deepband.execution.executors.dask_pool import DaskPool

        return DaskPool(given, workers, resources, owned=False)
    if isinstance(given, str) and given.startswith("dask://"):
        from deepband.execution.executors.dask_pool import DaskPool, connect_dask

        return DaskPool(connect_dask(given), workers, resources, owned=True)
    if given == "ray" or (isinstance(given, str) and given.startswith("ray://")):
        from deepband.execution.executors.ray_pool import RayPool

        return RayPool(None if given == "ray" else given, workers, resources)
    raise InputError(f"executor is {shown(given)}: {WANTED}")


def _has_gpu(resources: Mapping[str, Any]) -> bool:
    """Whether each job asks for a GPU: as num_gpus on Ray, and by convention as GPU on Dask."""
    return any(resources.get(name) for name in ("num_gpus", "GPU"))


def _check_numbers(resources: Mapping[str, Any]) -> None:
    """Raise an InputError for an amount that is not a number: only Slurm takes other values."""
    for name, amount in resources.items():
        if not isinstance(amount, Real) or not 0 <= float(amount) < math.inf:
            raise InputError(
                f"the amount of the resource {name!r} is {shown(amount)}: give a number of 0 or "
                "more."
            )
