"""The surrogate benchmarks of YAHPO Gym, read from a clone of `slds-lmu/yahpo_data`.

A surrogate is a small network that was fitted to real training runs. It predicts the accuracy of a
config with a budget in microseconds.

    scenario = Scenario("yahpo_data", "lcbench")
    problem = scenario.problem("3945")                       # one data set
    study = open_study(space=problem.space, max_budget=52, maximize=True, integer_budgets=True)
    study.optimize(problem)

Accuracies are fractions of 1 in every scenario. The files are read directly, because the package
`yahpo_gym` needs ConfigSpace below 1 and NumPy 1.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepband.core.facts import Config
from deepband.errors import DeepbandError, InputError, UnknownNameError
from deepband.research.benchmark import Benchmark, Fidelity, Rows
from deepband.research.config_space_json import read_space
from deepband.research.yahpo_columns import REPL, SCENARIOS, Accuracy
from deepband.system.installation import install_command

if TYPE_CHECKING:
    import numpy as np
    import onnxruntime
    from numpy.typing import NDArray

    from deepband.research.benchmark import Floats

FILES = ("config_space.json", "encoding.json", "model.onnx")
ABSENT = "#na#"

ROWS = 48
"""Rows are predicted in multiples of this. Matrix products process rows in groups of up to 16, and
the remaining rows by another kernel, which rounds differently. With complete groups only, a config
has the same accuracy alone and in any batch. 48 is a multiple of the usual 2, 4, 6, 8, 12, 16."""
BLOCK = 5 * ROWS
"""Rows predicted in one call: enough to be fast, few enough to stay in the processor's cache."""
ONLY_INSTANCE = "CIFAR10"
"""The data set of nb301, which has no column for it."""


