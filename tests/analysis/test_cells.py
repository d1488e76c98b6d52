"""The status of cells, against what the study itself says."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from deepband.analysis.cells import CellStatus, Mark, cells, marks, occupied_cells
from deepband.analysis.status import status_of
from deepband.core.strategies import NAMES, StrategyName
from deepband.interfaces.dashboard.overview import overview
from driving import deepened, finish, open_study


def cell(bracket: int, rung: int, budget: int, *counts: int, by_run: tuple[int, ...]) -> CellStatus:
    """A cell from which only evaluations of run 0 were promoted."""
    evaluated, slots, waiting, configs, failed, promoted = counts
    of_runs = (promoted, *(0 for _ in by_run[1:]))
    return CellStatus(
        bracket, rung, budget, evaluated, slots, waiting, configs, by_run, failed, promoted, of_runs
    )


def test_cells_of_a_study_without_results() -> None:
    assert cells(open_study(max_budget=3).session.state) == (
        cell(0, 0, 1, 0, 3, 3, 3, 0, 0, by_run=(0,)),
        cell(0, 1, 3, 0, 1, 0, 1, 0, 0, by_run=(0,)),
        cell(1, 1, 3, 0, 2, 2, 2, 0, 0, by_run=(0,)),
    )


def test_cells_during_a_deepening() -> None:
    study = open_study(max_budget=3)
    finish(study, lambda job: float(job.index))
    study.deepen("efficient")
    jobs = study.ask_all()
    study.tell(jobs[0], 0.5)
    study.tell(jobs[1], ValueError("no"))
    assert cells(study.session.state)[:3] == (
        cell(0, 0, 1, 5, 9, 4, 9, 1, 1, by_run=(3, 2)),
        cell(0, 1, 3, 0, 3, 0, 3, 0, 0, by_run=(1, 0)),
        cell(0, 2, 9, 0, 1, 0, 1, 0, 0, by_run=(0, 0)),
    )
    assert marks(study.session.state, 0, 0) == [
        Mark(0, 0, failed=False, rank=0, promoted=True),
        Mark(1, 0, failed=False, rank=2, promoted=False),
        Mark(2, 0, failed=False, rank=3, promoted=False),
        Mark(3, 1, failed=False, rank=1, promoted=False),
        Mark(4, 1, failed=True, rank=4, promoted=False),
        *(Mark(index, None, False, rank=0, promoted=False) for index in range(5, 9)),
    ]
    assert [mark.index for mark in marks(study.session.state, 0, 0) if mark.failed] == [4]


@given(st.lists(st.sampled_from(NAMES), max_size=2), st.integers(0, 5))
def test_cells_add_up_to_the_runs(strategies: list[StrategyName], seed: int) -> None:
    study = deepened(strategies, seed)
    found = occupied_cells(study.session.state)
    for run in study.runs:
        assert sum(cell.by_run[run.run] for cell in found) == run.evaluations
    assert sum(cell.failed for cell in found) == sum(e.loss is None for e in study.evaluations)
    for cell in found:
        here = marks(study.session.state, cell.bracket, cell.rung)
        assert len(here) == cell.configs
        assert sum(mark.promoted for mark in here) == cell.promoted
        for run in study.runs:
            here_promoted = [mark for mark in here if mark.promoted and mark.run == run.run]
            assert len(here_promoted) == cell.promoted_by_run[run.run]
        assert sum(mark.failed for mark in here) == cell.failed
        assert sum(mark.run is None for mark in here) == cell.open == 0


@given(st.lists(st.sampled_from(NAMES), max_size=2), st.integers(0, 5), st.integers(0, 9))
def test_the_status_and_the_page_show_the_same_cells(
    strategies: list[StrategyName], seed: int, results: int
) -> None:
    """In the middle of a run, too."""
    study = deepened(strategies, seed)
    study.deepen("preserving")
    study.tell_all([(job, 0.5) for job in study.ask_all()[:results]])
    found = status_of(study.session.state).cells
    assert found == cells(study.session.state)
    assert sum(cell.open for cell in found) == status_of(study.session.state).open
    assert [cell["open"] for cell in overview(study.session.state, frozenset())["cells"]] == [
        cell.open for cell in found if cell.configs
    ]
