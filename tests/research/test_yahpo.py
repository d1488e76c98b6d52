"""Surrogates of YAHPO Gym: the numbers of the models, whatever the batch, and good errors."""

from __future__ import annotations

import json
import pickle
import shutil
from functools import cache
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from deepband import DeepbandError, InputError, open_study
from deepband.research.config_space_json import read_space
from deepband.research.yahpo import ONLY_INSTANCE, Scenario
from deepband.research.yahpo_columns import SCENARIOS
from deepband.samplers import Uniform
from deepband.space.search_space import Space
from surrogates import data, needs_published_data, published_data
from tiny_yahpo import network

LCBENCH = {
    "batch_size": 128,
    "learning_rate": 0.01,
    "max_dropout": 0.2,
    "max_units": 256,
    "momentum": 0.9,
    "num_layers": 3,
    "weight_decay": 0.001,
}
DARTS = {
    "edge_normal": {
        0: "sep_conv_3x3",
        1: "sep_conv_3x3",
        2: "skip_connect",
        3: "sep_conv_5x5",
        5: "avg_pool_3x3",
        7: "max_pool_3x3",
        10: "dil_conv_3x3",
        12: "dil_conv_5x5",
    },
    "inputs_node_normal": {3: "0_1", 4: "0_2", 5: "1_3"},
    "edge_reduce": {
        0: "max_pool_3x3",
        1: "max_pool_3x3",
        3: "skip_connect",
        4: "sep_conv_3x3",
        6: "sep_conv_3x3",
        8: "sep_conv_5x5",
        12: "skip_connect",
        13: "avg_pool_3x3",
    },
    "inputs_node_reduce": {3: "1_2", 4: "1_3", 5: "3_4"},
}
NB301 = {
    f"NetworkSelectorDatasetInfo_COLON_darts_COLON_{kind}_{number}": value
    for kind, values in DARTS.items()
    for number, value in values.items()
}
RADIAL = {
    "cost": 1.5,
    "kernel": "radial",
    "gamma": 0.25,
    "tolerance": 0.01,
    "num.impute.selected.cpo": "impute.mean",
}
POLYNOMIAL = {
    "cost": 100.0,
    "kernel": "polynomial",
    "degree": 3,
    "tolerance": 0.001,
    "num.impute.selected.cpo": "impute.hist",
}
LINEAR = {
    "cost": 0.02,
    "kernel": "linear",
    "tolerance": 0.1,
    "num.impute.selected.cpo": "impute.median",
}
GINI = {
    "num.trees": 500,
    "sample.fraction": 0.8,
    "mtry.power": 1,
    "min.node.size": 5,
    "respect.unordered.factors": "order",
    "splitrule": "gini",
    "num.impute.selected.cpo": "impute.mean",
}
EXTRATREES = {
    "num.trees": 1000,
    "sample.fraction": 0.3,
    "mtry.power": 0,
    "min.node.size": 20,
    "num.random.splits": 17,
    "respect.unordered.factors": "ignore",
    "splitrule": "extratrees",
    "num.impute.selected.cpo": "impute.hist",
}
GBLINEAR = {
    "booster": "gblinear",
    "nrounds": 100,
    "lambda": 0.5,
    "alpha": 2.0,
    "subsample": 0.7,
    "num.impute.selected.cpo": "impute.mean",
}
GBTREE = {
    "booster": "gbtree",
    "nrounds": 300,
    "eta": 0.1,
    "gamma": 0.01,
    "lambda": 1.0,
    "alpha": 0.02,
    "subsample": 0.9,
    "max_depth": 6,
    "min_child_weight": 10.0,
    "colsample_bytree": 0.8,
    "colsample_bylevel": 0.6,
    "num.impute.selected.cpo": "impute.median",
}
DART = {
    "booster": "dart",
    "nrounds": 50,
    "eta": 0.3,
    "gamma": 0.5,
    "lambda": 10.0,
    "alpha": 5.0,
    "subsample": 0.5,
    "max_depth": 3,
    "min_child_weight": 4.0,
    "colsample_bytree": 0.5,
    "colsample_bylevel": 0.9,
    "rate_drop": 0.2,
    "skip_drop": 0.4,
    "num.impute.selected.cpo": "impute.hist",
}
BY_HAND = [
    ("lcbench", "3945", LCBENCH, 52, 1, 0.890561752319336),
    ("lcbench", "3945", LCBENCH, 1, 1, 0.43885658264160156),
    ("lcbench", "189908", LCBENCH, 16, 1, 0.894388427734375),
    ("nb301", ONLY_INSTANCE, NB301, 98, 1, 0.946025390625),
    ("nb301", ONLY_INSTANCE, NB301, 1, 1, 0.3832819366455078),
    ("rbv2_svm", "1040", RADIAL, 0.5, 1, 1 - 0.025452299043536186),
    ("rbv2_svm", "37", POLYNOMIAL, 1.0, 7, 1 - 0.31195971369743347),
    ("rbv2_svm", "37", LINEAR, 0.05, 10, 1 - 0.29381847381591797),
    ("rbv2_ranger", "1040", GINI, 0.5, 1, 1 - 0.004228345118463039),
    ("rbv2_ranger", "37", EXTRATREES, 1.0, 4, 1 - 0.23719210922718048),
    ("rbv2_xgboost", "1040", GBLINEAR, 0.5, 1, 0.978821337223053),
    ("rbv2_xgboost", "37", GBTREE, 1.0, 3, 0.7470122575759888),
    ("rbv2_xgboost", "37", DART, 0.03, 10, 0.5463486909866333),
]
"""Scenario, data set, config, budget, repl, accuracy: the last computed once from the ONNX models
alone, with both inputs written out number by number. Versions of ONNX Runtime, which computes with
24 bits, differ in the sixth digit."""


