"""Draws docs/images/deepening.png from the tutorial's study: `python docs/make_images.py`.

Run it in an empty folder: the tutorial writes its study there.
"""

from __future__ import annotations

import re
from pathlib import Path

import deepband

DOCS = Path(__file__).parent


def main() -> None:
    blocks = re.findall(r"^```python\n(.*?)^```", (DOCS / "tutorial.md").read_text(), re.M | re.S)
    namespace: dict[str, object] = {}
    for block in blocks:
        exec(block, namespace)
    axes = deepband.open_study("wave.study").plot.brackets()
    axes.set_title("max_budget 9 (blue), deepened to 27 (orange)")
    figure = axes.get_figure(root=True)
    assert figure is not None
    figure.savefig(DOCS / "images" / "deepening.png", dpi=110, bbox_inches="tight")


if __name__ == "__main__":
    main()
