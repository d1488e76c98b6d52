"""Opening a study: settings are checked when it is created and compared when it is reopened."""

from __future__ import annotations

import os
import secrets
from collections.abc import Mapping
from fractions import Fraction
from numbers import Integral
from typing import TYPE_CHECKING, Any, Never, TypedDict

from deepband.core.criteria import read_criteria
from deepband.core.exact_numbers import Budget, as_number, check_count, read_budget
from deepband.core.facts import Fact, StudyCreated
from deepband.core.runs import started
from deepband.core.schedule import Schedule
from deepband.core.state import State
from deepband.errors import InputError, shown, unexpected_argument
from deepband.samplers import Sampler, SamplerName, make_sampler
from deepband.samplers.source import ConfigSource
from deepband.space.search_space import Space
from deepband.storage import MemoryStorage, Storage, state_of
from deepband.storage.retention import read_keep
from deepband.study.session import Session
from deepband.study.study import Study

if TYPE_CHECKING:
    from ConfigSpace import ConfigurationSpace


class Settings(TypedDict):
    """The settings that a user gave; None if not given."""

    space: Space | ConfigurationSpace | Mapping[str, Any] | None
    max_budget: Budget | None
    min_budget: Budget | None
    eta: int | None
    seed: int | None
    maximize: bool | None
    integer_budgets: bool | None
    sampler: SamplerName | Sampler | None
    width: int | None
    brackets: int | None
    reuse_identical: bool | None
    parallel: int | None
    objectives: Mapping[str, str] | None
    constraints: Mapping[str, tuple[float | None, float | None]] | None


def open_study(
    storage: str | os.PathLike[str] | None = None,
    *,
    space: Space | ConfigurationSpace | Mapping[str, Any] | None = None,
    max_budget: Budget | None = None,
    min_budget: Budget | None = None,
    eta: int | None = None,
    seed: int | None = None,
    maximize: bool | None = None,
    integer_budgets: bool | None = None,
    sampler: SamplerName | Sampler | None = None,
    width: int | None = None,
    brackets: int | None = None,
    reuse_identical: bool | None = None,
    parallel: int | None = None,
    objectives: Mapping[str, str] | None = None,
    constraints: Mapping[str, tuple[float | None, float | None]] | None = None,
    keep: str = "newest",
    **unknown: Never,
) -> Study:
    """Create a study, or open an existing one.

    `storage` is the path of a file such as "mlp.study" (with a folder "mlp.study.files" beside it),
    or None or ":memory:" for a study that ends with its process.

    A new study needs `space` and `max_budget`. Hyperband runs between `min_budget` (default 1) and
    `max_budget`, in any unit that the objective uses. Each rung has `eta` (default 3) times the
    budget of the rung below. If both ends are whole numbers, the budgets of jobs are rounded down
    to whole numbers; `integer_budgets` overrides that. Costs count what jobs carry. `seed` (default
    0) determines every sample.

    `width` (default 1) multiplies the number of configs of every bracket. `brackets` limits the
    study to the first ones: 1 is successive halving. Both can be extended later.

    An existing study keeps its settings: those that are given must be the same, and `max_budget`,
    `width` and `brackets` are those of the first run.

    With `reuse_identical`, a config is not evaluated if it can take the result of an equal one on
    the same rung: from an earlier run, or from its own bracket in the current run. Such a result
    costs nothing, and its origin is "same as (bracket, index)". Use it for small discrete spaces
    and objectives that hardly depend on the seed. By default, equal configs are evaluated
    separately.

    `sampler` is the source of configs: "uniform", a sampler that learns from evaluations ("tpe",
    "forest", "gp", "prior"), or your own.

    `parallel` (default 1) is the number of workers that you plan to use with a sampler that learns.
    It decides which results each sample may use, as if that many workers had taken as long as the
    budgets say. The study then is the same for any number of workers, but more than `parallel` of
    them are of little use: they wait for results. Other samplers ignore it.

    `objectives` names several objectives, each with its direction, such as {"error": "minimize",
    "accuracy": "maximize"}. Results are then mappings with a number for each name, configs are
    promoted by non-dominated sorting, and `front` takes the place of `best`. A single objective may
    have a name, too.

    `constraints` are bounds on metrics, such as {"memory_mb": (None, 500)}: every result must have
    them. Configs that keep all bounds are promoted first.

    `keep` selects the checkpoints to keep: "newest" of each config, "all", "none", or "top:20".

    >>> study = open_study(space={"lr": (1e-4, 1e-1, "log")}, max_budget=9)
    >>> while job := study.ask():
    ...     study.tell(job, abs(job.config["lr"] - 0.01) / job.budget)
    >>> study.done, len(study.evaluations)
    (True, 22)
    """
    given = Settings(
        space=space,
        max_budget=max_budget,
        min_budget=min_budget,
        eta=eta,
        seed=seed,
        maximize=maximize,
        integer_budgets=integer_budgets,
        sampler=sampler,
        width=width,
        brackets=brackets,
        reuse_identical=reuse_identical,
        parallel=parallel,
        objectives=objectives,
        constraints=constraints,
    )
    for name in unknown:
        raise unexpected_argument("open_study", name, [*given, "keep"])
    kept = read_keep(keep)
    opened = _storage(storage)
    state = state_of(opened)
    if state.runs:
        shaped, chosen = check_same(state, given)
        return Study(Session(opened, state, ConfigSource(state, shaped, chosen), kept))
    created, schedule, shaped, chosen = create(given, None if opened.path is None else storage)
    if opened.path is not None:
        _check_storable(created)
    facts: list[Fact] = [created, started(0, None, schedule)]
    if opened.lock():  # another process created it in the meantime
        opened.close()
        return open_study(storage, **given, keep=keep)
    opened.append(facts)
    state = State(facts)
    return Study(Session(opened, state, ConfigSource(state, shaped, chosen), kept))


