"""The interface of everything that is compared: a tuner that is asked for evaluations."""

from __future__ import annotations

from typing import Protocol

from deepband.research.compare.ledger import Evaluation, Ledger


class Tuner(Protocol):
    """Proposes evaluations and learns from their results."""

    def ask(self) -> Evaluation | None:
        """Return the next evaluation. None: it waits for running evaluations; if none is running,
        the search has ended."""

    def tell(self, evaluation: Evaluation, accuracy: float) -> None:
        """Record the result of an evaluation."""


def search(tuner: Tuner, ledger: Ledger) -> None:
    """Evaluate what a tuner asks for, whenever a simulated worker is free, until it has ended."""
    while True:
        while ledger.clock.free and (evaluation := tuner.ask()) is not None:
            ledger.start(evaluation)
        if not ledger.clock.running:
            return
        tuner.tell(*ledger.end())
