"""The demonstration: one search, deepened once with each strategy, compared with a rerun."""

from __future__ import annotations

import deepband
from deepband.benchmarks.synthetic import SPACE, learning_curve
from deepband.report import table
from deepband.strategies import STRATEGIES


def finish(study: deepband.Study) -> None:
    """Ask and tell until the current run is done."""
    while job := study.ask():
        study.tell(job, learning_curve(job.config, job.budget))


def search(max_budget: int, strategy: str | None, seed: int = 0) -> deepband.Study:
    """A finished search up to a max_budget, deepened once if a strategy is given."""
    study = deepband.open_study(space=SPACE, max_budget=max_budget, eta=3, seed=seed)
    finish(study)
    if strategy:
        study.deepen(strategy)
        finish(study)
    return study


def row(name: str, *studies: deepband.Study) -> list[str]:
    """Evaluations, cost and best loss of studies that belong together."""
    runs = [run for study in studies for run in study.runs]
    best = studies[-1].best
    assert best is not None
    return [
        name,
        str(sum(run.evaluations for run in runs)),
        str(sum(run.cost for run in runs)),
        str(sum(run.cost_resumed for run in runs)),
        f"{best.loss:.4f}",
        str(best.budget),
    ]


def main() -> None:
    first = search(27, None)
    print("Hyperband on synthetic learning curves, max_budget 27, eta 3:\n")
    print(first.plan())
    print("\nIs a larger budget worth it? What going on to 81 would cost:\n")
    print(first.quote("preserving"))
    rows = [["", "evaluations", "cost", "cost resumed", "best loss", "on budget"]]
    rows.append(row("27 only", first))
    rows += [row(f"27, then 81 {name}", search(27, name)) for name in STRATEGIES]
    rows.append(row("27, then 81 from scratch", first, search(81, None)))
    print(f"\n{table(rows)}")
    print("\n'cost resumed' counts training that continues from the rung below.")


if __name__ == "__main__":
    main()
