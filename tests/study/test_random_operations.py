"""Random sequences of everything that changes a study, compared with its facts."""

from __future__ import annotations

import random
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

import deepband
from deepband import InputError, Job, UnfinishedError
from deepband.core import hyperband
from deepband.core.facts import PRECHECK, JobKey
from deepband.core.state import State
from deepband.core.strategies import NAMES
from deepband.execution.precheck import rejection
from deepband.storage import state_of
from deepband.storage.sqlite import SqliteStorage
from deepband.study.observers import history
from driving import Objective, finish, key, noisy

SPACES: list[tuple[dict[str, Any], dict[str, Any] | None]] = [
    ({"x": (0.0, 1.0)}, None),
    ({"x": (0.0, 2.0)}, None),
    ({"x": 0.5}, None),
    ({"x": (0.0, 1.0), "kind": ["a", None]}, {"kind": "a"}),
]
PLAIN: dict[str, Any] = {}
TWO: dict[str, Any] = {"objectives": {"error": "minimize", "speed": "maximize"}}
THREE: dict[str, Any] = {"objectives": {**TWO["objectives"], "size": "minimize"}}
BOUNDS: dict[str, Any] = {"constraints": {"memory": (None, 0.5), "gap": (-1.0, 1.0)}}
CRITERIA = {
    "two": TWO,
    "three": THREE,
    "constraints": BOUNDS,
    "two with constraints": TWO | BOUNDS,
    "three with constraints": THREE | BOUNDS,
    "one with a name": {"objectives": {"score": "maximize"}},
}
ANY_JOB = Job(0, 0, 0, 1, {})
MOST = 200
"""Evaluations of the largest schedule."""


def named(objective: Objective, criteria: Mapping[str, Any]) -> Objective:
    """An objective that returns what these criteria need by its name, if they need anything."""
    names = [*dict(criteria.get("objectives") or {}), *dict(criteria.get("constraints") or {})]
    first = [] if criteria.get("objectives") else ["loss"]

    def result(job: Job) -> object:
        found = objective(job)
        if not names or not isinstance(found, float):
            return found
        draw = random.Random(f"{found} {key(job)}")
        others = dict.fromkeys(first, found) | {name: draw.gauss(0, 1) for name in names}
        return others | {"error": found} if "error" in others else others

    return result


class Player:
    """A study, the jobs that run somewhere, and what was told so far."""

    def __init__(self, seed: int, path: Path, criteria: Mapping[str, Any] = PLAIN) -> None:
        self.draw = random.Random(seed)
        self.objective = named(noisy(seed, failures=self.draw.choice([0.0, 0.3])), criteria)
        self.path = path
        self.study = deepband.open_study(
            path,
            space=SPACES[0][0],
            max_budget=self.draw.choice([3, 9, 10]),
            width=self.draw.choice([None, 2]),
            brackets=self.draw.choice([None, None, 1, 2]),
            reuse_identical=self.draw.choice([None, None, True]),
            **criteria,
        )
        self.running: dict[JobKey, Job] = {}
        self.told: set[JobKey] = set()
        self.follower = SqliteStorage(path, looks_only=True)
        self.followed = state_of(self.follower)

    def ask(self) -> None:
        for job in self.study.ask_all() if self.draw.random() < 0.5 else [self.study.ask()]:
            if job is not None:
                self._hand_out(job)

    def work_ahead(self) -> None:
        keys = list(hyperband.jobs_ahead(self.study.session.state))[:3]
        for job in self.study.session.reserve(keys):
            self._hand_out(job)

    def _hand_out(self, job: Job) -> None:
        assert key(job) not in self.running, "handed out twice"
        assert key(job) not in self.told, "recorded, and handed out again"
        self.running[key(job)] = job

    def tell(self) -> None:
        jobs = list(self.running.values())
        self.draw.shuffle(jobs)
        for job in jobs[: self.draw.randint(0, len(jobs))]:
            self.study.tell(job, self.objective(job))
            self.told.add(key(self.running.pop(key(job))))

    def reject(self) -> None:
        """As a precheck does that rejects a job."""
        if self.running:
            job = self.running.pop(self.draw.choice(sorted(self.running)))
            outcome = rejection(self.study.session.state.criteria)
            self.study.session.record_outcomes([(job, outcome)], PRECHECK)
            self.told.add(key(job))

    def release(self) -> None:
        if self.running:
            job = self.running.pop(self.draw.choice(sorted(self.running)))
            self.study.release(job)

    def retry(self) -> None:
        failed = set(hyperband.failed_jobs(self.study.session.state))
        assert self.study.retry_failed() == len(failed)
        self.told -= failed

    def enqueue(self) -> None:
        config = self._config()
        with suppress(InputError):  # no place is left
            self.study.enqueue(config, self.draw.randrange(len(self.study.session.state.progress)))

    def add(self) -> None:
        budget = self.draw.choice(self.study.session.state.run.budgets)
        with suppress(InputError):
            number = self.draw.random()
            result = named(lambda _: number, self.study.session.state.created._asdict())(ANY_JOB)
            self.told.add(self.study.add_evaluation(self._config(), budget, result))

    def confirm(self) -> None:
        """Repetitions can be run at any time, once there is a finite loss."""
        if self.study.session.state.standings.leaders:
            count = self.draw.randint(1, 3)
            criteria = self.study.session.state.created._asdict()

            def repeat(*_: object, context: deepband.Context) -> object:
                return named(lambda _: float(context.seed), criteria)(ANY_JOB)

            self.study.confirm(repeat, top=count, seeds=count)

    def _config(self) -> dict[str, Any]:
        config = {"x": 0.5}
        return config | {"kind": "a"} if "kind" in self.study.session.space.configspace else config

    def extend(self) -> None:
        schedule = self.study.session.state.schedule
        target: dict[str, Any] = {}
        if self.draw.random() < 0.5:
            target["max_budget"] = schedule.budget(schedule.top + 1)
        if self.draw.random() < 0.5:
            target["width"] = schedule.width + 1
        if schedule.bracket_limit and self.draw.random() < 0.3:
            target["brackets"] = schedule.bracket_limit + 1
        if self.draw.random() < 0.3:
            target["space"], target["added"] = self.draw.choice(SPACES)
        larger = schedule.extended("max_budget" in target, target.get("width"))
        if larger.evaluations > MOST:
            return
        strategy = self.draw.choice(NAMES)
        with suppress(InputError, UnfinishedError):
            self.study.extend(strategy, **target, unfinished=self.draw.random() < 0.5)

    def reopen(self) -> None:
        """As after a crash: what was running is available again."""
        self.study.close()
        self.study = deepband.open_study(self.path)
        self.running.clear()

    def check(self) -> None:
        state = self.study.session.state
        recorded = {(b, i, k) for (b, k), found in state.results.items() for i in found}
        assert self.told <= recorded | set(state.ahead.results)
        for other in (State(history(state)), state_of(SqliteStorage(self.path, looks_only=True))):
            assert picture(other) == picture(state)
        news = self.follower.news(self.followed)
        if news is None:
            self.followed = state_of(self.follower)
        else:
            self.followed.apply(news)
        assert picture(self.followed) == picture(state)

    def finish(self) -> None:
        for job in list(self.running.values()):
            self.study.tell(job, self.objective(job))
        self.running.clear()
        finish(self.study, self.objective)


