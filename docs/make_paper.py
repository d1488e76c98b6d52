"""Puts the tables and figures of both views of the study into docs/explanation/paper.md.

deepband paper --data yahpo_data --out results --beyond
deepband paper --data yahpo_data --out results-isha --isha
python docs/make_paper.py results results-isha
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "explanation" / "paper.md"
FIGURES = Path(__file__).with_name("paper")
HYPERBAND, HALVING = "measured", "measured with --isha"


def with_tables(page: str, tables: str, mark: str = HYPERBAND) -> str:
    """Return the page with these tables between the two comments that have this mark."""
    begin, end = f"<!-- {mark}: begin -->\n", f"<!-- {mark}: end -->\n"
    assert page.count(begin) == page.count(end) == 1, f"the page needs one mark {begin}"
    before, _, rest = page.partition(begin)
    _, _, after = rest.partition(end)
    return f"{before}{begin}\n{tables}\n{end}{after}"


def main(results: Path, isha: Path) -> None:
    page = with_tables(PAGE.read_text(), (results / "tables.md").read_text())
    PAGE.write_text(with_tables(page, (isha / "tables.md").read_text(), HALVING))
    FIGURES.mkdir(exist_ok=True)
    for figure in sorted((results / "figures").glob("*.png")):
        shutil.copy(figure, FIGURES / figure.name)
    shutil.copy(results / "data_sets.csv", FIGURES / "data_sets.csv")


if __name__ == "__main__":
    main(*map(Path, sys.argv[1:]))
