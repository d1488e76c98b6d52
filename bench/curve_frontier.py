"""What skipping promotions and stopping early would save, and what they cost in regret.

A rule decides when a rung of a bracket is complete, from the results so far. A skipped promotion
does not arrive on its rung in that run, and its slot lapses. Each rule of the model has a simple
rule to compare with: promote only a share of the configs, or leave out the last brackets.

skip RISK     a promoted config is skipped if the probability that it becomes the best of the top
              rung, among those there and all that were promoted with it, is below RISK
effect RISK   the same if the expected improvement over the best of these is below RISK, in units of
              the distance from the best loss to the median
share SHARE   only this share of the promoted configs, rounded up, is evaluated
stop RISK     the run ends if the probability is below RISK that a config that may still be
              evaluated is better on the top rung, by a tenth of the unit of losses, than the best
              one there
brackets N    the run ends after N brackets
both RISK     `skip 0.01` together with `stop RISK`

After a deepening from 9 to 27, `skip` and `share` have decided in both runs, `stop` and `brackets`
in the second.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Hashable, Iterator, Sequence
from functools import partial
from operator import attrgetter
from typing import NamedTuple, TypeAlias

import numpy as np

from curve_worlds import FULL, World, worlds
from deepband.analysis.learning_curves.curve_model import CurveModel
from deepband.core.facts import JobFinished
from deepband.core.rank_order import ranked
from deepband.core.state import State
from deepband.research.statistics import Difference, Floats

RISKS = 0.001, 0.01, 0.05, 0.1
SHARES = 0.75, 0.5, 0.25, 0.0
STOPS = 0.05, 0.1, 0.2
CLOSE = 0.1
SAMPLES = 4000
SITUATIONS = "one run", "deepened"
Skip: TypeAlias = Callable[[State, int, int, frozenset[int]], set[int]]
"""Which of the configs that are to arrive on a rung of a bracket do not."""
Stop: TypeAlias = Callable[[State, int], bool]
"""Whether the run ends, when a rung of a bracket is complete."""


class SkippingState(State):
    """A state in which a rule decides which promoted configs do not arrive."""

    def __init__(self, skip: Skip) -> None:
        self.skip = skip
        super().__init__()

    def _arrive(self, bracket: int, rung: int, indices: frozenset[int]) -> None:
        if rung > bracket:
            new = indices.difference(self.results[bracket, rung])
            indices -= self.skip(self, bracket, rung, indices) & new if new else set()
        super()._arrive(bracket, rung, indices)


def never(state: State, bracket: int, rung: int, indices: frozenset[int]) -> set[int]:
    return set()


def by_chance(
    risk: float, state: State, bracket: int, rung: int, indices: frozenset[int]
) -> set[int]:
    order, drawn, _ = final_losses(state, bracket, indices)
    wins = np.mean(drawn < best_others(state, drawn), axis=0)
    return {index for index, chance in zip(order, wins, strict=True) if chance < risk}


def by_effect(
    risk: float, state: State, bracket: int, rung: int, indices: frozenset[int]
) -> set[int]:
    order, drawn, unit = final_losses(state, bracket, indices)
    better = np.clip(best_others(state, drawn) - drawn, 0.0, unit).mean(axis=0) / unit
    return {index for index, effect in zip(order, better, strict=True) if effect < risk}


def final_losses(
    state: State, bracket: int, indices: frozenset[int]
) -> tuple[list[int], Floats, float]:
    """The configs in order, samples of their losses on the top rung, and the unit of losses. Rules
    have their first decisions in common, so results of one world are kept."""
    evaluated = frozenset((each[:3]) for each in state.all_results())
    key = state.run.number, bracket, indices, evaluated
    if key not in KEPT:
        KEPT[key] = _final_losses(state, bracket, indices)
    return KEPT[key]


KEPT: dict[Hashable, tuple[list[int], Floats, float]] = {}


def _final_losses(
    state: State, bracket: int, indices: frozenset[int]
) -> tuple[list[int], Floats, float]:
    top, order, model = state.schedule.top, sorted(indices), CurveModel(state)
    drawn = model.samples([((bracket, index), top) for index in order], SAMPLES)
    for column, index in enumerate(order):
        result = state.result(bracket, index, top)
        if result is not None and result.loss is not None:
            drawn[:, column] = result.loss
    return order, drawn, model.scale.unit


def best_others(state: State, drawn: Floats) -> Floats:
    """For each sample and config, the best loss of the others and of the top rung."""
    known = [each.number for each in _on_top(state) if each.number is not None]
    if drawn.shape[1] < 2:
        return np.full_like(drawn, min(known, default=math.inf))
    first, second = np.partition(drawn, 1, axis=1)[:, :2].T
    others = np.where(drawn == first[:, None], second[:, None], first[:, None])
    return np.asarray(np.minimum(others, min(known, default=math.inf)))


def by_rank(
    share: float, state: State, bracket: int, rung: int, indices: frozenset[int]
) -> set[int]:
    new = indices.difference(state.results[bracket, rung])
    order = ranked(new, state.scores(bracket, rung - 1))
    return set(order[math.ceil(share * len(order)) :])


def _on_top(state: State) -> Iterator[JobFinished]:
    top = state.schedule.top
    for bracket in state.schedule.brackets:
        yield from state.results[bracket, top].values()


def chance_of_more(state: State, bracket: int) -> float:
    """The probability that a config that may still be evaluated is notably better on the top rung
    than the best one there."""
    top = state.schedule.top
    known = [each.number for each in _on_top(state) if each.number is not None]
    jobs = [((bracket, index), top) for index in state.progress[bracket].waiting]
    for later in range(bracket + 1, len(state.schedule.brackets)):
        arrived = state.run.arrived[later, state.progress[later].rung]
        jobs += [((later, index), top) for index in sorted(arrived)]
    jobs = [(place, _) for place, _ in jobs if state.result(*place, top) is None]
    if not known:
        return 1.0
    if not jobs:
        return 0.0
    model = CurveModel(state)
    least = model.samples(jobs, SAMPLES).min(axis=1)
    return float(np.mean(least < min(known) - CLOSE * model.scale.unit))


class End(NamedTuple):
    """What a rule spent, and the regret of the config it would return."""

    cost: float
    """With continued training."""
    cost_whole: float
    """With every evaluation at its full budget."""
    regret: float


def end(world: World, state: State) -> End:
    counts = {cell: len(results) for cell, results in state.results.items()}
    costs = float(FULL.cost_resumed_of(counts)), float(FULL.cost_of(counts))
    top = max(rung for (_, rung), results in state.results.items() if results)
    found = [
        each for (_, rung), cell in state.results.items() if rung == top for each in cell.values()
    ]
    best = min(found, key=lambda each: (each.loss, each.bracket, each.index))
    return End(*costs, world.regret(world.losses[best.bracket, best.index, FULL.top]))


def skipped(world: World, situation: str, skip: Skip) -> End:
    state = SkippingState(skip)
    if situation == "one run":
        return end(world, world.finish(world.begin(27, state)))
    world.finish(world.begin(9, state))
    world.deepen(state)
    return end(world, world.finish(state))


def stopped(world: World, situation: str, name: str, skip: Skip) -> dict[str, End]:
    """The ends of all rules that stop, with one rule that skips: they see the same run."""
    state = SkippingState(skip)
    if situation == "one run":
        world.begin(27, state)
    else:
        world.finish(world.begin(9, state))
        world.deepen(state)
    found: dict[str, End] = {}
    for bracket, _ in world.run(state):
        chance = chance_of_more(state, bracket)
        for risk in STOPS:
            if chance < risk:
                found.setdefault(f"{name} {risk}", end(world, state))
        if name == "stop" and not state.progress[bracket].waiting:
            found[f"brackets {bracket + 1}"] = end(world, state)
    last = end(world, state)
    return {f"{name} {risk}": last for risk in STOPS} | found


def ends(world: World, situation: str) -> dict[str, End]:
    KEPT.clear()
    rules: dict[str, Skip] = {"full": never}
    rules |= {f"skip {risk}": partial(by_chance, risk) for risk in RISKS}
    rules |= {f"effect {risk}": partial(by_effect, risk) for risk in RISKS}
    rules |= {f"share {share}": partial(by_rank, share) for share in SHARES}
    found = {name: skipped(world, situation, rule) for name, rule in rules.items()}
    found |= stopped(world, situation, "stop", never)
    return found | stopped(world, situation, "both", partial(by_chance, 0.01))


def means(rows: list[tuple[str, dict[str, End]]], rule: str) -> Floats:
    """(cost, cost at full budgets, regret) of a rule: the means of each data set, in order."""
    names = sorted({name for name, _ in rows})
    return np.array(
        [np.mean([each[rule] for name, each in rows if name == one], axis=0) for one in names]
    )


def show(rows: list[tuple[str, dict[str, End]]]) -> None:
    """Print a row for each rule: the saving, the regret, the difference to the full run, how many
    data sets and studies are worse or better, and the difference to the simple rule that saves as
    much."""
    full = means(rows, "full")
    print(
        "| rule | saved | saved, full budgets | regret | minus full | p | data sets worse, better "
        "| studies worse, better | minus simple | p |"
    )
    for rule in rows[0][1]:
        own = means(rows, rule)
        saved = 1 - own.mean(axis=0)[:2] / full.mean(axis=0)[:2]
        more = Difference.of(own[:, 2] - full[:, 2])
        simple = _simple(rows, rule, own)
        other = f"{simple} | {simple.p:.2g}" if simple else " | "
        studies = [each[rule].regret - each["full"].regret for _, each in rows]
        print(
            f"| {rule} | {100 * saved[0]:.1f} % | {100 * saved[1]:.1f} % | {own[:, 2].mean():.3f} "
            f"| {more} | {more.p:.2g} | {changed(own[:, 2] - full[:, 2])} "
            f"| {changed(studies)} | {other} |"
        )


def changed(differences: Sequence[float] | Floats) -> str:
    """How many are above and below zero."""
    signs = np.sign(differences).tolist()
    return f"{signs.count(1)}, {signs.count(-1)} of {len(signs)}"


def _simple(rows: list[tuple[str, dict[str, End]]], rule: str, own: Floats) -> Difference | None:
    """The regret of a rule minus that of its simple rule at the same average cost, which is
    interpolated between two settings."""
    kinds = {"skip": "share", "effect": "share", "stop": "brackets", "both": "brackets"}
    kind = kinds.get(rule.split(maxsplit=1)[0])
    if kind is None:
        return None
    names = ["full", *(name for name in rows[0][1] if name.startswith(kind))]
    found = sorted((means(rows, name) for name in names), key=lambda each: each[:, 0].mean())
    costs = [each[:, 0].mean() for each in found]
    regrets = np.array([each[:, 2] for each in found])
    cost = own[:, 0].mean()
    return Difference.of(own[:, 2] - [np.interp(cost, costs, column) for column in regrets.T])


def main(data: str, seeds: int) -> None:
    cases = sorted(worlds(data, "reporting", seeds), key=attrgetter("seed"))
    found: dict[str, list[tuple[str, dict[str, End]]]] = {name: [] for name in SITUATIONS}
    for seed in range(seeds):
        for world in cases:
            if world.seed == seed:
                for situation, rows in found.items():
                    rows.append((world.data_set, ends(world, situation)))
        for situation, rows in found.items() if seed in (seeds // 2, seeds - 1) else ():
            count = len({name for name, _ in rows})
            print(f"\n{situation}, {count} data sets, {seed + 1} seeds", flush=True)
            show(rows)