def picture(state: State) -> tuple[Any, ...]:
    """What a state consists of, without which jobs are running."""
    return (
        [(p.rung, sorted([*p.waiting, *p.running])) for p in state.progress],
        state.configs,
        state.origins,
        {cell: found for cell, found in state.results.items() if found},
        state.standings.leaders,
        state.standings.rejected,
        {job: found._replace(run=0) for job, found in state.ahead.results.items()},
        state.late.jobs,
        state.confirmations,
        [(run.started, run.arrived, run.left_open) for run in state.runs],
    )


OPERATIONS: dict[Callable[[Player], None], int] = {
    Player.ask: 6,
    Player.tell: 6,
    Player.extend: 4,
    Player.work_ahead: 2,
    Player.release: 2,
    Player.reopen: 1,
    Player.retry: 1,
    Player.enqueue: 1,
    Player.confirm: 1,
    Player.add: 1,
    Player.finish: 1,
}
SEEDS = [*range(5), *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(5, 100))]


@pytest.mark.parametrize("seed", SEEDS)
def test_nothing_is_lost_or_run_twice_whatever_is_done(seed: int, tmp_path: Path) -> None:
    play(Player(seed, tmp_path / "a.study"), OPERATIONS)


FEW = [*range(2), *(pytest.param(seed, marks=pytest.mark.heavy) for seed in range(2, 20))]


@pytest.mark.parametrize("seed", FEW)
@pytest.mark.parametrize("criteria", CRITERIA)
def test_so_it_is_with_several_objectives_and_constraints(
    criteria: str, seed: int, tmp_path: Path
) -> None:
    player = Player(seed, tmp_path / "a.study", CRITERIA[criteria])
    play(player, OPERATIONS | {Player.reject: 2})
    front = [(each.bracket, each.index, each.rung) for each in player.study.front()]
    again = deepband.open_study(player.path)
    assert [(each.bracket, each.index, each.rung) for each in again.front()] == front


def play(player: Player, operations: Mapping[Callable[[Player], None], int]) -> None:
    for operation in player.draw.choices(list(operations), list(operations.values()), k=30):
        operation(player)
        if player.draw.random() < 0.3:
            player.check()
    player.finish()
    player.check()
    if player.study.session.state.schedule.extended(levels=1).evaluations <= 3 * MOST:
        quote = player.study.quote("efficient")
        player.study.deepen("efficient")
        finish(player.study, player.objective)
        player.check()
        cost, most = sum(run.cost for run in player.study.runs), quote.cost.spent + quote.cost.high
        assert cost <= most if quote.at_most else cost == most
    player.study.close()
