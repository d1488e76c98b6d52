"""The comparison: what is charged, who sees what, and what the tables say."""

from __future__ import annotations

import json
import math
import subprocess
import sys
from collections.abc import Mapping
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np
import optuna
import pytest
from click.testing import CliRunner, Result

import deepband
from deepband import DeepbandError, InputError
from deepband.core.facts import Config
from deepband.core.schedule import Schedule
from deepband.interfaces.cli import main
from deepband.research.compare import methods, peer_worker
from deepband.research.compare.anytime_plot import draw_curves, panels
from deepband.research.compare.curves import UNSEEN, Curves
from deepband.research.compare.equal_cost import equal_cost_report, matches
from deepband.research.compare.extension_rules import RULES, ranks_differ
from deepband.research.compare.ledger import Evaluation, Ledger, SpentError, Task
from deepband.research.compare.method_comparison import MethodComparison, Unit, rows_of, seed_of
from deepband.research.compare.methods import METHODS, PEERS, RIGHT, SMALL, play
from deepband.research.compare.own_methods import (
    deepen_preserving,
    extend_by_rule,
)
from deepband.research.compare.peer_process import (
    HOSTED,
    PEERS_PYTHON,
    SEQUENTIAL,
    started,
    task_of,
)
from deepband.research.compare.peers import suggested
from deepband.research.compare.references import Reference
from deepband.research.compare.regret_tables import report
from deepband.research.compare.regrets import against_peers, endings, method_regrets, of_the_best
from deepband.research.compare.tuner import search
from deepband.research.result_files import read_columns
from deepband.research.statistics import Band, holm
from deepband.research.suites import read_benchmark
from deepband.research.yahpo_instances import INSTANCES, REPORTING, TUNING
from deepband.samplers import SAMPLERS, Uniform
from deepband.space.search_space import Space
from deepband.study.extension_policy import Automatic, Extension
from surrogates import data, needs_published_data, published_data

ROOT = Path(__file__).parents[2]
FULL = float(Schedule.of(3, 1, 27).cost_resumed)


@cache
def task(scenario: str = "lcbench", max_budget: int = 27) -> Task:
    read = read_benchmark(data(), scenario)
    return Task(read.problem(REPORTING[scenario][0]), Space(read.space), max_budget)


def played(name: str, seed: int = 3, scenario: str = "lcbench", max_budget: int = 27) -> Ledger:
    ledger = Ledger(task(scenario, max_budget))
    play(name, ledger, seed, ROOT / PEERS_PYTHON)
    return ledger


def evaluated(ledger: Ledger, training: object, config: Config, budget: float) -> float:
    ledger.start(Evaluation(training, config, budget))
    return ledger.end()[1]


# The lists


def test_what_was_looked_at_is_for_tuning_only() -> None:
    assert {"3945", "7593", "34539", "126025"} <= {*TUNING["lcbench"]}
    assert {"12", "28", "40981", "54"} <= {*TUNING["rbv2_xgboost"]}
    for name in TUNING:
        assert not {*TUNING[name]} & {*REPORTING[name]}
        assert len({*REPORTING[name]}) == len({*TUNING[name]}) == 8
    assert {*REPORTING} - {*TUNING} == {"rbv2_svm", "rbv2_ranger"}
    assert sum(len({*listed}) for listed in REPORTING.values()) == 28


@needs_published_data
@pytest.mark.parametrize("which", INSTANCES)
def test_every_data_set_is_there(which: str) -> None:
    for name, listed in INSTANCES[which].items():
        assert {*listed} <= {*read_benchmark(published_data(), name).instances}


# What is charged


def test_training_is_continued_within_a_training_only() -> None:
    ledger = Ledger(task())
    ledger.limit = 10
    (config,) = Uniform().draw(task().space, (), 0, [0], 0)
    paid = []
    for training, budget in (("a", 1), ("a", 3), ("b", 3), ("a", 3), ("a", 1)):
        evaluated(ledger, training, config, budget)
        paid.append(ledger.spent)
    assert paid == [1, 3, 6, 6, 6]
    with pytest.raises(SpentError):
        evaluated(ledger, "a", config, 9)  # 6 more, and 4 are left
    assert ledger.spent == ledger.time == 6


def test_the_incumbent_is_the_best_on_the_largest_budget() -> None:
    ledger = Ledger(task())
    configs = Uniform().draw(task().space, (), 0, range(30), 0)
    for budget in (1, 3):
        for number, config in enumerate(configs):
            evaluated(ledger, number, config, budget)
            seen = configs[: number + 1]
            found = [task().problem(each, task().fidelity(budget)) for each in seen]
            best = max(range(len(found)), key=found.__getitem__)
            assert ledger.steps[-1][2:] == (budget, configs[best], found[best])


