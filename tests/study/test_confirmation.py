"""The best configs evaluated again with other seeds: recorded beside the study, decided by nothing,
never lost and never run twice."""

from __future__ import annotations

import math
import os
import random
import signal
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pytest
from scipy import special, stats

import deepband
from deepband import Context, Study
from deepband.analysis.confirmations import half_width
from deepband.analysis.export import canonical, jsonl
from deepband.core.facts import Confirmed, Fact
from deepband.core.state import State
from deepband.execution.context import training_seed
from deepband.storage.sqlite import SqliteStorage
from deepband.study.observers import history
from driving import wait_until
from preloaded import Process

SPACE = {"x": (0.0, 1.0), "kind": ["a", "b"]}


def train(config: dict[str, Any], budget: float, context: Context) -> float:
    return float(config["x"]) + 1 / budget + random.Random(context.seed).random() / 10


def searched(place: Path | None = None, **settings: Any) -> Study:
    """A finished search with max_budget 9."""
    study = deepband.open_study(place, space=SPACE, **{"max_budget": 9, **settings})
    study.optimize(train)
    return study


def searched_part(study: Study) -> list[str]:
    """Everything but the confirmations."""
    state = study.session.state
    lines = [line for line in canonical(state) if "repetition" not in line]
    return [*lines, *jsonl(state), str(study.runs), str(study.best), str(study.plan())]


class Calls:
    """An objective that remembers how it was called."""

    def __init__(self) -> None:
        self.contexts: list[Context] = []
        self.configs: list[dict[str, Any]] = []
        self.budgets: list[float] = []

    def __call__(self, config: dict[str, Any], budget: float, context: Context) -> float:
        assert context.path.is_dir()
        assert not list(context.path.iterdir())
        (context.path / "model").write_text("large")
        self.contexts.append(context)
        self.configs.append(config)
        self.budgets.append(budget)
        return train(config, budget, context)


def test_the_best_configs_run_again_from_scratch_with_other_seeds(tmp_path: Path) -> None:
    study, calls = searched(tmp_path / "a.study"), Calls()
    found = study.confirm(calls, top=2, seeds=3)
    top = sorted(tops(study), key=value_of)
    assert [(each.bracket, each.index) for each in found.configs] == [
        (each.bracket, each.index) for each in top[:2]
    ]
    assert [each.rank for each in found.configs] == [1, 2]
    assert calls.configs == [each.config for each in top[:2]] * 3
    assert set(calls.budgets) == {9}
    assert {each.previous for each in calls.contexts} == {None}
    seeds = [each.seed for each in calls.contexts]
    assert seeds == [
        training_seed(0, each.bracket, each.index, 2, repetition)
        for repetition in (1, 2, 3)
        for each in top[:2]
    ]
    assert len({*seeds, *(training_seed(0, *each[:3]) for each in study.evaluations)}) == 6 + 22
    assert found.cost == 6 * 9
    assert found.seconds > 0


def test_nothing_that_a_repetition_saves_is_kept(tmp_path: Path) -> None:
    study = searched(tmp_path / "a.study")
    before = set(study.session.files.rglob("*"))
    study.confirm(Calls(), seeds=2)
    study.confirm(Calls(), seeds=4, workers=2)
    after = {path.relative_to(study.session.files) for path in study.session.files.rglob("*")}
    new = after - {path.relative_to(study.session.files) for path in before}
    assert {path.parts[:2] for path in new} <= {("confirmations",), ("confirmations", "output")}


def test_means_and_intervals() -> None:
    study = searched()
    for each in study.confirm(train, seeds=5).configs:
        assert len(each.values) == 5
        low, high = stats.t.interval(
            0.95, 4, loc=sum(each.values) / 5, scale=stats.sem(each.values)
        )
        assert each.mean == pytest.approx(sum(each.values) / 5)
        assert each.low == pytest.approx(low)
        assert each.high == pytest.approx(high)


