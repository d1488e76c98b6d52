"""The configs of a space as points of the unit cube, and back.

A range is scaled to 0..1, logarithmically if the space says so. Each of n choices has an nth of the
edge, and its point is in the middle of that. An inactive parameter is NaN.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TypeAlias

import numpy as np
from ConfigSpace.hyperparameters import (
    CategoricalHyperparameter,
    Constant,
    IntegerHyperparameter,
)
from numpy.random import RandomState
from numpy.typing import NDArray

from deepband.core.facts import Config
from deepband.space.choices import choices, wrapped
from deepband.space.search_space import Space

Floats: TypeAlias = NDArray[np.float64]


class Points:
    """The unit cube of a space: one row per config, one column per parameter."""

    def __init__(self, space: Space) -> None:
        self.space = space
        self.parameters = list(space.configspace.values())
        self.choices = [choices(parameter) for parameter in self.parameters]
        """By parameter; empty for a range."""
        self._positions = [
            {wrapped(choice): number for number, choice in enumerate(listed)}
            for listed in self.choices
        ]
        self.sizes = np.array([max(1, len(listed)) for listed in self.choices])
        self.is_listed = np.array([len(listed) > 0 for listed in self.choices])
        kinds = CategoricalHyperparameter, Constant
        self.has_no_order = np.array([isinstance(each, kinds) for each in self.parameters])
        self.is_constant = self.is_listed & (self.sizes == 1)

    def of(self, configs: Sequence[Config]) -> Floats:
        """The points of configs."""
        columns = [
            self._column(number, [name in config for config in configs], configs)
            for number, name in enumerate(self.space.configspace)
        ]
        return np.array(columns, dtype=np.float64).T.reshape(len(configs), len(columns))

    def _column(self, number: int, active: list[bool], configs: Sequence[Config]) -> Floats:
        parameter, listed = self.parameters[number], self.choices[number]
        column = np.full(len(configs), np.nan)
        given = [config[parameter.name] for config in configs if parameter.name in config]
        if listed:
            positions = self._positions[number]
            column[active] = [(positions[wrapped(value)] + 0.5) / len(listed) for value in given]
        elif given:
            column[active] = parameter.to_vector(np.array(given, dtype=np.float64))
        return column

    def configs(self, points: Floats) -> list[Config | None]:
        """The configs nearest to points of the cube; None where a clause forbids one."""
        matrix = self.matrix(points)
        legal = self.space.settle(matrix)
        made = iter(self.space.configs(matrix[:, legal]))
        return [next(made) if is_legal else None for is_legal in legal]

    def settled(self, points: Floats) -> tuple[Floats, NDArray[np.bool_]]:
        """The points of the configs nearest to points, and which of them no clause forbids."""
        matrix = self.matrix(points)
        legal = self.space.settle(matrix)
        places = np.where(self.is_listed, (matrix.T + 0.5) / self.sizes, matrix.T)
        return places, legal

    def matrix(self, points: Floats) -> Floats:
        """Points in ConfigSpace's vector form, with choices and integers rounded."""
        filled = np.nan_to_num(points, nan=0.5)  # `settle` makes inactive parameters NaN again
        matrix = np.ascontiguousarray(np.clip(filled, 0.0, 1.0).T)
        for number, row in enumerate(matrix):
            row[:] = self.row(number, row)
        return matrix

    def row(self, number: int, column: Floats) -> Floats:
        """One parameter of points, in ConfigSpace's vector form."""
        parameter, size = self.parameters[number], self.sizes[number]
        if isinstance(parameter, Constant):
            return np.full(len(column), parameter.lower_vectorized)
        if isinstance(parameter, IntegerHyperparameter):
            return np.asarray(parameter.to_vector(parameter.to_value(column)), dtype=np.float64)
        if self.is_listed[number]:
            return np.asarray(np.minimum(np.floor(column * size), size - 1))
        return column

    def filled(self, points: Floats, random: RandomState) -> Floats:
        """Points with random values for inactive parameters, for computations."""
        return np.where(np.isnan(points), random.uniform(size=points.shape), points)

    def near(self, points: Floats, width: float, chance: float, random: RandomState) -> Floats:
        """Neighbours of points: each parameter moves with probability `chance`, and at least one
        does, by a normal step with standard deviation `width`. Categorical parameters are sampled
        at random instead."""
        steps = width * random.normal(size=points.shape)
        uniform = random.uniform(size=points.shape)
        moves = random.uniform(size=points.shape) < chance
        moves[np.arange(len(points)), random.randint(points.shape[1], size=len(points))] = True
        moved = np.where(self.has_no_order, uniform, reflected(points + steps))
        return np.where(moves, moved, points)


def reflected(points: Floats) -> Floats:
    """Points, with those beyond an edge of the cube mirrored back into it."""
    folded = np.abs(points) % 2.0
    return np.where(folded > 1.0, 2.0 - folded, folded)