def test_a_full_run_costs_one() -> None:
    assert task().full_run == FULL == 357
    assert played("once").spent == FULL
    assert played("uniform").spent == float(Schedule.of(3, 1, 27, width=4).cost_resumed) == 1446
    assert played("once-3").spent == float(Schedule.of(3, 1, 9).cost_resumed)
    assert task("rbv2_xgboost").fidelity(27) == 1
    assert [int(task().fidelity(budget)) for budget in (1, 3, 9, 27)] == [1, 5, 17, 52]


# Simulated workers


class Listed:
    """A tuner with a list of budgets, which waits for the first result before the third."""

    def __init__(self, config: Config, budgets: list[int]) -> None:
        self._config, self._budgets = config, budgets
        self._asked = 0
        self.told: list[float] = []

    def ask(self) -> Evaluation | None:
        waits = self._asked == 2 and not self.told
        if waits or self._asked == len(self._budgets):
            return None
        self._asked += 1
        return Evaluation(self._asked, self._config, self._budgets[self._asked - 1])

    def tell(self, evaluation: Evaluation, accuracy: float) -> None:
        self.told.append(evaluation.budget)


def test_a_free_worker_starts_what_a_tuner_asks_for() -> None:
    """On three workers: 5 and 9 start at 0, one worker waits until 5, then 1 and 3 start."""
    (config,) = Uniform().draw(task().space, (), 0, [0], 0)
    tuner, ledger = Listed(config, [5, 9, 1, 3]), Ledger(task(), workers=3)
    search(tuner, ledger)
    assert tuner.told == [5, 1, 3, 9]
    assert (ledger.spent, ledger.time) == (18, 9)
    assert [step[:3] for step in ledger.steps] == [(5, 5, 5), (18, 9, 9)]


def test_what_ends_when_the_time_is_over_does_not_count() -> None:
    (config,) = Uniform().draw(task().space, (), 0, [0], 0)
    tuner, ledger = Listed(config, [9, 5, 3, 3]), Ledger(task(), workers=2)
    ledger.limit = 2 * 8
    with pytest.raises(SpentError):
        search(tuner, ledger)
    assert tuner.told == [5, 3]  # at 5 and 8; the others would end at 9 and 11
    assert (ledger.spent, ledger.time) == (8, 8)


def test_a_run_without_a_result_is_an_error() -> None:
    with pytest.raises(DeepbandError, match="random has no result on lcbench 7"):
        rows_of(Ledger(task(), workers=100), Unit("lcbench", "7", "random"), 0)


def test_a_training_is_continued_only_when_it_has_ended() -> None:
    """On two workers: the same training starts twice at 0 and once more at 3."""
    (config,) = Uniform().draw(task().space, (), 0, [0], 0)
    ledger = Ledger(task(), workers=2)
    for _ in range(2):
        ledger.start(Evaluation("a", config, 3))
    ledger.end()
    assert (ledger.spent, ledger.time) == (3, 3)
    ledger.start(Evaluation("a", config, 9))
    ledger.end()
    assert (ledger.spent, ledger.time) == (6, 3)
    ledger.end()
    assert (ledger.spent, ledger.time) == (12, 9)


@pytest.mark.parametrize(
    "name",
    ["uniform", "gp", "tpe", "auto", "random", pytest.param("dehb", marks=pytest.mark.heavy)],
)
def test_a_method_uses_several_workers(name: str) -> None:
    first, again = (Ledger(task(max_budget=9), 2, workers=4) for _ in range(2))
    for ledger in (first, again):
        play(name, ledger, 3, ROOT / PEERS_PYTHON)
    assert first.steps == again.steps
    assert first.spent <= 4 * first.time <= first.limit
    assert first.spent > 2 * first.time
    times = [step.time for step in first.steps]
    assert times == sorted(times)


def test_optuna_trains_several_trials_at_a_time() -> None:
    first, again = (Ledger(task(max_budget=9), 2, workers=4) for _ in range(2))
    for ledger in (first, again):
        play("optuna-tpe", ledger, 3)
    assert first.steps == again.steps
    assert 3.5 * first.time < first.spent <= 4 * first.time  # it waits for nothing


