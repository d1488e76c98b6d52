"""An experiment: units of work whose results are kept, so that it can be interrupted.

OUT/settings.json   everything that the results depend on
OUT/parts/          one Parquet file per unit; a second run continues after these
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from functools import partial
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec
from pathlib import Path
from typing import Any, ClassVar, Generic, NamedTuple, TypeVar

from deepband.errors import DeepbandError, InputError
from deepband.research.result_files import Columns, prepare_folder, read_columns, write_rows
from deepband.research.suites import SYNTHETIC, Suite, suite
from deepband.research.worker_pool import do_missing
from deepband.system.installation import install_command

MOST_SEEDS = 10_000
NEEDED = ("pyarrow", "matplotlib")
Unit = TypeVar("Unit", bound=tuple[Any, ...])
"""A named tuple: its fields that are also columns of the results have one value per unit."""


@dataclass(frozen=True, kw_only=True)
class Experiment(ABC, Generic[Unit]):
    """The settings of an experiment, and how its units are done and presented."""

    data: str | Path = SYNTHETIC
    """`synthetic`, or the folder of YAHPO Gym's data."""
    seeds: int = 1

    row: ClassVar[type[NamedTuple]]
    """The type of the rows in its results."""

    def __post_init__(self) -> None:
        if not 1 <= self.seeds <= MOST_SEEDS:
            raise InputError(f"seeds is {self.seeds}: give 1 to {MOST_SEEDS:,}.")

    @property
    def suite(self) -> Suite:
        return suite(self.data)

    @abstractmethod
    def units(self) -> Iterable[Unit]:
        """Return all units, in the order of the results."""

    @abstractmethod
    def describe(self) -> dict[str, Any]:
        """Return everything that the results depend on, as JSON."""

    @abstractmethod
    def part(self, unit: Unit) -> str:
        """Return the path of a unit's results below OUT/parts, without suffix."""

    @abstractmethod
    def rows(self, unit: Unit) -> Sequence[NamedTuple]:
        """Do the work of a unit."""

    @abstractmethod
    def is_complete(self, unit: Unit, columns: Columns) -> bool:
        """Return whether these are all results of a unit."""

    @abstractmethod
    def present(self, out: Path) -> dict[str, str]:
        """Write results, tables and figures; returns what each file contains."""

    def make(self, out: Path, workers: int, show: Callable[[int, int], None]) -> dict[str, str]:
        """Run what is missing in the folder `out`, then write results, tables and figures.

        Calls `show(done, total)` after each unit. Returns what each file contains.
        """
        self._check_installed()
        try:
            self.prepare(out)
            units = list(self.units())
            do_missing(partial(self.run, out), units, partial(self.is_done, out), workers, show)
            return self.present(out)
        except OSError as error:
            raise DeepbandError(f"Cannot write results to {out}: {error}.") from error

    def prepare(self, out: Path) -> None:
        """Create the folder, or check that its results were started with the same settings."""
        folders = dict.fromkeys(self.place(out, unit).parent for unit in self.units())
        prepare_folder(out, self.describe(), folders)

    def place(self, out: Path, unit: Unit) -> Path:
        """Return the file with the results of a unit."""
        return out / "parts" / f"{self.part(unit)}.parquet"

    def run(self, out: Path, unit: Unit) -> Unit:
        """Do the work of a unit and write its results."""
        write_rows(self.place(out, unit), self.rows(unit), self.row)
        return unit

    def is_done(self, out: Path, unit: Unit) -> bool:
        """Return whether the results of a unit exist and are intact."""
        import pyarrow as pa

        try:
            columns = read_columns(self.place(out, unit))
        except (OSError, pa.ArrowException):
            return False
        fields: dict[str, Any] = unit._asdict()  # type: ignore[attr-defined] # a NamedTuple
        own = [set(columns[name]) == {value} for name, value in fields.items() if name in columns]
        return all(own) and self.is_complete(unit, columns)

    def versions(self, *packages: str) -> dict[str, str]:
        """Return the versions of deepband, of what its benchmarks need, and of other packages."""
        names = ("deepband", *self.suite.packages, "numpy", "ConfigSpace", *packages)
        return {name: _version(name) for name in names}

    def page(self, report: str) -> bytes:
        """Return a report as the content of a file, headed by the note on the benchmarks."""
        note = self.suite.note
        return (f"{note}\n\n{report}" if note else report).encode()

    def _check_installed(self) -> None:
        missing = [name for name in (*self.suite.packages, *NEEDED) if find_spec(name) is None]
        if missing:
            raise DeepbandError(
                f"This command needs {', '.join(missing)}: {install_command('paper')}"
            )


def _version(name: str) -> str:
    try:
        return version(name)
    except PackageNotFoundError:
        return "not there"
