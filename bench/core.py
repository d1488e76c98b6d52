"""What one ask plus tell costs, over whole studies of three sizes and along a wide study.

    python bench/core.py

Every figure of the first table is the mean over a whole run of Hyperband, in µs per evaluation. The
second table has the mean of each quarter of a study's evaluations, including what extending it and
sampling its configs took.
"""

from __future__ import annotations

import random
import time
import tracemalloc
from collections.abc import Callable, Iterator, Sequence
from itertools import cycle, pairwise

import deepband
from deepband.analysis.text import table
from deepband.core.rank_order import Score, Standing, ranked

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
WIDTH, WIDE_BUDGET = 100, 243
"""A study of 41,500 configs."""
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
        pending: object = (),
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


def open_study(max_budget: int, sampler: object, width: int = 1) -> deepband.Study:
    return deepband.open_study(
        space=SPACE,
        eta=3,
        max_budget=max_budget,
        width=width,
        sampler=sampler,  # type: ignore[arg-type]
    )


def wide_at_once(sampler: object) -> Iterator[None]:
    """One run of width 100; yields after each evaluation."""
    yield from told(open_study(WIDE_BUDGET, sampler, WIDTH))


def wide_in_steps(sampler: object) -> Iterator[None]:
    """The same width, reached by 99 widenings."""
    study = open_study(WIDE_BUDGET, sampler)
    yield from told(study)
    while study.width < WIDTH:
        study.widen()
        yield from told(study)


def told(study: deepband.Study) -> Iterator[None]:
    losses = cycle(LOSSES)
    while job := study.ask():
        study.tell(job, next(losses))
        yield


def quarters(steps: Iterator[None]) -> list[float]:
    """The µs of CPU time per evaluation in each quarter of a study."""
    start = time.process_time()
    times = [time.process_time() - start for _ in steps]
    ends = [0.0, *(times[len(times) * number // 4 - 1] for number in (1, 2, 3, 4))]
    return [(high - low) / len(times) * 4e6 for low, high in pairwise(ends)]


def wide_rows() -> Iterator[list[str]]:
    count = deepband.Schedule.of(3, 1, WIDE_BUDGET, WIDTH).evaluations
    title = f"CPU time in µs per evaluation, width {WIDTH}, {count:,} evaluations"
    yield [title, "1st quarter", "2nd", "3rd", "4th", "4th/1st"]
    for name, steps in (("in one run", wide_at_once), ("in 100 runs", wide_in_steps)):
        for sampler, text in ((OneConfig(), ""), ("uniform", ", sampling 7 parameters")):
            repeats = [quarters(steps(sampler)) for _ in range(REPEATS)]
            figures = [min(each) for each in zip(*repeats, strict=True)]
            ratio = f"{figures[-1] / figures[0]:.2f}"
            yield [f"ask and tell {name}{text}", *(f"{each:.2f}" for each in figures), ratio]


def ranking_rows(configs: int = 25_000) -> Iterator[list[str]]:
    """The seconds of CPU time to rank configs with two objectives for a third as many slots."""
    title = f"ranking {configs:,} configs, two objectives"
    yield [title, "seconds of CPU time"]
    draw = random.Random(0)
    uniform = [(draw.random(), draw.random()) for _ in range(configs)]
    for name, losses in (
        ("uniformly distributed", uniform),
        ("all on one front", [(one, 1.0 - one) for one, _ in uniform]),
    ):
        scores: dict[int, Score] = {index: Standing(each) for index, each in enumerate(losses)}
        seconds = []
        for _ in range(REPEATS):
            start = time.process_time()
            ranked(scores.keys(), scores, configs // 3)
            seconds.append(time.process_time() - start)
        yield [name, f"{min(seconds):.2f}"]


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
    print(table(list(wide_rows())))
    print(table(list(ranking_rows())))
    print(f"memory: {memory(59049):.0f} bytes an evaluation, 7 parameters, in batches")


if __name__ == "__main__":
    main()
