"""Synthetic benchmarks: known optima, what each family promises, and the commands that use them."""

from __future__ import annotations

import pickle
from pathlib import Path

import numpy as np
import pytest
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from deepband import InputError
from deepband.core.facts import Config
from deepband.interfaces.cli import main
from deepband.research.benchmark import Benchmark
from deepband.research.compare.method_comparison import MethodComparison
from deepband.research.compare.methods import METHODS, is_quick
from deepband.research.paper.replication import Replication
from deepband.research.result_files import read_columns
from deepband.research.suites import SYNTHETIC, read_benchmark, read_space, suite
from deepband.research.synthetic import CURVES, INSTANCES, PARAMETERS, Family
from deepband.samplers import Uniform

SHARES = (0.01, 0.037, 0.1, 1 / 3, 1.0)
shares = st.floats(0, 1)
configs = st.fixed_dictionaries({"x": shares, "y": shares, "z": shares})


def sampled(name: str, count: int) -> list[Config]:
    return Uniform().draw(read_space(SYNTHETIC, name), (), 0, range(count), 0)


def ranks(family: Family, instance: str, found: list[Config], share: float) -> list[int]:
    values = family.problem(instance).accuracies(found, [share] * len(found))
    return [int(place) for place in np.argsort(values)]


@given(name=st.sampled_from(list(CURVES)), instance=st.sampled_from(INSTANCES), config=configs)
def test_the_known_optimum_is_the_optimum(name: str, instance: str, config: Config) -> None:
    family = Family(name)
    problem = family.problem(instance)
    optimum = dict(zip(PARAMETERS, family.optimum(instance), strict=True))
    assert problem(optimum, 1.0) == family.best_accuracy(instance)
    assert problem(config, 1.0) <= family.best_accuracy(instance)
    moved = optimum | {"x": optimum["x"] + 0.001}
    assert problem(moved, 1.0) < family.best_accuracy(instance)


@pytest.mark.parametrize("name", CURVES)
def test_accuracies_are_fractions_and_the_same_in_any_batch(name: str) -> None:
    family, found = Family(name), sampled(name, 300)
    problem = pickle.loads(pickle.dumps(family.problem("2", repl=3)))
    budgets = [SHARES[number % len(SHARES)] for number in range(len(found))]
    whole = problem.accuracies(found, budgets)
    assert whole.min() >= 0
    assert whole.max() <= 1
    for number in range(0, 300, 7):
        assert problem(found[number], budgets[number]) == whole[number]


@pytest.mark.parametrize("instance", INSTANCES)
def test_stable_curves_have_one_ranking(instance: str) -> None:
    family, found = Family("synthetic-stable"), sampled("synthetic-stable", 50)
    assert len({tuple(ranks(family, instance, found, share)) for share in SHARES}) == 1


@pytest.mark.parametrize("instance", INSTANCES)
def test_slow_starters_win_on_crossing_curves(instance: str) -> None:
    family, found = Family("synthetic-crossing"), sampled("synthetic-crossing", 200)
    first, last = (found[ranks(family, instance, found, share)[-1]] for share in (0.03, 1.0))
    assert first["z"] < last["z"]
    problem = family.problem(instance)
    assert problem(first, 0.03) > problem(last, 0.03)
    assert problem(first, 1.0) < problem(last, 1.0)


def test_noise_differs_between_repetitions_and_vanishes() -> None:
    family, found = Family("synthetic-noisy"), sampled("synthetic-noisy", 50)
    one, other = (family.problem("1", repl) for repl in (1, 2))
    assert (one.accuracies(found, [0.1] * 50) != other.accuracies(found, [0.1] * 50)).all()
    assert (one.accuracies(found, [1.0] * 50) == other.accuracies(found, [1.0] * 50)).all()


def test_unknown_names() -> None:
    with pytest.raises(InputError, match="synthetic-stable"):
        Family("synthetic-stabel")
    with pytest.raises(InputError, match="data set of synthetic-noisy"):
        Family("synthetic-noisy").problem("7")


@pytest.mark.parametrize("data", ["synthetc", "nowhere/yahpo_data", Path("nowhere")])
def test_data_that_does_not_exist(data: str | Path) -> None:
    with pytest.raises(InputError, match=r"There is no folder .* Give --data synthetic, or the"):
        suite(data)


def test_a_suite_has_all_its_data_sets() -> None:
    found = suite(SYNTHETIC)
    for name in found.names:
        benchmark: Benchmark = read_benchmark(SYNTHETIC, name)
        tuning, reporting = (found.instances[each][name] for each in ("tuning", "reporting"))
        assert (*tuning, *reporting) == benchmark.instances


def run(*arguments: str) -> Result:
    result = CliRunner(env={"YAHPO_DATA": ""}).invoke(main, arguments)
    assert result.exit_code == 0, result.output
    return result


@pytest.mark.heavy  # light tests do the same with smaller surrogates
def test_the_paper_s_study_needs_no_data(tmp_path: Path) -> None:
    out = tmp_path / "results"
    result = run("paper", "--out", str(out), "--seeds", "1", "--workers", "1", "--eta", "3")
    assert result.output.startswith("Synthetic benchmarks: learning curves by formula")
    results = read_columns(out / "results.parquet")
    assert len(results["seed"]) == len(CURVES) * len(INSTANCES) * 4
    assert (results["accuracy_top"] <= 0.9).all()
    page = (out / "tables.md").read_text()
    assert page.startswith("Synthetic benchmarks:")
    assert "| synthetic-crossing | 3 | preserving |" in page
    assert "lcbench" not in page
    assert "onnxruntime" not in (out / "settings.json").read_text()
    for name in ("incumbents", "budgets", "pulls", "deepening"):
        assert (out / "figures" / f"{name}.pdf").read_bytes().startswith(b"%PDF")
        assert (out / "figures" / f"{name}.png").read_bytes().startswith(b"\x89PNG")


@pytest.mark.heavy  # light tests do the same with smaller surrogates
def test_the_comparison_needs_no_data(tmp_path: Path) -> None:
    out = tmp_path / "compared"
    small = ("--seeds", "1", "--workers", "1", "--quick", "--max-budget", "9", "--width", "1")
    result = run("compare", "--out", str(out), "--methods", "uniform,prior-3,once,random", *small)
    assert result.output.startswith("Synthetic benchmarks: learning curves by formula")
    assert "4 methods on 6 data sets" in result.output
    assert (out / "tables.md").read_text().startswith("Synthetic benchmarks:")
    assert (out / "curves.png").exists()


def test_defaults_need_neither_data_nor_other_packages() -> None:
    played = MethodComparison().played
    assert played == tuple(name for name in METHODS if is_quick(name))
    assert {"uniform", "prior", "frugal-9", "auto", "random"} <= {*played}
    assert not {"tpe", "forest-3", "gp", "optuna-tpe", "smac"} & {*played}
    assert "tpe" in MethodComparison(methods=("tpe",)).played
    assert Replication().names == tuple(CURVES)
