"""A study in its own process, to be killed: `python killing.py STUDY LEDGER MODE PACE`.

Each mode is a way to use deepband. An append-only ledger, independent of the study, logs when an
evaluation starts, when it ends, when it is finished before its batch and when its result is
recorded.
"""

from __future__ import annotations

import os
import random
import sys
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, TypeAlias

import cloudpickle

import deepband
from deepband import Job, StorageError, Study
from deepband.core.facts import Fact, JobFinished
from deepband.core.strategies import StrategyName
from deepband.execution.executors import worker_process
from deepband.execution.objective import Objective
from deepband.study.observers import history

SPACE = {"x": (0.0, 1.0), "kind": ["a", "b"]}
SETTINGS: dict[str, Any] = {"space": SPACE, "eta": 3, "seed": 11}
BATCH = 3
"""How many results the ask/tell service reports together."""
STORAGE_FAILED = 74
"""Exit code of a driver that stopped with a StorageError."""


Step: TypeAlias = tuple[StrategyName, dict[str, Any]]
"""A strategy, and what `Study.extend` takes."""


@dataclass(frozen=True)
class Mode:
    """A way to use deepband, from a new study to the end of its last run."""

    steps: tuple[Step, ...] = (("preserving", {"max_budget": 27}),)
    max_budget: int = 9
    workers: int = 2
    sampler: str = "uniform"
    keep: str = "newest"
    service: bool = False
    """Whether it asks and tells instead of calling `optimize`."""
    ahead: bool = False
    saves: bool = True
    """Whether the objective saves checkpoints."""
    prints: int = 0
    """How many characters it prints."""
    finishes: bool = False
    """Whether every second config of a batch is finished before the batch ends."""
    options: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments of `optimize`."""
    settings: Mapping[str, Any] = field(default_factory=dict)
    """Other arguments of `open_study`."""

    @property
    def in_process(self) -> bool:
        """Whether the driver evaluates jobs itself, so that they end with it."""
        return self.service or self.workers == 1

    @property
    def in_batches(self) -> bool:
        """Whether one call of the objective evaluates several configs."""
        return "batch" in self.options

    @property
    def unrecorded(self) -> int:
        """How many evaluations can be started, but not recorded, in a driver that evaluates jobs
        itself. By default, `optimize` holds back up to three failures at the start of a call."""
        if self.service:
            return BATCH
        if self.in_batches:
            return int(self.options["batch"])
        return 1 if self.options.get("first_failures") == 0 else 3

    @property
    def cut_short(self) -> int:
        """How many evaluations `optimize` itself may kill: those ahead of the next run that are
        still running at the end of the current run."""
        return self.workers * len(self.steps) if self.ahead else 0


TRUSTED = {"first_failures": 0}
"""A failure is recorded at once, even the first of a call."""
FILLED: tuple[Step, ...] = (("frugal", {"max_budget": 81}), ("preserving", {"max_budget": 81}))
WIDER: tuple[Step, ...] = (
    ("efficient", {"width": 2}),
    ("preserving", {"max_budget": 27, "width": 3}),
)
NEW_SPACE: tuple[Step, ...] = (
    (
        "efficient",
        {
            "width": 2,
            "space": {"x": (0.0, 0.5), "kind": ["b", "c"], "extra": [1, 2]},
            "added": {"extra": 1},
        },
    ),
)
AUTOMATIC = {**TRUSTED, "max_cost": 3000, "max_budget_limit": 81}


def affordable(config: Mapping[str, Any], budget: float) -> bool:
    """A precheck: some configs are rejected, and others only with a large budget."""
    return bool(config["x"] < 0.95 and not (config["x"] > 0.85 and budget > 3))


TWO = {"objectives": {"loss_a": "minimize", "score": "maximize"}}
THREE = {"objectives": {**TWO["objectives"], "size": "minimize"}}
BOUNDED = {**TWO, "constraints": {"memory": (None, 0.7)}}

MODES = {
    "plain": Mode(FILLED, 27),
    "plain-in-process": Mode(FILLED, 27, workers=1),
    "plain-three-workers": Mode(FILLED, 27, workers=3),
    "automatic": Mode((), options=AUTOMATIC),
    "automatic-in-process": Mode((), workers=1, options=AUTOMATIC),
    "ahead": Mode(workers=3, ahead=True, options=TRUSTED),
    "service": Mode(service=True),
    "tpe": Mode(sampler="tpe", options=TRUSTED),
    "forest": Mode(sampler="forest", options=TRUSTED),
    "gp": Mode(sampler="gp", options=TRUSTED),
    "prior": Mode(sampler="prior", options=TRUSTED),
    "discarding": Mode((("discarding", {"max_budget": 27}),), options=TRUSTED),
    "efficient": Mode(
        (("efficient", {"max_budget": 27}), ("efficient", {"max_budget": 81})), options=TRUSTED
    ),
    "frugal-filled-by-discarding": Mode(
        (("frugal", {"max_budget": 27}), ("discarding", {"max_budget": 27})), options=TRUSTED
    ),
    "frugal-filled-by-efficient": Mode(
        (("frugal", {"max_budget": 27}), ("efficient", {"max_budget": 27})), options=TRUSTED
    ),
    "keep-none": Mode(keep="none", options=TRUSTED),
    "keep-top:1": Mode(keep="top:1", options=TRUSTED),
    "keep-top:1-in-process": Mode(keep="top:1", workers=1, options=TRUSTED),
    "keep-all": Mode(keep="all", options=TRUSTED),
    "wider": Mode(WIDER, options=TRUSTED),
    "wider-ahead": Mode(
        (("efficient", {"width": 2}), ("efficient", {"max_budget": 27})),
        workers=3,
        ahead=True,
        options=TRUSTED,
    ),
    "new-space": Mode(NEW_SPACE, options=TRUSTED),
    "printing": Mode(saves=False, prints=20_000, options=TRUSTED),
    "batches": Mode(options={**TRUSTED, "batch": True}),
    "batches-finishing": Mode(workers=3, finishes=True, options={**TRUSTED, "batch": 5}),
    "two-objectives": Mode(FILLED, 27, options=TRUSTED, settings=TWO),
    "three-objectives": Mode(WIDER, workers=3, options=TRUSTED, settings=THREE),
    "constraints": Mode(options={**TRUSTED, "precheck": affordable}, settings=BOUNDED),
    "constraints-in-process": Mode(
        workers=1, options={**TRUSTED, "precheck": affordable}, settings=BOUNDED
    ),
    "constraints-in-batches": Mode(
        options={**TRUSTED, "precheck": affordable, "batch": 4}, settings=BOUNDED
    ),
    "constraint-of-one": Mode(options=TRUSTED, settings={"constraints": {"memory": (0.2, 0.7)}}),
    "objectives-automatic": Mode((), options=AUTOMATIC, settings=TWO),
    "objectives-service": Mode(service=True, settings=THREE),
    "skipping": Mode(options={**TRUSTED, "skip": 0.1}),
    "skipping-tpe-in-process": Mode(
        sampler="tpe", workers=1, options={**TRUSTED, "skip": 0.1, "batch": 4}
    ),
    "stopping": Mode(options={**TRUSTED, "stop": 0.4}),
    "stopping-and-skipping-in-process": Mode(
        sampler="tpe", workers=1, options={**TRUSTED, "skip": 0.1, "stop": 0.4}
    ),
    "stopping-training": Mode(options={**TRUSTED, "stop_training": 0.4}),
    "stopping-training-in-process": Mode(
        sampler="tpe", workers=1, options={**TRUSTED, "stop_training": 0.4, "skip": 0.1}
    ),
    "stopping-training-in-batches": Mode(options={**TRUSTED, "stop_training": 0.4, "batch": 4}),
    "batches-in-process": Mode(workers=1, finishes=True, options={**TRUSTED, "batch": 4}),
}


class Ledger:
    """A log of what happened to which job."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def note(self, event: str, job: str) -> None:
        with open(self.path, "ab", buffering=0) as file:  # one write, which no kill can split
            file.write(f"{event} {job}\n".encode())

    @property
    def size(self) -> int:
        """Its length in bytes."""
        return self.path.stat().st_size if self.path.exists() else 0

    def jobs(self, event: str, after: int = 0) -> list[str]:
        """The jobs of all such events, after the ledger had this size."""
        if not self.path.exists():
            return []
        lines = self.path.read_bytes()[after:].decode().splitlines()
        pairs = (line.split(" ", 1) for line in lines)
        return [job for happened, job in pairs if happened == event]

    def observe(self, facts: Sequence[Fact]) -> None:
        """Log results that are recorded, each once."""
        noted = set(self.jobs("recorded"))
        for job in finished(facts):
            if job not in noted:
                self.note("recorded", job)