def test_with_one_worker_the_time_is_what_was_spent() -> None:
    for name in ("uniform", "optuna-tpe"):
        ledger = played(name, max_budget=9)
        assert [step.time for step in ledger.steps] == [step.spent for step in ledger.steps]
        assert ledger.time == ledger.spent


# The methods


PLAYED = [name for name in METHODS if name not in HOSTED]
SAME = {f"{name}-{guess}" for name in ("tpe", "forest", "gp", "prior") for guess in (3, 9)}
"""Methods that guess a budget as `uniform-3` and `uniform-9` do, with another sampler."""
SLOW = {"forest"}
"""Does as `tpe`, with another sampler."""


@pytest.mark.parametrize(
    "name",
    [pytest.param(name, marks=pytest.mark.heavy if name in SAME | SLOW else ()) for name in PLAYED],
)
def test_a_method_spends_what_it_may(name: str) -> None:
    first = played(name, scenario="rbv2_xgboost", max_budget=9)
    budgets = [step.budget for step in first.steps]
    assert budgets == sorted(budgets)
    assert budgets[-1] == 9 or name.startswith((*methods.ENDING, "wider"))
    if name not in methods.ENDING:
        assert 0.95 * first.limit <= first.spent <= first.limit


@pytest.mark.heavy
@pytest.mark.parametrize("name", PLAYED)
def test_a_method_is_the_same_again(name: str) -> None:
    first, again = (played(name, scenario="rbv2_xgboost", max_budget=9) for _ in range(2))
    assert first.steps == again.steps


@pytest.mark.heavy
@pytest.mark.parametrize("name", HOSTED)
def test_a_tuner_ends_with_the_process_that_evaluates(name: str, tmp_path: Path) -> None:
    program = [str(PEERS_PYTHON.absolute()), "-W", "ignore", peer_worker.__file__]
    with subprocess.Popen(
        program,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        print(json.dumps(task_of(name, Ledger(task("lcbench")), 0)), file=process.stdin, flush=True)
        for number in range(3):
            assert json.loads(process.stdout.readline())
            print(json.dumps([number, 0.5]), file=process.stdin, flush=True)
        process.stdout.close()  # as if this process had been killed
        process.stdin.close()
        assert process.wait(60) == 1


@pytest.mark.heavy
@pytest.mark.parametrize("name", HOSTED)
def test_a_tuner_plays_in_an_environment_of_its_own(name: str) -> None:
    """The space has choices and conditions."""
    first, again = (played(name, scenario="rbv2_xgboost", max_budget=9) for _ in range(2))
    assert first.steps[-1].budget == 9
    assert 0.95 * first.limit <= first.spent <= first.limit
    assert first.steps == again.steps


@pytest.mark.heavy
def test_smac_has_several_objectives() -> None:
    """For `bench/objectives.py`. Promotion works although a front has results of two budgets."""
    names = {"objectives": ["error", "size"], "n_trials": 30}
    given = task_of("smac", Ledger(task("rbv2_xgboost", 9)), 0) | names
    budgets = []
    with started(PEERS_PYTHON.absolute(), given) as tuner:
        while (evaluation := tuner.ask()) is not None:
            budgets.append(evaluation.budget)
            tuner.send_loss(evaluation, [len(budgets) % 7, -len(budgets) % 5])
    assert len(budgets) == 30
    assert set(budgets) == {1, 3, 9}


@pytest.mark.heavy
def test_what_a_tuner_says_when_it_fails_is_shown() -> None:
    """Here it is started by a Python interpreter that does not have it."""
    with pytest.raises(DeepbandError, match=r"dehb failed: [^$]*No module named 'dehb'"):
        play("dehb", Ledger(task()), 0, Path(sys.executable))


def test_a_tuner_that_fails_is_reported_although_time_runs_out(tmp_path: Path) -> None:
    """It has sent one evaluation, which would end too late, and no other one."""
    ledger = Ledger(task(), workers=2)
    ledger.limit = 1
    python = program(tmp_path / "python", "read task", "echo '[0, {}, 27]'", "nonsense", "exit 1")
    with pytest.raises(DeepbandError, match=r"dehb failed: [^$]*nonsense"):
        play("dehb", ledger, 0, python)


@pytest.mark.parametrize("name", SEQUENTIAL)
def test_a_sequential_tuner_refuses_several_workers(name: str) -> None:
    with pytest.raises(InputError, match=f"{name} runs on one worker, but 2 were given"):
        play(name, Ledger(task(), workers=2), 0)


def test_every_method_stands_in_one_table() -> None:
    assert sorted(METHODS) == sorted([*RIGHT, *SMALL, *methods.ENDING])
    drawn = {name for names in panels(METHODS).values() for name in names}
    assert drawn == {*RIGHT, *SMALL, *RULES}
    assert panels(["once"]) == {}


def test_a_guess_that_is_too_small_is_made_first() -> None:
    first = played("once-9")
    for name in ("uniform-9", "frugal-9", "pasha"):
        other = played(name)
        assert other.steps[: len(first.steps)] == first.steps
        assert other.spent > first.spent


def test_a_width_of_four_is_one_study_widened_three_times() -> None:
    """What the docs show in five lines of the public API."""
    ledger, costs = played("uniform"), [423, 423, 450, 423]
    study = deepband.open_study(
        space=task().space, max_budget=27, seed=3, maximize=True, sampler="uniform"
    )
    problem, spent = task().problem, []
    for width in (1, 2, 3, 4):
        study.widen(to=width)
        study.optimize(lambda config, budget: problem(config, task().fidelity(budget)))
        spent.append(float(sum(run.cost_resumed for run in study.runs)))
    assert [run.cost for run in study.runs] == costs
    assert sum(costs) == 1719
    assert spent == [357, 714, 1089, 1446]
    assert (ledger.spent, ledger.steps[-1].config) == (spent[-1], study.best_at(3).config)


def test_a_wider_comparison_begins_like_a_narrower_one() -> None:
    for sampler in ("prior", "uniform"):
        first = Ledger(task(max_budget=9), width=1)
        play(sampler, first, 1)
        whole = Ledger(task(max_budget=9), width=2)
        play(sampler, whole, 1)
        assert (first.spent, whole.spent) == (first.limit, whole.limit)
        assert whole.steps[: len(first.steps)] == first.steps


@pytest.mark.parametrize(("sign", "deeper"), [(1, False), (-1, True)])
def test_pasha_goes_deeper_unless_two_rungs_rank_alike(sign: int, deeper: bool) -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=27, seed=0)
    study.optimize(lambda config, budget: config["x"] * (sign if budget == 27 else 1))
    assert ranks_differ(study) is deeper