@needs_published_data
@pytest.mark.parametrize(("name", "instance", "config", "budget", "repl", "accuracy"), BY_HAND)
def test_the_numbers_of_the_models(
    name: str, instance: str, config: dict[str, Any], budget: float, repl: int, accuracy: float
) -> None:
    problem = Scenario(published_data(), name).problem(instance, repl)
    assert problem(config, budget) == pytest.approx(accuracy, abs=1e-5)


@needs_published_data
def test_instances_of_the_release() -> None:
    counts = {
        name: len(Scenario(published_data(), name).instances)
        for name in ("lcbench", "rbv2_xgboost")
    }
    assert counts == {"lcbench": 34, "rbv2_xgboost": 119}


TINY = [
    ("lcbench", "3945", LCBENCH, 16.9, 1, (), (16, 128, 0.01, 0.9, 0.001, 3, 256, 0.2)),
    ("lcbench", "126026", LCBENCH, 52, 1, (), (52, 128, 0.01, 0.9, 0.001, 3, 256, 0.2)),
    ("rbv2_svm", "37", RADIAL, 0.5, 7, (3, 2), (1.5, 0.25, 0.01, 0, 0.5, 7)),
    ("rbv2_svm", "1040", LINEAR, 0.01, 10, (1, 3), (0.02, 0, 0.1, 0, 0.05, 10)),
    ("rbv2_ranger", "12", GINI, 1.0, 4, (2, 2, 2), (500, 0.8, 1, 5, 0, 1.0, 4)),
    (
        "rbv2_xgboost",
        "1040",
        GBLINEAR,
        0.5,
        3,
        (2, 2),
        (100, 0, 0, 0.5, 2.0, 0.7, 0, 0, 0, 0, 0, 0, 0.5, 3),
    ),
]
"""Scenario, data set, config, budget, repl, and the model's inputs written out by hand: the codes
after that of the data set, then the numbers."""


@pytest.mark.parametrize(("name", "instance", "config", "budget", "repl", "codes", "numbers"), TINY)
def test_configs_reach_the_columns_of_the_model(
    name: str,
    instance: str,
    config: dict[str, Any],
    budget: float,
    repl: int,
    codes: tuple[int, ...],
    numbers: tuple[float, ...],
) -> None:
    """The same network computed by NumPy, on both releases of the format."""
    first = SCENARIOS[name].categorical[0]
    data_set = json.loads((data() / name / "encoding.json").read_text())[first][instance]
    outputs = network(name).predict([data_set, *codes], numbers)
    accuracy = {"lcbench": outputs[1] / 100, "rbv2_xgboost": outputs[0]}.get(name, 1 - outputs[0])
    found = Scenario(data(), name).problem(instance, repl)(config, budget)
    assert found == pytest.approx(accuracy, abs=1e-5)


@pytest.mark.parametrize("name", SCENARIOS)
@given(seed=st.integers(0, 2**32), count=st.integers(1, 130), extra=st.integers(0, 300))
def test_alone_or_in_any_batch_a_config_gets_the_same_number(
    name: str, seed: int, count: int, extra: int
) -> None:
    check_batches(data(), name, seed, count, extra)


