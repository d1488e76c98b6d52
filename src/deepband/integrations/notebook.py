"""A study in a notebook that shows itself and keeps up with what happens."""

from __future__ import annotations

import time
from collections.abc import Sequence

from deepband.core.facts import Fact
from deepband.errors import DeepbandError
from deepband.study.study import Study

__all__ = ["NotebookObserver"]

SECONDS_A_LOOK = 0.5


class NotebookObserver:
    """Shows the brackets and rungs of a study in the output of a cell, while it runs:
    `study.observe(NotebookObserver(study))`."""

    def __init__(self, study: Study) -> None:
        try:
            from IPython.display import display
        except ImportError as error:
            raise DeepbandError("this needs IPython, which every notebook has.") from error
        self._study = study
        self._next = 0.0
        self._shown = display(study, display_id=True)

    def observe(self, facts: Sequence[Fact]) -> None:
        """Show where the study stands, twice a second and when a run is done."""
        now = time.monotonic()
        if self._shown is not None and (now >= self._next or self._study.done):
            self._shown.update(self._study)
            self._next = now + SECONDS_A_LOOK