def test_pasha_goes_deeper_where_nobody_is_ranked() -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=1)
    study.optimize(lambda config, budget: config["x"])
    assert ranks_differ(study)


def limits(max_cost: int = 10_000, max_budget: int = 27) -> Automatic:
    return Automatic("preserving", Fraction(max_cost), None, Fraction(max_budget))


@pytest.mark.parametrize("falls", [1, 0])
def test_auto_goes_by_the_advice(falls: int) -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=9, seed=0)
    study.optimize(lambda config, budget: config["x"] + falls / budget)
    step = RULES["auto"](study, limits())
    assert step == limits().decide(study.session.state)[0]
    assert (step is not None and step.max_budget == 27) == (study.advice().step == "deepen")


def test_pasha_ends_at_the_right_max_budget() -> None:
    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=1)
    study.optimize(lambda config, budget: config["x"])
    assert RULES["pasha"](study, limits(max_budget=3)) == Extension("preserving", Fraction(3))
    assert RULES["pasha"](study, limits(max_budget=2)) is None


def test_a_rule_is_a_method() -> None:
    """It is asked after each run, and obeyed."""
    asked = []

    def rule(study: deepband.Study, limits: Automatic) -> Extension | None:
        asked.append((study.max_budget, study.width))
        if study.max_budget == 3:
            return Extension("preserving", Fraction(9))
        return Extension("efficient", width=2) if study.width == 1 else None

    study = deepband.open_study(space={"x": (0.0, 1.0)}, max_budget=3)

    def run(study: deepband.Study) -> None:
        study.optimize(lambda config, budget: config["x"])

    run(study)
    extend_by_rule(study, rule, limits(), run)
    assert asked == [(3, 1), (9, 1), (9, 2)]
    deepen_preserving(study, 1, run)
    assert (study.max_budget, study.done) == (27, True)


@pytest.mark.parametrize("name", ["auto", "wider-9"])
def test_methods_that_widen_spend_no_more_than_they_may(name: str) -> None:
    ledger = Ledger(task("lcbench"), 1)
    play(name, ledger, 0)
    assert 0 < ledger.spent <= ledger.limit
    assert name == "auto" or ledger.steps[-1].budget == 3
    assert all(0 <= step.accuracy <= 1 for step in ledger.steps)


