"""The paper's study: its numbers, its figures' data, and that it goes on after a kill."""

from __future__ import annotations

import json
import os
import signal
import time
from collections.abc import Iterator
from dataclasses import replace
from fractions import Fraction
from functools import cache
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner

import oracle
from deepband import InputError
from deepband.core.schedule import Schedule
from deepband.core.strategies import StrategyName
from deepband.interfaces.cli import main
from deepband.research.paper import figures
from deepband.research.paper.courses import IH, METHODS, Course, Draws, Row, walk
from deepband.research.paper.figure_files import draw_all
from deepband.research.paper.replication import Replication, beyond_courses, paper_courses
from deepband.research.paper.savings import comparisons, losses
from deepband.research.paper.summaries import by_benchmark, by_data_set, csv
from deepband.research.paper.tables import report
from deepband.research.result_files import Columns, read_columns
from deepband.research.statistics import Difference
from deepband.research.yahpo import Scenario
from deepband.research.yahpo_columns import SCENARIOS
from deepband.samplers import Uniform
from deepband.space.search_space import Space
from driving import wait_until
from preloaded import Process
from surrogates import data, needs_published_data, published_data
from tiny_yahpo import INSTANCES

SLICE = Path(__file__).with_name("paper_slice.json")
SEEDS = 3


@cache
def draws(name: str, folder: Path | None = None) -> Draws:
    return Draws(Scenario(folder or data(), name))


@cache
def slice_of_the_study(folder: Path) -> list[Row]:
    """A data set of each scenario with few seeds, sorted."""
    return sorted(_slice_of_the_study(folder))


def _slice_of_the_study(folder: Path) -> Iterator[Row]:
    for name in SCENARIOS:
        drawn = draws(name, folder)
        for eta in (2, 3):
            courses = paper_courses(name, eta)
            instance = drawn.benchmark.instances[-1]
            yield from walk(drawn, instance, eta, courses, range(SEEDS), every_step=False)


@needs_published_data
def test_a_slice_of_the_study_is_as_stored() -> None:
    found = slice_of_the_study(published_data())
    kept = [Row(*row) for row in json.loads(SLICE.read_text())]
    assert len(found) == len(kept) == len(SCENARIOS) * 2 * SEEDS * len(METHODS)
    for ours, theirs in zip(found, kept, strict=True):
        # Accuracies are as equal as processors and versions of ONNX Runtime make them: its numbers
        # have 24 bits.
        top, best = theirs.accuracy_top, theirs.accuracy_any
        assert ours._replace(accuracy_top=top, accuracy_any=best) == theirs
        assert (ours.accuracy_top, ours.accuracy_any) == pytest.approx((top, best), abs=1e-5)


@pytest.mark.parametrize(
    ("name", "eta", "brackets"),
    [
        ("lcbench", 2, None),
        ("lcbench", 3, 1),
        ("rbv2_ranger", 2, 1),
        ("rbv2_ranger", 3, None),
        pytest.param("lcbench", 2, 1, marks=pytest.mark.heavy),
        pytest.param("lcbench", 3, None, marks=pytest.mark.heavy),
        pytest.param("rbv2_ranger", 2, None, marks=pytest.mark.heavy),
        pytest.param("rbv2_ranger", 3, 1, marks=pytest.mark.heavy),
    ],
)
def test_every_method_does_what_its_definition_says(
    name: str, eta: int, brackets: int | None
) -> None:
    """Against the algorithm written once more, with accuracies inferred one by one."""
    scenario = draws(name).benchmark
    instance, seed = scenario.instances[3], 4
    course = (Fraction(16), Fraction(16 * eta))
    problem = scenario.problem(instance, repl=seed % 10 + 1)
    schedule = Schedule.of(eta, 1, course[-1])
    unit = 1 if scenario.fidelity.whole else float(course[-1])
    space, sampler = Space(scenario.space), Uniform(64)

    @cache
    def loss(bracket: int, index: int, rung: int) -> float:
        (config,) = sampler.draw(space, [], bracket, [index], seed)
        return -problem(config, float(schedule.budget(rung)) / unit)

    walked = walk(draws(name), instance, eta, [course], [seed], False, brackets)
    rows = {row.method: row for row in walked}
    for method in METHODS:
        seen: oracle.Cells = {}
        first, _ = oracle.run(eta, schedule.top - 1, None, seen, loss, 1, brackets)
        if method == IH:
            seen = {}
        strategy = None if method == IH else method
        second, _ = oracle.run(eta, schedule.top, strategy, seen, loss, 1, brackets)
        counts = [{cell: len(each) for cell, each in run.items()} for run in (first, second)]
        told = {(*cell, i) for run in (first, second) for cell, each in run.items() for i in each}
        top = {(b, i) for (b, k), each in seen.items() if k == schedule.top for i in each}
        row = rows[method]
        assert row.budget == float(sum(schedule.cost_of(each) for each in counts))
        assert row.budget_resumed == float(sum(schedule.cost_resumed_of(each) for each in counts))
        assert row.evaluations == sum(sum(each.values()) for each in counts)
        assert row.accuracy_top == -min(loss(b, i, schedule.top) for b, i in top)
        assert row.accuracy_any == -min(loss(b, i, k) for b, k, i in told)


