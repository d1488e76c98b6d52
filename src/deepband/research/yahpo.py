"""The surrogate benchmarks of YAHPO Gym, read from a clone of `slds-lmu/yahpo_data`.

A surrogate is a small network that was fitted to real training runs: it predicts in microseconds
what a config would reach with a budget.

    scenario = Scenario("yahpo_data", "lcbench")
    problem = scenario.problem("3945")                       # one data set
    study = open_study(space=problem.space, max_budget=52, maximize=True, integer_budgets=True)
    study.optimize(problem)

Accuracies are fractions of 1 in every scenario. The files are read directly: the package
`yahpo_gym` needs ConfigSpace below 1 and NumPy 1.
"""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, NamedTuple, TypeAlias

from deepband.core.facts import Config
from deepband.errors import DeepbandError, InputError, UnknownNameError
from deepband.research.oldspace import read_space
from deepband.research.yahpo_columns import REPL, SCENARIOS, Accuracy

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime
    from ConfigSpace import ConfigurationSpace
    from numpy.typing import NDArray

    Floats: TypeAlias = NDArray[np.float64]

FILES = ("config_space.json", "encoding.json", "model.onnx")
ABSENT = "#na#"
MOST_REPL = 10

ROWS = 48
"""Rows are predicted in multiples of this. Matrix products take rows in groups of up to 16, and
what is left over by another kernel, which rounds differently: with whole groups only, a config
gets the same number alone and in any batch. 48 is a multiple of the usual 2, 4, 6, 8, 12, 16."""
BLOCK = 5 * ROWS
"""Rows predicted in one call: enough to be fast, few enough to stay in the processor's cache."""


ONLY_INSTANCE = "CIFAR10"
"""The data set of nb301, which has no column for it."""


@dataclass(frozen=True, slots=True)
class Fidelity:
    """What a budget is: its name, its range, and whether it is counted in whole numbers."""

    name: str
    low: float
    high: float
    whole: bool

    def of(self, budget: float) -> float:
        """The value nearest to a budget that the surrogate knows: floored if whole, clipped."""
        value = math.floor(budget) if self.whole else budget
        return min(max(value, self.low), self.high)


class Rows(NamedTuple):
    """Configs as the model's two inputs; columns for instance and fidelities are still empty."""

    categorical: NDArray[np.int32]
    continuous: NDArray[np.float32]

    def take(self, positions: Any) -> Rows:
        return Rows(self.categorical[positions], self.continuous[positions])

    def joined(self, other: Rows) -> Rows:
        import numpy as np

        return Rows(*(np.concatenate(pair) for pair in zip(self, other, strict=True)))