@pytest.mark.parametrize("scenario", REPORTING)
def test_optuna_suggests_whole_configs(scenario: str) -> None:
    space = task(scenario).space
    optuna.logging.set_verbosity(optuna.logging.ERROR)
    study = optuna.create_study(sampler=optuna.samplers.RandomSampler(seed=0))
    drawn = [suggested(study.ask(), space) for _ in range(50)]
    assert all(space.config(config) == config for config in drawn)
    assert {frozenset(config) for config in drawn} == {
        frozenset(config) for config in Uniform().draw(space, (), 0, range(200), 0)
    }


def test_seeds_differ_by_data_set() -> None:
    found = {seed_of(name, instance, 0) for name in TUNING for instance in TUNING[name]}
    assert len(found) == 16
    assert max(found) < 2**30


# Numbers from results made by hand


def made_results(**curves: Mapping[float, float]) -> dict[str, Any]:
    """Methods with the accuracies that they reach by what they spend; on data set "b" a tenth
    less, with the second seed a hundredth more."""
    rows = [
        ("lcbench", instance, name, seed, spent, 27.0, accuracy - less + more, 0.5)
        for name, points in ((name.replace("_", "-"), of) for name, of in curves.items())
        for instance, less in (("a", 0.0), ("b", 0.1))
        for seed, more in ((0, 0.0), (1, 0.01))
        for spent, accuracy in points.items()
    ]
    names = ("scenario", "instance", "method", "seed", "spent", "budget", "accuracy", "trained")
    return {
        name: np.array(column) for name, column in zip(names, zip(*rows, strict=True), strict=True)
    }


SCALES = {("lcbench", "a"): Reference(0.5, 0.9), ("lcbench", "b"): Reference(0.4, 0.9)}


def made(**more: Mapping[float, float]) -> Curves:
    given = {"uniform": {0.5: 0.7, 1.0: 0.8, 4.0: 0.8}, "tpe": {0.5: 0.6, 3.0: 0.89}}
    return Curves(made_results(**given, **more), SCALES, 4)


def test_regret_is_what_a_method_would_return() -> None:
    curves = made()
    assert curves.methods == ["uniform", "tpe"]
    assert curves.at("uniform", 0.4).tolist() == [[1, 1], [1, 1]]  # nothing is known yet
    # 0.9 is the best that is known on "a", 0.5 the median.
    assert curves.at("uniform", 0.5)[0] == pytest.approx([0.5, 0.475])
    assert curves.at("uniform", 0.99)[1] == pytest.approx([0.6, 0.58])
    assert curves.at("uniform", 1.0)[0] == pytest.approx([0.25, 0.225])
    assert curves.at("tpe", math.inf)[0] == pytest.approx([0.025, 0], abs=1e-12)
    assert curves.ends("tpe").tolist() == [[3, 3], [3, 3]]


def test_the_best_that_is_known_may_be_a_methods() -> None:
    curves = made(smac={1.0: 0.99})
    assert curves.at("smac", 1)[0] == pytest.approx([0.02, 0.0])
    assert curves.at("uniform", 1)[0] == pytest.approx([0.4, 0.38])


def test_a_method_may_have_fewer_seeds() -> None:
    """Differences are those of the seeds that both methods have."""
    results = made_results(uniform={1.0: 0.8}, smac={1.0: 0.7})
    fewer = (results["method"] != "smac") | (results["seed"] == 1)
    curves = Curves({name: column[fewer] for name, column in results.items()}, SCALES, 4)
    assert (curves.seeds("uniform"), curves.seeds("smac", "uniform")) == ([0, 1], [1])
    assert curves.at("smac", 1).shape == (2, 1)
    assert curves.differences("smac", "uniform", 1) == pytest.approx([0.1 / 0.4, 0.1 / 0.5])
    base, smac = method_regrets(curves, 1, RIGHT)
    assert (base.seeds, smac.seeds) == (2, 1)
    assert smac.duel is not None
    assert smac.duel.seeds == 1
    assert smac.duel.difference.mean == pytest.approx(0.225)
    assert "| smac | 1 | " in report(curves, curves)


def test_the_lowest_regret_is_that_of_methods_with_all_seeds() -> None:
    results = made_results(uniform={1.0: 0.7}, tpe={1.0: 0.75}, smac={1.0: 0.8})
    every = Curves(results, SCALES, 4)
    assert "Lowest regret: smac. Better" in report(every, every)
    fewer = (results["method"] != "smac") | (results["seed"] == 1)
    curves = Curves({name: column[fewer] for name, column in results.items()}, SCALES, 4)
    assert "Lowest regret of methods with 2 seeds: tpe. Better" in report(curves, curves)


