"""A folder in the format of `yahpo_data` whose models are small random networks.

It has all scenarios, columns, conditions and both releases of the format, so that everything but
the published figures can be tested without a download. Columns and their order are those of
`SCENARIOS`; ranges and choices are plausible values.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from itertools import combinations
from operator import itemgetter
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from deepband.research.yahpo_columns import SCENARIOS, Layout
from deepband.research.yahpo_instances import REPORTING, TUNING

HIDDEN = 64
"""Wide enough that the sums of one row depend on the rows beside it, as in published models."""
INACTIVE = "#na#"
WIDTHS = {"lcbench": 6, "nb301": 2, "rbv2_svm": 6, "rbv2_ranger": 6, "rbv2_xgboost": 9}
"""Outputs of each model; 6 and 9 are the two releases of the rbv2 scenarios."""
FEW = ("1040", "37", "12", "15", "1067", "54")
INSTANCES = {
    "lcbench": (*TUNING["lcbench"], *REPORTING["lcbench"], "189908"),
    "rbv2_svm": (*FEW, *REPORTING["rbv2_svm"]),
    "rbv2_ranger": (*FEW, *REPORTING["rbv2_ranger"]),
    "rbv2_xgboost": (*TUNING["rbv2_xgboost"], *REPORTING["rbv2_xgboost"], "37", "1040"),
}

SHARE, RATE = (0.05, 1.0), (0.0, 1.0)
NUMBERS: dict[str, dict[str, tuple[float, float]]] = {
    "lcbench": {
        "epoch": (1, 52),
        "batch_size": (16, 512),
        "learning_rate": (1e-4, 0.1),
        "momentum": (0.1, 0.99),
        "weight_decay": (1e-5, 0.1),
        "num_layers": (1, 5),
        "max_units": (64, 1024),
        "max_dropout": RATE,
    },
    "nb301": {"epoch": (1, 98)},
    "rbv2_svm": {
        "cost": (1e-4, 2e4),
        "gamma": (1e-4, 2e4),
        "tolerance": (1e-4, 2.0),
        "degree": (2, 5),
    },
    "rbv2_ranger": {
        "num.trees": (1, 2000),
        "sample.fraction": (0.1, 1.0),
        "mtry.power": (0, 1),
        "min.node.size": (1, 100),
        "num.random.splits": (1, 100),
    },
    "rbv2_xgboost": {
        "nrounds": (7, 3000),
        "eta": (1e-3, 1.0),
        "gamma": (1e-4, 7.0),
        "lambda": (1e-3, 1e3),
        "alpha": (1e-3, 1e3),
        "subsample": (0.1, 1.0),
        "max_depth": (1, 15),
        "min_child_weight": (2.7, 150.0),
        "colsample_bytree": (0.01, 1.0),
        "colsample_bylevel": (0.01, 1.0),
        "rate_drop": RATE,
        "skip_drop": RATE,
    },
}
"""The range of every number: integers if both ends are, on a log scale if it spans a decade."""
RBV2 = {"trainsize": SHARE, "repl": (1, 10)}
CHOICES = {
    "kernel": ("linear", "polynomial", "radial"),
    "booster": ("gblinear", "gbtree", "dart"),
    "splitrule": ("gini", "extratrees"),
    "respect.unordered.factors": ("ignore", "order", "partition"),
    "num.impute.selected.cpo": ("impute.mean", "impute.median", "impute.hist"),
}
OPERATIONS = (
    "max_pool_3x3",
    "avg_pool_3x3",
    "skip_connect",
    "sep_conv_3x3",
    "sep_conv_5x5",
    "dil_conv_3x3",
    "dil_conv_5x5",
)
TREES = ["eta", "gamma", "max_depth", "min_child_weight", "colsample_bytree", "colsample_bylevel"]
ACTIVE_IF: dict[str, dict[str, tuple[str, list[str]]]] = {
    "rbv2_svm": {"degree": ("kernel", ["polynomial"]), "gamma": ("kernel", ["radial"])},
    "rbv2_ranger": {"num.random.splits": ("splitrule", ["extratrees"])},
    "rbv2_xgboost": {name: ("booster", ["gbtree", "dart"]) for name in TREES}
    | {name: ("booster", ["dart"]) for name in ("rate_drop", "skip_drop")},
}
"""By scenario and parameter: the parent, and the values of it that activate the parameter."""
FIRST_EDGE = {3: 2, 4: 5, 5: 9}
"""By node of a cell of nb301: its first edge. A node of number n has n edges, two of them used."""


def write_tiny_yahpo(folder: Path) -> Path:
    """Write all scenarios below `folder` and return it."""
    for name, layout in SCENARIOS.items():
        place = folder / name
        place.mkdir(parents=True)
        space, codes = describe_space(name, layout), encoding(name, layout)
        (place / "config_space.json").write_text(json.dumps(space, indent=2))
        (place / "encoding.json").write_text(json.dumps(codes))
        (place / "model.onnx").write_bytes(as_onnx(network(name)))
    return folder


def describe_space(name: str, layout: Layout) -> dict[str, Any]:
    """A search space in ConfigSpace's JSON format 0.2."""
    categorical = [
        {"name": each, "type": "categorical", "choices": choices(name, each)}
        for each in layout.categorical
    ]
    numbers = [_number(each, *ranges(name)[each]) for each in layout.continuous]
    return {
        "hyperparameters": sorted([*categorical, *numbers], key=itemgetter("name")),
        "conditions": list(conditions(name, layout)),
        "forbiddens": [],
        "json_format_version": 0.2,
    }


