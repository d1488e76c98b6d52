"""The report of a comparison: regrets after one full run and at the end, with tests."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from deepband.research.compare.curves import UNSEEN, Curves
from deepband.research.compare.equal_cost import equal_cost_report
from deepband.research.compare.methods import BASE, BEST, RIGHT, SMALL
from deepband.research.compare.regrets import (
    AS_GOOD,
    Duel,
    Ending,
    MethodRegret,
    against_peers,
    endings,
    method_regrets,
    of_the_best,
)
from deepband.research.markdown_tables import markdown
from deepband.research.statistics import Difference

AMOUNTS = (0.25, 0.5, 1.0, 2.0, 4.0)
"""In full runs."""
GROUPS = {"First guess right": RIGHT, "First guess too small": SMALL}


def report(curves: Curves, trained: Curves) -> str:
    """Return all answers and tables as Markdown; `trained` has the regrets of incumbents as they
    were trained."""
    parts = [
        f"{len(curves.pairs)} data sets. Regret is 0 for the best known accuracy of a data set and "
        "1 for the median random config; tables show means, with 95 % intervals over data sets. A "
        "difference is that of means over the seeds that both methods have. p is that of "
        "Wilcoxon's test on these differences, with Holm's correction within a table.",
        *_simulation(curves),
    ]
    for runs in sorted({1, curves.limit}):
        for title, names in GROUPS.items():
            found = method_regrets(curves, runs, names)
            if found:
                parts += [
                    f"### {title}, {_runs(runs, curves)}",
                    _answer(found),
                    _regret_table(found),
                ]
    fought = against_peers(curves, curves.limit)
    if fought:
        parts += [
            f"### Our samplers against other tools, {_runs(curves.limit, curves)}",
            "\n".join(answer_peers(fought)),
            markdown("ours, peer, seeds, difference, p, ours is", map(_duel_row, fought)),
        ]
    for group in (None, UNSEEN) if UNSEEN in curves.groups else (None,):
        parts += _best(curves, group)
    if curves.workers == 1:  # both compare what methods spend, but the amounts would be times
        parts += [*_stopping(curves), equal_cost_report(curves, trained)]
    return "\n\n".join(filter(None, parts)) + "\n"


def _stopping(curves: Curves) -> list[str]:
    """A heading and the table of methods that stop by themselves."""
    ended = endings(curves)
    if not ended:
        return []
    return [
        "### When to stop",
        "Spending is in full runs. Times: total spending over that of the cheapest first guess "
        f"with no more regret in the same run (up to {AS_GOOD} counts as none). Excess: regret "
        "minus that of a first guess with the same average spending on all data sets.",
        markdown("method, spent, regret, times, excess", map(_end_row, ended)),
    ]


def _best(curves: Curves, group: str | None) -> list[str]:
    """A heading and the table of the best of our samplers: one row per other method, one column
    per amount."""
    amounts = [runs for runs in AMOUNTS if runs <= curves.limit]
    columns = [of_the_best(curves, runs, group) for runs in amounts]
    if not columns or not columns[0]:
        return []
    count = int(curves.of(group).sum())
    header = ", ".join(["other, seeds", *(_runs(runs, curves) for runs in amounts)])
    rows = [
        [row[0].other, str(row[0].seeds), *map(_tested, row)] for row in zip(*columns, strict=True)
    ]
    return [
        f"### {BEST} against all others on {group or 'all data sets'} ({count})",
        f"The regret of {BEST} minus that of the other method, and p, corrected within a column.",
        markdown(header, rows),
    ]


def _tested(duel: Duel) -> str:
    """The difference and its test; nothing for a single data set, which cannot be tested."""
    return f"{_shown(duel.difference)}; {duel.p:.2g}" if duel.difference.pairs > 1 else ""


def answer_peers(fought: Sequence[Duel]) -> Iterator[str]:
    """Yield one line per peer: which of our samplers are better, and which are worse."""
    for peer in dict.fromkeys(duel.other for duel in fought):
        said = [
            f"{', '.join(names)} {verdict}"
            for verdict in ("better", "worse", "open")
            if (names := [d.method for d in fought if (d.other, d.verdict) == (peer, verdict)])
        ]
        yield f"- Against {peer}: {'; '.join(said)}."


def _answer(found: Sequence[MethodRegret]) -> str:
    lowest = _lowest(found)
    if not any(each.duel for each in found):
        return lowest
    better, worse = (
        [each.method for each in found if each.duel and each.duel.verdict == verdict]
        for verdict in ("better", "worse")
    )
    return (
        f"{lowest} Better than {BASE}: {', '.join(better) or 'none'}. "
        f"Worse: {', '.join(worse) or 'none'}."
    )


def _lowest(found: Sequence[MethodRegret]) -> str:
    """Which method has the lowest regret, of those with the most seeds: means over different seeds
    cannot be compared."""
    seeds = max(each.seeds for each in found)
    compared = [each for each in found if each.seeds == seeds]
    best = min(compared, key=lambda each: float(each.regret.mean))
    among = "" if len(compared) == len(found) else f" of methods with {seeds} seeds"
    return f"Lowest regret{among}: {best.method}."


def _regret_table(found: Sequence[MethodRegret]) -> str:
    groups = ", ".join(found[0].by_group)
    header = f"method, seeds, regret, {groups}, against {BASE}, p, it is"
    return markdown(header, map(_regret_row, found))


def _regret_row(each: MethodRegret) -> list[str]:
    duel = each.duel
    tested = [_shown(duel.difference), f"{duel.p:.2g}", duel.verdict] if duel else ["", "", ""]
    shares = [f"{share:z.3f}" for share in each.by_group.values()]
    mean, low, high = map(float, each.regret)
    regret = f"{mean:z.3f} ({low:z.3f} to {high:z.3f})"
    return [each.method, str(each.seeds), regret, *shares, *tested]


def _duel_row(duel: Duel) -> list[str]:
    method, other, difference, seeds, p = duel
    return [method, other, str(seeds), _shown(difference), f"{p:.2g}", duel.verdict]


def _end_row(each: Ending) -> list[str]:
    spent, regret, times, excess = each[1:]
    return [each.method, f"{spent:.3f}", f"{regret:z.3f}", f"{times:.2f}", f"{excess:+z.3f}"]


def _shown(difference: Difference) -> str:
    mean, low, high = difference[:3]
    return f"{mean:+z.3f} ({low:+z.3f} to {high:+z.3f})"


def _runs(runs: float, curves: Curves) -> str:
    shown = "one full run" if runs == 1 else f"{runs:.3g} full runs"
    return f"{shown} spent" if curves.workers == 1 else f"the time of {shown}"


def _simulation(curves: Curves) -> list[str]:
    """What the amounts are if they are times, and what methods spent in that time."""
    if curves.workers == 1:
        return []
    rows = [[name, f"{curves.spent(name):.3f}"] for name in curves.methods]
    return [
        f"{curves.workers} simulated workers. The time of a full run is that in which workers that "
        f"are always busy spend what it costs. In {_runs(curves.limit, curves)}, methods spent, on "
        "evaluations that ended, in full runs:",
        markdown("method, spent", rows),
    ]