def test_curves_of_several_workers_are_against_time() -> None:
    guesses = {"auto": {0.5: 0.7}, "once_9": {0.5: 0.7}, "wider_9": {0.5: 0.7}}
    results = made_results(uniform={0.5: 0.7, 1.0: 0.8}, **guesses)
    results["time"] = 2 * results["spent"]
    curves = Curves(results, SCALES, 4, workers=8)
    assert curves.at("uniform", 1)[0] == pytest.approx([0.5, 0.475])
    assert curves.ends("uniform").tolist() == [[2, 2], [2, 2]]
    assert curves.spent("uniform") == 1
    page = report(curves, curves)
    assert "8 simulated workers" in page
    assert "| uniform | 1.000 |" in page
    assert "### First guess right, the time of one full run" in page
    # These sections are about what methods spend, and the amounts are times.
    sections = ("### When to stop", "### Deeper, wider or done")
    alone = Curves(results, SCALES, 4)
    assert all(each in report(alone, alone) and each not in page for each in sections)


def test_slow_methods_have_three_seeds_at_most() -> None:
    many, few = (MethodComparison(data=data(), seeds=seeds) for seeds in (5, 1))
    found = [len(many.seeds_of(name)) for name in ("uniform", "dehb", "smac", "bohb")]
    assert found == [5, 5, 3, 3]
    assert len(few.seeds_of("smac")) == 1


def test_benchmarks_that_nothing_was_tuned_on_are_shown_together() -> None:
    results = made_results(uniform={1.0: 0.8}, tpe={1.0: 0.7})
    results["scenario"] = np.where(results["instance"] == "b", "rbv2_svm", "lcbench")
    scales = {("lcbench", "a"): Reference(0.5, 0.9), ("rbv2_svm", "b"): Reference(0.4, 0.9)}
    assert list(Curves(results, scales, 4).groups) == ["lcbench", "rbv2_svm"]
    curves = Curves(results, scales, 4, tuned=["lcbench"])
    assert curves.groups[UNSEEN].tolist() == [False, True]
    base, _ = method_regrets(curves, 1, RIGHT)
    assert base.by_group[UNSEEN] == base.by_group["rbv2_svm"] != base.by_group["lcbench"]


def test_bands() -> None:
    """Two data sets, 0 and 0.02: t with one degree of freedom is 12.706 at 97.5 %."""
    mean, low, high = Band.of(np.array([[0.0], [0.02]]))
    assert (mean[0], high[0]) == pytest.approx((0.01, 0.01 + 12.706 * 0.01), rel=1e-4)
    assert mean[0] - low[0] == pytest.approx(high[0] - mean[0])
    assert np.isnan(Band.of(np.array([[0.5]])).low[0])


def test_holm() -> None:
    assert holm([0.01, 0.04, 0.03]) == pytest.approx([0.03, 0.06, 0.06])
    assert holm([0.5, 0.6]) == [1, 1]
    assert holm([]) == []


def test_regrets_are_compared_with_uniform() -> None:
    base, tpe = method_regrets(made(), 4, RIGHT)
    assert base.duel is None
    assert tpe.duel is not None
    assert tpe.duel.difference.mean == pytest.approx(-(0.09 / 0.4 + 0.09 / 0.5) / 2)
    assert tpe.duel.p == 0.5  # of two pairs nothing smaller can come
    assert tpe.duel.verdict == "open"
    assert tpe.duel._replace(p=0.01).verdict == "better"
    (better,) = (duel for duel in against_peers(made(smac={1.0: 0.95}), 4) if duel.method == "tpe")
    assert better._replace(p=0.01).verdict == "worse"


def test_the_best_of_our_samplers_is_tested_against_all_others() -> None:
    results = made_results(
        uniform={0.2: 0.8}, gp={0.2: 0.85}, smac={0.2: 0.7}, uniform_3={1.0: 0.9}
    )
    results["scenario"] = np.where(results["instance"] == "b", "rbv2_svm", "lcbench")
    scales = {("lcbench", "a"): Reference(0.5, 0.9), ("rbv2_svm", "b"): Reference(0.4, 0.9)}
    curves = Curves(results, scales, 1.5, tuned=["lcbench"])
    uniform, smac = of_the_best(curves, 1)
    assert (uniform.other, smac.other) == ("uniform", "smac")
    assert uniform.difference.mean == pytest.approx(-(0.05 / 0.41 + 0.05 / 0.5) / 2)
    assert smac.p == 1  # 0.5 twice
    (unseen, _) = of_the_best(curves, 1, UNSEEN)
    assert unseen.difference.mean == pytest.approx(-0.05 / 0.5)
    page = report(curves, curves)
    assert "### gp against all others on all data sets (2)" in page
    assert "### gp against all others on unseen benchmarks (1)" in page
    assert page.endswith("| uniform | 2 |  |  |  |\n| smac | 2 |  |  |  |\n")  # of one data set
    assert "| other | seeds | 0.25 full runs spent | 0.5 full runs spent | " in page
    assert "gp against" not in report(made(), made())