def _number(name: str, low: float, high: float) -> dict[str, Any]:
    whole = isinstance(low, int) and isinstance(high, int)
    log = name not in ("epoch", "trainsize", "repl") and low > 0 and high / low > 10
    kind = "uniform_int" if whole else "uniform_float"
    return {"name": name, "type": kind, "lower": low, "upper": high, "log": log}


def ranges(name: str) -> Mapping[str, tuple[float, float]]:
    return NUMBERS[name] | (RBV2 if name.startswith("rbv2") else {})


def choices(name: str, column: str) -> Sequence[str]:
    if column == SCENARIOS[name].instance:
        return INSTANCES[name]
    if name != "nb301":
        return CHOICES[column]
    if "edge" in column:
        return OPERATIONS
    return [f"{one}_{other}" for one, other in combinations(range(int(column[-1])), 2)]


def conditions(name: str, layout: Layout) -> Iterator[dict[str, Any]]:
    for child, (parent, values) in ACTIVE_IF.get(name, {}).items():
        yield condition(child, parent, values)
    for parent in layout.categorical:
        if "inputs_node" in parent:
            node = int(parent[-1])
            edge = parent.replace("inputs_node", "edge")[:-1]
            for source in range(node):
                used = [each for each in choices(name, parent) if str(source) in each.split("_")]
                yield condition(f"{edge}{FIRST_EDGE[node] + source}", parent, used)


def condition(child: str, parent: str, values: list[str]) -> dict[str, Any]:
    if len(values) == 1:
        return {"child": child, "parent": parent, "type": "EQ", "value": values[0]}
    return {"child": child, "parent": parent, "type": "IN", "values": values}


def encoding(name: str, layout: Layout) -> dict[str, dict[str, int]]:
    """The integer code of every choice, in alphabetical order as in the published files."""
    values = {column: [INACTIVE, *sorted(choices(name, column))] for column in layout.categorical}
    return {
        column: {value: code for code, value in enumerate(listed)}
        for column, listed in values.items()
    }


