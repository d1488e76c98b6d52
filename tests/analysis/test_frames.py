"""Data frames: they hold the evaluations and nothing else, with types."""

from __future__ import annotations

import csv
import math
from pathlib import Path
from typing import Any

import pandas
import polars
import pytest
from ConfigSpace import Categorical, ConfigurationSpace, EqualsCondition

import hostile
import preloaded
from deepband import Evaluation, Job, Study
from deepband.analysis import export
from deepband.analysis.frames import LARGEST_EXACT, LARGEST_WHOLE, column
from deepband.system.installation import install_command
from driving import finish, noisy, open_study

SPACE = {"lr": (1e-4, 1e-1, "log"), "layers": (1, 8), "kind": ["a", "b"], "on": [True, False]}


def deepened(failures: float = 0.2, **settings: Any) -> Study:
    study = open_study(**{"space": SPACE, **settings})
    finish(study, noisy(1, failures))
    study.deepen("preserving")
    finish(study, noisy(1, failures))
    return study


def expected(each: Evaluation) -> dict[str, Any]:
    """An evaluation as a row, without what is missing."""
    row = {name: getattr(each, name) for name in export.PLAIN}
    row |= {f"config.{name}": value for name, value in each.config.items()}
    row |= {f"metrics.{name}": value for name, value in each.metrics.items()}
    return {name: value for name, value in row.items() if value is not None}


def rows_of_pandas(study: Study) -> list[dict[str, Any]]:
    frame = study.to_pandas()
    assert list(frame.index) == list(range(len(frame)))
    found = frame.astype(object).to_dict("records")
    return [{str(k): v for k, v in row.items() if not is_missing(v)} for row in found]


def is_missing(value: Any) -> bool:
    return not isinstance(value, list | dict) and bool(pandas.isna(value))


def rows_of_polars(study: Study) -> list[dict[str, Any]]:
    found = study.to_polars().to_dicts()
    return [{k: v for k, v in row.items() if v is not None} for row in found]


BOTH = pytest.mark.parametrize("rows_of", [rows_of_pandas, rows_of_polars])


@BOTH
@pytest.mark.parametrize("maximize", [False, True])
def test_a_frame_holds_the_evaluations(rows_of: Any, maximize: bool) -> None:
    study = deepened(maximize=maximize, failures=0.0)
    assert rows_of(study) == [expected(each) for each in study.evaluations]
    assert rows_of(study)[0]["value"] == (-1 if maximize else 1) * rows_of(study)[0]["loss"]


@BOTH
def test_failures_are_missing_and_infinities_stay(rows_of: Any) -> None:
    study = deepened(failures=0.6)
    assert rows_of(study) == [expected(each) for each in study.evaluations]
    assert any(each.loss is None for each in study.evaluations)
    infinite = [row["loss"] for row in rows_of(study) if row.get("loss") == math.inf]
    assert infinite


def test_columns_have_types() -> None:
    study = deepened()
    types = {name: str(kind) for name, kind in study.to_pandas().dtypes.items()}
    assert types["bracket"] == types["budget"] == types["config.layers"] == "int64"
    assert types["loss"] == types["seconds"] == types["config.lr"] == "float64"
    assert types["resumed_from"] == "Int64"
    assert types["config.kind"] == types["error"] == "string"
    assert types["config.on"] == "bool"
    schema = study.to_polars().schema
    assert schema["bracket"] == schema["resumed_from"] == schema["config.layers"] == polars.Int64
    assert schema["loss"] == schema["seconds"] == schema["config.lr"] == polars.Float64
    assert schema["config.kind"] == schema["error"] == polars.String
    assert schema["config.on"] == polars.Boolean


def test_columns_are_those_of_the_csv() -> None:
    study = deepened()
    header, *lines = csv.reader(export.table(study.session.state))
    assert header == list(study.to_pandas().columns) == study.to_polars().columns
    assert len(lines) == len(study.to_pandas()) == study.to_polars().height


def test_a_study_without_evaluations_has_the_plain_columns() -> None:
    study = open_study()
    assert list(study.to_pandas().columns) == study.to_polars().columns == list(export.PLAIN)
    assert str(study.to_pandas()["loss"].dtype) == "float64"
    assert study.to_polars().schema["run"] == polars.Int64
    assert study.to_polars().height == len(study.to_pandas()) == 0


