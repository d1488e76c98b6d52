"""Digests by content: equal values have the same one, others have not."""

from __future__ import annotations

import functools
import os
import subprocess
import sys
import threading
from collections.abc import Callable
from typing import Any

import numpy as np
import pandas as pd
import polars as pl
import pytest
import scipy.sparse as sp
from sklearn.linear_model import LogisticRegression, Ridge
from sklearn.metrics import accuracy_score, f1_score, make_scorer
from sklearn.model_selection import KFold

from deepband.space.content import digest

NUMBERS = np.arange(12.0).reshape(3, 4)
FRAME = pd.DataFrame({"a": [1.0, 2.0, 3.0], "b": ["x", "y", None], "c": [1, 2, 3]})
LONG = np.arange(5000)


def duplicated() -> sp.csr_array:
    """A matrix with an entry in two parts, and its columns out of order."""
    matrix = sp.csr_array((2, 3))
    matrix.data = np.array([1.0, 2.0, 4.0, 5.0])
    matrix.indices = np.array([2, 0, 2, 1], dtype=np.int32)
    matrix.indptr = np.array([0, 3, 4], dtype=np.int32)
    return matrix


def summed() -> sp.csr_array:
    matrix = duplicated()
    matrix.sum_duplicates()
    return matrix


def weighted(weight: float) -> Callable[[Any], float]:
    return lambda value: weight * value


def changed(array: Any) -> Any:
    array = array.copy()
    array[len(array) // 2] += 1
    return array


LIMIT = 1


def limited(value: float) -> bool:
    return value < LIMIT


class Scorer:
    """Has a state and a way to be called."""

    def __init__(self, power: int) -> None:
        self.power = power

    def __call__(self, value: float) -> float:
        return value**self.power


class Other(Scorer):
    def __call__(self, value: float) -> float:
        return -(value**self.power)


EQUAL = [
    (NUMBERS, np.asfortranarray(NUMBERS)),
    (NUMBERS, NUMBERS.astype(">f8")),
    (np.array(["2026-01-01"], dtype="M8[D]"), np.array(["2026-01-01"], dtype="M8[D]")),
    (np.empty((0, 3)), np.empty((0, 3))),
    (np.array(1.5), np.array(1.5)),
    (np.array(["a", "b"]), np.array(["a", "b"], dtype="U9")),
    (FRAME, FRAME.copy()),
    (FRAME, FRAME.set_axis([7, 8, 9]).reset_index(drop=True)),
    (FRAME, pd.concat([FRAME[["a"]], FRAME[["b", "c"]]], axis=1)),
    (FRAME, FRAME[["c", "b", "a"]][["a", "b", "c"]]),
    (
        pd.DataFrame(NUMBERS, columns=list("abcd")),
        pd.DataFrame(np.asfortranarray(NUMBERS), columns=list("abcd")),
    ),
    (FRAME["a"], FRAME["a"].set_axis([7, 8, 9])),
    (pl.from_pandas(FRAME), pl.from_pandas(FRAME).clone()),
    (duplicated(), summed()),
    (summed(), sp.coo_array(summed())),
    (summed(), sp.csc_matrix(summed())),
    (Ridge(alpha=2), Ridge(alpha=2)),
    (make_scorer(f1_score, average="macro"), make_scorer(f1_score, average="macro")),
    (weighted(2), weighted(2)),
    (functools.partial(f1_score, average="macro"), functools.partial(f1_score, average="macro")),
    ({"a": 1, "b": 2}, {"b": 2, "a": 1}),
    ({"one", "two", "three"}, {"three", "two", "one"}),
    (KFold(3), KFold(3)),
    (Scorer(2), Scorer(2)),
    (np.ma.masked_equal([1, 2, 3], 2), np.ma.masked_equal([1, 9, 3], 9)),
]
OTHER = [
    (LONG, changed(LONG)),
    ([LONG, LONG], [LONG, changed(LONG)]),
    (NUMBERS, NUMBERS.astype(np.float32)),
    (NUMBERS, NUMBERS.reshape(4, 3)),
    (np.array(["2026-01-01"], dtype="M8[D]"), np.array(["2026-01-02"], dtype="M8[D]")),
    (np.array(1.5), np.array(2.5)),
    (FRAME, FRAME.rename(columns={"a": "z"})),
    (FRAME, FRAME.assign(a=[1.0, 2.0, 4.0])),
    (FRAME, FRAME.iloc[::-1]),
    (pl.from_pandas(FRAME), pl.from_pandas(FRAME).reverse()),
    (summed(), 2 * summed()),
    (Ridge(alpha=2), Ridge(alpha=3)),
    (Ridge(), LogisticRegression()),
    (make_scorer(f1_score), make_scorer(accuracy_score)),
    (weighted(2), weighted(3)),
    (lambda value: value, lambda value: -value),
    (lambda value: value + 1, lambda value: value + 2),
    (lambda value=1: value, lambda value=2: value),
    (lambda value: [v for v in value if v > 1], lambda value: [v for v in value if v > 2]),
    ((1, 2), [1, 2]),
    ({"a": 1}, {"a": True}),
    (KFold(3), KFold(4)),
    (Scorer(2), Scorer(3)),
    (Scorer(2), Other(2)),
    (["ab", "c"], ["a", "bc"]),
]


@pytest.mark.parametrize("number", range(len(EQUAL)))
def test_equal_values_have_the_same_digest(number: int) -> None:
    one, other = EQUAL[number]
    assert digest(one) == digest(other)


@pytest.mark.parametrize("number", range(len(OTHER)))
def test_other_values_have_another_digest(number: int) -> None:
    one, other = OTHER[number]
    assert digest(one) != digest(other)


def test_a_global_that_a_function_uses_is_part_of_it(monkeypatch: pytest.MonkeyPatch) -> None:
    before = digest(limited)
    monkeypatch.setattr(sys.modules[__name__], "LIMIT", 2)
    assert digest(limited) != before


def test_reading_changes_nothing() -> None:
    matrix = duplicated()
    digest(matrix)
    assert len(matrix.data) == 4


def test_a_value_that_holds_itself_and_one_without_content() -> None:
    circle: list[Any] = [1]
    circle.append(circle)
    assert digest(circle) == digest(circle)
    lock = threading.Lock()
    assert digest([lock]) == digest([threading.Lock()])
    assert digest([lock], opaque=lambda value: str(id(value))) != digest([threading.Lock()])


def test_digests_are_the_same_in_every_process(capsys: pytest.CaptureFixture[str]) -> None:
    code = (
        "from deepband.space.content import digest\n"
        "from sklearn.linear_model import Ridge\n"
        "def score(value): return value in {'a', 'b', 'c'}\n"
        "print(digest([{'one', 'two', 'three'}, Ridge(), score, {'a': (1, 2.5)}]))\n"
    )
    exec(compile(code, "<string>", "exec", dont_inherit=True), {"__name__": "__main__"})
    other = subprocess.run(
        [sys.executable, "-c", code],
        env={**os.environ, "PYTHONHASHSEED": "1"},  # sets have another order
        capture_output=True,
        text=True,
        check=True,
    )
    assert capsys.readouterr().out == other.stdout
