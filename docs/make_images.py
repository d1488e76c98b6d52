"""Draws the pictures of the studies in the docs: `python docs/make_images.py`.

Run it in an empty folder: the pages write their studies there.
"""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.axes import Axes

import deepband

DOCS = Path(__file__).parent


def main() -> None:
    run_code_of("tutorial.md", until="## 7.")  # which widens the study
    study = deepband.open_study("wave.study")
    axes = study.plot.brackets()
    axes.set_title("max_budget 9 (blue), deepened to 27 (orange)")
    save(axes, "deepening")
    for kind in ("curves", "incumbent", "stability", "predictions"):
        save(getattr(study.plot, kind)(), kind)
    run_code_of("how-to/objectives.md")
    study = deepband.open_study("net.study")
    for kind in ("front", "hypervolume"):
        save(getattr(study.plot, kind)(), kind)


def run_code_of(page: str, until: str | None = None) -> None:
    text = (DOCS / page).read_text().partition(until or "\0")[0]
    blocks = re.findall(r"^```python\n(.*?)^```", text, re.M | re.S)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(block, namespace)


def save(axes: Axes, name: str) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.savefig(DOCS / "images" / f"{name}.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