class Scenario(Benchmark):
    """One benchmark of a `yahpo_data` folder: one model for all of its data sets."""

    def __init__(self, data: str | Path, name: str) -> None:
        if name not in SCENARIOS:
            raise UnknownNameError("scenario", name, SCENARIOS)
        self.name = name
        self.layout = SCENARIOS[name]
        self.folder = Path(data) / name
        self.files = tuple(self.folder / file for file in FILES)
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
        self._width = self._session.get_outputs()[0].shape[-1]
        self._accuracy = self._find_accuracy()

    def __reduce__(self) -> tuple[type[Scenario], tuple[Path, str]]:
        return Scenario, (self.folder.parent, self.name)

    def __repr__(self) -> str:
        return f"<YAHPO Gym {self.name}: {len(self.instances)} data sets, {self.fidelity}>"

    def encode(self, configs: Iterable[Config]) -> Rows:
        """Return configs as inputs of the model; an inactive parameter is #na# or 0."""
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
        return self.accuracy_of(self.outputs(rows, instance, budgets, repl))

    def accuracy_of(self, outputs: Mapping[str, Floats]) -> Floats:
        """Return the accuracies that are among the outputs, as fractions of 1."""
        column, factor, offset = self._accuracy
        return offset + factor * outputs[self.layout.outputs[self._width][column]]

    def outputs(
        self, rows: Rows, instance: str, budgets: Sequence[float] | Floats, repl: Any = 1
    ) -> dict[str, Floats]:
        """Return everything that the model predicts for each row, by name and as it is."""
        predicted = self._predict(*self._inputs(rows, instance, budgets, repl))
        names = self.layout.outputs[predicted.shape[1]]
        return dict(zip(names, predicted.T, strict=True))

    def _inputs(
        self, rows: Rows, instance: str, budgets: Sequence[float] | Floats, repl: Any
    ) -> tuple[NDArray[np.int32], NDArray[np.float32]]:
        layout = self.layout
        categorical, continuous = rows.categorical.copy(), rows.continuous.copy()
        if layout.instance is not None:
            code = self._codes[layout.instance][self.checked(instance)]
            categorical[:, layout.categorical.index(layout.instance)] = code
        values = [self.fidelity.of(budget) for budget in budgets]
        continuous[:, layout.continuous.index(layout.fidelity)] = values
        if REPL in layout.continuous:
            continuous[:, layout.continuous.index(REPL)] = repl
        return categorical, continuous

    def _predict(self, categorical: NDArray[np.int32], continuous: NDArray[np.float32]) -> Floats:
        """Return the outputs of the model for complete inputs, predicted in blocks."""
        import numpy as np

        count = len(categorical)
        short = -count % ROWS
        categorical = np.pad(categorical, ((0, short), (0, 0)))
        continuous = np.pad(continuous, ((0, short), (0, 0)))
        predicted = np.empty((count + short, self._width), np.float64)
        for first in range(0, count + short, BLOCK):
            part = slice(first, first + BLOCK)
            given = {"x_cat": categorical[part], "x_cont": continuous[part]}
            predicted[part] = self._session.run(None, given)[0]
        return predicted[:count]

    def _load(self) -> onnxruntime.InferenceSession:
        """Load the model, to run on one thread."""
        try:
            import onnxruntime
        except ImportError as error:
            raise DeepbandError(
                f"Surrogates need onnxruntime: {install_command('yahpo')}"
            ) from error
        options = onnxruntime.SessionOptions()
        options.intra_op_num_threads = options.inter_op_num_threads = 1
        try:
            return onnxruntime.InferenceSession(
                self.folder / "model.onnx", options, providers=["CPUExecutionProvider"]
            )
        except Exception as error:  # its exceptions have no common base class
            place = self.folder / "model.onnx"
            raise DeepbandError(f"{place} is not an ONNX model: {error}") from error

    def _find_accuracy(self) -> Accuracy:
        """Return where the accuracy is in the output, after checking inputs and outputs."""
        layout, session = self.layout, self._session
        found = {each.name: each.shape[-1] for each in session.get_inputs()}
        wanted = {"x_cat": len(layout.categorical), "x_cont": len(layout.continuous)}
        width = self._width
        if found != wanted or width not in layout.accuracy:
            widths = " or ".join(map(str, layout.accuracy))
            raise self._unknown_release(
                f"its model has the inputs {found} and {width} outputs; expected {wanted} and "
                f"{widths}"
            )
        return layout.accuracy[width]

    @property
    def _outside(self) -> set[str]:
        """The columns that are not parameters of a config."""
        columns = self.layout.fidelity, REPL, self.layout.instance
        return {name for name in columns if name is not None}

    def _instances(self, parameters: dict[str, Any]) -> tuple[str, ...]:
        if self.layout.instance is None:
            return (ONLY_INSTANCE,)
        return tuple(map(str, _named(parameters, self.layout.instance)["choices"]))

    def _check_files(self) -> None:
        missing = [name for name in FILES if not (self.folder / name).is_file()]
        if missing:
            raise InputError(
                f"{self.folder} lacks {', '.join(missing)}. Give the folder of a clone of "
                "https://github.com/slds-lmu/yahpo_data, which has one folder per scenario with "
                f"{', '.join(FILES)}."
            )

    def _read(self, name: str) -> Any:
        try:
            return json.loads((self.folder / name).read_text(encoding="utf-8"))
        except ValueError as error:
            raise DeepbandError(f"{self.folder / name} is not JSON: {error}") from error

    def _check_columns(self) -> None:
        """Raise ValueError unless the space matches the model's columns."""
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
                f"This is not a config of {self.name}. Unknown: {sorted(unknown)}, missing: "
                f"{sorted(missing)}. Give those of {sorted(self._names)} that are active."
            )

    def _values(self, name: str) -> set[str]:
        """Return the possible values of a categorical column."""
        from ConfigSpace.hyperparameters import CategoricalHyperparameter

        if name == self.layout.instance:
            return set(self.instances)
        parameter = self.space[name]
        if not isinstance(parameter, CategoricalHyperparameter):
            raise ValueError(f"its parameter {name} is not categorical")
        return {*map(str, parameter.choices), ABSENT}

    def _unknown_release(self, why: str) -> DeepbandError:
        return DeepbandError(
            f"{self.folder} is not from a known release of yahpo_data (the first of 2021, or "
            f"v1.0.2): {why}."
        )


def _named(parameters: dict[str, Any], name: str) -> dict[str, Any]:
    if name not in parameters:
        raise ValueError(f"config_space.json has no parameter {name!r}")
    return dict(parameters[name])


def _fidelity(described: dict[str, Any]) -> Fidelity:
    whole = described["type"] == "uniform_int"
    return Fidelity(described["name"], described["lower"], described["upper"], whole)