def test_where_to_end() -> None:
    once = {"once": {1.0: 0.801}, "once_3": {0.2: 0.8}, "once_9": {0.1: 0.7}}
    rules = {"pasha": {0.3: 0.8}, "auto": {0.15: 0.75}}
    found = {each.method: each for each in endings(made(**once, **rules))}
    assert found["pasha"].times == pytest.approx(1.5)  # a guess of 9 has the same for 0.2
    assert found["auto"].times == pytest.approx(0.75)  # the guess of 3 is not as good
    assert found["auto"].excess == pytest.approx(0)  # in the middle between two guesses
    assert found["pasha"].excess > 0  # 0.2 would do
    assert [found[name].times for name in ("once-9", "once-3")] == pytest.approx([1, 1])
    assert found["once"].times == pytest.approx(5)  # a thousandth more is not worth it
    best = {each.method: each for each in endings(made(**once, auto={3.0: 0.89}))}
    assert best["auto"].times == pytest.approx(3)  # all guesses are worse: over that of the best
    assert endings(made(**rules)) == []


def test_the_advice_is_compared_at_equal_cost() -> None:
    """The advice spends 0.5 everywhere; another method may still be in the middle of a run."""
    deeper, wider = {0.1: 0.6, 0.6: 0.85}, {0.1: 0.6, 0.4: 0.7}
    curves = made(auto={0.5: 0.8}, uniform_9=deeper, wider_9=wider)
    first, second = matches(curves)
    assert (first.other, second.other) == ("always deeper", "always wider")
    assert first.regret == pytest.approx(curves.at("uniform-9", 0.5).mean())
    assert first.difference.mean == pytest.approx(-(0.2 / 0.4 + 0.2 / 0.5) / 2)
    assert second.difference.mean == pytest.approx(-(0.1 / 0.4 + 0.1 / 0.5) / 2)
    assert second.average == pytest.approx(second.regret)
    page = equal_cost_report(curves, curves)
    assert page.count("| always wider |") == 2
    assert "spends 0.500 full runs" in page
    assert equal_cost_report(made(), made()) == ""


def test_the_page_says_where_a_peer_is_better() -> None:
    rng = np.random.default_rng(0)
    results = {name: [] for name in made_results(uniform={1: 0.5})}  # type: dict[str, list[Any]]
    scales = {}
    for number in range(12):
        scales["lcbench", str(number)] = Reference(0.5, 0.9)
        for name, accuracy in (("uniform", 0.7), ("tpe", 0.75), ("smac", 0.8)):
            row = ("lcbench", str(number), name, 0, 1.0, 27.0, accuracy + 0.01 * rng.random(), 0.5)
            for column, value in zip(results.values(), row, strict=True):
                column.append(value)
    curves = Curves({name: np.array(each) for name, each in results.items()}, scales, 4)
    page = report(curves, curves)
    assert "Deeper, wider or done" not in page
    assert "Lowest regret: smac. Better than uniform: tpe, smac. Worse: none." in page
    assert "- Against smac: uniform, tpe worse." in page
    assert page.count("### First guess right") == 2
    assert "too small" not in page


def test_the_curves_are_drawn(tmp_path: Path) -> None:
    assert draw_curves(made(pasha={0.3: 0.8}), tmp_path / "curves.png")
    assert (tmp_path / "curves.png").read_bytes()[:4] == b"\x89PNG"


# The command


def compare(out: Path, *more: str) -> Result:
    given = ["compare", "--data", str(data()), "--out", str(out), "--seeds", "2", "--quick"]
    return CliRunner().invoke(main, [*given, "--max-budget", "9", "--workers", "1", *more])


