"""Evaluations as data frames of pandas and Polars: the columns of the CSV export, with types.

A column has the type of its values. Integers mixed with floats become floats if no digit is lost.
Values without a common type stay as they are in pandas, where a column can hold any object, and
become text in Polars, where they could otherwise be neither filtered nor written.
"""

from __future__ import annotations

from collections.abc import Iterator
from itertools import repeat
from typing import TYPE_CHECKING, Any, NamedTuple

from deepband.analysis.export import cells, text_of
from deepband.core.state import State
from deepband.errors import DeepbandError
from deepband.system.installation import install_command

if TYPE_CHECKING:
    import pandas
    import polars

LARGEST_WHOLE = 2**63
LARGEST_EXACT = 2**53
"""Larger integers may not be exact as floats."""
NOT_FINITE = ("inf", "-inf", "nan")
"""How older study files store the numbers that JSON does not have, among metrics."""
KINDS: dict[str, type] = {"loss": float, "value": float, "seconds": float, "error": str}
KINDS |= dict.fromkeys(("bracket", "index", "rung", "run", "resumed_from"), int)
KINDS |= {"feasible": bool}
"""The types of columns that do not depend on their values."""


class Column(NamedTuple):
    """Values of one type, or None where they are missing."""

    name: str
    kind: type
    """int, float, bool, str, or object if the values have no common type."""
    values: list[Any]


def to_pandas(state: State) -> pandas.DataFrame:
    """One row per evaluation, sorted by bracket, index and rung."""
    try:
        import pandas
    except ImportError as error:
        raise DeepbandError(f"this needs pandas: {install_command('pandas')}") from error
    return pandas.DataFrame(
        {each.name: pandas.Series(each.values, dtype=_pandas_type(each)) for each in columns(state)}
    )


def to_polars(state: State) -> polars.DataFrame:
    """One row per evaluation, sorted by bracket, index and rung."""
    try:
        import polars
    except ImportError as error:
        raise DeepbandError(f"this needs Polars: {install_command('polars')}") from error
    types = {int: polars.Int64, float: polars.Float64, bool: polars.Boolean}
    return polars.DataFrame(
        [
            polars.Series(each.name, _for_polars(each), types.get(each.kind, polars.String))
            for each in columns(state)
        ]
    )


def columns(state: State) -> Iterator[Column]:
    """The columns of the data frame, in order."""
    header, rows = cells(state)
    whole = list(rows)
    found = zip(*whole, strict=True) if whole else repeat(())
    for name, values in zip(header, found, strict=False):
        yield column(name, list(values))


def column(name: str, values: list[Any]) -> Column:
    """A column of these values, converted to their common type if there is one."""
    if name.startswith("metrics."):
        values = _with_infinities(values)
    kind = KINDS.get(name) or _kind([value for value in values if value is not None])
    if name.startswith("objectives."):
        kind = float
    if kind is float:
        values = [None if value is None else float(value) for value in values]
    elif kind is str:
        values = [None if value is None else _written(value) for value in values]
    return Column(_written(name), kind, values)


def _kind(values: list[Any]) -> type:
    """The common type of values. Unlike in Python, bool does not count as a number."""
    types = set(map(type, values))
    if types == {int}:
        return int if all(-LARGEST_WHOLE <= value < LARGEST_WHOLE for value in values) else object
    if types == {int, float}:
        exact = all(abs(value) <= LARGEST_EXACT for value in values if type(value) is int)
        return float if exact else object
    (only, *others) = types or {object}
    return only if not others and only in (float, bool, str) else object


def _with_infinities(values: list[Any]) -> list[Any]:
    """The values of a metric, with "inf", "-inf" and "nan" as numbers again, unless the metric has
    other texts."""
    rest = {type(value) for value in values if value is not None and value not in NOT_FINITE}
    if not rest <= {int, float}:
        return values
    return [float(value) if value in NOT_FINITE else value for value in values]


def _written(text: str) -> str:
    """A text that can be encoded as UTF-8, as both libraries require."""
    return text.encode("utf-8", "backslashreplace").decode()


def _pandas_type(given: Column) -> str:
    gaps = given.name == "resumed_from" or None in given.values
    if given.kind is int:
        return "Int64" if gaps else "int64"
    if given.kind is bool:
        return "boolean" if gaps else "bool"
    return {float: "float64", str: "string"}.get(given.kind, "object")


def _for_polars(given: Column) -> list[Any]:
    if given.kind is not object:
        return given.values
    return [None if value is None else _written(text_of(value)) for value in given.values]
