"""The laws of the order of configs, for several objectives and constraints."""

from __future__ import annotations

import math
import random
from itertools import pairwise
from typing import Any, NamedTuple

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

import oracle_ranking
from deepband import Job
from deepband.core.rank_order import Score, Standing, fronts, is_failure, non_dominated, ranked
from driving import finish, open_study

EXTREME = [0.0, 1.0, -1.0, 1e308, -1e308, 5e-324, -5e-324, math.inf, 1.0 + 2**-52]
SMALL = st.integers(0, 3).map(float)
ANY = st.floats(allow_nan=False, min_value=-1e308, exclude_min=False)
NUMBERS = st.sampled_from([SMALL, st.sampled_from(EXTREME), ANY])


class Pool(NamedTuple):
    """Configs to rank, and how many of them are promoted."""

    standings: dict[int, Standing]
    slots: int

    @property
    def order(self) -> list[int]:
        return ranked(self.standings.keys(), scores(self.standings), self.slots)

    def changed(self, standings: dict[int, Standing]) -> Pool:
        return self._replace(standings=standings)


def scores(standings: dict[int, Standing]) -> dict[int, Score]:
    return dict(standings.items())


@st.composite
def pools(draw: st.DrawFn, feasible: bool = False, numbers: Any = None) -> Pool:
    count, bounds = draw(st.integers(1, 4)), 0 if feasible else draw(st.integers(0, 2))
    losses = st.tuples(*[numbers or draw(NUMBERS)] * count)
    violation = st.one_of(st.just(0.0), st.just(0.0), SMALL, st.just(math.inf))
    standing = st.builds(
        Standing,
        losses if feasible else st.one_of(losses, losses, losses, st.none()),
        st.tuples(*[violation] * bounds),
        st.one_of(st.none(), st.tuples(st.sampled_from([-3.0, -1.0]), SMALL)),
    )
    indices = draw(st.lists(st.integers(0, 99), unique=True, min_size=1, max_size=12))
    pool = {index: draw(standing) for index in indices}
    return Pool(pool, draw(st.integers(0, len(pool))))


@given(pools())
def test_the_order_is_that_of_the_oracle(pool: Pool) -> None:
    results = {index: oracle_ranking.Result(*each) for index, each in pool.standings.items()}
    assert pool.order == oracle_ranking.order(results, pool.slots)
    everyone = ranked(pool.standings.keys(), scores(pool.standings))
    assert everyone == oracle_ranking.order(results)


@given(pools(), st.randoms(use_true_random=False))
def test_the_order_of_arrival_does_not_matter(pool: Pool, draw: random.Random) -> None:
    items = list(pool.standings.items())
    draw.shuffle(items)
    assert pool.changed(dict(items)).order == pool.order
    assert sorted(pool.order) == sorted(pool.standings)


@given(pools(), st.randoms(use_true_random=False))
def test_equal_configs_are_ordered_by_index(pool: Pool, draw: random.Random) -> None:
    """All of a config and its copies are equal; in a front that is thinned, the first is first."""
    index = draw.choice(sorted(pool.standings))
    more = pool.standings | {100 + n: pool.standings[index] for n in range(3)}
    order = pool.changed(more).order
    copies = [each for each in order if more[each] == more[index]]
    assert copies == sorted(copies)


@given(pools())
def test_what_dominates_comes_first(pool: Pool) -> None:
    """Infinite losses and violations aside, no config precedes one that dominates it."""
    place = {index: number for number, index in enumerate(pool.order)}
    feasible = {index: each.losses for index, each in pool.standings.items() if each.feasible}
    for one, its in feasible.items():
        for other, others in feasible.items():
            assert its is not None
            assert others is not None
            if oracle_ranking.dominates(its, others):
                assert place[one] < place[other]


@given(pools())
def test_the_kinds_follow_each_other(pool: Pool) -> None:
    kinds = [kind_of(pool.standings[index]) for index in pool.order]
    assert kinds == sorted(kinds)


def kind_of(standing: Standing) -> int:
    """0 for feasible and finite, 1 for feasible, 2 for infeasible, 3 for a failure."""
    if standing.losses is None:
        return 3
    if any(standing.violations):
        return 2
    return int(max(standing.losses) == math.inf)


@given(st.dictionaries(st.integers(0, 99), st.one_of(st.none(), SMALL, ANY)), st.integers(0, 9))
def test_one_objective_is_ordered_by_its_loss(losses: dict[int, float | None], slots: int) -> None:
    """Also with constraints that always hold, and whatever the number of slots is."""
    plain = ranked(losses.keys(), losses, slots)
    expected = sorted(
        losses, key=lambda index: (losses[index] is None, losses[index] or 0.0, index)
    )
    assert plain == expected
    for kept in ((), (0.0,), (0.0, 0.0)):
        standings = {
            index: Standing(None if loss is None else (loss,), kept)
            for index, loss in losses.items()
        }
        assert ranked(standings.keys(), scores(standings), slots) == plain


@given(pools(), st.integers(0, 3), st.integers(-20, 20))
def test_another_unit_of_an_objective_changes_nothing(pool: Pool, which: int, power: int) -> None:
    """Powers of two, which are exact where nothing overflows or becomes subnormal."""
    factor = 2.0**power
    vectors = [each.losses for each in pool.standings.values() if each.losses is not None]
    assume(vectors)
    number = which % len(vectors[0])
    assume(all(each[number] in (0.0, math.inf) or abs(each[number]) > 1e-290 for each in vectors))
    assume(all(each[number] == math.inf or abs(each[number]) < 1e290 for each in vectors))

    def scaled(each: Standing) -> Standing:
        if each.losses is None:
            return each
        losses = [loss * factor if at == number else loss for at, loss in enumerate(each.losses)]
        return each._replace(losses=tuple(losses))

    standings = {index: scaled(each) for index, each in pool.standings.items()}
    assert pool.changed(standings).order == pool.order