@pytest.mark.heavy
def test_what_is_there_is_kept_and_methods_are_added(tmp_path: Path) -> None:
    out, other = tmp_path / "out", tmp_path / "other"
    first = compare(out, "--methods", "uniform,once")
    assert first.exit_code == 0, first.output
    parts = {part: part.stat().st_mtime_ns for part in out.glob("parts/*")}
    assert len(parts) == 16
    again = compare(out, "--methods", "random, prior")
    assert "4 methods on 8 data sets" in again.output
    assert {part: part.stat().st_mtime_ns for part in parts} == parts
    assert compare(other, "--methods", "uniform,once,prior,random", "--workers", "2").exit_code == 0
    for name in ("results.parquet", "tables.md", "settings.json"):
        assert (out / name).read_bytes() == (other / name).read_bytes()
    refused = compare(out, "--seeds", "3")
    assert "were started with seeds 2, but it is now 3" in refused.output


@pytest.mark.heavy
def test_a_comparison_in_simulated_time(tmp_path: Path) -> None:
    made = compare(tmp_path, "--simulated-workers", "4", "--methods", "uniform,gp")
    assert made.exit_code == 0, made.output
    found = read_columns(tmp_path / "results.parquet")
    assert (found["spent"] <= found["time"] * (1 + 1e-9)).all()
    limit = MethodComparison(data=data(), max_budget=9).limit
    assert 0.9 * limit < found["time"].max() <= limit * (1 + 1e-9)
    assert "the time of one full run" in (tmp_path / "tables.md").read_text()
    assert "regret against simulated time" in made.output


@pytest.mark.heavy
def test_a_comparison_of_one_full_run(tmp_path: Path) -> None:
    made = compare(tmp_path, "--width", "1", "--methods", "uniform,prior")
    assert made.exit_code == 0, made.output
    spent = read_columns(tmp_path / "results.parquet")["spent"]
    assert 0.9 < spent.max() <= 1 + 1e-9
    page = (tmp_path / "tables.md").read_text()
    assert page.count("one full run spent") == page.count("###") == 1


def test_settings_that_make_no_sense(tmp_path: Path) -> None:
    refused: list[tuple[dict[str, Any], str]] = [
        ({"seeds": 0}, "seeds is 0"),
        ({"max_budget": 10}, "give 9, 27, 81 or 243"),
        ({"width": 0}, "width is 0: give"),
        ({"methods": ("bowl",)}, "'bowl'"),
        ({"methods": ("bohb",), "peers_python": tmp_path / "python"}, "bohb needs"),
        ({"methods": ("dehb",), "peers_python": Path(sys.executable)}, "dehb needs"),
        ({"simulated_workers": 54}, "at max_budget 27. Give at most 53 workers"),
        *(
            ({"methods": (name,), "max_budget": 243}, f"{name} would start at budget 3")
            for name in HOSTED
        ),
    ]
    for given, message in refused:
        with pytest.raises(InputError, match=message):
            MethodComparison(data=data(), **given)
    with pytest.raises(InputError, match="smac is compared on one worker only"):
        MethodComparison(data=data(), methods=("smac",), simulated_workers=8)
    assert MethodComparison(data=data(), simulated_workers=53).simulated_workers == 53
    without = MethodComparison(data=data(), peers_python=tmp_path / "python")
    assert {*without.played} == {*METHODS} - {*HOSTED}
    assert {*PEERS} - {*without.played} == {*HOSTED} == {"smac", "bohb", "dehb"}
    assert {*SAMPLERS} <= {*without.played}
    assert len(list(without.units())) == len(without.played) * 28


def test_an_interpreter_is_asked_for_its_tuners(tmp_path: Path) -> None:
    python = interpreter(tmp_path / "some", "hpbandster")
    assert [name for name in HOSTED if methods.is_installed(name, python)] == ["bohb"]
    assert not methods.is_installed("bohb", Path(sys.executable))
    has_all = interpreter(tmp_path / "all", "smac", "hpbandster", "dehb")
    cases: list[tuple[dict[str, Any], set[str]]] = [
        ({}, set()),
        ({"simulated_workers": 8}, {"smac", "bohb"}),
        ({"max_budget": 243}, {*HOSTED}),
    ]
    for settings, left_out in cases:
        comparison = MethodComparison(data=data(), peers_python=has_all, **settings)
        assert {*METHODS} - {*comparison.played} == left_out


def interpreter(folder: Path, *packages: str) -> Path:
    """This interpreter, with more packages, which are empty."""
    for name in packages:
        (folder / name).mkdir(parents=True)
        (folder / name / "__init__.py").touch()
    return program(folder / "python", f'PYTHONPATH="{folder}" exec "{sys.executable}" "$@"')


def program(place: Path, *lines: str) -> Path:
    place.write_text("\n".join(["#!/bin/sh", *lines, ""]))
    place.chmod(0o755)
    return place
