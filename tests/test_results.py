"""What is a loss."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

from deepband import ResultError
from deepband.results import read_result
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
    ],
)
def test_numbers(result: Any, loss: float) -> None:
    read, error, metrics = read_result(result)
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
    loss, described, _ = read_result(result)
    assert loss is None
    assert described == error


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
        "bad": "nan",
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
    assert read_result(-math.inf, maximize=True)[0] == math.inf
    with pytest.raises(ResultError, match="better than anything"):
        read_result(math.inf, maximize=True)
