"""Studies written for Optuna and made of Optuna's, with real storages."""

from __future__ import annotations

import itertools
import math
import random
import sqlite3
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ConfigSpace as CS
import optuna
import pytest
import sqlalchemy
from matplotlib import pyplot
from optuna.distributions import (
    BaseDistribution,
    CategoricalDistribution,
    FloatDistribution,
    IntDistribution,
)
from optuna.storages import InMemoryStorage, JournalStorage, RDBStorage
from optuna.storages.journal import JournalFileBackend
from optuna.trial import TrialState, create_trial

import deepband
import preloaded
from deepband import DeepbandError, InputError, SpaceError, StorageError, Study
from deepband.analysis.export import canonical
from deepband.core.strategies import StrategyName
from deepband.integrations.optuna import export, import_study
from deepband.integrations.optuna.study_import import LATER
from deepband.system.installation import install_command
from driving import Objective, finish, noisy, open_study
from leftovers import collect_silently
from spaces import conditional_space

heavy = pytest.mark.heavy
SPACE = {"x": (0.0, 1.0), "n": (1, 8), "kind": ["a", 1, None]}
MINE = {"x": 0.5, "n": 3, "kind": "a"}


@pytest.fixture(autouse=True)
def no_leftovers() -> Iterator[None]:
    yield
    collect_silently()


@pytest.fixture(autouse=True)
def _quiet() -> None:
    optuna.logging.set_verbosity(optuna.logging.ERROR)


@pytest.fixture(autouse=True)
def _closed() -> Iterator[None]:
    """Close what Optuna's storages opened: they have no `close`, and Python
    3.13 warns of connections that are not closed."""
    opened: list[Any] = []

    def note(connection: Any, record: object) -> None:
        opened.append(connection)

    sqlalchemy.event.listen(sqlalchemy.Engine, "connect", note)
    yield
    sqlalchemy.event.remove(sqlalchemy.Engine, "connect", note)
    for connection in opened:
        connection.close()


STORAGES: list[Any] = [
    lambda _: InMemoryStorage(),
    lambda folder: f"sqlite:///{folder / 'optuna.db'}",
    pytest.param(lambda folder: RDBStorage(f"sqlite:///{folder / 'optuna.db'}"), marks=heavy),
    lambda folder: JournalStorage(JournalFileBackend(str(folder / "optuna.log"))),
]
STRATEGIES: list[StrategyName] = ["discarding", "preserving", "efficient"]


def deepened(strategies: list[StrategyName], failures: float = 0.0, **settings: Any) -> Study:
    study = open_study(**{"space": SPACE, "max_budget": 9, **settings})
    finish(study, objective(study, failures))
    for strategy in strategies:
        study.deepen(strategy)
        finish(study, objective(study, failures))
    return study


def objective(study: Study, failures: float) -> Objective:
    """One whose infinite losses are bad in the direction of the study."""
    plain = noisy(1, failures)

    def signed(job: deepband.Job) -> object:
        result = plain(job)
        return -result if study.session.maximize and isinstance(result, float) else result

    return signed


@pytest.mark.parametrize("storage", STORAGES)
def test_a_study_is_one_trial_a_config(tmp_path: Path, storage: Callable[[Path], Any]) -> None:
    study = deepened(["preserving"], max_budget=3)
    place = storage(tmp_path)
    export(study, place, "mine")
    written = optuna.load_study(study_name="mine", storage=place)
    places = Counter((each.bracket, each.index) for each in study.evaluations)
    trials = {(t.user_attrs["bracket"], t.user_attrs["index"]): t for t in written.trials}
    assert trials.keys() == places.keys()
    assert len(written.trials) == len(places)
    for each in study.evaluations:
        trial = trials[each.bracket, each.index]
        assert trial.params == each.config
        assert trial.intermediate_values[int(each.budget)] == each.value
        assert len(trial.intermediate_values) == places[each.bracket, each.index]
        if each.rung == trial.user_attrs["rung"]:
            assert trial.value == each.value
            assert trial.user_attrs["run"] == each.run
            assert trial.user_attrs["origin"] is None
            complete = each.rung == study.session.state.schedule.top
            assert trial.state is (TrialState.COMPLETE if complete else TrialState.PRUNED)
    noted = written.user_attrs
    assert noted["deepband"] == study.session.state.created.study
    assert (noted["eta"], noted["budgets"], noted["steps"]) == (3, [1, 3, 9], "budget")
    assert noted["strategies"] == [None, "preserving"]
    assert written.direction.name == "MINIMIZE"
    top = study.best_at(2)
    assert written.best_value == top.loss