@pytest.mark.parametrize("count", [2, 3, 4, 5, 6, 7, 30, 101])
def test_the_interval_is_that_of_student(count: int) -> None:
    draw = random.Random(count)
    values = [draw.gauss(0, 1) for _ in range(count)]
    # By another function, and within 1e-9: older SciPy's quantiles of t have an error of 2e-11.
    share = special.betaincinv((count - 1) / 2, 0.5, 0.05)
    quantile = math.sqrt((count - 1) * (1 / share - 1))
    assert half_width(values) == pytest.approx(quantile * stats.sem(values), rel=1e-9)


def test_one_repetition_has_no_interval() -> None:
    found = searched().confirm(train, top=2, seeds=1)
    for each in found.configs:
        assert each.values == (each.mean,)
        assert each.low is each.high is None
    assert found.overlap is None


def test_it_says_that_the_best_of_a_smaller_budget_is_not_repeated() -> None:
    def overfits(config: dict[str, Any], budget: float, context: Context) -> float:
        return float(config["x"]) if budget == 1 else 2 - float(config["x"])

    study = deepband.open_study(space=SPACE, max_budget=9)
    study.optimize(overfits)
    found = study.confirm(overfits, top=1, seeds=1)
    assert study.best.rung == 0
    assert found.left_out == study.best
    place = f"bracket {study.best.bracket}, index {study.best.index}"
    assert f"Not among these is study.best ({place}, {study.best.loss:.6g} with" in str(found)
    assert searched().confirm(train, top=1, seeds=1).left_out is None


def test_failures_are_counted() -> None:
    study = searched()

    def fragile(config: dict[str, Any], budget: float, context: Context) -> float:
        return (train, broken, infinite)[context.seed % 3](config, budget, context)

    found = study.confirm(fragile, top=1, seeds=30, first_failures=0)
    kinds = [training_seed(0, *study.best[:2], 2, repetition) % 3 for repetition in range(1, 31)]
    (each,) = found.configs
    assert 0 < len(each.values) == kinds.count(0)
    assert each.failures == 30 - kinds.count(0)
    assert f"30, {each.failures} failed" in str(found)
    lines = [line for line in canonical(study.session.state) if "repetition" in line]
    assert sum('"failure": "RuntimeError"' in line for line in lines) == kinds.count(1)
    assert sum('"loss": "inf"' in line for line in lines) == kinds.count(2)


def broken(config: dict[str, Any], budget: float, context: Context) -> float:
    raise RuntimeError("broken")


def infinite(config: dict[str, Any], budget: float, context: Context) -> float:
    return float("inf")


def test_if_the_first_ones_all_fail_the_objective_is_at_fault() -> None:
    study = searched()
    with pytest.raises(deepband.ObjectiveError, match="broken"):
        study.confirm(broken)
    assert study.confirmations.configs == ()
    assert str(study.confirmations) == "nothing has been confirmed"


def test_no_decision_depends_on_it(tmp_path: Path) -> None:
    """Nor on when it happens: the search goes on as it would have without it."""
    confirmed, other = searched(tmp_path / "a.study", sampler="prior"), searched(sampler="prior")
    confirmed.confirm(lambda config, budget, context: -100.0 - context.seed)
    for study in (confirmed, other):
        assert study.quote() == other.quote()
        study.deepen("efficient")
        study.optimize(train, max_cost=20)
    confirmed.confirm(lambda config, budget, context: -100.0 - context.seed)
    for study in (confirmed, other):
        study.optimize(train)
    assert [line for line in canonical(confirmed.session.state) if "repetition" not in line] == [
        *canonical(other.session.state)
    ]
    assert confirmed.best.value == other.best.value
    assert [run.cost for run in confirmed.runs] == [run.cost for run in other.runs]
    assert confirmed.advice().step == other.advice().step


def test_a_repetition_that_is_recorded_is_not_run_again(tmp_path: Path) -> None:
    with searched(tmp_path / "a.study") as study:
        first = study.confirm(train, seeds=2)
    with deepband.open_study(tmp_path / "a.study") as study:
        calls = Calls()
        assert study.confirm(calls, seeds=2) == first
        assert not calls.configs
        more = study.confirm(calls, seeds=5)
        assert len(calls.configs) == 9
        assert [each.values[:2] for each in more.configs] == [e.values for e in first.configs]
        assert study.confirmations == more
        fewer = study.confirm(calls, top=2, seeds=1)
        assert fewer.configs == more.configs[:2]