@BOTH
def test_parameters_that_a_config_lacks_are_missing(rows_of: Any) -> None:
    space = ConfigurationSpace({"kind": ["a", "b"], "depth": (1, 9), "on": [True, False]})
    for name in ("depth", "on"):
        space.add(EqualsCondition(space[name], space["kind"], "b"))
    study = deepened(space=space)
    assert rows_of(study) == [expected(each) for each in study.evaluations]
    types = study.to_pandas().dtypes
    assert (str(types["config.depth"]), str(types["config.on"])) == ("Int64", "boolean")


def test_categories_of_many_types() -> None:
    choices = ["a", 3, 2.5, True, None]
    space = ConfigurationSpace(space=[Categorical("any", choices), Categorical("n", [1, 2.5])])
    study = deepened(space=space)
    found = [each.config["any"] for each in study.evaluations]
    assert {repr(value) for value in found} == {repr(value) for value in choices}
    kept = [None if is_missing(value) else value for value in study.to_pandas()["config.any"]]
    assert list(map(repr, kept)) == list(map(repr, found))
    texts = [None if value is None else export.text_of(value) for value in found]
    assert study.to_polars()["config.any"].to_list() == texts
    numbers = [each.config["n"] for each in study.evaluations]
    assert study.to_polars()["config.n"].to_list() == study.to_pandas()["config.n"].to_list()
    assert study.to_polars()["config.n"].to_list() == numbers


def measured(job: Job) -> object:
    numbers = [0.5, 1, math.inf, -math.inf, math.nan]
    return {
        "loss": job.config["x"],
        "number": numbers[job.index % len(numbers)],
        "nested": {"list": [1, 2], "index": job.index},
        "sometimes": "word" if job.index % 2 else 3,
        **({"rare": job.index} if job.index == 2 else {}),
    }


def test_metrics_are_columns() -> None:
    study = open_study()
    finish(study, measured)
    first, second = study.to_pandas(), study.to_polars()
    assert second.schema["metrics.number"] == polars.Float64
    assert second["metrics.number"].to_list()[4] == math.inf
    assert first["metrics.number"].min() == -math.inf
    assert first["metrics.nested"][0] == {"list": [1, 2], "index": 0}
    assert second["metrics.nested"][0] == '{"list": [1, 2], "index": 0}'
    assert set(first["metrics.sometimes"]) == {"word", 3}
    assert set(second["metrics.sometimes"]) == {"word", "3"}
    rare = [each.metrics.get("rare") for each in study.evaluations]
    assert second["metrics.rare"].to_list() == rare


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([1, None], int),
        ([LARGEST_WHOLE - 1, -LARGEST_WHOLE], int),
        ([LARGEST_WHOLE], object),
        ([LARGEST_EXACT, 0.5], float),
        ([LARGEST_EXACT + 1, 0.5], object),
        ([True, 1], object),
        ([True, None], bool),
        (["a", None], str),
        ([[1], [2]], object),
        ([None], object),
        ([], object),
    ],
)
def test_what_values_have_in_common(values: list[Any], kind: type) -> None:
    assert column("config.x", values).kind is kind


def test_hostile_names_and_texts(tmp_path: Path) -> None:
    study = hostile.make(tmp_path / "a.study")
    first, second = study.to_pandas(), study.to_polars()
    assert list(first.columns) == second.columns
    assert len(first.columns) == len(export.PLAIN) + len(hostile.NAMES) + 1
    assert second.height == len(first) == len(study.evaluations)
    second.write_parquet(tmp_path / "a.parquet")
    assert polars.read_parquet(tmp_path / "a.parquet").equals(second)


def test_without_the_libraries_the_extra_is_named() -> None:
    code = (
        "import sys; sys.modules['pandas'] = None; sys.modules['polars'] = None\n"
        "import deepband\n"
        "study = deepband.open_study(space={'x': (0.0, 1.0)}, max_budget=1)\n"
        "for make in (study.to_pandas, study.to_polars):\n"
        "    try: make()\n"
        "    except deepband.DeepbandError as error: print(error)\n"
    )
    done = preloaded.run(["-c", code], Path.cwd())
    for extra in ("pandas", "polars"):
        assert install_command(extra) in done.stdout