def test_costs_that_are_the_same_in_every_run() -> None:
    """1500 and 890.67 units for IH-HB at R = 16, 1128 and 752 for efficient deepening."""
    for row in slice_of_the_study(data()):
        if row.scenario != "nb301":
            exact = {(IH, 2): 1500.0, (IH, 3): 2672 / 3}
            exact |= {("efficient", 2): 1128.0, ("efficient", 3): 752.0}
            if (row.method, row.eta) in exact:
                assert row.budget == exact[row.method, row.eta]


def test_discarding_returns_what_a_rerun_returns() -> None:
    rows = slice_of_the_study(data())
    reruns = {row[:4]: row.accuracy_top for row in rows if row.method == IH}
    ours = {row[:4]: row.accuracy_top for row in rows if row.method == "discarding"}
    assert ours == reruns


def test_costs_of_successive_halving() -> None:
    """Every rung of the only bracket costs R: with eta 2, 5 rungs of 16 and 6 of 32; with eta 3,
    3 rungs of 16 and 4 of 48. `efficient` pays for the larger run only."""
    exact = {(IH, 2): 272, (IH, 3): 240, ("efficient", 2): 192, ("efficient", 3): 192}
    drawn = draws("lcbench")
    for eta in (2, 3):
        courses, instance = paper_courses("lcbench", eta), drawn.benchmark.instances[0]
        for row in walk(drawn, instance, eta, courses, range(SEEDS), False, brackets=1):
            if (row.method, eta) in exact:
                assert row.budget == exact[row.method, eta]


def test_courses() -> None:
    def numbers(courses: list[Course]) -> list[list[float]]:
        return [[float(budget) for budget in course] for course in courses]

    assert numbers(paper_courses("lcbench", 3)) == [[16, 48]]
    assert numbers(paper_courses("nb301", 2)) == [[32, 64]]
    series, *jumps = numbers(beyond_courses("rbv2_svm", 2))
    assert series == [2, 4, 8, 16, 32]
    assert jumps == [[2, 32], [4, 32], [8, 32], [16, 32]]
    assert numbers(beyond_courses("lcbench", 3))[0] == [16 / 3, 16, 48]


# Numbers and figures from results made by hand


def made_results() -> Columns:
    """Two data sets, two seeds, one eta: preserving is better on the second data set."""
    better = {"a": 0.0, "b": 0.02}
    rows = [
        {
            "scenario": "lcbench",
            "instance": instance,
            "eta": 2,
            "seed": seed,
            "method": method,
            "max_budget": 32.0,
            "accuracy_top": 0.5 + seed / 10 + better[instance] * (method == "preserving"),
            "accuracy_any": 0.9,
            "budget": {IH: 1500.0, "discarding": 1200.0 - 75 * seed}.get(method, 1128.0),
            "budget_resumed": 800.0 if method != IH else 1000.0,
            "evaluations": 100,
        }
        for instance in better
        for seed in (0, 1)
        for method in METHODS
    ]
    return {name: np.array([row[name] for row in rows]) for name in rows[0]}


def test_savings_and_differences() -> None:
    found = {each.method: each for each in comparisons(made_results())}
    assert found["discarding"].saving == pytest.approx((0.225, 0.2, 0.25))
    assert found["discarding"].saving_of_means == pytest.approx((0.225, 0.225, 0.225))
    assert found["discarding"].saving_resumed == pytest.approx((0.2, 0.2, 0.2))
    assert found["discarding"].saving_resumed_of_means == pytest.approx((0.2, 0.2, 0.2))
    assert found["discarding"].top == (0, 0, 0, 1, 2)
    assert found["discarding"].same == 1
    assert found["preserving"].same == 0.5
    assert found["preserving"].top.mean == pytest.approx(0.01)
    # Two differences, 0 and 0.02: t with one degree of freedom is 12.706 at 97.5 %.
    assert found["preserving"].top.high == pytest.approx(0.01 + 12.706 * 0.01, rel=1e-4)
    assert found["preserving"].top.pairs == 2


