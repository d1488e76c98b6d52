"""Draws the pictures of the tutorial's study for the docs: `python docs/make_images.py`.

Run it in an empty folder: the tutorial writes its study there.
"""

from __future__ import annotations

import re
from pathlib import Path

from matplotlib.axes import Axes

import deepband

DOCS = Path(__file__).parent


def main() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / "tutorial.md").read_text(), re.M | re.S)
    namespace: dict[str, object] = {"__name__": "__main__"}
    for block in blocks:
        exec(block, namespace)
    study = deepband.open_study("wave.study")
    axes = study.plot.brackets()
    axes.set_title("max_budget 9 (blue), deepened to 27 (orange)")
    save(axes, "deepening")
    for kind in ("curves", "incumbent", "stability"):
        save(getattr(study.plot, kind)(), kind)


def save(axes: Axes, name: str) -> None:
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.savefig(DOCS / "images" / f"{name}.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
