"""What one ask plus tell costs, over whole studies of three sizes.

    python bench/core.py

Every figure is the mean over a whole run of Hyperband, in microseconds an evaluation.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable, Sequence

import deepband
from deepband.analysis.text import table

SPACE = {
    "learning_rate": (1e-5, 1e-1, "log"),
    "momentum": (0.1, 0.99),
    "weight_decay": (1e-5, 1e-1),
    "dropout": (0.0, 1.0),
    "layers": (1, 5),
    "units": (16, 1024, "log"),
    "batch_size": (16, 512, "log"),
}
REPEATS = 3
LOSSES = [random.Random(0).random() for _ in range(4096)]


class OneConfig:
    """Draws nothing, so that the study alone is measured."""

    learns = False

    def draw(
        self,
        space: object,
        observations: object,
        bracket: int,
        indices: Sequence[int],
        seed: int,
    ) -> list[dict[str, object]]:
        return [{} for _ in indices]


def one_at_a_time(study: deepband.Study) -> int:
    count = 0
    while job := study.ask():
        study.tell(job, LOSSES[count & 4095])
        count += 1
    return count


def in_batches(study: deepband.Study) -> int:
    count = 0
    while jobs := study.ask_all():
        study.tell_all([(job, LOSSES[i & 4095]) for i, job in enumerate(jobs, count)])
        count += len(jobs)
    return count


def plain_loop(evaluations: int) -> float:
    """Noting as many losses, each under its key, with nothing decided."""
    start = time.perf_counter()
    told = {}
    for i in range(evaluations):
        told[0, i, 0] = {"loss": LOSSES[i & 4095]}
    return (time.perf_counter() - start) / evaluations * 1e6


def measure(loop: Callable[[deepband.Study], int], max_budget: int, sampler: object) -> float:
    study = open_study(max_budget, sampler)
    start = time.perf_counter()
    count = loop(study)
    elapsed = time.perf_counter() - start
    assert study.done
    return elapsed / count * 1e6


def open_study(max_budget: int, sampler: object) -> deepband.Study:
    return deepband.open_study(space=SPACE, eta=3, max_budget=max_budget, sampler=sampler)  # type: ignore[arg-type]


def memory(max_budget: int) -> float:
    """Bytes an evaluation that a finished study holds, drawing 7 parameters."""
    tracemalloc.start()
    study = open_study(max_budget, "uniform")
    before, _ = tracemalloc.get_traced_memory()
    count = in_batches(study)
    after, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return (after - before) / count


def main() -> None:
    sizes = (243, 6561, 59049)
    evaluations = [deepband.Schedule.of(3, 1, size).evaluations for size in sizes]
    rows = [["microseconds an evaluation", *(f"{n:,}" for n in evaluations), "largest/smallest"]]

    def add(name: str, figures: list[float]) -> None:
        ratio = f"{figures[-1] / figures[0]:.2f}"
        rows.append([name, *(f"{figure:.2f}" for figure in figures), ratio])

    measure(one_at_a_time, 243, "uniform")  # loads ConfigSpace
    add("a plain Python loop", [plain_loop(n) for n in evaluations])
    loops = {"one at a time": one_at_a_time, "in batches": in_batches}
    for name, loop in loops.items():
        for sampler, text in ((OneConfig(), ""), ("uniform", ", drawing 7 parameters")):
            figures = [min(measure(loop, size, sampler) for _ in range(REPEATS)) for size in sizes]
            add(f"ask and tell {name}{text}", figures)
    print(table(rows))
    print(f"memory: {memory(59049):.0f} bytes an evaluation, 7 parameters, in batches")


if __name__ == "__main__":
    main()
