"""Plots of a study with Matplotlib. Each draws the rows of `deepband.analysis`."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

from deepband.analysis.measures import measure
from deepband.core.state import State
from deepband.plots import brackets, lines, parameters

if TYPE_CHECKING:
    from matplotlib.axes import Axes


class NamedState(Protocol):
    """The state of a study, and its name in a legend."""

    state: State

    @property
    def name(self) -> str: ...


class Plotted(Protocol):
    """A study, as far as plots need it."""

    @property
    def session(self) -> NamedState: ...


class Plots:
    """The plots of one study. Each draws on `ax`, or on a new figure, and returns the Axes."""

    def __init__(self, study: Plotted) -> None:
        self._study = study

    @property
    def _state(self) -> State:
        return self._study.session.state

    def brackets(self, ax: Axes | None = None) -> Axes:
        """Brackets and rungs: each config, the run that evaluated it, and its promotions."""
        return brackets.draw(self._state, ax)

    def curves(self, ax: Axes | None = None, *, most: int = 200, metric: str | None = None) -> Axes:
        """Losses from rung to rung and those reported during training, of the configs that reached
        the highest rungs.

        With `metric`, the values of a metric that the objective returned."""
        return lines.draw_curves(measure(self._state, metric), ax, most)

    def incumbent(
        self, *others: Plotted, ax: Axes | None = None, metric: str | None = None
    ) -> Axes:
        """The best loss on any budget against the budget spent, of this study and others.

        With `metric`, the value of a metric for the config that was the best so far."""
        names = [each.session.name for each in (self._study, *others)]
        if len(set(names)) < len(names):
            names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
        states = [each.session.state for each in (self._study, *others)]
        measures = [measure(state, metric) for state in states]
        return lines.draw_incumbent(list(zip(names, measures, strict=True)), ax)

    def parallel(
        self,
        ax: Axes | None = None,
        *,
        rung: int | None = None,
        most: int = 500,
        metric: str | None = None,
    ) -> Axes:
        """Configs across all parameters, coloured by their loss on a rung (by default the highest
        with enough losses).

        With `metric`, they are coloured by a metric instead."""
        return parameters.draw_parallel(measure(self._state, metric), ax, rung, most)

    def importance(
        self, ax: Axes | None = None, *, rung: int | None = None, metric: str | None = None
    ) -> Axes:
        """Which parameters matter on a rung (by default the highest with enough losses), by fANOVA
        with Optuna.

        With `metric`, which matter for a metric."""
        return parameters.draw_importance(measure(self._state, metric), ax, rung)

    def stability(self, ax: Axes | None = None) -> Axes:
        """How similarly each rung and the next rank configs."""
        return lines.draw_stability(self._state, ax)


KINDS = ("brackets", "curves", "incumbent", "parallel", "importance", "stability")
"""The names of all plots."""
OF_METRICS = ("curves", "incumbent", "parallel", "importance")
"""The plots that can show a metric."""
