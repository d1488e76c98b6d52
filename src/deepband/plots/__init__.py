"""Plots of a study with Matplotlib. Each draws the rows of `deepband.analysis`."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Literal, Protocol

from deepband.analysis.fronts import front_chart
from deepband.analysis.measures import measure
from deepband.core.state import State
from deepband.plots import brackets, lines, parameters
from deepband.plots import objectives as objective_plots

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
        """The best loss on any budget against the budget spent.

        Other studies are drawn beside it. With `metric`, the value of a metric for the config that
        was the best so far."""
        studies = self._named(others)
        return lines.draw_incumbent([(name, measure(each, metric)) for name, each in studies], ax)

    def _named(self, others: Sequence[Plotted]) -> list[tuple[str, State]]:
        """The names in a legend and the states of this study and others."""
        names = [each.session.name for each in (self._study, *others)]
        if len(set(names)) < len(names):
            names = [f"{name} ({number})" for number, name in enumerate(names, 1)]
        states = [each.session.state for each in (self._study, *others)]
        return list(zip(names, states, strict=True))

    def front(
        self,
        ax: Axes | None = None,
        *,
        by: Literal["run", "rung"] = "run",
        objectives: Sequence[str] | None = None,
    ) -> Axes:
        """The front after each run: the evaluations that no other one dominates, over two
        objectives.

        With `by="rung"`, the front on each rung instead. `objectives` are the names of two, by
        default the first two."""
        return objective_plots.draw_front(front_chart(self._state, by, objectives), by, ax)

    def hypervolume(
        self,
        *others: Plotted,
        ax: Axes | None = None,
        reference: Mapping[str, float] | None = None,
    ) -> Axes:
        """How much of the space of objectives the front dominates, against the budget spent, of
        this study and others.

        `reference` has a value for each objective, up to which the volume reaches; by default the
        worst feasible one in the first run of this study."""
        return objective_plots.draw_hypervolume(self._named(others), reference, ax)

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

    def predictions(self, ax: Axes | None = None, *, most: int = 5) -> Axes:
        """What is predicted for larger budgets, up to one rung above the top, with bands of 50 and
        95 % probability.

        Shows the best of the configs that reached the highest rungs, at most `most`."""
        # The model needs SciPy, which takes longer to import than all the commands.
        from deepband.plots import prediction_bands

        return prediction_bands.draw(self._state, ax, most)


KINDS = "brackets", "curves", "incumbent", "parallel", "importance", "stability", "predictions"
"""The plots of a study with one objective."""
OF_OBJECTIVES = ("front", "hypervolume")
"""The plots of several objectives, which take the place of the incumbent."""
OF_ONE_OBJECTIVE = ("incumbent", "predictions")
"""The plots that a study with several objectives does not have."""
OF_METRICS = ("curves", "incumbent", "parallel", "importance")
"""The plots that can show a metric."""
COMPARING = ("incumbent", "hypervolume")
"""The plots that can show several studies."""


def kinds_of(state: State) -> tuple[str, ...]:
    """The plots that a report of a study shows."""
    if not state.criteria.several:
        return KINDS
    single = [kind for kind in KINDS if kind not in OF_ONE_OBJECTIVE]
    return (*single[:2], *OF_OBJECTIVES, *single[2:])