@pytest.mark.parametrize("storage", STORAGES)
def test_exporting_again_updates_and_touches_nothing_else(
    tmp_path: Path, storage: Callable[[Path], Any]
) -> None:
    place = storage(tmp_path)
    other = optuna.create_study(study_name="theirs", storage=place)
    other.add_trial(create_trial(value=1.0))
    study = open_study(space=SPACE, max_budget=3)
    assert export(study, place, "mine").trials == []
    finish(study, noisy(1))
    first = [trial.params for trial in export(study, place, "mine").trials]
    study.deepen("efficient")
    finish(study, noisy(1))
    again = export(study, place, "mine")
    assert [trial.params for trial in again.trials][: len(first)] == first
    assert len(again.trials) == len({(e.bracket, e.index) for e in study.evaluations})
    assert sorted(optuna.get_all_study_names(place)) == ["mine", "theirs"]
    for name in ("theirs", "mine"):
        with pytest.raises(InputError, match=f"a study '{name}' that is not an export of this"):
            export(open_study(space=SPACE), place, name)
    assert len(optuna.load_study(study_name="theirs", storage=place).trials) == 1


def test_the_name_is_that_of_the_file(tmp_path: Path) -> None:
    with deepband.open_study(tmp_path / "mlp.study", space=SPACE, max_budget=3) as study:
        assert export(study, InMemoryStorage()).study_name == "mlp.study"
    memory = open_study(space=SPACE)
    made = export(memory, InMemoryStorage())
    assert made.study_name == f"deepband {memory.session.state.created.study}"


def test_failures_and_infinite_losses(tmp_path: Path) -> None:
    study = deepened(["efficient"], 0.5, maximize=True)
    place = f"sqlite:///{tmp_path / 'optuna.db'}"
    written = export(study, place)
    assert written.direction.name == "MAXIMIZE"
    last = {(each.bracket, each.index): each for each in study.evaluations}
    states = Counter(trial.state for trial in written.trials)
    assert states[TrialState.FAIL] == sum(each.loss is None for each in last.values()) > 3
    for trial in written.trials:
        each = last[trial.user_attrs["bracket"], trial.user_attrs["index"]]
        assert trial.value == each.value
        value = trial.intermediate_values[int(each.budget)]
        assert math.isnan(value) if each.value is None else value == each.value
    assert any(trial.value == -math.inf for trial in written.trials)


def test_conditional_parameters_are_written_where_they_are_active() -> None:
    study = deepened([], space=conditional_space())
    written = export(study, InMemoryStorage())
    configs = {(each.bracket, each.index): each.config for each in study.evaluations}
    for trial in written.trials:
        assert trial.params == configs[trial.user_attrs["bracket"], trial.user_attrs["index"]]
    assert len({frozenset(trial.params) for trial in written.trials}) > 2


def test_how_parameters_are_shown() -> None:
    thing = object()
    space = {
        "float": (0.0, 1.0),
        "log": (1e-4, 1.0, "log"),
        "int": (1, 64, "log"),
        "huge": (0, 2**60),
        "choice": ["a", None, True, 0.5],
        "odd": [[1, 2], (1, 2), math.inf, "inf", thing],
        "constant": 10,
        "step": IntDistribution(16, 64, step=16),
        "half": FloatDistribution(0.0, 0.3, step=0.1),
        "size": CS.OrdinalHyperparameter("size", [16, 64, 128]),
    }
    study = deepened([], space=space)
    written = export(study, InMemoryStorage())
    shown: dict[str, BaseDistribution] = written.trials[0].distributions
    assert shown.pop("odd") == CategoricalDistribution(
        ["[1, 2]", "(1, 2)", "inf", "inf (3)", repr(thing)]
    )
    assert shown == {
        "float": FloatDistribution(0.0, 1.0),
        "log": FloatDistribution(1e-4, 1.0, log=True),
        "int": IntDistribution(1, 64, log=True),
        "huge": FloatDistribution(0.0, 2.0**60),
        "choice": CategoricalDistribution(["a", None, True, 0.5]),
        "constant": CategoricalDistribution([10]),
        "step": IntDistribution(16, 64, step=16),
        "half": FloatDistribution(0.0, 0.3, step=0.1),
        "size": CategoricalDistribution([16, 64, 128]),
    }
    assert written.user_attrs["space"] is None
    again = import_study(written, space=study.session.space)
    assert again.left_out == []
    odd = [[each.config["odd"] for each in one.evaluations] for one in (study, again.study)]
    assert odd[0] == odd[1]


