"""Makes objectives.json, our own golden cases with several objectives and constraints, by the
oracle: `PYTHONPATH=tests/support python tests/golden/make_objectives.py`.

A case has `objectives` (names and directions) and `constraints` (names and bounds). Its
`results[bracket][index][rung]` are the values of both, in this order and in the user's direction;
null for a failure, "rejected" for a config that the precheck rejects, and 0 for what no run needs.
A run has what it `evaluated`, including what was rejected, its `cost`, without it, and the `front`
over all runs, as [bracket, index, rung]. The rest is as in deepening.json.
"""

from __future__ import annotations

import json
import random
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Any, NamedTuple

import oracle
from oracle_ranking import Result, fronts, order

PLACE = Path(__file__).with_name("objectives.json")
REJECTED = "rejected"
INF = float("inf")
Values = list[float] | str | None
Job = tuple[int, int, int]


class Step(NamedTuple):
    """An extension: how many levels up, and how much wider."""

    strategy: str
    levels: int = 1
    wider: int = 0


class Kind(NamedTuple):
    """What is optimised, and what results look like."""

    objectives: dict[str, str]
    constraints: Mapping[str, tuple[float | None, float | None]] = MappingProxyType({})
    draw: Callable[[random.Random], float] = lambda draw: round(draw.random(), 3)
    failures: float = 0.0
    infinite: float = 0.0
    rejects: float = 0.0

    def values(self, seed: str, job: Job) -> Values:
        draw = random.Random(f"{seed} {job}")
        rejects = random.Random(f"{seed} rejects {job}").random() < self.rejects
        numbers = [self.draw(draw) for _ in (*self.objectives, *self.constraints)]
        if rejects:
            return REJECTED
        if draw.random() < self.failures:
            return None
        for at, direction in enumerate(self.objectives.values()):
            if draw.random() < self.infinite:
                numbers[at] = float("-inf" if direction == "maximize" else "inf")
        return numbers

    def result(self, values: Values) -> Result | None:
        """A result as the oracle ranks it: minimised, with violations."""
        if values is None:
            return None
        if isinstance(values, str):
            inf = float("inf")
            return Result((inf,) * len(self.objectives), (inf,) * max(1, len(self.constraints)))
        count = len(self.objectives)
        pairs = zip(self.objectives.values(), values, strict=False)
        losses = tuple(0.0 - each if way == "maximize" else each for way, each in pairs)
        bounds = zip(self.constraints.values(), values[count:], strict=True)
        return Result(losses, tuple(violation(each, *pair) for pair, each in bounds))


def violation(value: float, low: float | None, high: float | None) -> float:
    below = 0.0 if low is None else max(0.0, low - value)
    return below + (0.0 if high is None else max(0.0, value - high))


TWO = {"error": "minimize", "accuracy": "maximize"}
THREE = {"error": "minimize", "accuracy": "maximize", "size": "minimize"}
BOUNDS: dict[str, tuple[float | None, float | None]] = {
    "memory": (None, 0.6),
    "gap": (0.2, 0.7),
}
KINDS = {
    "two": Kind(TWO),
    "three": Kind(THREE),
    "duplicates": Kind(TWO, draw=lambda draw: float(draw.randrange(3))),
    "infinite": Kind(THREE, failures=0.2, infinite=0.3),
    "constraints": Kind(TWO, BOUNDS, failures=0.1),
    "one-constrained": Kind({"error": "minimize"}, BOUNDS),
    "rejected": Kind(TWO, {"memory": (None, 0.6)}, failures=0.1, rejects=0.3),
    "extreme": Kind(TWO, draw=lambda draw: draw.choice([-1e308, -1.0, 5e-324, 1.0, 1e308])),
}
STEPS = {
    "discarding": [Step("discarding")],
    "preserving": [Step("preserving")],
    "efficient": [Step("efficient")],
    "frugal-fill": [Step("frugal"), Step("preserving", 0)],
    "wider": [Step("efficient", 0, 1), Step("preserving", 1, 1)],
}
FIRST = {"eta2-R4": (2, 2), "eta3-R9": (3, 2)}