class Network(NamedTuple):
    """Weights of `sigmoid(tanh(tanh(x W1) W2) W3) * outputs`, where x are the scaled columns."""

    categorical: NDArray[np.float32]
    """A factor for each column, which brings its codes to [0, 1]."""
    stretch: NDArray[np.float32]
    squeeze: NDArray[np.float32]
    """A number enters as squeeze * log(1 + stretch * number): 0 to 1 over its range."""
    first: NDArray[np.float32]
    second: NDArray[np.float32]
    third: NDArray[np.float32]
    outputs: NDArray[np.float32]

    def predict(self, codes: Sequence[float], numbers: Sequence[float]) -> NDArray[np.float64]:
        """All outputs for one row, computed in double precision by NumPy."""
        scaled = self.squeeze * np.log1p(self.stretch * np.array(numbers))
        hidden = np.tanh(np.concatenate([self.categorical * codes, scaled]) @ self.first)
        sums = np.tanh(hidden @ self.second) @ self.third
        return np.asarray(self.outputs / (1 + np.exp(-sums)), np.float64)


def network(name: str) -> Network:
    """The network of a scenario: random weights that are always the same."""
    layout, width = SCENARIOS[name], WIDTHS[name]
    rng = np.random.default_rng(list(SCENARIOS).index(name))
    inputs = len(layout.categorical) + len(layout.continuous)
    limits = [ranges(name)[column] for column in layout.continuous]
    stretch = np.array([1 / low if low > 0 else 1 / high for low, high in limits])
    tops = np.array([high for _, high in limits])
    return Network(
        np.array([1 / len(choices(name, each)) for each in layout.categorical], np.float32),
        stretch.astype(np.float32),
        (1 / np.log1p(stretch * tops)).astype(np.float32),
        rng.normal(0, 1.5, (inputs, HIDDEN)).astype(np.float32),
        rng.normal(0, 2 / np.sqrt(HIDDEN), (HIDDEN, HIDDEN)).astype(np.float32),
        rng.normal(0, 2 / np.sqrt(HIDDEN), (HIDDEN, width)).astype(np.float32),
        np.full(width, 1 if name.startswith("rbv2") else 100, np.float32),
    )


def as_onnx(network: Network) -> bytes:
    """The network as a file that ONNX Runtime reads."""
    from onnx import TensorProto, helper, numpy_helper

    steps: list[tuple[str, list[str], str, dict[str, Any]]] = [
        ("Cast", ["x_cat"], "codes", {"to": TensorProto.FLOAT}),
        ("Mul", ["codes", "categorical"], "choices", {}),
        ("Mul", ["x_cont", "stretch"], "stretched", {}),
        ("Add", ["stretched", "one"], "shifted", {}),
        ("Log", ["shifted"], "logs", {}),
        ("Mul", ["logs", "squeeze"], "numbers", {}),
        ("Concat", ["choices", "numbers"], "inputs", {"axis": 1}),
        ("MatMul", ["inputs", "first"], "products", {}),
        ("Tanh", ["products"], "hidden", {}),
        ("MatMul", ["hidden", "second"], "more products", {}),
        ("Tanh", ["more products"], "more hidden", {}),
        ("MatMul", ["more hidden", "third"], "sums", {}),
        ("Sigmoid", ["sums"], "shares", {}),
        ("Mul", ["shares", "outputs"], "output", {}),
    ]
    rows = "batch_size"
    graph = helper.make_graph(
        [helper.make_node(kind, given, [made], **more) for kind, given, made, more in steps],
        "tiny",
        [
            helper.make_tensor_value_info("x_cat", TensorProto.INT32, [rows, len(network[0])]),
            helper.make_tensor_value_info("x_cont", TensorProto.FLOAT, [rows, len(network[1])]),
        ],
        [helper.make_tensor_value_info("output", TensorProto.FLOAT, [rows, len(network[-1])])],
        [
            numpy_helper.from_array(value, name)
            for name, value in {**network._asdict(), "one": np.ones(1, np.float32)}.items()
        ],
    )
    # Versions that the oldest ONNX Runtime we support reads.
    opset = [helper.make_opsetid("", 13)]
    return bytes(helper.make_model(graph, opset_imports=opset, ir_version=8).SerializeToString())