def test_the_order_does_not_matter(tmp_path: Path) -> None:
    expected = searched()
    expected.confirm(train, top=4, seeds=4)
    other = searched(tmp_path / "a.study")
    other.confirm(train, top=1, seeds=2)
    other.confirm(train, top=4, seeds=3, max_cost=30)
    other.confirm(train, top=4, seeds=4, workers=3, timeout=60)
    assert [*canonical(other.session.state)] == [*canonical(expected.session.state)]
    assert other.confirmations.configs == expected.confirmations.configs


def test_limits_hold() -> None:
    study = searched()
    found = study.confirm(train, max_cost=4 * 9 + 8)
    assert [len(each.values) for each in found.configs] == [2, 1, 1]
    assert found.cost == 4 * 9


def test_in_a_study_that_maximizes() -> None:
    study = deepband.open_study(space=SPACE, max_budget=9, maximize=True)
    study.optimize(train)
    found = study.confirm(train)
    assert found.configs[0].value == max(map(value_of, tops(study)))
    assert all(value > 0 for each in found.configs for value in each.values)
    assert found.best
    assert found.best.mean == max(each.mean or 0.0 for each in found.configs)


def test_the_intervals_of_the_first_two() -> None:
    study = searched()
    first, second = (each[:2] for each in sorted(tops(study), key=value_of)[:2])
    narrow, wide = study.copy(), study.copy()

    def shifted(config: dict[str, Any], budget: float, context: Context) -> float:
        apart = 5 if config == study.session.state.config(*second) else 0
        return apart + context.seed / 2**40

    far = narrow.confirm(shifted, top=2)
    assert far.overlap is False
    assert far.best
    assert (far.best.bracket, far.best.index) == first
    assert "do not overlap" in str(far)
    near = wide.confirm(lambda config, budget, context: context.seed / 2**32, top=2, seeds=20)
    assert near.overlap is True
    assert "do not separate" in str(near)
    assert "do not separate" in near._repr_html_()


def value_of(evaluation: deepband.Evaluation) -> float:
    assert evaluation.value is not None
    return evaluation.value


def tops(study: Study) -> list[deepband.Evaluation]:
    return [each for each in study.evaluations if each.rung == 2]


def test_an_objective_without_context_gets_no_seed() -> None:
    study = searched()
    with pytest.warns(deepband.UnseededWarning, match=r"context\.seed"):
        found = study.confirm(lambda config, budget: config["x"], top=1)
    assert study.confirm(lambda config, budget: config["x"], top=1) == found  # nothing is left
    (each,) = found.configs
    assert len(set(each.values)) == 1
    assert each.low == each.high == each.mean


def test_of_equal_configs_one_is_confirmed() -> None:
    study = deepband.open_study(space={"kind": ["a", "b"]}, max_budget=9)
    with pytest.warns(deepband.SmallSpaceWarning):
        study.plan()
    while job := study.ask():
        study.tell(job, {"a": 1.0, "b": 2.0}[job.config["kind"]])
    found = study.confirm(lambda config, budget, context: context.seed)
    assert len(found.configs) <= 2
    assert found.configs[0].config == {"kind": "a"}


def test_every_rung_that_was_confirmed_is_shown() -> None:
    study = searched()
    low = study.confirm(train, top=1)
    study.deepen()
    study.optimize(train)
    high = study.confirm(train, top=2)
    assert {each.budget for each in high.configs} == {27}
    assert study.confirmations.configs == (*high.configs, *low.configs)
    assert study.confirmations.cost == 10 * 27 + 5 * 9
    assert study.confirmations.best in high.configs