def finished(facts: Sequence[Fact]) -> list[str]:
    """The jobs whose results are among these facts."""
    return ["/".join(map(str, fact[:3])) for fact in facts if isinstance(fact, JobFinished)]


def main(path: str, ledger: str, name: str, pace: float) -> None:
    mode, noted = MODES[name], Ledger(ledger)
    with open_study(path, mode) as study:
        lost = set(noted.jobs("recorded")) - set(finished(list(history(study.session.state))))
        assert not lost, f"recorded before, and lost: {sorted(lost)}"
        study.observe(noted)
        evaluate(study, mode, noted, pace)
        for strategy, target in mode.steps:
            study.extend(strategy, **target)
            evaluate(study, mode, noted, pace)


def open_study(path: str | os.PathLike[str], mode: Mode) -> Study:
    settings: dict[str, Any] = {"max_budget": mode.max_budget, "sampler": mode.sampler}
    settings = {} if Path(path).exists() else SETTINGS | settings | dict(mode.settings)
    return deepband.open_study(path, **settings, keep=mode.keep)


def evaluate(study: Study, mode: Mode, ledger: Ledger, pace: float) -> None:
    """Run the current run to its end."""
    if mode.service:
        serve(study, mode, ledger, pace)
        return
    options = {"workers": mode.workers, "retries": 10**6, **mode.options}
    train = (batch_objective if mode.in_batches else objective)(mode, ledger, pace)
    if "max_budget_limit" in options:
        study.auto_extend(train, **options)
        return
    # After the last step, work ahead would never be used.
    ahead = mode.ahead and len(study.runs) <= len(mode.steps)
    study.optimize(train, ahead=ahead, **options)


