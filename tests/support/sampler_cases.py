"""Spaces of all kinds, and evaluations, for tests of samplers."""

from __future__ import annotations

import ConfigSpace as CS

from deepband import Evaluation
from deepband.core.facts import Config
from deepband.space.search_space import Space


def mixed() -> CS.ConfigurationSpace:
    """A parameter of each kind, conditions and a forbidden clause."""
    space = CS.ConfigurationSpace()
    kind = CS.Categorical("kind", ["tree", "net", None])
    lr = CS.Float("lr", (1e-5, 0.3), log=True)
    depth = CS.Integer("depth", (1, 4))
    units = CS.Integer("units", (1, 4096), log=True)
    size = CS.OrdinalHyperparameter("size", [1, 2, 4, 8])
    space.add([kind, lr, depth, units, size, CS.Constant("fixed", "x")])
    space.add(
        [
            CS.Float("bell", (0, 10), distribution=CS.Normal(3, 1)),
            CS.Integer("whole_bell", (0, 10), distribution=CS.Normal(3, 1)),
            CS.Float("skew", (0, 1), distribution=CS.Beta(2, 5)),
            CS.Categorical("weighed", [True, 1.5, "x"], weights=[5, 1, 1]),
        ]
    )
    space.add([CS.EqualsCondition(depth, kind, "tree"), CS.EqualsCondition(units, kind, "net")])
    space.add(
        CS.ForbiddenAndConjunction(
            CS.ForbiddenEqualsClause(kind, "tree"), CS.ForbiddenEqualsClause(depth, 4)
        )
    )
    return space


SPACES = {
    "mixed": Space(mixed()),
    "plain": Space({"x": (0.0, 1.0), "y": (1, 10**6), "z": ["a", "b"]}),
    "single": Space({"x": (1e-6, 1.0, "log")}),
    "constant": Space({"x": 3, "y": "a"}),
    "tiny": Space({"x": [True, None, "1"], "y": (1, 2)}),
    "huge": Space({"x": (-(2**61), 2**61), "y": (-1e18, 1e18)}),
}


def evaluation(index: int, rung: int, config: Config, loss: float | None) -> Evaluation:
    error = None if loss is not None else "x"
    return Evaluation(0, index, rung, 3**rung, config, loss, loss, 0, error, {}, None, None, ())