def test_what_cannot_be_confirmed() -> None:
    study = deepband.open_study(space=SPACE, max_budget=9)
    with pytest.raises(deepband.NoResultError):
        study.confirm(train)
    study = searched()
    for wrong in (
        {"top": 0},
        {"seeds": 0},
        {"seeds": 1.5},
        {"seeds": 10_001},
        {"workers": 0},
        {"max_cost": -1},
    ):
        with pytest.raises(deepband.InputError):
            study.confirm(train, **wrong)
    assert not study.session.state.confirmations


def test_copies_have_it(tmp_path: Path) -> None:
    study = searched()
    found = study.confirm(train)
    copy = study.copy()
    assert copy.confirmations == found
    copy.confirm(train, seeds=6)
    assert study.confirmations == found
    assert copy.session.storage.load() != study.session.storage.load()
    assert State(history(study.session.state)).confirmations == study.session.state.confirmations
    study.save_as(tmp_path / "saved.study")
    with deepband.open_study(tmp_path / "saved.study") as saved:
        assert saved.confirmations == found


def test_observers_receive_it() -> None:
    class Seen:
        facts: list[Fact]

        def observe(self, facts: Any) -> None:
            self.facts = [*getattr(self, "facts", []), *facts]

    study, seen = searched(), Seen()
    study.observe(seen)
    study.confirm(lambda _, __, context: {"loss": context.seed, "accuracy": 0.5}, top=2, seeds=2)
    found = [fact for fact in seen.facts if isinstance(fact, Confirmed)]
    assert {fact.key for fact in found} == set(study.session.state.confirmations)
    assert all(fact.metrics == {"accuracy": 0.5} for fact in found)
    found[0].metrics["accuracy"] = 2  # type: ignore[index] # as a careless observer would
    assert study.session.state.confirmations[found[0].key].metrics == {"accuracy": 0.5}


def test_a_reader_that_follows_sees_it(tmp_path: Path) -> None:
    study = searched(tmp_path / "a.study")
    reader = SqliteStorage(tmp_path / "a.study")
    state = State(reader.load())
    for seeds in (1, 2):
        study.confirm(train, seeds=seeds)
        news = reader.news(state)
        assert news is not None
        state.apply(news)
        assert state.confirmations == study.session.state.confirmations
        assert reader.news(state) == []
    study.deepen()
    study.optimize(train)
    state.apply(reader.news(state) or [])
    assert state.results == study.session.state.results


def test_a_backup_that_went_on_with_other_repetitions_is_noticed(tmp_path: Path) -> None:
    place = tmp_path / "a.study"
    study = searched(place)
    study.close()
    backup = place.read_bytes()
    for number in (1, 2):
        place.write_bytes(backup)
        with deepband.open_study(place) as study:
            for seeds in range(1, number + 1):
                study.confirm(lambda _, __, context, loss=number: loss, top=1, seeds=seeds)
        if number == 1:
            reader = SqliteStorage(place)
            state = State(reader.load())
    assert reader.news(state) is None


def test_results_survive_the_loss_of_the_file(tmp_path: Path) -> None:
    study, place = searched(tmp_path / "a.study"), tmp_path / "a.study"

    def removing(config: dict[str, Any], budget: float, context: Context) -> float:
        place.unlink(missing_ok=True)
        return train(config, budget, context)

    with pytest.raises(deepband.GoneError):
        study.confirm(removing)
    assert len(study.session.state.confirmations) == 1
    study.save_as(tmp_path / "b.study")
    study.confirm(train)
    other = searched()
    other.confirm(train)
    assert [*canonical(study.session.state)] == [*canonical(other.session.state)]


def test_nothing_is_recorded_in_a_closed_study(tmp_path: Path) -> None:
    study = searched(tmp_path / "a.study")
    before = searched_part(study)

    def closing(config: dict[str, Any], budget: float, context: Context) -> float:
        study.close()
        return train(config, budget, context)

    with pytest.raises(deepband.ClosedError):
        study.confirm(closing)
    assert not (tmp_path / "a.study.files" / "new").exists()
    with deepband.open_study(tmp_path / "a.study") as again:
        assert searched_part(again) == before
        assert not again.confirmations.configs