@given(pools())
def test_another_unit_of_a_constraint_changes_nothing(pool: Pool) -> None:
    def scaled(each: Standing) -> Standing:
        return each._replace(violations=tuple(8.0 * violation for violation in each.violations))

    standings = {index: scaled(each) for index, each in pool.standings.items()}
    assert pool.changed(standings).order == pool.order


@given(pools(), st.randoms(use_true_random=False))
def test_the_first_slots_do_not_depend_on_what_follows(pool: Pool, draw: random.Random) -> None:
    """Unless it determines the range of an objective."""
    first, rest = pool.order[: pool.slots], pool.order[pool.slots :]
    left = set(first) | {index for index in rest if draw.random() < 0.5}
    standings = {index: each for index, each in pool.standings.items() if index in left}
    assume(ranges(standings) == ranges(pool.standings))
    assert pool.changed(standings).order[: pool.slots] == first


def ranges(standings: dict[int, Standing]) -> list[tuple[float, float]]:
    finite = [each.losses for each in standings.values() if each.finite and each.losses]
    return [(min(column), max(column)) for column in zip(*finite, strict=True)]


@given(pools())
def test_what_is_not_finite_or_feasible_never_changes_the_order_of_the_others(pool: Pool) -> None:
    finite = {index: each for index, each in pool.standings.items() if each.finite}
    assert [index for index in pool.order if index in finite] == pool.changed(finite).order


@given(pools())
def test_more_slots_promote_more(pool: Pool) -> None:
    """What is promoted with fewer slots is promoted with more."""
    promoted = [
        set(pool._replace(slots=slots).order[:slots]) for slots in range(len(pool.standings) + 1)
    ]
    assert all(few <= many for few, many in pairwise(promoted))


@given(pools(feasible=True))
def test_fronts_are_those_of_the_oracle(pool: Pool) -> None:
    vectors = [each.losses or () for each in pool.standings.values()]
    keys = list(range(len(vectors)))
    first, *_ = oracle_ranking.fronts(keys, lambda key: vectors[key])
    assert non_dominated(vectors) == first
    found = [index for front in fronts(pool.standings) for index in front]
    assert sorted(found) == sorted(pool.standings)


def test_an_empty_pool() -> None:
    assert ranked(set(), {}) == []
    assert ranked(set(), {1: Standing((0.0, 1.0))}, 3) == []
    assert non_dominated([]) == []
    assert fronts({}) == []


def test_failures_are_recognised() -> None:
    assert [is_failure(each) for each in (None, 0.5, math.inf)] == [True, False, False]
    assert [is_failure(Standing(each)) for each in (None, (0.0, math.inf))] == [True, False]


@pytest.mark.parametrize("count", [3, 4, 5])
def test_infinite_losses_dominate_as_any_number_does(count: int) -> None:
    """The library that sorts fronts is wrong about them with three objectives or more."""
    others = [1.0] * (count - 2)
    one, other = Standing((0.0, math.inf, *others)), Standing((math.inf, 0.0, *others))
    assert fronts({0: one, 1: other}) == [[0, 1]]


def test_extreme_numbers_are_spread() -> None:
    """The range of both objectives is larger than the largest float."""
    pool = {
        number: Standing((loss, -loss))
        for number, loss in enumerate([-1e308, -5e307, 0.0, 5e307, 1e308])
    }
    assert ranked(pool.keys(), scores(pool), 3) == [0, 4, 2, 1, 3]


def objective(job: Job) -> dict[str, float]:
    draw = random.Random(f"{job.bracket} {job.index} {job.rung}")
    return {"error": draw.random(), "size": draw.random(), "memory": draw.random()}


def test_other_cells_do_not_matter() -> None:
    """What arrives on a rung of a bracket is a function of the results of that bracket."""

    def elsewhere(job: Job) -> object:
        result = objective(job)
        return result if job.bracket == 0 else {name: 1e9 * result[name] for name in result}

    arrived = []
    for results in (objective, elsewhere):
        study = open_study(
            max_budget=27,
            objectives={"error": "minimize", "size": "maximize"},
            constraints={"memory": (None, 0.7)},
        )
        finish(study, results)
        arrived.append({k: v for k, v in study.session.state.run.arrived.items() if k[0] == 0})
    assert arrived[0] == arrived[1]


@pytest.mark.parametrize(
    "settings",
    [
        {"objectives": {"error": "minimize"}},
        {"constraints": {"memory": (0.0, 1.0)}},
        {"objectives": {"error": "minimize"}, "constraints": {"memory": (None, 1.0)}},
    ],
)
def test_one_objective_with_a_name_or_constraints_that_hold_is_the_same_study(
    settings: dict[str, Any],
) -> None:
    def result(job: Job) -> dict[str, float]:
        found = objective(job)
        return {"error" if "objectives" in settings else "loss": found["error"], "memory": 0.5}

    plain, named = open_study(max_budget=27), open_study(max_budget=27, **settings)
    finish(plain, lambda job: objective(job)["error"])
    finish(named, result)
    for study, results in ((plain, lambda job: objective(job)["error"]), (named, result)):
        study.deepen("preserving")
        finish(study, results)
    assert [each.loss for each in plain.evaluations] == [each.loss for each in named.evaluations]
    assert plain.session.state.run.arrived == named.session.state.run.arrived
    assert plain.best.loss == named.best.loss
    assert [each.loss for each in named.front()] == [named.best.loss]
