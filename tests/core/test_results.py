"""What is a loss."""

from __future__ import annotations

import math
from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import deepband
from deepband import ResultError
from deepband.core.results import MAXIMIZE, read_any_result, read_result
from driving import open_study


class UnspeakableError(Exception):
    """An exception that cannot be printed."""

    def __str__(self) -> str:
        raise RuntimeError

    __repr__ = __str__


@pytest.mark.parametrize(
    ("result", "loss"),
    [
        (0.5, 0.5),
        (2, 2.0),
        (np.float32(0.1), 0.10000000149011612),
        (np.float64(0.1), 0.1),
        (np.int64(3), 3.0),
        (np.array(0.25), 0.25),
        (np.array(2, dtype=np.int8), 2.0),
        (np.longdouble(1.5), 1.5),
        (Decimal("0.5"), 0.5),
        (Fraction(1, 4), 0.25),
        (math.inf, math.inf),
        (Decimal("Infinity"), math.inf),
        ({"loss": np.float64(0.5)}, 0.5),
        ({"value": np.float64(0.5)}, 0.5),
    ],
)
def test_numbers(result: Any, loss: float) -> None:
    read, error, metrics, *_ = read_result(result)
    assert read == loss
    assert type(read) is float
    assert error is None
    assert metrics is None


@pytest.mark.parametrize(
    "result",
    [
        None,
        "0.5",
        b"5",
        True,
        np.True_,
        np.array(True),
        1j,
        np.complex128(1),
        (0.5, 0.5),
        [0.5],
        np.array([0.5]),
        np.zeros((2, 2)),
        np.array("0.5"),
        np.datetime64("2020-01-01"),
        np.datetime64("2020-01-01", "ns"),
        np.timedelta64(5, "ns"),
        np.ma.masked,
        10**400,
        pytest.param(10**5000, id="huge"),
        UnspeakableError,
        Decimal("1e400"),
        -math.inf,
        object(),
        {},
        {"accuracy": 0.5},
        {"loss": None},
        {"loss": "0.5"},
        {"value": None},
        ValueError,
    ],
)
def test_what_is_no_loss_is_refused_and_the_job_stays_open(result: Any) -> None:
    study = open_study()
    job = study.ask()
    assert job is not None
    with pytest.raises(ResultError, match="is not a loss"):
        study.tell(job, result)
    study.tell(job, 0.5)
    assert len(study.evaluations) == 1


@pytest.mark.parametrize(
    ("result", "error"),
    [
        (math.nan, "nan: the objective returned nan"),
        (np.float32("nan"), "nan: the objective returned nan"),
        (Decimal("NaN"), "nan: the objective returned nan"),
        (Decimal("sNaN"), "nan: the objective returned nan"),
        ({"loss": math.nan, "epoch": 3}, "nan: the objective returned nan"),
        (ValueError("bad shape"), "ValueError: bad shape"),
        (KeyboardInterrupt(), "KeyboardInterrupt: "),
        (UnspeakableError(), "UnspeakableError: (no message)"),
    ],
)
def test_failures(result: Any, error: str) -> None:
    loss, described, *_ = read_result(result)
    assert loss is None
    assert described == error


@pytest.mark.parametrize("name", ["loss", "value"])
@pytest.mark.parametrize("maximize", [False, True])
def test_loss_and_value_name_the_number_in_the_direction_of_the_user(
    name: str, maximize: bool
) -> None:
    study = open_study(maximize=maximize)
    job = study.ask()
    assert job is not None
    study.tell(job, {"accuracy": 0.75, name: 0.5})
    (found,) = study.evaluations
    assert (found.value, found.loss) == (0.5, -0.5 if maximize else 0.5)
    assert found.metrics == {"accuracy": 0.75}


def test_loss_and_value_together_are_refused() -> None:
    with pytest.raises(ResultError, match=r"both 'loss' and 'value'.*rename the other"):
        read_result({"loss": 0.5, "value": 0.5})
    assert "ambiguous" in str(read_any_result({"loss": 0.5, "value": 0.5}).error)


def test_a_mapping_without_either_name_is_refused() -> None:
    with pytest.raises(ResultError, match="neither 'loss' nor 'value'; give a real number"):
        read_result({"accuracy": 0.5})


def test_a_mapping_keeps_its_other_values() -> None:
    study = open_study()
    job = study.ask()
    assert job is not None
    result = {
        "loss": 0.5,
        "accuracy": np.float64(0.9),
        "confusion": np.array([[1, 2]]),
        "sizes": (1, {"a": None}),
        "bad": math.nan,
        "model": int,
        3: "three",
    }
    study.tell(job, result)
    metrics = study.evaluations[0].metrics
    assert metrics == {
        "accuracy": 0.9,
        "confusion": [[1, 2]],
        "sizes": [1, {"a": None}],
        "bad": math.nan,
        "model": "<class 'int'>",
        "3": "three",
    }
    assert all(type(value) in (str, float, list) for value in metrics.values())
    metrics["accuracy"] = 0  # type: ignore[index] # the record's own copy, declared read-only
    assert study.evaluations[0].metrics["accuracy"] == 0.9


