"""A live view of a study in a notebook."""

from __future__ import annotations

import time
from collections.abc import Sequence

from deepband.core.facts import Fact
from deepband.errors import DeepbandError
from deepband.study.study import Study

__all__ = ["NotebookObserver"]

UPDATE_SECONDS = 0.5


class NotebookObserver:
    """Shows a running study in the output of a cell: `study.observe(NotebookObserver(study))`.

    The view has the brackets and rungs of the current run, and the best loss on any budget.
    """

    def __init__(self, study: Study) -> None:
        try:
            from IPython.display import display
        except ImportError as error:
            raise DeepbandError("NotebookObserver needs IPython: use it in a notebook.") from error
        self._study = study
        self._next_update = 0.0
        self._shown = display(study, display_id=True)

    def observe(self, facts: Sequence[Fact]) -> None:
        """Update the view, at most twice a second and when a run is done."""
        now = time.monotonic()
        if self._shown is not None and (now >= self._next_update or self._study.done):
            self._shown.update(self._study)
            self._next_update = now + UPDATE_SECONDS