def choose(pool: dict[Any, Result | None], count: int) -> list[Any]:
    return order({key: each or Result(None) for key, each in pool.items()}, count)[:count]


def case(eta: int, top: int, steps: list[Step], kind: Kind, seed: str) -> dict[str, Any]:
    seen: oracle.Cells = {}
    runs: list[dict[str, Any]] = []
    width, first_top = 1, top

    def result(bracket: int, index: int, rung: int) -> Result | None:
        return kind.result(kind.values(seed, (bracket, index, rung)))

    for step in [None, *steps]:
        if step:
            top, width = top + step.levels, width + step.wider
        strategy = step.strategy if step else None
        evaluated, _ = oracle.run(eta, top, strategy, seen, result, width, choose=choose)
        jobs = [(b, i, k) for (b, k), indices in evaluated.items() for i in indices]
        paid = [job for job in jobs if kind.values(seed, job) != REJECTED]
        runs.append(
            {
                "max_budget": eta**top,
                "width": width,
                "strategy": strategy,
                "evaluated": by_cell(jobs),
                "cost": sum(eta**k for _, _, k in paid),
                "front": front(seen, result),
            }
        )
    assert runs[0]["max_budget"] == eta**first_top
    return {
        "eta": eta,
        "objectives": kind.objectives,
        "constraints": dict(kind.constraints),
        "runs": runs,
        "results": table(top, seen, lambda job: kind.values(seed, job)),
    }


def by_cell(jobs: Iterable[Job]) -> dict[str, dict[str, list[int]]]:
    cells: dict[str, dict[str, list[int]]] = {}
    for bracket, index, rung in sorted(jobs):
        cells.setdefault(str(bracket), {}).setdefault(str(rung), []).append(index)
    return cells


def front(seen: oracle.Cells, result: Callable[[int, int, int], Result | None]) -> list[Job]:
    """The jobs whose results nothing dominates, over all rungs, sorted by losses."""
    found = {}
    for (bracket, rung), indices in seen.items():
        for index in indices:
            each = result(bracket, index, rung)
            if each and each.losses and not any(each.violations) and max(each.losses) < INF:
                found[bracket, index, rung] = each.losses
    best = fronts(sorted(found), lambda job: found[job])[:1]
    return sorted(best[0] if best else [], key=lambda job: (found[job], job))


def table(top: int, seen: oracle.Cells, values: Callable[[Job], Values]) -> dict[str, Any]:
    def cell(bracket: int, index: int, rung: int) -> object:
        if index not in seen.get((bracket, rung), ()):
            return 0
        found = values((bracket, index, rung))
        return found if isinstance(found, str | None) else [plain(each) for each in found]

    sizes = {b: 1 + max(seen[b, b], default=-1) for b in range(top + 1) if (b, b) in seen}
    return {
        str(b): [[cell(b, index, rung) for rung in range(top + 1)] for index in range(size)]
        for b, size in sizes.items()
    }


def plain(value: float) -> float | str:
    return str(value) if value in (float("inf"), float("-inf")) else value


def cases() -> dict[str, Any]:
    return {
        f"{first}-{name}-{kind}": whole(
            case(eta, top, steps, KINDS[kind], f"{first} {name} {kind} {seed}")
            for seed in range(100)
        )
        for first, (eta, top) in FIRST.items()
        for name, steps in STEPS.items()
        for kind in KINDS
    }


def whole(made: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The first case in which every run evaluates something: not all on a top rung have failed."""
    return next(each for each in made if all(run["evaluated"] for run in each["runs"]))


if __name__ == "__main__":
    PLACE.write_text(json.dumps(cases(), separators=(",", ":")) + "\n")