def test_maximizing_is_converted_once() -> None:
    study = open_study(max_budget=3, maximize=True)
    for value, job in zip([0.25, 0.75, 0.5], study.ask_all(), strict=False):
        study.tell(job, value)
    assert (study.best.loss, study.best.value) == (-0.75, 0.75)
    assert read_result(-math.inf, MAXIMIZE)[0] == math.inf
    with pytest.raises(ResultError, match="no result can be better"):
        read_result(math.inf, MAXIMIZE)


def large(count: int) -> list[float]:
    return [1 / (number + 3) for number in range(count)]


TOO_LARGE: dict[str, Callable[[], Any]] = {
    "floats": lambda: large(100_000),
    "more floats": lambda: large(2_000_000),
    "array": lambda: np.zeros(100_000_000, np.int8),
    "matrix": lambda: np.zeros((10_000, 10_000), np.int8),
    "bytes": lambda: b"x" * 100_000_000,
    "set": lambda: set(range(2_000_000)),
    "mapping": lambda: {f"step {number}": number for number in range(200_000)},
    "texts": lambda: ["x" * 60_000] * 30,
    "texts that JSON escapes": lambda: ["ü" * 60_000] * 5,
    "nested": lambda: [[[[0.5] * 100] * 100] * 100],
    "large integers": lambda: [10**300] * 10_000,
}


@pytest.mark.parametrize("name", TOO_LARGE)
def test_metrics_that_are_too_large_are_refused_and_the_job_stays_open(name: str) -> None:
    study = open_study()
    job = study.ask()
    assert job is not None
    with pytest.raises(ResultError, match=r"metrics that are too large.*1 MiB.*context\.path"):
        study.tell(job, {"loss": 0.5, "large": TOO_LARGE[name]()})
    study.tell(job, 0.5)
    assert len(study.evaluations) == 1


def test_metrics_just_below_the_limit_are_kept() -> None:
    study = open_study()
    job = study.ask()
    assert job is not None
    study.tell(job, {"loss": 0.5, "curve": large(40_000), "text": "x" * 200_000})
    metrics = study.evaluations[0].metrics
    assert metrics["curve"] == large(40_000)
    assert metrics["text"] == "x" * (64 * 1024) + " ..."


def test_metrics_that_are_too_large_are_a_failure_of_the_evaluation() -> None:
    study = open_study()

    def train(config: dict[str, float], budget: float) -> dict[str, Any]:
        return {"loss": config["x"], "weights": np.zeros(10**7) if config["x"] > 0.8 else [0.5]}

    with pytest.warns(deepband.FailedEvaluationsWarning):
        study.optimize(train)
    failed = [each for each in study.evaluations if each.error]
    assert failed
    assert all(each.config["x"] > 0.8 for each in failed)
    assert failed[0].error is not None
    assert failed[0].error.startswith("ResultError: the result has metrics that are too large")


def test_long_errors_are_cut() -> None:
    _, error, *_ = read_result(ValueError("x" * 10**7))
    assert error is not None
    assert error.startswith("ValueError: xxx")
    assert len(error) < 70_000


def test_a_learning_curve_is_thinned_out() -> None:
    study = open_study(max_budget=1)

    def train(config: dict[str, float], budget: float, context: deepband.Context) -> float:
        for step in range(30_001):
            context.report(step, step / 2)
        return config["x"]

    study.optimize(train)
    (evaluation,) = study.evaluations
    steps = [step for step, _ in evaluation.curve]
    assert len(steps) <= 10_000
    assert steps == sorted(set(steps))
    assert (steps[0], steps[-1]) == (0, 30_000)
    assert all(loss == step / 2 for step, loss in evaluation.curve)


@pytest.mark.parametrize("maximize", [False, True])
@pytest.mark.parametrize("given", [0.0, -0.0, 0, {"loss": -0.0}])
def test_zero_has_no_sign(given: object, maximize: bool, tmp_path: Path) -> None:
    """SQLite does not store the sign of zero: a study would change when it is opened again."""
    path = tmp_path / "a.study"
    settings: dict[str, Any] = {"max_budget": 1, "maximize": maximize}
    with deepband.open_study(path, space={"x": (0.0, 1.0)}, **settings) as study:
        job = study.ask()
        assert job is not None
        study.tell(job, given)
        assert repr(study.best.loss) == repr(study.best.value) == "0.0"
        assert repr(deepband.open_study(path).best) == repr(study.best)
