"""Synthetic benchmarks: learning curves by formula, with known optima.

They need no data and no other package. They show how methods deal with three kinds of learning
curves; they are not measurements of real training.

synthetic-stable    Configs have the same ranking at every budget.
synthetic-crossing  The best configs learn slowly: they rank low at small budgets.
synthetic-noisy     Accuracies at small budgets are noisy, and repetitions differ.

A config has three parameters, x, y and z, between 0 and 1. Its quality is 1 at the optimum of a
data set and falls with the distance from it. With the full budget, accuracy depends on the quality
alone; with less, it also depends on how far the curve still has to rise.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from deepband.core.facts import Config
from deepband.errors import UnknownNameError
from deepband.research.benchmark import Benchmark, Fidelity, Rows

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

PARAMETERS = ("x", "y", "z")
STEEPNESS = (6.0, 4.0, 2.0)
"""How fast the quality falls along each parameter."""
WORST, RANGE = 0.5, 0.4
"""Accuracy is WORST + RANGE * quality with the full budget: 0.9 at the optimum."""
LEAST = 0.01
"""The smallest budget, as a share of the full one."""
INSTANCES = tuple(str(number) for number in range(1, 7))
STEPS = (0.8191725134, 0.6710436067, 0.5497004779)
"""Multiples of these, modulo 1, spread the optima of the data sets evenly."""


def stable(quality: Floats, slow: Floats, rise: Floats, noise: Floats) -> Floats:
    """A power law: every curve has the same shape, stretched by its quality."""
    return quality * (1 - 0.6 * rise)


def crossing(quality: Floats, slow: Floats, rise: Floats, noise: Floats) -> Floats:
    """Configs with a large z, as that of the optimum, rise late."""
    return quality * (1 - rise) ** (4 * slow)


def noisy(quality: Floats, slow: Floats, rise: Floats, noise: Floats) -> Floats:
    """A power law with noise that vanishes with the full budget."""
    return quality * (1 - 0.6 * rise) + 0.6 * rise * noise


CURVES: Mapping[str, Callable[[Floats, Floats, Floats, Floats], Floats]] = {
    "synthetic-stable": stable,
    "synthetic-crossing": crossing,
    "synthetic-noisy": noisy,
}
"""By family: accuracy, in units of quality, from the quality of configs, their z, the share of the
rise that is still ahead (1 with the least budget, 0 with the full one), and noise in [-1, 1]."""


class Family(Benchmark):
    """The data sets of one kind of learning curve. They differ in optimum and speed."""

    fidelity = Fidelity("share", LEAST, 1.0, whole=False)
    instances = INSTANCES
    files = (Path(__file__),)

    def __init__(self, name: str) -> None:
        from ConfigSpace import ConfigurationSpace

        if name not in CURVES:
            raise UnknownNameError("synthetic benchmark", name, CURVES)
        self.name = name
        self.space = ConfigurationSpace(dict.fromkeys(PARAMETERS, (0.0, 1.0)))
        self._curve = CURVES[name]

    def __reduce__(self) -> tuple[type[Family], tuple[str]]:
        return Family, (self.name,)

    def encode(self, configs: Iterable[Config]) -> Rows:
        import numpy as np

        numbers = [[config[name] for name in PARAMETERS] for config in configs]
        values = np.array(numbers, np.float64).reshape(len(numbers), len(PARAMETERS))
        return Rows(np.zeros((len(numbers), 0), np.int32), values)

    def accuracies(
        self, rows: Rows, instance: str, budgets: Sequence[float] | Floats, repl: Any = 1
    ) -> Floats:
        import numpy as np

        x, y, z = (np.ascontiguousarray(column, np.float64) for column in rows.continuous.T)
        shares = np.array([self.fidelity.of(budget) for budget in budgets], np.float64)
        apart = [
            steep * (values - best) ** 2
            for steep, values, best in zip(
                STEEPNESS, (x, y, z), self.optimum(instance), strict=True
            )
        ]
        quality = np.exp(-(apart[0] + apart[1] + apart[2]))
        phase = 997 * x + 787 * y + 577 * z + 89 * np.log(shares) + 13 * np.asarray(repl)
        rise = self._rise(instance, shares)
        return WORST + RANGE * self._curve(quality, z, rise, np.sin(phase))

    def best_accuracy(self, instance: str) -> float:
        return WORST + RANGE

    def optimum(self, instance: str) -> tuple[float, float, float]:
        """Return the best values of x, y and z with the full budget."""
        number = int(self.checked(instance))
        x, y, z = (0.1 + 0.8 * (number * step % 1) for step in STEPS)
        return (x, y, 0.6 + 0.4 * z) if self._curve is crossing else (x, y, z)

    def _rise(self, instance: str, shares: Floats) -> Floats:
        """Return the share of the rise that is still ahead: a power law of the budget."""
        power = 0.3 + 0.1 * int(instance)
        rise: Floats = (shares**-power - 1) / (LEAST**-power - 1)
        return rise
