"""What each job needs in Slurm, as a user gives it in `resources`, and how submitit gets it."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from deepband.errors import InputError, shown
from deepband.system.installation import install_command

SHARED = frozenset(
    ["name", "timeout_min", "mem_gb", "nodes", "cpus_per_task", "gpus_per_node", "tasks_per_node"]
)
"""The parameters that submitit has for all kinds of clusters. Others are given as slurm_NAME."""
GPUS = frozenset(["gpus_per_node", "gpus_per_task", "gpus", "num_gpus"])
MOST_REQUEUES = 3
"""How often a job is requeued because of its time limit, unless the user says so."""
SIGNAL_SECONDS = 90
"""How long before its time limit a job receives a signal; a fifth of the limit if that is less."""


@dataclass(frozen=True, slots=True)
class SlurmParameters:
    """The parameters of the jobs of a run."""

    name: str
    """How the names of jobs begin."""
    requeues: int
    gpu: bool
    """Whether each job has a GPU."""
    options: Mapping[str, Any]
    """What submitit gets."""

    def executor(self, folder: Path, token: str) -> Any:
        """submitit's executor for one submission. Raises an InputError for parameters that it does
        not accept."""
        try:
            import submitit
        except ImportError as error:
            raise InputError(f"submitit is not installed: {install_command('slurm')}") from error
        try:
            made = submitit.AutoExecutor(folder, cluster="slurm")
            made.update_parameters(name=f"{self.name}-{token}", **self.options)
        except RuntimeError as error:
            raise InputError(
                "executor is 'slurm', but Slurm's commands are not installed here: run on a host "
                "from which you can call sbatch, such as a login node."
            ) from error
        except (TypeError, ValueError, NameError, AssertionError) as error:
            raise InputError(f"submitit does not accept these `resources`: {error}") from error
        return made


def read_parameters(given: Mapping[str, Any] | None, workers: int) -> SlurmParameters:
    """The parameters that a user gave: those of submitit, with or without `slurm_`."""
    options = {_plain(name): value for name, value in (given or {}).items()}
    _check(options)
    name = str(options.pop("name", None) or options.pop("job_name", None) or "deepband")
    requeues = int(options.pop("max_num_timeout", MOST_REQUEUES))
    delay = min(SIGNAL_SECONDS, max(1, int(options["timeout_min"] * 60 / 5)))
    more = dict(options.pop("additional_parameters", {}))
    if "no-requeue" not in more:
        more["requeue"] = True
    options = {
        "array_parallelism": workers,
        "signal_delay_s": delay,
        "stderr_to_stdout": True,
        "additional_parameters": more,
        **options,
    }
    wanted = {each if each in SHARED else f"slurm_{each}": n for each, n in options.items()}
    return SlurmParameters(name, requeues, _has_gpu(options), wanted)


def _plain(name: str) -> str:
    """The name of a parameter without its prefix. The time limit has two names."""
    plain = name.removeprefix("slurm_")
    return {"time": "timeout_min", "ntasks_per_node": "tasks_per_node"}.get(plain, plain)


def _check(options: Mapping[str, Any]) -> None:
    minutes = options.get("timeout_min")
    if type(minutes) is not int or minutes < 1:
        raise InputError(
            f"timeout_min is {shown(minutes)}: give the time limit of each job, in whole minutes, "
            'such as resources={"timeout_min": 60}.'
        )
    requeues = options.get("max_num_timeout", 0)
    if type(requeues) is not int or requeues < 0:
        raise InputError(f"max_num_timeout is {shown(requeues)}: give a whole number of 0 or more.")
    for each in ("nodes", "tasks_per_node"):
        if options.get(each, 1) != 1:
            raise InputError(
                f"{each} is {shown(options[each])}: an objective is called in one process. Let it "
                "start the others, for example with torchrun."
            )


def _has_gpu(options: Mapping[str, Any]) -> bool:
    counted = any(options.get(name) for name in GPUS)
    return counted or re.search(r"\bgpu\b", str(options.get("gres", ""))) is not None
