"""Puts the tables and figures of a whole study into docs/explanation/paper.md.

deepband paper --data yahpo_data --out results --beyond
python docs/make_paper.py results
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

PAGE = Path(__file__).parent / "explanation" / "paper.md"
FIGURES = Path(__file__).with_name("paper")
BEGIN, END = "<!-- measured: begin -->\n", "<!-- measured: end -->\n"


def with_tables(page: str, tables: str) -> str:
    """Return the page with these tables between its two marks."""
    assert page.count(BEGIN) == page.count(END) == 1, f"the page needs one mark {BEGIN}"
    before, _, rest = page.partition(BEGIN)
    _, _, after = rest.partition(END)
    return f"{before}{BEGIN}\n{tables}\n{END}{after}"


def main(results: Path) -> None:
    PAGE.write_text(with_tables(PAGE.read_text(), (results / "tables.md").read_text()))
    FIGURES.mkdir(exist_ok=True)
    for figure in sorted((results / "figures").glob("*.png")):
        shutil.copy(figure, FIGURES / figure.name)
    shutil.copy(results / "data_sets.csv", FIGURES / "data_sets.csv")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
