"""A view of progress in the output of a notebook's cell, updated in place."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from html import escape

from IPython.display import publish_display_data

from deepband.analysis.text import printable
from deepband.execution.progress import Progress
from deepband.execution.progress_text import (
    amounts,
    best,
    ending,
    last_line,
    one_line,
    running_lines,
    share_done,
    state,
    title,
)


class NotebookView:
    """A bar and a few lines as HTML. Kernels without HTML show one line of text."""

    def __init__(self) -> None:
        self._id: str | None = None

    def begin(self) -> None:
        """Nothing to prepare: the first `show` makes the output."""

    def close(self) -> None:
        """Nothing to undo."""

    def show(self, progress: Progress, notes: Sequence[str]) -> None:
        """Update the output of the cell."""
        parts = [", ".join(state(progress)), *running_lines(progress.running), *notes]
        self._publish(one_line(progress), html(progress, parts))

    def end(self, progress: Progress, notes: Sequence[str]) -> None:
        """Leave the last state in the output of the cell."""
        self._publish(last_line(progress), html(progress, [ending(progress), *notes]))

    def _publish(self, text: str, page: str) -> None:
        new = self._id is None
        self._id = self._id or uuid.uuid4().hex
        publish_display_data(
            {"text/plain": text, "text/html": page},
            transient={"display_id": self._id},
            update=not new,
        )


def html(progress: Progress, parts: Sequence[str]) -> str:
    """A bar over the units of budget, and lines below it."""
    lines = [", ".join(amounts(progress)), ", ".join(best(progress)), *parts]
    body = "\n".join(escape(printable(line)) for line in lines)
    bar = f"<progress value='{share_done(progress):.4f}' max='1' style='width: 20em'></progress>"
    head = f"{title(progress)} {bar} {int(100 * share_done(progress))} %"
    return f"<div style='white-space: pre-wrap'>{head}\n{body}</div>"
