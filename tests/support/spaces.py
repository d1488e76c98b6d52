"""Search spaces and samples from them."""

from __future__ import annotations

import ConfigSpace as CS
import numpy as np

from deepband.core.facts import Config
from deepband.space.search_space import Space


def draw(space: Space, count: int = 200, seed: int = 0) -> list[Config]:
    return space.configs(space.vectors(count, np.random.RandomState(seed)))


def conditional_space() -> CS.ConfigurationSpace:
    """Conditions in a chain and joined, forbidden clauses, priors and every kind of parameter."""
    space = CS.ConfigurationSpace()
    kind = CS.Categorical("kind", ["tree", "net", "linear"], weights=[0.2, 0.6, 0.2])
    depth = CS.Integer("depth", (1, 12))
    layers = CS.Integer("layers", (1, 4))
    units = CS.Integer("units", (16, 1024), log=True, distribution=CS.Normal(128, 50))
    dropout = CS.Float("dropout", (0.0, 0.9), distribution=CS.Beta(2, 5))
    rate = CS.Float("rate", (1e-5, 1.0), log=True)
    size = CS.OrdinalHyperparameter("size", ["small", "medium", "large"], default_value="large")
    version = CS.Constant("version", 3)
    space.add(kind, depth, layers, units, dropout, rate, size, version)
    space.add(
        CS.EqualsCondition(depth, kind, "tree"),
        CS.EqualsCondition(layers, kind, "net"),
        CS.GreaterThanCondition(units, layers, 1),
        CS.AndConjunction(
            CS.GreaterThanCondition(dropout, layers, 2),
            CS.NotEqualsCondition(dropout, kind, "tree"),
        ),
    )
    space.add(
        CS.ForbiddenAndConjunction(
            CS.ForbiddenEqualsClause(kind, "net"), CS.ForbiddenEqualsClause(size, "small")
        ),
        CS.ForbiddenInClause(depth, [11, 12]),
    )
    return space