HISTORIES: list[list[StrategyName]] = [
    [],
    *([each] for each in STRATEGIES),
    STRATEGIES,
    ["frugal"],
    ["frugal", "preserving"],
    ["preserving", "frugal", "efficient"],
]
DIRECTIONS = list(itertools.product([False, True], [0.0, 0.4]))


@pytest.mark.parametrize(
    ("strategies", "maximize", "failures"),
    [
        # Each history is not heavy with one of the others, which take turns.
        pytest.param(history, *other, marks=() if turn % len(DIRECTIONS) == number else heavy)
        for turn, history in enumerate(HISTORIES)
        for number, other in enumerate(DIRECTIONS)
    ],
)
def test_an_exported_study_is_restored(
    strategies: list[StrategyName], maximize: bool, failures: float
) -> None:
    study = deepened(strategies, failures, maximize=maximize, max_budget=3, seed=7)
    back = import_study(export(study, InMemoryStorage()))
    assert back.left_out == []
    assert back.imported == len(study.evaluations)
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
    assert back.study.runs == study.runs
    assert back.study.done
    for one in (study, back.study):
        one.deepen("preserving")
        finish(one, objective(one, failures))
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))


def test_so_does_one_with_a_level_that_was_filled() -> None:
    study = deepened(["frugal"], 0.2, max_budget=9)
    study.deepen("discarding", to=27)
    finish(study, objective(study, 0.2))
    back = import_study(export(study, InMemoryStorage()))
    assert back.left_out == []
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
    assert [run.strategy for run in back.study.runs] == [None, "frugal", "discarding"]
    assert [run.cost for run in back.study.runs] == [run.cost for run in study.runs]


def test_a_study_is_restored_through_files(tmp_path: Path) -> None:
    study = deepened(["preserving"], 0.3, max_budget=3)
    written = export(study, f"sqlite:///{tmp_path / 'optuna.db'}")
    for wanted in (len(study.evaluations), 0):
        back = import_study(written, tmp_path / "back.study")
        assert (back.imported, back.left_out) == (wanted, [])
        assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
        back.study.close()
    with deepband.open_study(tmp_path / "back.study") as opened:
        assert opened.runs == study.runs


SETTINGS: list[dict[str, Any]] = [
    {"space": conditional_space()},
    {"space": {"x": ["a", "b"]}},
    {"min_budget": 0.1, "max_budget": 0.9},
    {"min_budget": 1, "max_budget": 5, "integer_budgets": True},
    {"eta": 2, "min_budget": 3, "max_budget": 12},
    {"width": 2},
    {"width": 3, "brackets": 1},
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
def test_so_does_any_kind_of_study(settings: dict[str, Any]) -> None:
    study = deepened(STRATEGIES, 0.2, **{"max_budget": 3, **settings})
    back = import_study(export(study, InMemoryStorage()))
    assert back.left_out == []
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))


