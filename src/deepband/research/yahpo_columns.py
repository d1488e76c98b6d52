"""The columns of YAHPO Gym's models. Their order is not in the files of `yahpo_data`."""

from __future__ import annotations

from typing import NamedTuple

REPL = "repl"
"""The second fidelity of the rbv2 scenarios: which repetition of cross-validation, 1 to 10."""


class Accuracy(NamedTuple):
    """Where the accuracy is in a model's output: `offset + factor * output[column]`."""

    column: int
    factor: float = 1.0
    offset: float = 0.0


class Layout(NamedTuple):
    """The columns of a scenario's model, in the order of its inputs."""

    instance: str | None
    fidelity: str
    categorical: tuple[str, ...]
    continuous: tuple[str, ...]
    accuracy: dict[int, Accuracy]
    """By the width of the model's output, which distinguishes releases."""
    outputs: dict[int, tuple[str, ...]]
    """The names of all outputs, by their number."""


def _words(text: str) -> tuple[str, ...]:
    return tuple(text.split())


_PERCENT = 0.01
_RBV2 = {9: Accuracy(0), 6: Accuracy(0, -1.0, 1.0)}  # v1.0.2: acc; before: mmce = 1 - acc
_RBV2_OUTPUTS = {
    9: _words("acc bac auc brier f1 logloss timetrain timepredict memory"),
    6: _words("mmce f1 auc logloss timetrain timepredict"),
}
_DARTS = "NetworkSelectorDatasetInfo_COLON_darts_COLON_"
_CELLS = [f"edge_{cell}_{edge}" for cell in ("normal", "reduce") for edge in range(14)]
_CELLS += [f"inputs_node_{cell}_{node}" for cell in ("normal", "reduce") for node in (3, 4, 5)]

SCENARIOS = {
    "lcbench": Layout(
        "OpenML_task_id",
        "epoch",
        ("OpenML_task_id",),
        _words(
            "epoch batch_size learning_rate momentum weight_decay num_layers max_units max_dropout"
        ),
        {6: Accuracy(1, _PERCENT)},
        {
            6: _words(
                "time val_accuracy val_cross_entropy val_balanced_accuracy test_cross_entropy "
                "test_balanced_accuracy"
            )
        },
    ),
    "nb301": Layout(
        None,
        "epoch",
        tuple(_DARTS + cell for cell in _CELLS),
        ("epoch",),
        {2: Accuracy(0, _PERCENT)},
        {2: _words("val_accuracy runtime")},
    ),
    "rbv2_svm": Layout(
        "task_id",
        "trainsize",
        _words("task_id kernel num.impute.selected.cpo"),
        _words("cost gamma tolerance degree trainsize repl"),
        _RBV2,
        _RBV2_OUTPUTS,
    ),
    "rbv2_ranger": Layout(
        "task_id",
        "trainsize",
        _words("task_id respect.unordered.factors splitrule num.impute.selected.cpo"),
        _words(
            "num.trees sample.fraction mtry.power min.node.size num.random.splits trainsize repl"
        ),
        _RBV2,
        _RBV2_OUTPUTS,
    ),
    "rbv2_xgboost": Layout(
        "task_id",
        "trainsize",
        _words("task_id booster num.impute.selected.cpo"),
        _words(
            "nrounds eta gamma lambda alpha subsample max_depth min_child_weight colsample_bytree "
            "colsample_bylevel rate_drop skip_drop trainsize repl"
        ),
        _RBV2,
        _RBV2_OUTPUTS,
    ),
}