class Scenario:
    """One benchmark of a `yahpo_data` folder: a model for all of its data sets."""

    def __init__(self, data: str | Path, name: str) -> None:
        if name not in SCENARIOS:
            raise UnknownNameError("scenario", name, SCENARIOS)
        self.name = name
        self.layout = SCENARIOS[name]
        self.folder = Path(data) / name
        self._check_files()
        described = self._read("config_space.json")
        self._codes: dict[str, dict[str, int]] = self._read("encoding.json")
        try:
            parameters = {each["name"]: each for each in described["hyperparameters"]}
            self.fidelity = _fidelity(_named(parameters, self.layout.fidelity))
            self.instances = self._instances(parameters)
            self.space = read_space(described, without=self._outside)
            self._check_columns()
        except (KeyError, ValueError, TypeError) as error:
            raise self._unknown_release(str(error)) from error
        self._names = frozenset(self.space)
        self._always = frozenset(self.space.unconditional_hyperparameters)
        self._session = self._load()
        self._accuracy = self._find_accuracy()

    def __reduce__(self) -> tuple[type[Scenario], tuple[Path, str]]:
        return Scenario, (self.folder.parent, self.name)

    def __repr__(self) -> str:
        return f"<YAHPO Gym {self.name}: {len(self.instances)} data sets, {self.fidelity}>"

    def problem(self, instance: str, repl: int = 1) -> Problem:
        """One data set of the scenario. `repl` means something for the rbv2 scenarios only."""
        return Problem(self, self._known(instance), repl)

    def encode(self, configs: Iterable[Config]) -> Rows:
        """Configs as rows of the model's inputs; an inactive parameter is #na# or 0."""
        import numpy as np

        configs = list(configs)
        for config in configs:
            self._check_names(config)
        own = [name for name in self.layout.categorical if name != self.layout.instance]
        categorical = np.zeros((len(configs), len(self.layout.categorical)), np.int32)
        for name in own:
            codes = self._codes[name]
            try:
                column = [codes[str(config.get(name, ABSENT))] for config in configs]
            except KeyError as error:
                raise InputError(f"{name} is {error}: give one of {', '.join(codes)}.") from None
            categorical[:, self.layout.categorical.index(name)] = column
        numbers = [[config.get(name, 0.0) for name in self.layout.continuous] for config in configs]
        width = len(self.layout.continuous)
        return Rows(categorical, np.array(numbers, np.float32).reshape(len(configs), width))

    def accuracies(
        self, rows: Rows, instance: str, budgets: Sequence[float] | Floats, repl: Any = 1
    ) -> Floats:
        """The accuracy of each row on a data set, with its budget (and repetition)."""
        layout = self.layout
        categorical, continuous = rows.categorical.copy(), rows.continuous.copy()
        if layout.instance is not None:
            code = self._codes[layout.instance][self._known(instance)]
            categorical[:, layout.categorical.index(layout.instance)] = code
        values = [self.fidelity.of(budget) for budget in budgets]
        continuous[:, layout.continuous.index(layout.fidelity)] = values
        if REPL in layout.continuous:
            continuous[:, layout.continuous.index(REPL)] = repl
        return self._predict(categorical, continuous)

    def _predict(self, categorical: NDArray[np.int32], continuous: NDArray[np.float32]) -> Floats:
        """The accuracies of whole inputs, in blocks of whole groups of rows."""
        import numpy as np

        accuracy, count = self._accuracy, len(categorical)
        short = -count % ROWS
        categorical = np.pad(categorical, ((0, short), (0, 0)))
        continuous = np.pad(continuous, ((0, short), (0, 0)))
        predicted = np.empty(count + short, np.float64)
        for first in range(0, count + short, BLOCK):
            part = slice(first, first + BLOCK)
            given = {"x_cat": categorical[part], "x_cont": continuous[part]}
            predicted[part] = self._session.run(None, given)[0][:, accuracy.column]
        return accuracy.offset + accuracy.factor * predicted[:count]

    def _load(self) -> onnxruntime.InferenceSession:
        """The model, on one thread."""
        try:
            import onnxruntime
        except ImportError as error:
            raise DeepbandError(
                "surrogates need onnxruntime: pip install 'deepband[yahpo]'"
            ) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            return onnxruntime.InferenceSession(
                self.folder / "model.onnx", options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its exceptions have no common class of their own
            raise DeepbandError(f"{self.folder / 'model.onnx'} is no model: {error}") from error

    def _find_accuracy(self) -> Accuracy:
        """Where the output holds the accuracy, once the inputs are known to be ours."""
        layout, session = self.layout, self._session
        found = {each.name: each.shape[-1] for each in session.get_inputs()}
        wanted = {"x_cat": len(layout.categorical), "x_cont": len(layout.continuous)}
        width = session.get_outputs()[0].shape[-1]
        if found != wanted or width not in layout.accuracy:
            widths = " or ".join(map(str, layout.accuracy))
            raise self._unknown_release(
                f"its model takes {found} and gives {width} outputs; looked for {wanted} and "
                f"{widths}"
            )
        return layout.accuracy[width]

    @property
    def _outside(self) -> set[str]:
        """What is no parameter of a config."""
        columns = self.layout.fidelity, REPL, self.layout.instance
        return {name for name in columns if name is not None}

    def _known(self, instance: str) -> str:
        if str(instance) not in self.instances:
            raise UnknownNameError(f"data set of {self.name}", instance, self.instances)
        return str(instance)

    def _instances(self, parameters: dict[str, Any]) -> tuple[str, ...]:
        if self.layout.instance is None:
            return (ONLY_INSTANCE,)
        return tuple(map(str, _named(parameters, self.layout.instance)["choices"]))

    def _check_files(self) -> None:
        missing = [name for name in FILES if not (self.folder / name).is_file()]
        if missing:
            raise InputError(
                f"{self.folder} lacks {', '.join(missing)}. Give the folder of a clone of "
                "https://github.com/slds-lmu/yahpo_data, which has one folder a scenario with "
                f"{', '.join(FILES)}."
            )

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except ValueError as error:
            raise DeepbandError(f"{self.folder / name} is not JSON: {error}") from error

    def _check_columns(self) -> None:
        """Raise ValueError where the space and the model's columns do not fit each other."""
        wanted = {*self.layout.categorical, *self.layout.continuous} - self._outside
        if wanted != set(self.space):
            raise ValueError(f"its space and the columns differ in {wanted ^ set(self.space)}")
        for name in self.layout.categorical:
            lacking = self._values(name) - self._codes[name].keys()
            if lacking:
                raise ValueError(f"encoding.json lacks the {name} {sorted(lacking)}")

    def _check_names(self, config: Config) -> None:
        unknown, missing = config.keys() - self._names, self._always - config.keys()
        if unknown or missing:
            raise InputError(
                f"a config of {self.name} has all of {sorted(self._names)} that its conditions "
                f"allow; unknown here: {sorted(unknown)}, missing: {sorted(missing)}."
            )

    def _values(self, name: str) -> set[str]:
        """What a categorical column may hold."""
        from ConfigSpace.hyperparameters import CategoricalHyperparameter

        if name == self.layout.instance:
            return set(self.instances)
        parameter = self.space[name]
        if not isinstance(parameter, CategoricalHyperparameter):
            raise ValueError(f"its parameter {name} is not categorical")
        return {*map(str, parameter.choices), ABSENT}

    def _unknown_release(self, why: str) -> DeepbandError:
        return DeepbandError(
            f"{self.folder} is of no release that is known here (the first of 2021, or v1.0.2): "
            f"{why}."
        )


@dataclass(frozen=True)
class Problem:
    """One data set of a scenario: a space, a fidelity, and an objective to maximise."""

    scenario: Scenario
    instance: str
    repl: int = 1

    def __post_init__(self) -> None:
        if not 1 <= self.repl <= MOST_REPL:
            raise InputError(f"repl is {self.repl}: give 1 to {MOST_REPL}.")

    @property
    def space(self) -> ConfigurationSpace:
        return self.scenario.space

    @property
    def fidelity(self) -> Fidelity:
        return self.scenario.fidelity

    def __call__(self, config: Config, budget: float) -> float:
        """The accuracy of one config, as an objective of a study with `maximize=True`."""
        return float(self.accuracies([config], [budget])[0])

    def accuracies(self, configs: Sequence[Config], budgets: Sequence[float]) -> Floats:
        """The accuracies of many configs, each with its budget in units of the fidelity."""
        if len(configs) != len(budgets):
            raise InputError(f"{len(configs)} configs and {len(budgets)} budgets: give one each.")
        rows = self.scenario.encode(configs)
        return self.scenario.accuracies(rows, self.instance, budgets, self.repl)


def _named(parameters: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in parameters:
        raise ValueError(f"config_space.json has no parameter {name!r}")
    return dict(parameters[name])


def _fidelity(described: dict[str, Any]) -> Fidelity:
    whole = described["type"] == "uniform_int"
    return Fidelity(described["name"], described["lower"], described["upper"], whole)