def reopen(storage: Storage) -> Study:
    """The study of a storage that contains one."""
    state = state_of(storage)
    _, sampler, _ = make_sampler(state.created.sampler, state.created.chunk)
    source = ConfigSource(state, None, sampler)
    return Study(Session(storage, state, source, read_keep("newest")))


def _storage(place: str | os.PathLike[str] | None) -> Storage:
    if place is None or place == ":memory:":
        return MemoryStorage()
    from deepband.system.posix import require_posix

    require_posix()
    from deepband.storage.sqlite import SqliteStorage

    return SqliteStorage(place)


def _check_storable(created: StudyCreated) -> None:
    from deepband.storage.storable_values import check_storable

    check_storable(created.space)


def create(given: Settings, where: object) -> tuple[StudyCreated, Schedule, Space, Sampler]:
    """The settings of a new study and its first schedule, from what is given and the defaults."""
    low, high, eta, seed = given["min_budget"], given["max_budget"], given["eta"], given["seed"]
    if given["space"] is None or high is None:
        name = "space" if given["space"] is None else "max_budget"
        what = "a study in memory is always new" if where is None else f"{where} is a new study"
        raise InputError(f"{what}: give {name} to create it.")
    low, eta = 1 if low is None else low, 3 if eta is None else eta
    width = 1 if given["width"] is None else check_count("width", given["width"])
    brackets = None if given["brackets"] is None else check_count("brackets", given["brackets"])
    whole = _integer_budgets(given["integer_budgets"], low, high)
    schedule = Schedule.of(eta, low, high, width, brackets, whole)
    if whole and schedule.unit < 1:
        raise InputError(
            f"integer_budgets would floor the smallest budget, {as_number(schedule.unit)}, to "
            "zero: choose another unit, or a min_budget of 1 or more."
        )
    name, sampler, chunk = make_sampler(given["sampler"] or "uniform")
    space = Space.of(given["space"])
    criteria = read_criteria(given["maximize"], given["objectives"], given["constraints"])
    created = StudyCreated(
        study=secrets.token_hex(8),
        space=space.description,
        eta=schedule.eta,
        min_budget=read_budget("min_budget", low),
        max_budget=read_budget("max_budget", high),
        seed=0 if seed is None else _seed(seed),
        maximize=criteria.maximize,
        integer_budgets=whole,
        sampler=name,
        chunk=chunk,
        whole_costs=whole,
        reuse_identical=_switch("reuse_identical", given["reuse_identical"]),
        parallel=1 if given["parallel"] is None else check_count("parallel", given["parallel"]),
        objectives=criteria.objectives,
        constraints=criteria.constraints,
    )
    return created, schedule, space, sampler