def test_a_study_that_was_extended_in_every_direction_is_restored() -> None:
    study = deepened([], 0.2, max_budget=3, width=2, brackets=1)
    steps: list[tuple[StrategyName, dict[str, Any]]] = [
        ("efficient", {"width": 3}),
        ("preserving", {"max_budget": 9, "brackets": 2}),
        ("frugal", {"max_budget": 27}),
        ("discarding", {"max_budget": 27, "width": 4, "brackets": 4}),
    ]
    for strategy, target in steps:
        study.extend(strategy, **target)
        finish(study, objective(study, 0.2))
    back = import_study(export(study, InMemoryStorage()))
    assert back.left_out == []
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
    assert back.study.runs == study.runs


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=heavy) for n in range(2, 6))])
def test_a_study_that_was_extended_unfinished_is_restored(seed: int) -> None:
    draw, study = random.Random(seed), open_study(space=SPACE, max_budget=9, brackets=2)
    running: list[deepband.Job] = []
    for width in (2, 3):
        for _ in range(draw.randint(1, 3)):
            jobs = study.ask_all()
            told = draw.sample(jobs, draw.randint(0, len(jobs)))
            study.tell_all([(job, noisy(seed)(job)) for job in told])
            running += [job for job in jobs if job not in told]
        study.extend(draw.choice(STRATEGIES), width=width, unfinished=True)
        late = draw.sample(running, len(running) // 2)
        study.tell_all([(job, noisy(seed)(job)) for job in late])
        running = [job for job in running if job not in late]
    study.tell_all([(job, noisy(seed)(job)) for job in running])
    finish(study, noisy(seed))
    assert [run.done for run in study.runs] == [False, False, True]
    back = import_study(export(study, InMemoryStorage()))
    assert back.left_out == []
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
    assert back.study.runs == study.runs


def test_a_wider_study_has_places_for_more_trials() -> None:
    given = trained(9, 40)
    narrow, wide = (import_study(given, max_budget=9, width=width) for width in (1, 4))
    assert wide.imported > narrow.imported
    assert wide.study.width == 4
    only = import_study(given, max_budget=9, brackets=1).study
    assert {each.bracket for each in only.evaluations} == {0}


def evaluated(study: Study) -> Counter[str]:
    """Every evaluation by its config, rung and loss, regardless of its place."""
    told = [(each.config, each.rung, each.loss) for each in study.evaluations]
    ahead = study.session.state.ahead.results.values()
    told += [(study.session.state.configs[t.bracket][t.index], t.rung, t.number) for t in ahead]
    return Counter(map(repr, told))


@pytest.mark.parametrize("seed", [0, 1, *(pytest.param(n, marks=heavy) for n in range(2, 8))])
def test_a_study_in_the_middle_of_everything_keeps_every_evaluation(seed: int) -> None:
    draw = random.Random(seed)
    study = open_study(space=SPACE, max_budget=3)
    for strategy in [None, *draw.sample(STRATEGIES, 2)]:
        if strategy:
            study.deepen(strategy)
        study.enqueue({**MINE, "x": draw.random()})
        mine = {**MINE, "x": draw.random()}
        study.add_evaluations(mine, [(1, draw.random()), (3, draw.random())], "a paper")
        study.add_evaluation({**MINE, "x": draw.random()}, 3, ValueError("failed there"))
        finish(study, noisy(seed, 0.2), draw)
    study.add_evaluation(MINE, 1, 0.25, "ahead")
    study.add_evaluation(MINE, 81, 0.25, "ahead")
    before = evaluated(study)
    back = import_study(export(study, InMemoryStorage()))
    assert back.left_out == []
    assert evaluated(back.study) == before
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
    study.deepen("preserving")
    jobs = study.ask_all()
    study.tell_all([(job, noisy(seed)(job)) for job in draw.sample(jobs, len(jobs) // 2)])
    back = import_study(export(study, InMemoryStorage()))
    assert back.left_out == []
    assert evaluated(back.study) == evaluated(study)


@pytest.mark.parametrize("budgets", [(3, 1), (1, 9), (9, 3), (1, 1), (3, 3)])
def test_equal_configs_in_two_places_are_restored_to_both(budgets: tuple[int, int]) -> None:
    study = open_study()
    for budget in budgets:
        study.add_evaluation({"x": 0.8}, budget, 0.95 / budget)
    study.optimize(lambda config, budget: config["x"] / 2)
    back = import_study(export(study, InMemoryStorage()))
    assert list(canonical(back.study.session.state)) == list(canonical(study.session.state))
    assert back.left_out == []
    assert back.study.runs == study.runs


def test_what_a_study_evaluated_above_a_result_from_elsewhere_is_its_own() -> None:
    study = open_study()
    study.add_evaluation({"x": 0.001}, 1, 0.001)
    study.optimize(lambda config, budget: config["x"])
    (own,) = study.runs
    (back,) = import_study(export(study, InMemoryStorage())).study.runs
    assert own.added == back.added == 1
    assert own.cost == back.cost == 77


def test_trials_that_were_deleted_or_added_in_optuna(tmp_path: Path) -> None:
    study = deepened(["preserving"])
    written = export(study, InMemoryStorage())
    other = optuna.create_study()
    for key, value in written.user_attrs.items():
        other.set_user_attr(key, value)
    other.add_trials([trial for trial in written.trials if trial.number != 2])
    other.add_trial(
        create_trial(params=MINE, distributions=written.trials[0].distributions, value=0.125)
    )
    back = import_study(other, tmp_path / "a.study")
    assert not back.study.done
    assert {each.reason for each in back.left_out} == {LATER}
    finish(back.study, noisy(1))
    back.study.close()
    again = import_study(other, tmp_path / "a.study")
    assert again.left_out == []
    assert again.study.done
    missing = [trial.value for trial in written.trials if trial.number == 2]
    found = [each.loss for each in again.study.evaluations if each.loss is not None]
    assert {told.loss for told in again.study.session.state.ahead.results.values()} == {0.125}
    assert sorted(found) == sorted(each.loss for each in study.evaluations if each.loss is not None)
    assert missing[0] in found  # the same draw, evaluated again


def trained(
    epochs: int, count: int, *, first: int = 1, pruned: bool = False, **settings: Any
) -> optuna.Study:
    """An Optuna study that reports after every epoch."""

    def objective(trial: optuna.Trial) -> float:
        x = trial.suggest_float("x", 0, 1)
        n = trial.suggest_int("n", 16, 64, step=16)
        rate = trial.suggest_float("rate", 0.1, 0.9, step=0.1)
        trial.suggest_categorical("kind", ["a", "b"])
        loss = 0.0
        for epoch in range(1, epochs + 1):
            loss = (x - 0.5) ** 2 + rate / n + 1 / epoch
            trial.report(loss, epoch - 1 + first)
            if pruned and trial.should_prune():
                raise optuna.TrialPruned
        return loss

    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=1), **settings)
    study.optimize(objective, n_trials=count)
    return study


def test_results_on_rungs_are_imported_and_the_others_listed() -> None:
    given = trained(9, 5)
    made = import_study(given, max_budget=9)
    assert made.imported == 15
    assert len(made.left_out) == 5 * 6
    assert made.left_out[0] == (0, 2, "no rung has the budget 2")
    for told in made.study.evaluations:
        assert told.origin is not None
        trial = given.trials[int(told.origin.split()[-1])]
        assert trial.intermediate_values[int(told.budget)] == told.loss
        assert trial.params["x"] == told.config["x"]
        assert math.isclose(trial.params["rate"], told.config["rate"])
    assert made.study.best.loss == given.best_value
    (run,) = made.study.runs
    assert run.added == 15
    assert run.cost == 0
    finish(made.study, noisy(1))
    made.study.deepen("preserving")
    finish(made.study, noisy(1))


def test_trials_on_higher_rungs_take_scarce_slots_first() -> None:
    given = trained(9, 60, pruned=True, direction="minimize")
    states = Counter(trial.state.name for trial in given.trials)
    assert states["PRUNED"] > 5
    made = import_study(given, max_budget=9)
    full = [each for each in made.left_out if "no place left" in each.reason]
    assert full
    assert made.study.best.loss == given.best_value
    in_bracket = Counter(each.bracket for each in made.study.evaluations if each.rung == 0)
    assert in_bracket[0] == 9
    only = import_study(given, max_budget=9, trials="complete")
    assert {each.reason for each in only.left_out if each.step is None} == {"its state is pruned"}


def test_attributes_of_a_user_s_own_mean_nothing() -> None:
    given = added({1: 0.5})
    trial = given.trials[0]
    trial.user_attrs.update(evaluations=5, bracket="a", index=None)
    given.add_trial(trial)
    given.set_user_attr("deepband", "is nice")
    assert import_study(given, max_budget=9).imported == 2


def test_a_trial_is_not_imported_twice_from_different_rungs(tmp_path: Path) -> None:
    given = trained(9, 15)
    for strategy in ("preserving", None):
        made = import_study(given, tmp_path / "a.study", max_budget=9)
        origins = [e.origin for e in made.study.evaluations if e.origin and e.rung == 2]
        assert len(origins) == len(set(origins))
        places = {(e.origin, e.bracket, e.index) for e in made.study.evaluations if e.origin}
        assert len(places) == len({origin for origin, _, _ in places})
        finish(made.study, noisy(1))
        if strategy:
            made.study.deepen(strategy)
            finish(made.study, noisy(1))
        made.study.close()


def test_steps_that_count_from_zero() -> None:
    given = trained(9, 3, first=0)
    made = import_study(given, max_budget=9, budget_of=lambda step: step + 1)
    assert made.imported == 9
    plain = import_study(given, max_budget=9)
    assert plain.imported == 6  # what was reported at steps 1 and 3
    assert "greater than zero" in plain.left_out[0].reason


def test_complete_trials_without_steps_have_the_top_budget() -> None:
    given = optuna.create_study(direction="maximize")
    given.optimize(lambda trial: trial.suggest_float("x", 0, 1), n_trials=2)
    made = import_study(given, max_budget=9)
    assert made.imported == 2
    assert {(each.bracket, each.rung) for each in made.study.evaluations} == {(2, 2)}
    assert made.study.best.value == given.best_value


def added(*values: dict[int, float], state: TrialState = TrialState.PRUNED) -> optuna.Study:
    study = optuna.create_study()
    for number, steps in enumerate(values):
        study.add_trial(
            create_trial(
                state=state,
                value=1.0 if state is TrialState.COMPLETE else None,
                params={"x": number / 10},
                distributions={"x": FloatDistribution(0, 1)},
                intermediate_values=steps,
            )
        )
    return study


def test_every_reason_to_be_left_out() -> None:
    given = added({1: 0.5, 9: 0.25}, {3: math.nan, 27: 0.5}, {1: -math.inf, 3: math.inf}, {})
    given.ask({"x": FloatDistribution(0, 1)})
    given.add_trial(create_trial(state=TrialState.FAIL))
    made = import_study(given, max_budget=9)
    assert made.left_out == [
        (0, 9, "there is no result on the rung below, with budget 3"),
        (1, 27, "the budget 27 is above max_budget"),
        (2, 1, "-inf cannot be the value of an evaluation"),
        (3, None, "it has no intermediate values"),
        (4, None, "its state is running"),
        (5, None, "its state is fail"),
    ]
    told = {(e.config["x"], e.rung): e.loss for e in made.study.evaluations}
    assert told == {(0.0, 0): 0.5, (0.1, 1): None, (0.2, 1): math.inf}


def test_importing_again_takes_over_what_is_new(tmp_path: Path) -> None:
    given = added({1: 0.5}, {1: 0.25})
    for wanted in (2, 0):
        made = import_study(given, tmp_path / "a.study", max_budget=9)
        assert (made.imported, made.left_out) == (wanted, [])
        made.study.close()
    given.add_trials(added({1: 0.125}).trials)
    made = import_study(given, tmp_path / "a.study", max_budget=9)
    assert made.imported == 1
    assert [each.loss for each in made.study.evaluations] == [0.25, 0.5, 0.125]


def test_ranges_that_changed_are_joined() -> None:
    given = optuna.create_study()
    for low, high in ((0, 1), (-1, 0.5)):
        given.add_trial(
            create_trial(
                params={"x": 0.25}, distributions={"x": FloatDistribution(low, high)}, value=0.5
            )
        )
    space = import_study(given, max_budget=9).study.session.space
    assert space.configspace["x"] == CS.UniformFloatHyperparameter("x", -1, 1)
    given.add_trial(
        create_trial(params={"x": 1}, distributions={"x": IntDistribution(1, 3)}, value=0.5)
    )
    with pytest.raises(SpaceError, match=r"parameter 'x' is Float.* in one trial and Int"):
        import_study(given, max_budget=9)


def test_parameters_that_not_all_trials_have() -> None:
    shown: dict[str, BaseDistribution] = {
        "kind": CategoricalDistribution(["tree", "net"]),
        "depth": IntDistribution(1, 12),
        "rate": FloatDistribution(0, 1),
    }
    given = optuna.create_study()
    for params in (
        {"kind": "tree", "depth": 3},
        {"kind": "tree", "depth": 12},
        {"kind": "net", "rate": 0.5},
    ):
        mine = {name: shown[name] for name in params}
        given.add_trial(create_trial(params=params, distributions=mine, value=0.5))
    with pytest.raises(
        SpaceError, match=r"the trials \[2\] have no parameter 'depth'.*Give space="
    ):
        import_study(given, max_budget=9)
    space = CS.ConfigurationSpace()
    kind, depth = CS.Categorical("kind", ["tree", "net"]), CS.Integer("depth", (1, 8))
    space.add(kind, depth, CS.Float("rate", (0, 1)))
    space.add(CS.EqualsCondition(depth, kind, "tree"))
    space.add(CS.EqualsCondition(space["rate"], kind, "net"))
    made = import_study(given, max_budget=9, space=space)
    assert [(each.trial, "is not a config" in each.reason) for each in made.left_out] == [(1, True)]
    assert made.imported == 2


def test_wrong_use_says_what_to_do(tmp_path: Path) -> None:
    several = optuna.create_study(directions=["minimize", "maximize"])
    with pytest.raises(InputError, match="has several objectives and no complete trial"):
        import_study(several, max_budget=9)
    with pytest.raises(InputError, match="give max_budget"):
        import_study(added({1: 0.5}))
    with pytest.raises(InputError, match="choose from 'complete and pruned', 'complete'"):
        import_study(added({1: 0.5}), max_budget=9, trials="all")
    place = tmp_path / "a.study"
    with pytest.raises(InputError, match=r"budgets 1, 3, 9, and the steps .* \[2, 4\]\. Choose"):
        import_study(added({2: 0.5, 4: 0.5}), place, max_budget=9)
    assert not place.exists()
    with pytest.raises(InputError, match="on a rung"):
        import_study(optuna.create_study(), place, max_budget=9)
    with pytest.raises(StorageError, match="Give a URL such as"):
        export(open_study(), str(tmp_path / "optuna.db"))


def test_a_storage_of_a_newer_optuna(tmp_path: Path) -> None:
    place = tmp_path / "optuna.db"
    export(open_study(), f"sqlite:///{place}")
    with sqlite3.connect(place) as connection:
        connection.execute("UPDATE alembic_version SET version_num = 'v99.0.0'")
    connection.close()
    with pytest.raises(StorageError, match="pip install -U optuna"):
        export(open_study(), f"sqlite:///{place}")


def test_a_password_is_not_shown() -> None:
    with pytest.raises(StorageError) as raised:
        export(open_study(), "nothing://me:secret@host/db")
    assert "secret" not in str(raised.value)
    assert "nothing://host/db" in str(raised.value)


def test_without_optuna_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['optuna'] = None\n"
        "import deepband\n"
        "from deepband.integrations.optuna import export, import_study\n"
        "study = deepband.open_study(space={'x': (0.0, 1.0)}, max_budget=9)\n"
        "for use in (lambda: export(study, 'x'), lambda: import_study(None, max_budget=9)):\n"
        "    try: use()\n"
        "    except deepband.DeepbandError as error: print(error)\n"
    )
    done = preloaded.run(["-c", code], Path.cwd())
    assert done.stdout.count(install_command("optuna")) == 2
    assert issubclass(StorageError, DeepbandError)


@pytest.mark.filterwarnings("ignore::optuna.exceptions.ExperimentalWarning")
@pytest.mark.filterwarnings("ignore:Attempting to set identical")  # a constant's axis
@pytest.mark.parametrize("failures", [pytest.param(0.0, marks=heavy), 0.3])
def test_optuna_s_plots_show_it(failures: float) -> None:
    plots = optuna.visualization.matplotlib
    study = deepened(["preserving"], failures, space=conditional_space())
    written = export(study, InMemoryStorage())
    for draw in (
        plots.plot_intermediate_values,
        plots.plot_optimization_history,
        plots.plot_parallel_coordinate,
        plots.plot_param_importances,
        plots.plot_slice,
    ):
        draw(written)
        pyplot.close("all")
