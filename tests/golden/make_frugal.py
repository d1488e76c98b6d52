"""Makes frugal.json, our own golden cases, by the oracle: `PYTHONPATH=tests/support python
tests/golden/make_frugal.py`. Its form is that of deepening.json."""

from __future__ import annotations

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import oracle

PLACE = Path(__file__).with_name("frugal.json")
Steps = list[tuple[str, int]]
"""Each deepening by its strategy and how many levels it goes up; 0 fills a level."""

BY_HAND: dict[str, list[list[float | None]]] = {
    "0": [[0.5], [0.2, 0.3, 0.9]],
    "1": [[None, 0.3, 0.1], [None, 0.3, 0.5]],
}
"""The case that was worked out by hand, eta 2 and max_budget 2: bracket 0 begins with two configs
and sends index 1 up, bracket 1 has two. All three on the top rung have the loss 0.3, and
ceil(3 / 2) may go on: that of the lower bracket, then index 0. They cost 2 * 4, or 2 * (4 - 2)
resumed."""

STEPS: dict[str, Steps] = {
    "frugal": [("frugal", 1)],
    "frugal-frugal": [("frugal", 1), ("frugal", 1)],
    "preserving-frugal": [("preserving", 1), ("frugal", 1)],
    **{f"frugal-fill-{name}": [("frugal", 1), (name, 0)] for name in oracle.PAPER},
    **{f"frugal-on-{name}": [("frugal", 1), (name, 1)] for name in oracle.PAPER},
    "frugal-frugal-fill-frugal": [("frugal", 1), ("frugal", 1), ("preserving", 0), ("frugal", 1)],
}
FIRST = {"eta2-R4": (2, 2), "eta3-R9": (3, 2), "eta4-R4": (4, 1)}


def drawn(seed: str, kind: str) -> oracle.Losses:
    """Losses that are a function of the job: plain, with ties, or with failures and infinities."""

    def loss(bracket: int, index: int, rung: int) -> float | None:
        draw = random.Random(f"{seed} {bracket} {index} {rung}")
        if kind == "failures" and draw.random() < 0.4:
            return None if draw.random() < 0.6 else float("inf")
        return float(draw.randrange(3)) if kind == "ties" else round(draw.random(), 6)

    return loss


def by_hand(bracket: int, index: int, rung: int) -> float | None:
    return BY_HAND[str(bracket)][index][rung]


def case(eta: int, top: int, steps: Steps, losses: oracle.Losses) -> dict[str, Any]:
    seen: oracle.Cells = {}
    runs = []
    for strategy, levels in [(None, 0), *steps]:
        top += levels
        evaluated, _ = oracle.run(eta, top, strategy, seen, losses)
        runs.append(run(eta, top, strategy, evaluated, seen, losses))
    return {"eta": eta, "min_budget": 1, "runs": runs, "losses": table(top, seen, losses)}


def run(
    eta: int,
    top: int,
    strategy: str | None,
    evaluated: oracle.Cells,
    seen: oracle.Cells,
    losses: oracle.Losses,
) -> dict[str, Any]:
    jobs = [(b, i, k) for (b, k), who in evaluated.items() for i in who]
    known = [losses(b, i, k) for (b, k), who in seen.items() for i in who]
    cells: dict[str, dict[str, list[int]]] = {}
    for b, k in sorted(cell for cell, who in evaluated.items() if who):
        cells.setdefault(str(b), {})[str(k)] = sorted(evaluated[b, k])
    return {
        "max_budget": eta**top,
        "strategy": strategy,
        "top_rung": top,
        "budgets": [eta**rung for rung in range(top + 1)],
        "start_sizes": [oracle.start_size(eta, top, b) for b in range(top + 1)],
        "evaluated": cells,
        "evaluations": len(jobs),
        "cost": sum(eta**k for _, _, k in jobs),
        "cost_resumed": sum(eta**k - (eta ** (k - 1) if k > b else 0) for b, _, k in jobs),
        "best": {"loss": min(loss for loss in known if loss is not None)},
    }


def table(top: int, seen: oracle.Cells, losses: oracle.Losses) -> dict[str, Any]:
    def row(bracket: int, index: int) -> Iterable[float | str | None]:
        for rung in range(top + 1):
            loss = losses(bracket, index, rung) if index in seen.get((bracket, rung), ()) else 0.0
            yield "inf" if loss == float("inf") else loss

    sizes = {b: 1 + max(seen[b, b], default=-1) for b in range(top + 1) if (b, b) in seen}
    return {str(b): [list(row(b, i)) for i in range(size)] for b, size in sizes.items()}


def cases() -> dict[str, Any]:
    found = {"by-hand": case(2, 1, [("frugal", 1)], by_hand)}
    for first, (eta, top) in FIRST.items():
        for name, steps in STEPS.items():
            for kind in ("plain", "ties", "failures"):
                full = f"{first}-{name}-{kind}"
                found[full] = first_whole(
                    case(eta, top, steps, drawn(f"{full} {seed}", kind)) for seed in range(100)
                )
    return found


def first_whole(made: Iterable[dict[str, Any]]) -> dict[str, Any]:
    """The first case in which not everybody on a top rung has failed, which is refused."""
    return next(each for each in made if all(run["evaluations"] for run in each["runs"]))


if __name__ == "__main__":
    PLACE.write_text(json.dumps(cases(), separators=(",", ":")) + "\n")