def check_same(state: State, given: Settings) -> tuple[Space | None, Sampler]:
    """Raise an InputError that names both values where what is given differs from what is kept."""
    created, first = state.created, state.runs[0].schedule
    _compare("first width", first.width, given["width"])
    _compare("first number of brackets", first.bracket_limit, given["brackets"])
    _compare("eta", created.eta, given["eta"])
    _compare("maximize", created.maximize, given["maximize"])
    _compare("integer_budgets", created.integer_budgets, given["integer_budgets"])
    _compare("reuse_identical", created.reuse_identical, given["reuse_identical"])
    _compare("parallel", created.parallel, given["parallel"])
    if given["objectives"] is not None:
        objectives = read_criteria(None, given["objectives"], None).objectives
        _compare("objectives", dict(created.objectives), dict(objectives))
    if given["constraints"] is not None:
        constraints = read_criteria(None, None, given["constraints"]).constraints
        _compare("constraints", dict(created.constraints), dict(constraints))
    if given["seed"] is not None:
        _compare("seed", created.seed, _seed(given["seed"]))
    for name, kept, budget in (
        ("min_budget", created.min_budget, given["min_budget"]),
        ("first max_budget", created.max_budget, given["max_budget"]),
    ):
        if budget is not None:
            _compare(name, kept, read_budget(name, budget))
    name, sampler, _ = make_sampler(given["sampler"] or created.sampler, created.chunk)
    _compare("sampler", created.sampler, name)
    if given["space"] is None:
        return None, sampler
    space = Space.of(given["space"])
    difference = Space.described(state.space).difference(space)
    if difference and state.changes and not Space.described(created.space).difference(space):
        return None, sampler  # the first space is accepted too
    if difference:
        raise InputError(
            f"the study has another space: {difference}. Leave out the space to continue with that "
            "of the study; to change it for new configs, give the new one to `widen`, `deepen` or "
            "`extend`."
        )
    return space, sampler


_ADVICE = "A study keeps its settings: leave it out, or open another study."
_EXTENDED_BY = {
    "first max_budget": "deepen",
    "first width": "widen",
    "first number of brackets": "extend",
}
"""The methods that continue a study with a larger value."""


def _compare(name: str, kept: object, given: object) -> None:
    if given is not None and given != kept:
        shown = [as_number(each) if isinstance(each, Fraction) else each for each in (kept, given)]
        advice = _ADVICE
        if method := _EXTENDED_BY.get(name):
            advice = (
                "Give the same value, or leave it out; to continue with a larger one, extend the "
                f"study with `{method}`."
            )
        raise InputError(
            f"the study was created with {name} {shown[0]!r}, and {shown[1]!r} is given. {advice}"
        )


def _seed(seed: int) -> int:
    if isinstance(seed, bool) or not isinstance(seed, Integral) or seed < 0:
        raise InputError(f"seed is {shown(seed)}: give a whole number of 0 or more.")
    return int(seed)


def _integer_budgets(given: bool | None, low: Budget, high: Budget) -> bool:
    """Whether jobs carry whole budgets: by default, if both ends are whole."""
    if given is not None:
        return _switch("integer_budgets", given)
    ends = read_budget("min_budget", low), read_budget("max_budget", high)
    return all(each.denominator == 1 for each in ends)


def _switch(name: str, given: bool | None) -> bool:
    if given not in (None, True, False):
        raise InputError(f"{name} is {shown(given)}: give True or False.")
    return bool(given)