def test_nothing_is_said_of_a_single_pair() -> None:
    alone = Difference.of(np.array([0.0001]))
    assert not alone.negligible
    assert str(alone) == "+0.00010 (one pair)"


def test_few_different_pairs_are_tested_exactly() -> None:
    """Five of 96 differ, all in one direction: 2 / 2**5."""
    assert Difference.of(np.array([0.0] * 91 + [1.0, 2, 3, 4, 5])).p == 2 / 2**5


def test_a_difference_is_negligible_with_its_whole_interval_only() -> None:
    small = np.full(50, 0.0001) + np.linspace(-1e-5, 1e-5, 50)
    assert Difference.of(small).negligible
    assert Difference.of(small).p < 1e-6
    assert not Difference.of(np.array([-0.5, 0.5001] * 20)).negligible


def test_answers_follow_from_the_numbers() -> None:
    results = made_results()
    page = " ".join(report(list(comparisons(results)), list(by_benchmark(results))).split())
    assert "`discarding`: the same accuracy as IH-HB in each of 4 runs" in page
    assert (
        "eta 2, `discarding`: saves 22.5% of IH-HB's budget on average; data-set means 22.5% to "
        "22.5%, single runs (of 4) 20.0% to 25.0%." in page
    )
    assert "| lcbench | 2 | discarding | 22.5% | 22.5% | 22.5% | 20.0% | 25.0% |" in page
    assert "| lcbench | 2 | efficient | 20.0% | 20.0% | 20.0% | 20.0% | 20.0% |" in page
    absolute = "| lcbench | 2 | discarding | 1,162.5 (1,125.0 to 1,200.0) | 800.0 | 100.0 | "
    assert absolute + "0.5500 (0.5000 to 0.6000) | 0.9000 |" in page


def test_every_data_set_has_its_own_line() -> None:
    header, *lines = csv(by_data_set(made_results()))
    assert header.startswith("benchmark,data_set,eta,method,runs,budget_mean,budget_min,budget_max")
    assert len(lines) == 2 * len(METHODS)
    assert len({line.count(",") for line in (header, *lines)}) == 1
    assert lines[1].startswith("lcbench,a,2,discarding,2,1162.5,1125,1200,800,800,800,100,")
    assert lines[6].endswith(",0.57,0.52,0.62,0.9,0.9,0.9")


def test_the_data_of_the_scatter_and_the_violins() -> None:
    points = figures.incumbents(made_results())["lcbench", 2]
    assert points["preserving"] == [pytest.approx((0.55, 0.55)), pytest.approx((0.55, 0.57))]
    assert points["efficient"] == [pytest.approx((0.55, 0.55)), pytest.approx((0.55, 0.55))]
    spent = figures.budgets(made_results())["lcbench", 2]
    assert spent["discarding"] == [1200, 1125, 1200, 1125]
    assert spent[IH] == [1500] * 4
    means = figures.mean_budgets(made_results())["lcbench", 2]
    assert means["discarding"] == [1162.5, 1162.5]
    assert means[IH] == [1500] * 2


def test_the_data_of_theorem_2() -> None:
    """R = 16, eta 2, s = 1: n = ceil(5 * 2 / 2) = 5, n_old = ceil(4 * 1 / 1) = 4."""
    saved = 2 * (4 * 16 + 2) * 1 - 3 * (2 * 16 + 5)
    bound = 2 * (5 * 16 + 2) * 1 - 3 * (16 + 5)
    assert figures.pulls("efficient", 2)[16][0] == (1, 1 - saved / bound)
    saved = 1 * (2 * 2 + 16 * 4) - 3 * (16 + 5)
    assert figures.pulls("discarding", 2)[16][0] == (1, 1 - saved / bound)
    assert [len(curve) for curve in figures.pulls("efficient", 3).values()] == [4, 6, 8, 10, 12]
    assert max(y for curve in figures.pulls("discarding", 3).values() for _, y in curve) == 1
    # A rerun pulls 5 * 8 + 2 * 16 = 72; efficient saves 4 * 8, discarding at least as much.
    assert figures.counted_pulls("efficient", 2)[16][0] == (1, 40 / 72)
    assert figures.counted_pulls("discarding", 2)[16][0] == (1, 40 / 72)
    assert figures.counted_pulls("efficient", 2).keys() == figures.pulls("efficient", 2).keys()