@needs_published_data
@given(
    name=st.sampled_from(list(SCENARIOS)),
    seed=st.integers(0, 2**32),
    count=st.integers(1, 130),
    extra=st.integers(0, 300),
)
def test_batches_of_published_models(name: str, seed: int, count: int, extra: int) -> None:
    check_batches(published_data(), name, seed, count, extra)


def check_batches(folder: Path, name: str, seed: int, count: int, extra: int) -> None:
    scenario = scenario_of(folder, name)
    problem = scenario.problem(scenario.instances[seed % len(scenario.instances)])
    configs = Uniform(64).draw(Space(problem.space), [], 0, range(count + extra), seed)
    budgets = [scenario.fidelity.high / (1 + index % 7) for index in range(count + extra)]
    whole = problem.accuracies(configs, budgets)
    assert (problem.accuracies(configs[:count], budgets[:count]) == whole[:count]).all()
    assert problem(configs[-1], budgets[-1]) == whole[-1]


@cache
def scenario_of(folder: Path, name: str) -> Scenario:
    return Scenario(folder, name)


@pytest.mark.parametrize("name", SCENARIOS)
def test_configs_of_the_space_are_without_instance_and_fidelity(name: str) -> None:
    scenario = Scenario(data(), name)
    outside = {"epoch", "trainsize", "repl", "task_id", "OpenML_task_id"}
    assert not outside & set(scenario.space)


def test_conditions_are_those_of_the_files() -> None:
    configs = Uniform(64).draw(Space(Scenario(data(), "rbv2_xgboost").space), [], 0, range(300), 0)
    assert {config["booster"] for config in configs} == {"gblinear", "gbtree", "dart"}
    for config in configs:
        assert ("max_depth" in config) == (config["booster"] != "gblinear")
        assert ("rate_drop" in config) == (config["booster"] == "dart")


@pytest.mark.parametrize("name", SCENARIOS)
def test_all_outputs_of_a_model_by_name(name: str) -> None:
    scenario = Scenario(data(), name)
    (config,) = Uniform().draw(Space(scenario.space), (), 0, [0], 0)
    rows, instance = scenario.encode([config]), scenario.instances[0]
    outputs = scenario.outputs(rows, instance, [scenario.fidelity.high])
    assert tuple(outputs) in scenario.layout.outputs.values()
    accuracies = scenario.accuracies(rows, instance, [scenario.fidelity.high])
    assert scenario.accuracy_of(outputs).tolist() == accuracies.tolist()
    for width, accuracy in scenario.layout.accuracy.items():
        named = scenario.layout.outputs[width][accuracy.column]
        assert named in {"val_accuracy", "acc", "mmce"}


def test_budgets_reach_the_surrogate_floored_and_clipped() -> None:
    epochs = Scenario(data(), "lcbench").problem("3945")
    assert epochs(LCBENCH, 16.9) == epochs(LCBENCH, 16)
    assert epochs(LCBENCH, 1000) == epochs(LCBENCH, 52)
    assert epochs(LCBENCH, 0.2) == epochs(LCBENCH, 1)
    shares = Scenario(data(), "rbv2_svm").problem("37")
    assert shares(LINEAR, 0.001) == shares(LINEAR, 0.05)
    assert shares(LINEAR, 0.7) != shares(LINEAR, 0.71)


@pytest.mark.heavy
def test_a_problem_is_an_objective_also_for_workers() -> None:
    problem = Scenario(data(), "lcbench").problem("3945")
    with open_study(space=problem.space, max_budget=27, maximize=True) as alone:
        alone.optimize(problem)
        best = alone.best
    with open_study(space=problem.space, max_budget=27, maximize=True) as shared:
        shared.optimize(problem, workers=2)
        assert shared.best.value == best.value
    assert pickle.loads(pickle.dumps(problem))(LCBENCH, 9) == problem(LCBENCH, 9)


@pytest.fixture
def clone(tmp_path: Path) -> Path:
    """A folder of the data to break."""
    return Path(shutil.copytree(data(), tmp_path / "yahpo_data"))


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"lacks config_space.json, encoding.json, model.onnx"):
        Scenario(tmp_path / "nowhere", "lcbench")


def test_an_unknown_scenario(tmp_path: Path) -> None:
    with pytest.raises(InputError, match="'lcbench'"):
        Scenario(tmp_path, "lcbench2")


