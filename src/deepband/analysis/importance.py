"""Which parameters matter, by functional analysis of variance (fANOVA) with Optuna."""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple

from deepband.analysis import chart_data
from deepband.analysis.measures import measure, on_rung
from deepband.core.facts import Config
from deepband.core.state import State
from deepband.errors import DeepbandError
from deepband.space.choices import position
from deepband.system.installation import install_command

MOST = 1000
"""How many evaluations are used at most: fitting a forest to more is slow."""


@dataclass(frozen=True, slots=True)
class Importance:
    """The share of each parameter in the variance of the loss, or of a metric, on one rung."""

    rung: int
    evaluations: int
    shares: dict[str, float]
    """By parameter, largest first. Empty if the losses do not vary."""
    left_out: tuple[str, ...]
    """Parameters that some configs do not have, or that have a single value."""


class Sample(NamedTuple):
    """What importance is computed from: a copy that does not change with the state."""

    rung: int
    found: list[tuple[float, Config]]
    axes: list[chart_data.Axis]
    left_out: tuple[str, ...]


def importance(state: State, rung: int | None = None, metric: str | None = None) -> Importance:
    """The importance of parameters on a rung, by default the highest one with enough losses, for
    the number that is optimised or for a metric."""
    return importance_of(sample(state, rung, metric=metric))


def importance_of(given: Sample) -> Importance:
    """The importance of parameters in a sample, which may take seconds."""
    varies = len({number for number, _ in given.found}) > 1
    shares = _shares(given.found, given.axes) if varies and given.axes else {}
    return Importance(given.rung, len(given.found), shares, given.left_out)


def sample(
    state: State, rung: int | None = None, most: int | None = None, metric: str | None = None
) -> Sample:
    """At most `most` evaluations of a rung, by default MOST, with the parameters that vary in
    them."""
    chosen = chart_data.rung_to_judge(state, rung)
    found = on_rung(measure(state, metric), chosen)
    found = found[
        :: math.ceil(len(found) / (most or MOST)) or 1
    ]  # from the best to the worst, evenly
    axes = [
        axis
        for axis in chart_data.axes(state)
        if all(axis.name in config for _, config in found)
        if len({repr(config[axis.name]) for _, config in found}) > 1
    ]
    left_out = {axis.name for axis in chart_data.axes(state)}.difference(axis.name for axis in axes)
    return Sample(chosen, found, axes, tuple(sorted(left_out)))


def _shares(found: list[tuple[float, Config]], axes: list[chart_data.Axis]) -> dict[str, float]:
    try:
        import optuna
        from optuna.importance import FanovaImportanceEvaluator, get_param_importances
    except ImportError as error:
        raise DeepbandError(f"importance needs Optuna: {install_command('plots')}") from error
    from deepband.samplers.tpe import quiet_optuna

    scale = max(abs(number) for number, _ in found) or 1.0  # shares do not depend on it
    distributions = {str(number): _distribution(axis) for number, axis in enumerate(axes)}
    with quiet_optuna():
        study = optuna.create_study()
        for number, config in found:
            params = {str(n): _value(axis, config[axis.name]) for n, axis in enumerate(axes)}
            trial = optuna.create_trial(
                params=params, distributions=distributions, value=number / scale
            )
            study.add_trial(trial)
        try:
            shares = get_param_importances(study, evaluator=FanovaImportanceEvaluator(seed=0))
        except RuntimeError:  # no variance in any tree
            return {}
    return {axes[int(number)].name: share for number, share in shares.items()}


def _distribution(axis: chart_data.Axis) -> Any:
    from optuna.distributions import CategoricalDistribution, FloatDistribution

    if axis.choices is not None:
        return CategoricalDistribution(range(len(axis.choices)))
    return FloatDistribution(axis.low, axis.high, log=axis.log)


def _value(axis: chart_data.Axis, value: Any) -> float | int:
    return float(value) if axis.choices is None else position(axis.choices, value)