@pytest.mark.parametrize(
    ("strategy", "anew"), [("discarding", 274), ("preserving", 262), ("efficient", 244)]
)
def test_the_data_of_the_illustration(strategy: StrategyName, anew: int) -> None:
    counts = figures.deepening(strategy)
    now, before = Schedule.of(2, 1, 16), Schedule.of(2, 1, 8)
    for cell, count in counts.items():
        assert count.taken + count.left == before.counts().get(cell, 0)
        assert count.taken + count.new == now.slots(*cell)
    assert sum(count.new * 2**rung for (_, rung), count in counts.items()) == anew
    assert any(count.left for count in counts.values()) == (strategy != "efficient")


@pytest.mark.heavy  # test_the_paper_s_study_needs_no_data looks at the same files
def test_every_figure_is_drawn(tmp_path: Path) -> None:
    files = draw_all(made_results(), tmp_path / "figures")
    names = ["incumbents", "budgets", "pulls", "deepening"]
    assert [file.name for file in files] == [
        f"{name}.{kind}" for name in names for kind in ("pdf", "png")
    ]
    for file in files:
        assert file.read_bytes()[:4] in (b"%PDF", b"\x89PNG")


# The command


PARTS = 2 * (len(INSTANCES["lcbench"]) + 1)
"""Parts of the results that `command` writes: one per data set and eta."""


def command(out: Path, *more: str) -> list[str]:
    given = ["paper", "--data", str(data()), "--out", str(out), "--scenario", "lcbench"]
    return [*given, "--scenario", "nb301", "--seeds", "1", *more]


@pytest.mark.heavy
def test_killed_and_run_again_the_results_are_the_same(tmp_path: Path) -> None:
    undisturbed, killed = tmp_path / "undisturbed", tmp_path / "killed"
    assert CliRunner().invoke(main, command(undisturbed, "--workers", "1")).exit_code == 0
    arguments = ["-m", "deepband", *command(killed, "--workers", "2")]
    process = Process(arguments, start_new_session=True)
    wait_until(lambda: len(parts(killed)) >= 5)
    process.kill()
    process.wait()
    wait_until(lambda: not is_alive(process.pid))  # the workers end with their driver
    done = {part: part.stat().st_mtime_ns for part in parts(killed)}
    assert 5 <= len(done) < PARTS
    assert not (killed / "results.parquet").exists()
    again = CliRunner().invoke(main, command(killed, "--workers", "2"))
    assert again.exit_code == 0, again.output
    assert f"{len(done)} of {PARTS} parts" in again.output
    assert {part: part.stat().st_mtime_ns for part in done} == done
    for name in ("results.parquet", "settings.json", "tables.md", "data_sets.csv"):
        assert (killed / name).read_bytes() == (undisturbed / name).read_bytes()


def parts(out: Path) -> list[Path]:
    return sorted(out.glob("parts/paper/[!.]*.parquet"))


def is_alive(session: int) -> bool:
    try:
        os.killpg(session, 0)
    except ProcessLookupError:
        return False
    return True


@pytest.mark.parametrize("times", [1, pytest.param(2, marks=pytest.mark.heavy)])
def test_interrupted_it_stops_and_says_how_to_go_on(times: int, tmp_path: Path) -> None:
    arguments = ["-m", "deepband", *command(tmp_path / "out", "--seeds", "10")]
    with (tmp_path / "errors").open("w") as errors:
        process = Process(arguments, start_new_session=True, stderr=errors)
    wait_until(lambda: parts(tmp_path / "out"))
    for _ in range(times):
        os.killpg(process.pid, signal.SIGINT)
        time.sleep(0.05)
    assert process.wait(timeout=60) in (
        130,
        -signal.SIGINT,
    )
    assert len(parts(tmp_path / "out")) < 40
    if times == 1:
        said = (tmp_path / "errors").read_text()
        assert said == "Interrupted. Finished work is saved: run the command again to resume.\n"


def test_a_part_that_is_not_whole_is_made_again(tmp_path: Path) -> None:
    replication = Replication(data=data(), scenarios=("nb301",), etas=(2,), seeds=1)
    replication.prepare(tmp_path)
    (unit,) = replication.units()
    assert not replication.is_done(tmp_path, unit)
    assert replication.run(tmp_path, unit) == unit
    assert replication.is_done(tmp_path, unit)
    place, other = replication.place(tmp_path, unit), unit._replace(eta=3)
    whole = place.read_bytes()
    for broken in (whole[:-20], whole[:4] + bytes(200) + whole[204:], b""):
        place.write_bytes(broken)
        assert not replication.is_done(tmp_path, unit)
    place.write_bytes(whole)
    assert not replication.is_done(tmp_path, other)
    replication.place(tmp_path, other).write_bytes(whole)
    assert not replication.is_done(tmp_path, other)