def test_a_folder_that_is_incomplete(clone: Path) -> None:
    (clone / "nb301" / "encoding.json").unlink()
    with pytest.raises(InputError, match=r"nb301 lacks encoding.json\. Give the folder of a clone"):
        Scenario(clone, "nb301")


def test_a_file_that_is_not_json(clone: Path) -> None:
    (clone / "nb301" / "encoding.json").write_text("{")
    with pytest.raises(DeepbandError, match=r"encoding.json is not JSON"):
        Scenario(clone, "nb301")


def test_an_unknown_data_set() -> None:
    with pytest.raises(InputError, match="data set of lcbench"):
        Scenario(data(), "lcbench").problem("1")


@pytest.mark.parametrize(
    ("config", "why"),
    [
        ({}, "missing: .*'learning_rate'"),
        (LCBENCH | {"learning_rat": 0.1}, r"Unknown: \['learning_rat'\]"),
    ],
)
def test_a_config_of_another_space(config: dict[str, Any], why: str) -> None:
    with pytest.raises(InputError, match=why):
        Scenario(data(), "lcbench").problem("3945")(config, 5)


def test_wrong_calls() -> None:
    scenario = Scenario(data(), "rbv2_svm")
    with pytest.raises(InputError, match="kernel is 'lin': give one of"):
        scenario.problem("37")(LINEAR | {"kernel": "lin"}, 1.0)
    with pytest.raises(InputError, match="repl is 99"):
        scenario.problem("37", repl=99)
    with pytest.raises(InputError, match="2 configs and 1 budgets"):
        scenario.problem("37").accuracies([LINEAR, LINEAR], [1.0])


def test_codes_without_one_for_what_is_inactive(clone: Path) -> None:
    place = clone / "nb301" / "encoding.json"
    codes = json.loads(place.read_text())
    for each in codes.values():
        del each["#na#"]
    place.write_text(json.dumps(codes))
    with pytest.raises(DeepbandError, match=r"encoding.json lacks the .*#na#"):
        Scenario(clone, "nb301")


def test_a_space_without_its_fidelity(clone: Path) -> None:
    place = clone / "lcbench" / "config_space.json"
    place.write_text(place.read_text().replace('"epoch"', '"epochs"'))
    with pytest.raises(DeepbandError, match=r"config_space.json has no parameter 'epoch'"):
        Scenario(clone, "lcbench")


def test_a_model_of_an_unknown_release(clone: Path) -> None:
    shutil.copy(clone / "lcbench" / "model.onnx", clone / "rbv2_svm" / "model.onnx")
    with pytest.raises(DeepbandError, match=r"not from a known release.*expected.*9 or 6"):
        Scenario(clone, "rbv2_svm")


def test_a_file_that_is_no_model(clone: Path) -> None:
    (clone / "lcbench" / "model.onnx").write_bytes(b"version https://git-lfs.github.com/spec/v1")
    with pytest.raises(DeepbandError, match=r"model.onnx is not an ONNX model"):
        Scenario(clone, "lcbench")


def test_a_space_of_an_unknown_release(clone: Path) -> None:
    place = clone / "lcbench" / "config_space.json"
    described = json.loads(place.read_text())
    described["hyperparameters"].pop()
    place.write_text(json.dumps(described))
    with pytest.raises(DeepbandError, match=r"differ in {'weight_decay'}"):
        Scenario(clone, "lcbench")


X = {"name": "x", "type": "uniform_float", "lower": 0.0, "upper": 1.0, "log": False}
OLD = {"hyperparameters": [X], "conditions": [], "forbiddens": [], "json_format_version": 0.2}


@pytest.mark.parametrize(
    ("change", "why"),
    [
        ({"json_format_version": 0.4}, "json_format_version is 0.4"),
        ({"forbiddens": [{"name": "x"}]}, "forbidden clauses"),
        ({"hyperparameters": [X | {"type": "normal_float"}]}, "'normal_float'"),
        (
            {"conditions": [{"child": "x", "parent": "x", "type": "GT", "value": 1}]},
            "of type 'GT'",
        ),
    ],
)
def test_old_spaces_that_are_not_read(change: dict[str, Any], why: str) -> None:
    assert list(read_space(OLD, without=())) == ["x"]
    with pytest.raises(ValueError, match=why):
        read_space(OLD | change, without=())
