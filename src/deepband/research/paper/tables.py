"""What the results say, in words and tables: the answers to the paper's questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence

from deepband.core.strategies import STRATEGIES
from deepband.research.paper.comparing import NEGLIGIBLE, Comparison, Lost
from deepband.research.paper.courses import IH


def report(compared: Sequence[Comparison], lost: Sequence[Lost] = ()) -> str:
    """Everything as a page of Markdown."""
    parts = [
        "### RQ1: is the quality of the returned configs retained?",
        "\n".join(answer_quality(compared)),
        markdown(QUALITY, map(_quality_row, compared)),
        "### RQ2: how much effort is saved?",
        "\n".join(answer_effort(compared)),
        markdown(EFFORT, map(_effort_row, compared)),
    ]
    if lost:
        parts += [
            "### Beyond the paper: what a first guess that was too small costs",
            "\n".join(answer_guess(lost)),
            "More budget, as the paper counts, than a single run at the last max_budget; and the "
            "difference in accuracy there.",
            markdown(GUESS, _guess_rows(lost)),
        ]
    return "\n\n".join(parts) + "\n"


QUALITY = (
    "benchmark, eta, strategy, same accuracy in, mean difference at the last max_budget, p, "
    "in single runs, mean difference at any budget, p"
)
EFFORT = (
    "benchmark, eta, strategy, saved: mean, worst, best, with continued training: mean, worst, best"
)
GUESS = (
    "benchmark, eta, course, more budget: ih, discarding, preserving, efficient, "
    "accuracy: preserving, efficient"
)


def answer_quality(compared: Sequence[Comparison]) -> Iterator[str]:
    """RQ1, a line a strategy."""
    for method in STRATEGIES:
        ours = [each for each in compared if each.method == method]
        if all(each.same == 1 for each in ours):
            runs = sum(each.runs for each in ours)
            yield f"- {method}: the same accuracy as IH-HB in every one of {runs:,} runs."
            continue
        poorest, richest = (pick(ours, key=lambda each: each.top.mean) for pick in (min, max))
        kept = sum(each.top.negligible for each in ours)
        yield (
            f"- {method}: mean differences from {poorest.top.mean:+z.5f} ({poorest.scenario}, eta "
            f"{poorest.eta}) to {richest.top.mean:+z.5f} ({richest.scenario}, eta {richest.eta}); "
            f"in {kept} of {len(ours)} pairs of benchmark and eta the 95 % interval lies within "
            f"{NEGLIGIBLE} of zero."
        )


def answer_effort(compared: Sequence[Comparison]) -> Iterator[str]:
    """RQ2, a line a strategy and eta."""
    for eta in sorted({each.eta for each in compared}):
        for method in STRATEGIES:
            ours = [each for each in compared if (each.method, each.eta) == (method, eta)]
            runs = sum(each.runs for each in ours)
            mean = sum(each.saving.mean * each.runs for each in ours) / runs
            worst = min(each.saving.worst for each in ours)
            best = max(each.saving.best for each in ours)
            yield (
                f"- eta {eta}, {method}: {mean:z.1%} of IH-HB's budget saved on average, "
                f"{worst:z.1%} in the worst of {runs:,} runs, {best:z.1%} in the best."
            )


def answer_guess(lost: Sequence[Lost]) -> Iterator[str]:
    """A line a method."""
    for method in (IH, *STRATEGIES):
        ours = [each for each in lost if each.method == method]
        budget, resumed = [each.budget for each in ours], [each.budget_resumed for each in ours]
        yield (
            f"- {method}: {_range(budget)} more budget than a run that knew the last max_budget at "
            f"once; {_range(resumed)} more with continued training."
        )


def _range(shares: Sequence[float]) -> str:
    return f"{min(shares):z.1%} to {max(shares):z.1%}"


def markdown(header: str, rows: Iterable[Sequence[str]]) -> str:
    """A table of texts."""
    names = header.split(", ")
    lines = [names, ["---"] * len(names), *rows]
    return "\n".join("| " + " | ".join(line) + " |" for line in lines)


def _quality_row(each: Comparison) -> list[str]:
    return [
        each.scenario,
        str(each.eta),
        each.method,
        f"{each.same:z.1%}",
        str(each.top),
        f"{each.top.p:.2g}",
        f"{each.worst:+z.4f} to {each.best:+z.4f}",
        str(each.any_budget),
        f"{each.any_budget.p:.2g}",
    ]


def _effort_row(each: Comparison) -> list[str]:
    shares = (*each.saving, *each.saving_resumed)
    return [each.scenario, str(each.eta), each.method, *(f"{share:z.1%}" for share in shares)]


def _guess_rows(lost: Sequence[Lost]) -> Iterator[list[str]]:
    """A row a course."""
    courses = dict.fromkeys((each.scenario, each.eta, each.course) for each in lost)
    for course in courses:
        of = {
            each.method: each for each in lost if (each.scenario, each.eta, each.course) == course
        }
        budgets = [f"{of[method].budget:z.1%}" for method in (IH, *STRATEGIES)]
        accuracies = [str(of[method].accuracy) for method in ("preserving", "efficient")]
        yield [course[0], str(course[1]), course[2], *budgets, *accuracies]
