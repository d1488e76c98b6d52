"""Playing the units of a comparison."""

from __future__ import annotations

from functools import cache
from pathlib import Path

from deepband.research.compare.ledger import Ledger, Task
from deepband.research.compare.methods import play
from deepband.research.compare.results import Folder, Row, rows_of
from deepband.research.compare.settings import Settings, Unit, seed_of
from deepband.research.paper.settings import read_scenario
from deepband.space.search_space import Space


def play_unit(folder: Folder, settings: Settings, unit: Unit) -> Unit:
    """Do a unit and keep its part."""
    rows = [row for seed in range(settings.seeds) for row in play_seed(settings, unit, seed)]
    folder.write_part(unit, rows)
    return unit


def play_seed(settings: Settings, unit: Unit, seed: int) -> list[Row]:
    """One run of a method on a data set."""
    problem = read_scenario(settings.data, unit.scenario).problem(unit.instance)
    space = _space(settings.data, unit.scenario)
    ledger = Ledger(Task(problem, space, settings.max_budget), settings.full_runs)
    play(unit.method, ledger, seed_of(*unit[:2], seed), settings.smac_python)
    return rows_of(ledger, unit, seed)


@cache
def _space(data: Path, scenario: str) -> Space:
    return Space(read_scenario(data, scenario).space)