def test_results_of_different_settings_are_not_mixed(tmp_path: Path) -> None:
    def replication(seeds: int) -> Replication:
        return Replication(data=data(), scenarios=("nb301",), seeds=seeds)

    replication(1).prepare(tmp_path / "out")
    replication(1).prepare(tmp_path / "out")
    with pytest.raises(InputError, match="were started with seeds 1, but it is now 2"):
        replication(2).prepare(tmp_path / "out")
    with pytest.raises(InputError, match="were started with brackets all, but it is now 1"):
        replace(replication(1), brackets=1).prepare(tmp_path / "out")
    (tmp_path / "mine").mkdir()
    (tmp_path / "mine" / "thesis.tex").touch()
    with pytest.raises(InputError, match="contains other files"):
        replication(1).prepare(tmp_path / "mine")


@pytest.mark.heavy
def test_beyond_the_paper(tmp_path: Path) -> None:
    """All steps of a course and all jumps: efficient deepening never costs more than knowing."""
    out = tmp_path / "out"
    given = ["paper", "--data", str(data()), "--out", str(out), "--scenario", "nb301"]
    result = CliRunner().invoke(
        main, [*given, "--seeds", "1", "--eta", "3", "--workers", "1", "--beyond"]
    )
    assert result.exit_code == 0, result.output
    found = list(losses(read_columns(out / "beyond.parquet")))
    assert {each.course for each in found} == {
        "3.556, 10.67, 32, 96",
        "3.556, 96",
        "10.67, 96",
        "32, 96",
    }
    fresh = [Schedule.of(3, 1, Fraction(96, 3**step)).cost for step in range(4)]
    for each in found:
        if each.method == "efficient":
            assert each.budget == pytest.approx(0, abs=1e-12)
        if each.method == "discarding":
            assert each.accuracy.mean == 0
        if each.method == IH and each.deepenings == 3:
            assert each.budget == pytest.approx(float(sum(fresh[1:]) / fresh[0]))
    assert "more budget than a single run" in (out / "tables.md").read_text()
    assert len((out / "data_sets.csv").read_text().splitlines()) == 1 + len(METHODS)


def test_the_view_of_successive_halving(tmp_path: Path) -> None:
    """One bracket in all studies; what a course costs is relative to one bracket, too."""
    given = ["--eta", "3", "--workers", "1", "--isha", "--beyond"]
    result = CliRunner().invoke(main, [*command(tmp_path / "out"), *given])
    assert result.exit_code == 0, result.output
    page = (tmp_path / "out" / "tables.md").read_text()
    assert "`discarding`: the same accuracy as IH-SHA in each of" in page
    assert "IH-HB" not in page
    assert "`efficient`: 0.0% to 0.0% more budget than a single run" in page
    results = read_columns(tmp_path / "out" / "results.parquet")
    lcbench = results["scenario"] == "lcbench"
    assert set(results["budget"][lcbench & (results["method"] == IH)]) == {240}
    figures = {file.stem for file in (tmp_path / "out" / "figures").iterdir()}
    assert figures == {"incumbents", "budgets"}


@pytest.mark.parametrize(
    ("given", "why"),
    [
        (["--data", "nowhere"], "There is no folder 'nowhere'. Give --data synthetic, or"),
        (["--data", "."], "lacks config_space.json"),
        (["--data", ".", "--workers", "0"], "0 is not in the range"),
        (["--data", ".", "--seeds", "0"], "seeds is 0"),
        (["--data", ".", "--eta", "1"], "eta is 1"),
        (["--data", "{tiny}", "--eta", "4"], "ends at 52"),
        (["--data", ".", "--scenario", "iaml"], "'iaml'"),
    ],
)
def test_wrong_usage(given: list[str], why: str, tmp_path: Path) -> None:
    result = CliRunner(env={"YAHPO_DATA": ""}).invoke(
        main,
        ["paper", "--out", str(tmp_path / "out"), *(each.format(tiny=data()) for each in given)],
    )
    assert result.exit_code == 2
    assert why in result.output


if __name__ == "__main__":  # after a change that is meant to change results
    rows = ",\n".join(json.dumps(row) for row in slice_of_the_study(published_data()))
    SLICE.write_text(f"[\n{rows}\n]\n")
