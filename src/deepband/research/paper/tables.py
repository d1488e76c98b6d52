"""What the results say, in words and tables: the answers to the paper's questions."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from textwrap import fill

from deepband.core.strategies import STRATEGIES
from deepband.research.markdown_tables import markdown
from deepband.research.paper.courses import IH
from deepband.research.paper.savings import Comparison, Lost, Saving
from deepband.research.paper.summaries import Spread, Summary
from deepband.research.statistics import NEGLIGIBLE


def report(
    compared: Sequence[Comparison],
    summaries: Sequence[Summary],
    lost: Sequence[Lost] = (),
    baseline: str = "IH-HB",
) -> str:
    """Return all answers and tables as Markdown."""
    parts = [
        "### RQ1: is the quality of the returned configs retained?",
        _bullets(answer_quality(compared, baseline)),
        markdown(QUALITY, map(_quality_row, compared)),
        "### RQ2: how much effort is saved?",
        _bullets(answer_effort(compared, baseline)),
        markdown(EFFORT, map(_effort_row, compared)),
        "If training continues from the rung below, for both methods:",
        markdown(EFFORT, map(_resumed_effort_row, compared)),
        "### Absolute budgets and accuracies",
        "Means over all data sets and seeds; in parentheses the smallest and largest single run.",
        markdown(ABSOLUTE, map(_absolute_row, summaries)),
    ]
    if lost:
        parts += [
            "### Beyond the paper: the cost of a first max_budget that is too small",
            _bullets(answer_guess(lost)),
            "The table shows the budget spent in addition to a single run at the last max_budget,\n"
            "and the difference in accuracy there.",
            markdown(GUESS, _guess_rows(lost)),
        ]
    return "\n\n".join(parts) + "\n"


WIDTH = 100
QUALITY = (
    "benchmark, eta, strategy, same accuracy in, mean difference at the last max_budget, p, "
    "in single runs, mean difference at any budget, p"
)
EFFORT = (
    "benchmark, eta, strategy, mean saving, data-set means: worst, best, single runs: worst, best"
)
ABSOLUTE = (
    "benchmark, eta, method, budget, with continued training, evaluations, "
    "accuracy at the last max_budget, accuracy at any budget"
)
GUESS = (
    "benchmark, eta, course, more budget: ih, discarding, preserving, efficient, "
    "accuracy: preserving, efficient"
)


def _bullets(answers: Iterable[str]) -> str:
    return "\n".join(fill(answer, WIDTH, subsequent_indent="  ") for answer in answers)


def answer_quality(compared: Sequence[Comparison], baseline: str) -> Iterator[str]:
    """RQ1, one line per strategy."""
    for method in STRATEGIES:
        ours = [each for each in compared if each.method == method]
        if all(each.same == 1 for each in ours):
            runs = sum(each.runs for each in ours)
            yield f"- `{method}`: the same accuracy as {baseline} in each of {runs:,} runs."
            continue
        poorest, richest = (pick(ours, key=lambda each: each.top.mean) for pick in (min, max))
        kept = sum(each.top.negligible for each in ours)
        yield (
            f"- `{method}`: mean differences from {_mean_of(poorest)} to {_mean_of(richest)}; "
            f"in {kept} of {len(ours)} pairs of benchmark and eta, the 95 % interval lies within "
            f"{NEGLIGIBLE} of zero."
        )


def _mean_of(each: Comparison) -> str:
    return f"{each.top.mean:+z.5f} ({each.scenario}, eta {each.eta})"


def answer_effort(compared: Sequence[Comparison], baseline: str) -> Iterator[str]:
    """RQ2, one line per strategy and eta."""
    for eta in sorted({each.eta for each in compared}):
        for method in STRATEGIES:
            ours = [each for each in compared if (each.method, each.eta) == (method, eta)]
            runs = sum(each.runs for each in ours)
            mean = sum(each.saving.mean * each.runs for each in ours) / runs
            of_means = [each.saving_of_means for each in ours]
            yield (
                f"- eta {eta}, `{method}`: saves {mean:z.1%} of {baseline}'s budget on average; "
                f"data-set means {_extremes(of_means)}, single runs (of {runs:,}) "
                f"{_extremes([each.saving for each in ours])}."
            )


def answer_guess(lost: Sequence[Lost]) -> Iterator[str]:
    """The cost of a wrong first guess, one line per method."""
    for method in (IH, *STRATEGIES):
        ours = [each for each in lost if each.method == method]
        budget, resumed = [each.budget for each in ours], [each.budget_resumed for each in ours]
        yield (
            f"- `{method}`: {_range(budget)} more budget than a single run at the last max_budget; "
            f"{_range(resumed)} more with continued training."
        )


def _extremes(savings: Sequence[Saving]) -> str:
    worst, best = min(each.worst for each in savings), max(each.best for each in savings)
    return f"{worst:z.1%} to {best:z.1%}"


def _range(shares: Sequence[float]) -> str:
    return f"{min(shares):z.1%} to {max(shares):z.1%}"


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
    return _saving_row(each, each.saving, each.saving_of_means)


def _resumed_effort_row(each: Comparison) -> list[str]:
    return _saving_row(each, each.saving_resumed, each.saving_resumed_of_means)


def _saving_row(each: Comparison, runs: Saving, means: Saving) -> list[str]:
    shares = (runs.mean, means.worst, means.best, runs.worst, runs.best)
    return [each.scenario, str(each.eta), each.method, *(f"{share:z.1%}" for share in shares)]


def _absolute_row(each: Summary) -> list[str]:
    counts = [_spread(spread, ",.1f") for spread in each[5:8]]
    accuracies = [_spread(spread, ".4f") for spread in each[8:]]
    return [each.scenario, str(each.eta), each.method, *counts, *accuracies]


def _spread(spread: Spread, form: str) -> str:
    mean, low, high = (format(number, form) for number in spread)
    return mean if low == high else f"{mean} ({low} to {high})"


def _guess_rows(lost: Sequence[Lost]) -> Iterator[list[str]]:
    """One row per course."""
    courses = dict.fromkeys((each.scenario, each.eta, each.course) for each in lost)
    for course in courses:
        of = {
            each.method: each for each in lost if (each.scenario, each.eta, each.course) == course
        }
        budgets = [f"{of[method].budget:z.1%}" for method in (IH, *STRATEGIES)]
        accuracies = [str(of[method].accuracy) for method in ("preserving", "efficient")]
        yield [course[0], str(course[1]), course[2], *budgets, *accuracies]