def serve(study: Study, mode: Mode, ledger: Ledger, pace: float) -> None:
    while jobs := study.ask_all():
        for batch in batches(jobs):
            study.tell_all([(job, answer(job, mode, ledger, pace)) for job in batch])


def batches(jobs: Sequence[Job]) -> Iterator[Sequence[Job]]:
    for start in range(0, len(jobs), BATCH):
        yield jobs[start : start + BATCH]


def answer(job: Job, mode: Mode, ledger: Ledger, pace: float) -> object:
    name = "/".join(map(str, job.key))
    ledger.note("began", name)
    result = outcome(job.config, job.budget, random.Random(name), pace)
    ledger.note("ran", name)
    return named(result, job.config, mode)


def objective(mode: Mode, ledger: Ledger, pace: float) -> Objective:
    def train(config: dict[str, Any], budget: int, context: deepband.Context) -> object:
        job, result = trained(config, budget, context)
        ledger.note("ran", job)
        if isinstance(result, Exception):
            raise result
        return result

    trained = training(mode, ledger, pace)
    return train


def batch_objective(mode: Mode, ledger: Ledger, pace: float) -> Objective:
    def train_batch(
        configs: list[dict[str, Any]], budget: int, contexts: list[deepband.BatchContext]
    ) -> list[object]:
        results: list[object] = []
        for position, (config, context) in enumerate(zip(configs, contexts, strict=True)):
            job, result = trained(config, budget, context)
            ledger.note("ran", job)
            results.append(result)
            if mode.finishes and position % 2:
                context.finish(result)
                ledger.note("finished", job)
        return results

    trained = training(mode, ledger, pace)
    return train_batch


Training: TypeAlias = Callable[[dict[str, Any], int, deepband.Context], tuple[str, object]]


def training(mode: Mode, ledger: Ledger, pace: float) -> Training:
    """A function that evaluates one config. It returns the name of the job and its result."""

    def trained(
        config: dict[str, Any], budget: int, context: deepband.Context
    ) -> tuple[str, object]:
        job = context.path.name.partition(".")[0].replace("-", "/")
        ledger.note("began", job)
        if context.previous is not None:
            assert int((context.previous / "state").read_text()) == context.previous_budget
        result = outcome(config, budget, random.Random(context.seed), pace)
        if "stop_training" in mode.options and isinstance(result, float):
            result = reported(config, budget, context)
        if mode.saves:
            (context.path / "state").write_text(str(budget))
        print("x" * mode.prints, end="")
        return job, named(result, config, mode)

    return trained


def outcome(config: dict[str, Any], budget: float, draw: random.Random, pace: float) -> object:
    """A loss that decreases with the budget and increases with x; some configs fail."""
    time.sleep(draw.uniform(0, pace))
    if config["x"] < 0.1:
        return ValueError("too small")
    return config["x"] + draw.random() / 2 + 10 / budget


def reported(config: dict[str, Any], budget: int, context: deepband.Context) -> float:
    """A loss that is reported at the budgets of all rungs on the way, until training stops."""
    loss = 0.0
    for step in (step for step in (1, 3, 9, 27) if context.previous_budget < step <= budget):
        loss = config["x"] + 1 / step
        context.report(step, loss)
        if context.should_stop():
            break
    return loss


def named(result: object, config: Mapping[str, Any], mode: Mode) -> object:
    """A loss with the other results that a study needs by their names."""
    if not mode.settings or not isinstance(result, float):
        return result
    x = config["x"]
    more = {"score": x - result / 100, "size": abs(x - 0.5), "memory": x}
    return {"loss_a" if "objectives" in mode.settings else "loss": result, **more}


def idle() -> worker_process.WorkerProcess:
    """A worker that never receives an order."""
    return worker_process.WorkerProcess(cloudpickle.dumps(os.getpid))


if __name__ == "__main__":
    try:
        main(sys.argv[1], sys.argv[2], sys.argv[3], float(sys.argv[4]))
    except StorageError as error:
        print(f"StorageError: {error}", file=sys.stderr)
        sys.exit(STORAGE_FAILED)
