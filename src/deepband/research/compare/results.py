"""The results on disk: a part a unit of work, written when it is done, then one file for all.

OUT/settings.json      what was asked for, and of which data and versions
OUT/parts/             a Parquet file a method and data set: who compares again goes on after these
OUT/references/        the scale of each data set
OUT/results.parquet    a row each time that a method's incumbent changed, and one for its end
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from pathlib import Path
from typing import NamedTuple

from deepband.research.compare.ledger import Ledger
from deepband.research.compare.methods import METHODS
from deepband.research.compare.settings import Settings, Unit
from deepband.research.paper.results import as_parquet, as_table, prepare, read_columns, write_whole


class Row(NamedTuple):
    """A new incumbent, or where a run ended."""

    scenario: str
    instance: str
    method: str
    seed: int
    spent: float
    """In full runs."""
    budget: float
    """That on which the incumbent is the best."""
    accuracy: float
    """Of the incumbent with the largest budget of all."""


def rows_of(ledger: Ledger, unit: Unit, seed: int) -> list[Row]:
    """A run as rows: its incumbents, and its end."""
    task, steps = ledger.task, ledger.steps
    tops = [float(task.problem.fidelity.high)] * len(steps)
    found = task.problem.accuracies([step.config for step in steps], tops).tolist()
    rows = [
        Row(*unit, seed, step.spent / task.full_run, float(step.budget), accuracy)
        for step, accuracy in zip(steps, found, strict=True)
    ]
    return [*rows, rows[-1]._replace(spent=ledger.spent / task.full_run)]


class Folder(NamedTuple):
    """The folder that holds the results of a comparison."""

    path: Path
    seeds: int

    @classmethod
    def prepare(cls, path: Path, settings: Settings) -> Folder:
        """The folder, new or with what was done before with the same settings."""
        prepare(path, settings.describe(), [path / "parts"])
        return cls(path, settings.seeds)

    def part(self, unit: Unit) -> Path:
        return self.path / "parts" / f"{unit.method}-{unit.scenario}-{unit.instance}.parquet"

    def has(self, unit: Unit) -> bool:
        """Whether the unit is done: its part is there, whole, and its own."""
        import pyarrow as pa

        try:
            columns = read_columns(self.part(unit))
        except (OSError, pa.ArrowException):
            return False
        own = [set(columns[name]) == {getattr(unit, name)} for name in Unit._fields]
        return all(own) and set(columns["seed"]) == set(range(self.seeds))

    def write_part(self, unit: Unit, rows: Sequence[Row]) -> None:
        write_whole(self.part(unit), as_parquet(as_table(rows, Row)))

    @property
    def file(self) -> Path:
        """The one with all rows."""
        return self.path / "results.parquet"

    def collect(self, problems: Iterable[tuple[str, str]]) -> list[str]:
        """All parts of the methods that are done on all data sets, in one file; returns their
        names."""
        import pyarrow as pa
        from pyarrow import parquet

        pairs = list(problems)
        of = {name: [Unit(*pair, name) for pair in pairs] for name in METHODS}
        done = [name for name, units in of.items() if all(map(self.has, units))]
        parts = [parquet.read_table(self.part(unit)) for name in done for unit in of[name]]
        write_whole(self.file, as_parquet(pa.concat_tables(parts).combine_chunks()))
        return done