def test_a_link_in_place_of_its_folder_is_refused(tmp_path: Path) -> None:
    study, elsewhere = searched(tmp_path / "a.study"), tmp_path / "elsewhere"
    elsewhere.mkdir()
    (study.session.files / "confirmations").symlink_to(elsewhere)
    with pytest.raises(deepband.StorageError, match="symbolic link"):
        study.confirm(train)
    assert not list(elsewhere.iterdir())


DRIVER = """
import os, sys, time
import deepband

def train(config, budget, context):
    with open(sys.argv[2], "a") as ledger:
        ledger.write(f"{context.seed}\\n")
    if context.path.parents[3].name == "confirmations":
        (context.path / "model").write_text("large")
    while os.path.exists(sys.argv[2] + ".hold") and len(open(sys.argv[2]).readlines()) > 26:
        time.sleep(0.01)
    return config["x"] + context.seed / 2**32

with deepband.open_study(sys.argv[1], space={"x": (0.0, 1.0)}, max_budget=9) as study:
    study.optimize(train)
    study.confirm(train, workers=int(sys.argv[3]))
"""


@pytest.fixture
def drivers() -> Iterator[list[Process]]:
    started: list[Process] = []
    yield started
    for each in started:
        if each.poll() is None:
            each.kill()
        each.wait()


@pytest.mark.parametrize("workers", [pytest.param("1", marks=pytest.mark.heavy), "2"])
def test_a_kill_loses_only_what_runs(tmp_path: Path, workers: str, drivers: list[Process]) -> None:
    """The search has 22 evaluations. The fifth repetition waits, so that the driver dies there."""
    place, ledger, hold = (tmp_path / name for name in ("a.study", "ledger", "ledger.hold"))
    hold.touch()
    command = ["-c", DRIVER, place, ledger, workers]
    drivers.append(Process(command, start_new_session=True))
    wait_until(lambda: ledger.exists() and len(ledger.read_text().split()) >= 27)
    wait_until(lambda: len(deepband.open_study(place).session.state.confirmations) >= 3)
    os.kill(drivers[0].pid, signal.SIGKILL)
    drivers[0].wait()
    recorded = len(deepband.open_study(place).session.state.confirmations)
    hold.unlink()
    drivers.append(Process(command))
    assert drivers[1].wait() == 0
    with deepband.open_study(place) as study:
        assert len(study.session.state.confirmations) == 15
        assert len(study.evaluations) == 22
        state = study.session.state
    starts = len(ledger.read_text().split())
    assert starts <= 22 + 15 + int(workers)
    assert recorded >= 3
    undisturbed = tmp_path / "b.study"
    assert Process(["-c", DRIVER, undisturbed, tmp_path / "other", "1"]).wait() == 0
    with deepband.open_study(undisturbed) as other:
        assert [*canonical(state)] == [*canonical(other.session.state)]
    left = list((tmp_path / "a.study.files" / "confirmations").rglob("*"))
    assert {path.name for path in left if path.is_dir()} <= {"output"}


def test_nothing_behind_a_link_is_removed(tmp_path: Path) -> None:
    victim = tmp_path / "victim"
    for name in ("jobs", "outbox", "output"):
        (victim / name).mkdir(parents=True)
    study = searched(tmp_path / "a.study")
    folder = tmp_path / "a.study.files"
    folder.mkdir(exist_ok=True)
    (folder / "confirmations").symlink_to(victim)
    with pytest.raises(deepband.StorageError):
        study.confirm(train, top=1, seeds=2)
    assert sorted(each.name for each in victim.iterdir()) == ["jobs", "outbox", "output"]


def test_threads_confirm_one_after_another() -> None:
    study, calls = searched(), list[float]()

    def counted(config: dict[str, Any], budget: float, context: Context) -> float:
        calls.append(budget)
        return train(config, budget, context)

    with ThreadPoolExecutor(3) as pool:
        found = list(pool.map(lambda _: study.confirm(counted, top=1, seeds=5), range(3)))
    assert len(calls) == 5
    assert found[0] == found[1] == found[2]
