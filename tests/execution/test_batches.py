"""Objectives that evaluate several configs in one call: what they are given, what they may return,
and what an exception, a lost worker or a kill costs."""

from __future__ import annotations

import errno
import math
import os
import signal
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ProcessPoolExecutor, ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from functools import cache, partial
from multiprocessing import get_context
from pathlib import Path
from typing import Any, TypeAlias

import cloudpickle
import numpy as np
import pytest
from click.testing import CliRunner

import clusters
import deepband
import preloaded
from deepband import (
    BatchContext,
    BatchWarning,
    Context,
    DeepbandError,
    Evaluation,
    FailedEvaluationsWarning,
    InputError,
    ObjectiveError,
    StorageError,
    Study,
)
from deepband.analysis import export
from deepband.core.facts import Config
from deepband.execution.executors.base import Ended
from deepband.execution.executors.inline import InlineExecutor
from deepband.execution.executors.simulated import SimulatedExecutor
from deepband.execution.outbox import Outbox
from deepband.interfaces.cli import main
from driving import wait_until
from preloaded import Process

heavy = pytest.mark.heavy
SPACE = {"x": (0.0, 1.0)}
ALL = {1: 9, 3: 8, 9: 5}
"""How many configs a run with max_budget 9 evaluates with each budget."""
Contexts: TypeAlias = list[BatchContext]


@pytest.fixture(autouse=True, scope="module")
def _by_value() -> Iterator[None]:
    """Send functions of this module to workers as scripts do. Otherwise every worker would import
    it, and pytest with it."""
    cloudpickle.register_pickle_by_value(sys.modules[__name__])
    yield
    cloudpickle.unregister_pickle_by_value(sys.modules[__name__])


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "a.study"


def open_study(path: Path | None = None, **settings: Any) -> Study:
    return deepband.open_study(path, **{"space": SPACE, "max_budget": 9, **settings})


def canonical(study: Study) -> list[str]:
    return list(export.canonical(study.session.state))


def by_x(config: Config, budget: float) -> float:
    return float(config["x"]) / budget


def all_by_x(configs: list[Config], budget: float) -> list[float]:
    return [by_x(config, budget) for config in configs]


@cache
def undisturbed(**settings: Any) -> list[str]:
    """The outcome of a study without batches."""
    study = open_study(**settings)
    study.optimize(by_x)
    return canonical(study)


class Ledger:
    """A file in which calls are noted, in any process."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def note(self, configs: Sequence[Config], budget: float) -> None:
        """One call, in one write."""
        line = f"{budget} " + " ".join(repr(config["x"]) for config in configs)
        with open(self.path, "ab", buffering=0) as file:
            file.write(f"{line}\n".encode())

    @property
    def calls(self) -> list[tuple[float, list[float]]]:
        """The budget and the configs of each call."""
        lines = self.path.read_text().splitlines() if self.path.exists() else []
        words = [list(map(float, line.split())) for line in lines]
        return [(budget, configs) for budget, *configs in words]

    @property
    def sizes(self) -> list[tuple[float, int]]:
        return [(budget, len(configs)) for budget, configs in self.calls]

    @property
    def evaluated(self) -> list[tuple[float, float]]:
        """Each config and its budget, as often as it was in a call."""
        return [(x, budget) for budget, configs in self.calls for x in configs]


@pytest.fixture
def ledger(tmp_path: Path) -> Ledger:
    return Ledger(tmp_path / "ledger")


# How it is called


def given_to(make: Callable[[list[object]], Any]) -> list[object]:
    """What an objective was given beside configs and budget; `make` is told where to note it."""
    seen: list[object] = []
    study = open_study(max_budget=1)
    study.optimize(make(seen), batch=True)
    assert [each.error for each in study.evaluations] == [None]
    return seen


def note(seen: list[object], *things: object) -> list[float]:
    seen.extend(things)
    return [1.0]


TAKES_CONTEXTS: dict[str, Callable[[list[object]], Any]] = {
    "third": lambda seen: lambda configs, budget, contexts: note(seen, contexts),
    "third of any name": lambda seen: lambda a, b, c: note(seen, c),
    "with a default": lambda seen: lambda configs, budget, contexts=None: note(seen, contexts),
    "by keyword only": lambda seen: lambda configs, budget, *, contexts: note(seen, contexts),
    "after others": lambda seen: (
        lambda configs, budget, verbose=False, contexts=None: note(seen, contexts)
    ),
    "partial": lambda seen: partial(
        lambda data, configs, budget, contexts: note(seen, contexts), "data"
    ),
}


@pytest.mark.parametrize("shape", TAKES_CONTEXTS)
def test_an_objective_that_takes_contexts_is_given_a_list(shape: str) -> None:
    (contexts,) = given_to(TAKES_CONTEXTS[shape])
    assert isinstance(contexts, list)
    assert [type(context) for context in contexts] == [BatchContext]
    assert isinstance(contexts[0], Context)


TAKES_NONE: dict[str, Callable[[list[object]], Any]] = {
    "another default": lambda seen: lambda configs, budget, verbose=False: note(seen, verbose),
    "another keyword": lambda seen: lambda configs, budget, *, quiet=False: note(seen, quiet),
    "of any name": lambda seen: lambda a, b: note(seen, False),
    "the rest": lambda seen: lambda configs, budget, *rest: note(seen, False, *rest),
}


@pytest.mark.parametrize("shape", TAKES_NONE)
def test_an_objective_that_takes_no_contexts_is_given_none(shape: str) -> None:
    assert given_to(TAKES_NONE[shape]) == [False]


def test_configs_are_copies_in_a_list_and_the_budget_is_one_number() -> None:
    def objective(configs: list[Config], budget: int) -> list[float]:
        assert type(configs) is list
        assert type(budget) is int
        return [float(config.pop("x")) / budget for config in configs]

    study = open_study()
    study.optimize(objective, batch=True)
    assert canonical(study) == undisturbed()


def test_a_run_of_27_is_four_calls_for_one_worker(ledger: Ledger) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        return all_by_x(configs, budget)

    open_study(max_budget=27).optimize(objective, batch=True)
    assert ledger.sizes == [(1, 27), (3, 9 + 12), (9, 3 + 4 + 6), (27, 1 + 1 + 2 + 4)]


@pytest.mark.parametrize(("limit", "sizes"), [(4, [4, 4, 1]), (8, [8, 1]), (9, [9]), (1, [1] * 9)])
def test_a_limit_splits_a_budget(ledger: Ledger, limit: int, sizes: list[int]) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        return all_by_x(configs, budget)

    study = open_study()
    study.optimize(objective, batch=limit)
    assert sorted(size for budget, size in ledger.sizes if budget == 1) == sorted(sizes)
    assert canonical(study) == undisturbed()


@pytest.mark.parametrize(("count", "sizes"), [(2, [4, 5]), pytest.param(3, [3, 3, 3], marks=heavy)])
def test_worker_processes_split_a_budget_evenly(
    path: Path, ledger: Ledger, count: int, sizes: list[int]
) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        deadline = time.monotonic() + 60
        while budget == 1 and len(ledger.calls) < count:  # until all of them are at work
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return all_by_x(configs, budget)

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=count)
        assert sorted(size for budget, size in ledger.sizes if budget == 1) == sizes
        assert canonical(study) == undisturbed()


@pytest.mark.parametrize("batch", [False, None])
def test_without_a_batch_an_objective_gets_one_config(batch: bool | None) -> None:
    study = open_study()
    study.optimize(by_x, batch=batch)
    assert canonical(study) == undisturbed()


def test_a_limit_to_the_cost_shortens_a_batch(ledger: Ledger) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        return all_by_x(configs, budget)

    study = open_study()
    study.optimize(objective, batch=True, max_cost=7.5)
    assert ledger.sizes == [(1, 7)]
    study.optimize(objective, batch=True, max_cost=5)
    assert ledger.sizes == [(1, 7), (1, 2), (3, 1)]
    study.optimize(objective, batch=True)
    assert canonical(study) == undisturbed()


def test_no_batch_starts_when_the_time_is_over(ledger: Ledger) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        return all_by_x(configs, budget)

    study = open_study()
    study.optimize(objective, batch=True, max_seconds=0)
    assert ledger.sizes == []
    study.optimize(objective, batch=True, max_seconds=3600)
    assert ledger.sizes == list(ALL.items())


# What contexts contain


def without_times(study: Study) -> list[Any]:
    """Everything that is recorded, but how long it took and where it is stored."""
    runs = [(run.evaluations, run.cost, run.trained) for run in study.runs]
    kept = sorted(study.session.checkpoints.kept())
    return [runs, kept, [each._replace(seconds=None) for each in study.evaluations]]


def train(config: Config, budget: float, context: Context) -> dict[str, float]:
    """An evaluation that uses all that a context offers."""
    begun = int(context.restore(step=0)["step"])
    assert begun == context.previous_budget
    for step in range(begun + 1, int(budget) + 1):
        context.report(step, config["x"] / step)
    context.save(step=int(budget), weights=[config["x"]])
    return {"loss": config["x"] / budget, "seed": context.seed, "begun": begun}


def train_all(configs: list[Config], budget: float, contexts: Contexts) -> list[dict[str, float]]:
    return [train(config, budget, each) for config, each in zip(configs, contexts, strict=True)]


def train_and_finish(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
    """The same, with results of every second config before the end."""
    returned: list[Any] = []
    for position, (config, context) in enumerate(zip(configs, contexts, strict=True)):
        result = train(config, budget, context)
        if position % 2:
            context.finish(result)
        returned.append(None if position % 2 else result)
    return returned


KEEPS = ["newest", "none", "top:1", "all"]


@pytest.mark.parametrize(
    ("objective", "keep", "count", "max_budget"),
    [
        (train_all, "newest", 1, 3),
        (train_and_finish, "top:1", 1, 3),
        (train_and_finish, "all", 2, 3),
        *(
            pytest.param(objective, keep, count, 9, marks=heavy)
            for objective in (train_all, train_and_finish)
            for keep in KEEPS
            for count in (1, 2, 3)
        ),
    ],
)
def test_all_is_recorded_as_in_single_evaluations(
    path: Path, objective: Any, keep: str, count: int, max_budget: int
) -> None:
    """Seeds, learning curves, metrics, checkpoints and where training was continued."""
    settings: dict[str, Any] = {"keep": keep, "max_budget": max_budget}
    with open_study(path, **settings) as study, open_study(None, **settings) as alone:
        alone.optimize(train)
        study.optimize(objective, batch=True, workers=count)
        assert without_times(study) == without_times(alone)
        alone.deepen("preserving")
        study.deepen("preserving")
        alone.optimize(train)
        study.optimize(objective, batch=True, workers=count)
        assert without_times(study) == without_times(alone)
        for evaluation in study.evaluations:
            if (folder := evaluation.checkpoint) is not None:
                saved = deepband.load_checkpoint(folder)
                assert saved["step"] == evaluation.budget
                assert saved["weights"] == [evaluation.config["x"]]


def test_a_batch_has_configs_that_resume_and_configs_from_scratch() -> None:
    resumed: dict[float, list[tuple[float, bool]]] = {}

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        resumed[budget] = [(each.previous_budget, each.previous is None) for each in contexts]
        assert len({each.path for each in contexts}) == len(configs)
        for context in contexts:
            assert not list(context.path.iterdir())
            (context.path / "weights").write_text(str(budget))
            if context.previous:
                assert float((context.previous / "weights").read_text()) == context.previous_budget
        return all_by_x(configs, budget)

    study = open_study()
    study.optimize(objective, batch=True)
    assert {budget: Counter(found) for budget, found in resumed.items()} == {
        1: {(0, True): 9},
        3: {(0, True): 5, (1, False): 3},
        9: {(0, True): 3, (3, False): 2},
    }
    assert study.runs[0].trained == study.runs[0].cost_resumed


def test_the_contexts_of_a_batch_share_the_worker_and_its_device(path: Path) -> None:
    def objective(
        configs: list[Config], budget: float, contexts: Contexts
    ) -> list[dict[str, object]]:
        (slot,) = {each.slot for each in contexts}
        (device,) = {each.device for each in contexts}
        return [{"loss": x["x"], "slot": slot, "device": device} for x in configs]

    with open_study(path, max_budget=3) as study:
        study.optimize(objective, batch=True, devices=["cpu"], per_device=2)
        assert {each.metrics["device"] for each in study.evaluations} == {"cpu"}
        assert {each.metrics["slot"] for each in study.evaluations} <= {0, 1}


@pytest.mark.parametrize(
    ("finishes", "count"), [(False, 1), (True, 1), pytest.param(False, 2, marks=heavy)]
)
def test_the_recorded_seconds_are_those_of_the_batches(
    path: Path, finishes: bool, count: int
) -> None:
    """Together they are at least what the objective measures, and no more than all calls took."""

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        begun = time.perf_counter()
        while time.perf_counter() - begun < 0.02:
            pass
        for context in contexts:
            (context.path / "weights").touch()
            (context.path / "weights").write_text("w")
        if finishes:
            contexts[0].finish(configs[0]["x"])
        measured = time.perf_counter() - begun
        return [{"loss": config["x"], "batch": measured} for config in configs]

    with open_study(path) as study:
        start = time.perf_counter()
        study.optimize(objective, batch=True, workers=count)
        elapsed = time.perf_counter() - start
        evaluations = study.evaluations
        batches = {each.metrics["batch"] for each in evaluations if "batch" in each.metrics}
        recorded = math.fsum(each.seconds or 0.0 for each in evaluations)
        assert math.fsum(batches) <= recorded * (1 + 1e-9)
        assert recorded <= count * elapsed * (1 + 1e-9)
        for batch in () if finishes else batches:
            within = [each for each in evaluations if each.metrics["batch"] == batch]
            per_unit = {(each.seconds or 0.0) / trained_units(each) for each in within}
            assert min(per_unit) == pytest.approx(max(per_unit))


def trained_units(each: Evaluation) -> float:
    return each.budget - (0 if each.resumed_from is None else 3**each.resumed_from)


# What it may return

RETURNED: dict[str, Callable[[list[float]], Any]] = {
    "list": list,
    "tuple": tuple,
    "array": np.array,
    "array of singles": lambda losses: np.array(losses, dtype=np.float32),
    "array of objects": lambda losses: np.array([{"loss": x} for x in losses], dtype=object),
    "numbers of NumPy": lambda losses: list(np.array(losses)),
    "mappings": lambda losses: [{"loss": loss, "more": 1} for loss in losses],
}


@pytest.mark.parametrize("kind", RETURNED)
def test_results_may_be_any_sequence(kind: str) -> None:
    def objective(configs: list[Config], budget: float) -> Any:
        return RETURNED[kind](all_by_x(configs, budget))

    study = open_study()
    study.optimize(objective, batch=True)
    assert study.done
    for each in study.evaluations:
        assert each.loss == pytest.approx(by_x(each.config, each.budget))


@heavy  # it takes seconds to import
def test_results_may_be_a_tensor() -> None:
    import torch

    def objective(configs: list[Config], budget: float) -> Any:
        losses = torch.tensor(all_by_x(configs, budget), requires_grad=True)
        return losses * 1

    study = open_study()
    study.optimize(objective, batch=True)
    for each in study.evaluations:
        assert each.loss == pytest.approx(by_x(each.config, each.budget))


def test_values_are_maximized() -> None:
    def objective(configs: list[Config], budget: float) -> list[dict[str, float]]:
        return [{"value": by_x(config, budget)} for config in configs]

    study, alone = open_study(maximize=True), open_study(maximize=True)
    study.optimize(objective, batch=True)
    alone.optimize(by_x)
    assert canonical(study) == canonical(alone)


WRONG: dict[str, Callable[[list[float]], Any]] = {
    "too short": lambda losses: losses[:-1],
    "too long": lambda losses: [*losses, 1.0],
    "empty": lambda losses: [],
    "one number": lambda losses: 1.0,
    "nothing": lambda losses: None,
    "a mapping": lambda losses: dict(enumerate(losses)),
    "a mapping with a loss": lambda losses: {"loss": losses},
    "a string": lambda losses: "x" * len(losses),
    "bytes": lambda losses: b"x" * len(losses),
    "a set": set,
    "a generator": lambda losses: (loss for loss in losses),
    "a table": lambda losses: np.zeros((len(losses), 2)),
    "a column": lambda losses: np.zeros((len(losses), 1)),
    "a row": lambda losses: np.zeros((1, len(losses))),
    "a scalar": lambda losses: np.float64(1.0),
}


@pytest.mark.parametrize("kind", WRONG)
def test_what_is_not_one_result_per_config_is_an_error_of_the_objective(kind: str) -> None:
    calls: list[int] = []

    def objective(configs: list[Config], budget: float) -> Any:
        calls.append(len(configs))
        return WRONG[kind](all_by_x(configs, budget))

    study = open_study()
    with pytest.raises(ObjectiveError):
        study.optimize(objective, batch=True)
    assert calls == [9]
    assert study.evaluations == []
    study.optimize(all_by_x, batch=True)
    assert canonical(study) == undisturbed()


@pytest.mark.parametrize("count", [1, 2])
def test_a_wrong_length_is_named_and_only_what_was_finished_is_recorded(
    path: Path, count: int
) -> None:
    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        if budget == 3:
            contexts[1].finish(by_x(configs[1], budget))
            return all_by_x(configs, budget)[:2]
        return all_by_x(configs, budget)

    with open_study(path) as study:
        with pytest.raises(ObjectiveError, match=r"\b2\b.*\b[3-8]\b"):
            study.optimize(objective, batch=True, workers=count)
        found = Counter(each.budget for each in study.evaluations)
        assert found[1] <= 9
        assert 1 <= found[3] <= count
        assert all(each.loss == by_x(each.config, each.budget) for each in study.evaluations)
        study.optimize(all_by_x, batch=True)
        assert canonical(study) == undisturbed()


@pytest.mark.parametrize(
    ("bad", "count"),
    [
        ("0.5", 1),
        (None, 2),
        *(
            pytest.param(bad, count, marks=heavy)
            for bad in ("0.5", None, (1, 2), True, -math.inf, {"accuracy": 1}, 10**400)
            for count in (1, 2)
        ),
    ],
    ids=lambda given: repr(given)[:20],
)
def test_a_result_of_the_wrong_type_is_named_and_the_others_are_recorded(
    path: Path, bad: Any, count: int
) -> None:
    def objective(configs: list[Config], budget: float) -> list[Any]:
        results: list[Any] = all_by_x(configs, budget)
        if budget == 3:
            results[2] = bad
        return results

    with open_study(path) as study:
        with pytest.raises(ObjectiveError, match="position 2"):
            study.optimize(objective, batch=True, workers=count)
        assert all(each.loss == by_x(each.config, each.budget) for each in study.evaluations)
        found = Counter(each.budget for each in study.evaluations)
        assert found[3] >= 2
        if count == 1:
            assert found == {1: 9, 3: 7}
        study.optimize(all_by_x, batch=True)
        assert canonical(study) == undisturbed()


class EndsTheProcess:
    """A result that exits when it is inspected."""

    def __float__(self) -> float:
        sys.exit("read")

    @property
    def shape(self) -> Any:
        sys.exit("read")


@pytest.mark.parametrize("count", [1, 2])
def test_a_result_whose_reading_exits_is_an_exception_of_the_call(path: Path, count: int) -> None:
    def objective(configs: list[Config], budget: float) -> list[Any]:
        results: list[Any] = all_by_x(configs, budget)
        if budget == 3 and len(configs) > 1:
            results[1] = EndsTheProcess()
        return results

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=count)
        assert canonical(study) == undisturbed()


def test_an_exception_object_and_nan_are_failures_of_their_config() -> None:
    def failed(config: Config) -> object:
        if config["x"] < 0.2:
            return ValueError("too small")
        return math.nan if config["x"] > 0.8 else config["x"]

    study = open_study(max_budget=27)
    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(lambda configs, budget: list(map(failed, configs)), batch=True)
    kinds = {0.1: "ValueError: too small", 0.9: "nan", 0.5: "None"}
    for each in study.evaluations:
        middle = 0.1 if each.config["x"] < 0.2 else 0.9 if each.config["x"] > 0.8 else 0.5
        assert str(each.error).startswith(kinds[middle])
    assert len({str(each.error)[:3] for each in study.evaluations}) == 3


# Arguments that are refused


@pytest.mark.parametrize("batch", [0, -1, 2.5, "8", [8], math.nan, math.inf])
def test_bad_sizes_are_refused_before_anything_is_run(batch: Any) -> None:
    calls: list[int] = []

    def objective(configs: list[Config], budget: float) -> list[float]:
        calls.append(len(configs))
        return all_by_x(configs, budget)

    study = open_study()
    for run in (
        study.optimize,
        partial(study.auto_extend, max_cost=100),
        partial(study.confirm, top=1),
    ):
        with pytest.raises(InputError, match="batch"):
            run(objective, batch=batch)
    assert calls == []
    assert study.evaluations == []


OF_BATCHES: list[Any] = [
    lambda configs, budget: [1.0] * len(configs),
    lambda configs, budget, contexts: [1.0] * len(configs),
    lambda a, b, contexts: [1.0] * len(a),
    lambda configs, budget, verbose=0: [1.0] * len(configs),
]
OF_ONE: list[Any] = [
    by_x,
    train,
    lambda config, budget, verbose=0: 1.0,
    lambda a, b, context: 1.0,
]


@pytest.mark.parametrize("objective", OF_BATCHES)
def test_an_objective_of_batches_needs_the_argument(objective: Any) -> None:
    study = open_study()
    with pytest.raises(InputError, match="batch=True"):
        study.optimize(objective)
    with pytest.raises(InputError, match="batch=True"):
        study.auto_extend(objective, max_cost=100)
    assert study.evaluations == []
    study.optimize(objective, batch=True)
    with pytest.raises(InputError, match="batch=True"):
        study.confirm(objective)
    assert study.confirmations.configs == ()


@pytest.mark.parametrize("objective", OF_ONE)
def test_an_objective_of_one_config_is_not_called_with_several(objective: Any) -> None:
    study = open_study()
    with pytest.raises(InputError, match="batch"):
        study.optimize(objective, batch=True)
    with pytest.raises(InputError, match="batch"):
        study.auto_extend(objective, batch=4, max_cost=100)
    assert study.evaluations == []
    study.optimize(objective)
    with pytest.raises(InputError, match="batch"):
        study.confirm(objective, batch=True)
    assert study.confirmations.configs == ()


@pytest.mark.parametrize(
    "objective", [None, 3, lambda: 1, lambda a: 1, lambda a, b, c, d: 1, lambda a, b, *, c: 1]
)
def test_what_cannot_be_called_is_refused(objective: Any) -> None:
    study = open_study()
    with pytest.raises(InputError, match="the objective"):
        study.optimize(objective, batch=True)
    assert study.evaluations == []


# Exceptions


class OutOfMemoryError(RuntimeError):
    """What a GPU library raises."""


@pytest.mark.parametrize(
    ("most", "error"),
    [(1, MemoryError), (2, OutOfMemoryError), (3, MemoryError), (8, OutOfMemoryError)],
)
def test_a_batch_that_is_too_large_is_run_in_smaller_ones(
    ledger: Ledger, most: int, error: type[Exception]
) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        if len(configs) > most:
            raise error("out of memory")
        return all_by_x(configs, budget)

    study = open_study(max_budget=27)
    study.optimize(objective, batch=True)
    assert canonical(study) == undisturbed(max_budget=27)
    worked = [(x, budget) for budget, xs in ledger.calls if len(xs) <= most for x in xs]
    assert len(worked) == len(set(worked))


@pytest.mark.parametrize("most", [1, 2, 4, 7])
def test_a_size_that_works_is_remembered_for_its_budget(ledger: Ledger, most: int) -> None:
    """27 configs in batches of 8: only the first one is too large."""

    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        if budget == 1 and len(configs) > most:
            raise OutOfMemoryError
        return all_by_x(configs, budget)

    study = open_study(max_budget=27)
    study.optimize(objective, batch=8)
    sizes = [size for budget, size in ledger.sizes if budget == 1]
    assert sizes.count(8) == 1
    worked = next(number for number, size in enumerate(sizes) if size <= most)
    assert sum(size > most for size in sizes[worked:]) <= 1  # the other half of what was too large
    assert (3, 8) in ledger.sizes
    assert all(each.loss is not None for each in study.evaluations)


def test_a_size_that_has_worked_is_used_after_a_config_that_ends_a_call(ledger: Ledger) -> None:
    """Such a config says nothing about the size."""
    study = open_study(max_budget=27)
    bad = study.copy().ask_batch()[13].config

    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        if len(configs) > 4 or bad in configs:
            raise ValueError("too many, or a bad one")
        return all_by_x(configs, budget)

    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(objective, batch=8, max_cost=27)
    sizes = [size for _, size in ledger.sizes]
    last = max(number for number, (_, xs) in enumerate(ledger.calls) if bad["x"] in xs)
    assert sizes[0] == 8
    assert sizes[last] == 1
    assert 4 in sizes[last:]
    assert [each.config for each in study.evaluations if each.error] == [bad]


@pytest.mark.parametrize("position", [0, 1, 13, 26])
def test_a_config_that_ends_its_calls_costs_few_calls(ledger: Ledger, position: int) -> None:
    """Wherever it is: the other halves are not made smaller for it."""
    study = open_study(max_budget=27)
    bad = study.copy().ask_batch()[position].config

    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        if bad in configs:
            raise ValueError("a bad one")
        return all_by_x(configs, budget)

    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(objective, batch=True)
    assert len(ledger.calls) <= 3 + 2 * math.ceil(math.log2(27)) + 1
    assert [each.config for each in study.evaluations if each.error] == [bad]


def test_calls_that_raise_though_nothing_fails_are_reported() -> None:
    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        contexts[0].finish(by_x(configs[0], budget))
        raise RuntimeError("always")

    with pytest.warns(BatchWarning, match="RuntimeError: always") as caught:
        open_study().optimize(objective, batch=True)
    assert caught[0].filename == __file__


def test_failures_that_are_finished_early_do_not_accuse_the_objective(path: Path) -> None:
    """The others of their batch may still succeed."""

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        for context in contexts[:4] if budget == 1 else ():
            context.finish(math.nan)
        return all_by_x(configs, budget)

    with open_study(path) as study, pytest.warns(FailedEvaluationsWarning, match="4 of"):
        study.optimize(objective, batch=True, timeout=600)


def test_threads_of_a_worker_may_finish_configs_with_long_curves(path: Path) -> None:
    """Answers that are longer than the buffer of a pipe, and the last one as the call returns."""

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> None:
        def finish(pair: Any) -> None:
            config, context = pair
            for step in range(2000):
                context.report(step, 1 / (step + 1))
            context.finish(by_x(config, budget))

        with ThreadPoolExecutor(8) as pool:
            list(pool.map(finish, zip(configs, contexts, strict=True)))

    with open_study(path) as study:
        study.optimize(objective, batch=True, timeout=600)
        assert canonical(study) == undisturbed()
        assert {len(each.curve) for each in study.evaluations} == {2000}


def test_a_full_disk_is_reported_although_the_cost_is_limited() -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with pytest.raises(StorageError, match="because of the machine"):
        open_study().optimize(objective, batch=True, max_cost=5)


def test_a_size_that_is_too_large_is_found_with_few_calls(ledger: Ledger) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        if len(configs) > 10:
            raise OutOfMemoryError
        return all_by_x(configs, budget)

    study = open_study(max_budget=81)
    study.optimize(objective, batch=True)
    for budget in {budget for budget, _ in ledger.sizes}:
        sizes = [size for each, size in ledger.sizes if each == budget]
        wasted = sum(size > 10 for size in sizes)
        evaluations = sum(each.budget == budget for each in study.evaluations)
        assert wasted <= 2 * math.ceil(math.log2(max(1, evaluations / 10)))


@pytest.mark.parametrize("count", [pytest.param(1, marks=heavy), 2])
def test_workers_find_a_size_that_works(path: Path, ledger: Ledger, count: int) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        if len(configs) > 2:
            raise MemoryError
        return all_by_x(configs, budget)

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=count, timeout=600)
        assert canonical(study) == undisturbed()
    worked = [(x, budget) for budget, xs in ledger.calls if len(xs) <= 2 for x in xs]
    assert len(worked) == len(set(worked))


class Asynchronous:
    """Results on a device, which raises only when they are read if there was an error."""

    def __init__(self, losses: list[float], error: Exception | None) -> None:
        self.shape = (len(losses),)
        self.losses = losses
        self.error = error

    def tolist(self) -> list[float]:
        if self.error is not None:
            raise self.error
        return self.losses


@pytest.mark.parametrize("count", [1, 2])
def test_results_that_cannot_be_read_are_an_exception_of_the_call(path: Path, count: int) -> None:
    """GPUs report that they are out of memory when a result is copied to the host."""

    def objective(configs: list[Config], budget: float) -> Any:
        error = OutOfMemoryError("CUDA out of memory") if len(configs) > 2 else None
        return Asynchronous(all_by_x(configs, budget), error)

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=count, retries=0)
        assert canonical(study) == undisturbed()


def poisoned(configs: list[Config], budget: float, fault: Callable[[], object]) -> list[float]:
    """Some configs always end the call."""
    if any(config["x"] < 0.2 for config in configs):
        fault()
    return all_by_x(configs, budget)


def raises() -> None:
    raise ValueError("too small")


def runs_out() -> None:
    raise MemoryError


def exits() -> None:
    sys.exit(3)


def dies() -> None:
    os.kill(os.getpid(), signal.SIGKILL)


def hangs() -> None:
    time.sleep(600)


def check_poisoned(study: Study, kind: str) -> None:
    """Check that exactly the configs below 0.2 failed."""
    assert study.done
    failed = {each.error.partition(":")[0] for each in study.evaluations if each.error}
    assert failed == {kind}
    for each in study.evaluations:
        small = each.config["x"] < 0.2
        assert each.loss == (None if small else by_x(each.config, each.budget))


@pytest.mark.parametrize(
    ("fault", "kind", "count"),
    [
        (raises, "ValueError", 1),
        (runs_out, "MemoryError", 1),
        (exits, "SystemExit", 1),
        (raises, "ValueError", 2),
        pytest.param(exits, "SystemExit", 2, marks=heavy),
        pytest.param(runs_out, "MemoryError", 3, marks=heavy),
    ],
)
def test_a_config_that_ends_every_call_is_the_only_one_that_fails(
    path: Path, fault: Callable[[], None], kind: str, count: int
) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        return poisoned(configs, budget, fault)

    with open_study(path, seed=2) as study:
        with pytest.warns(FailedEvaluationsWarning):
            study.optimize(objective, batch=True, workers=count)
        check_poisoned(study, kind)


def test_the_failure_of_one_config_keeps_its_traceback() -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        return poisoned(configs, budget, raises)

    study = open_study(seed=2)
    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(objective, batch=True)
    error = next(each.error for each in study.evaluations if each.error)
    assert error.startswith("ValueError: too small\n\nTraceback")
    assert "in poisoned" in error


@pytest.mark.parametrize(
    ("fault", "kind", "retries"),
    [
        (dies, "WorkerDied", 0),
        (hangs, "Timeout", 0),
        pytest.param(dies, "WorkerDied", 1, marks=heavy),
        pytest.param(hangs, "Timeout", 1, marks=heavy),
    ],
)
def test_a_config_that_loses_every_worker_is_the_only_one_that_fails(
    path: Path, fault: Callable[[], None], kind: str, retries: int
) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        return poisoned(configs, budget, fault)

    with open_study(path, max_budget=3, seed=2) as study:
        assert any(job.config["x"] < 0.2 for job in study.copy().ask_all())
        with pytest.warns(FailedEvaluationsWarning):
            study.optimize(objective, batch=True, workers=2, timeout=1.5, retries=retries)
        check_poisoned(study, kind)


@pytest.mark.parametrize("fault", [dies, pytest.param(hangs, marks=heavy)])
def test_a_worker_that_is_lost_once_fails_nothing(
    path: Path, ledger: Ledger, fault: Callable[[], None]
) -> None:
    marker = path.with_name("marker")

    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        if budget == 3 and not marker.exists():
            marker.touch()
            fault()
        return all_by_x(configs, budget)

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=2, timeout=5, retries=0)
        assert marker.exists()
        assert canonical(study) == undisturbed()


def test_a_single_worker_with_a_timeout_is_replaced(path: Path) -> None:
    marker = path.with_name("marker")

    def objective(configs: list[Config], budget: float) -> list[float]:
        if budget == 3 and not marker.exists():
            marker.touch()
            dies()
        return all_by_x(configs, budget)

    with open_study(path) as study:
        study.optimize(objective, batch=True, timeout=600, retries=0)
        assert canonical(study) == undisturbed()


def test_what_raised_is_run_again_in_another_process(path: Path) -> None:
    """After an exception on a GPU, only a new process can use it again."""
    spoiled = path.with_name("spoiled")

    def objective(configs: list[Config], budget: float) -> list[float]:
        pid = str(os.getpid())
        if spoiled.exists() and spoiled.read_text() == pid:
            raise OutOfMemoryError("the device is unusable")
        if budget == 3 and not spoiled.exists():
            spoiled.write_text(pid)
            raise OutOfMemoryError
        return all_by_x(configs, budget)

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=2, retries=0)
        assert spoiled.exists()
        assert canonical(study) == undisturbed()


def test_the_timeout_is_a_function_of_the_budget_of_the_batch(path: Path) -> None:
    budgets: list[float] = []

    def timeout(budget: float) -> float:
        budgets.append(budget)
        return 1.0 if budget == 3 else 600.0

    def objective(configs: list[Config], budget: float) -> list[float]:
        if budget == 3 and len(configs) > 1:
            time.sleep(600)
        return all_by_x(configs, budget)

    with open_study(path, max_budget=3) as study:
        study.optimize(objective, batch=True, workers=2, timeout=timeout)
        assert canonical(study) == undisturbed(max_budget=3)
    assert set(budgets) == {1, 3}


@pytest.mark.parametrize("stored", [True, False])
def test_a_forked_child_that_returns_is_not_the_worker(path: Path, stored: bool) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        if os.fork() == 0:
            return [-1.0] * len(configs)
        return all_by_x(configs, budget)

    with open_study(path if stored else None) as study:
        study.optimize(objective, batch=True, workers=2)
        assert canonical(study) == undisturbed()


# The first failures


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=heavy)])
def test_a_typo_is_found_with_few_calls_and_nothing_is_recorded(
    path: Path, ledger: Ledger, count: int
) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        ledger.note(configs, budget)
        return [config["learning_rate"] for config in configs]

    with open_study(path, max_budget=81) as study:
        with pytest.raises(ObjectiveError, match="KeyError: 'learning_rate'"):
            study.optimize(objective, batch=True, workers=count)
        assert len(ledger.calls) <= 24  # 81 configs are halved seven times
        check_untouched(study)


def check_untouched(study: Study) -> None:
    """Check that nothing is recorded, and that every job can be started again."""
    assert study.evaluations == []
    offered = [job.key for job in study.ask_all()]
    assert offered == [job.key for job in study.copy().ask_all()]


@pytest.mark.parametrize("bad", [ValueError("every one"), math.nan])
@pytest.mark.parametrize("count", [1, pytest.param(2, marks=heavy)])
def test_a_batch_of_failures_is_an_error_of_the_objective(
    path: Path, ledger: Ledger, bad: Any, count: int
) -> None:
    def objective(configs: list[Config], budget: float) -> list[Any]:
        ledger.note(configs, budget)
        return [bad] * len(configs)

    with open_study(path) as study:
        with pytest.raises(ObjectiveError, match="all failed"):
            study.optimize(objective, batch=True, workers=count)
        assert len(ledger.calls) <= count
        check_untouched(study)


@pytest.mark.parametrize("count", [1, 2])
def test_failures_beside_successes_are_recorded(path: Path, count: int) -> None:
    """They come first in the batch, but say nothing about the objective."""

    def objective(configs: list[Config], budget: float) -> list[Any]:
        losses = all_by_x(configs, budget)
        return [ValueError("bad"), math.nan, ValueError("worse"), *losses[3:]]

    with open_study(path, brackets=1) as study:
        with pytest.warns(FailedEvaluationsWarning):
            study.optimize(objective, batch=True, workers=count, max_cost=9)
        assert len(study.evaluations) == 9
        assert sum(each.loss is None for each in study.evaluations) == 3 * count


def test_first_failures_can_be_trusted() -> None:
    study = open_study()
    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(
            lambda configs, budget: [math.nan] * len(configs), batch=True, first_failures=0
        )
    assert study.done
    assert {each.loss for each in study.evaluations} == {None}


# Faults of the machine


@pytest.mark.parametrize("count", [1, 2])
def test_a_full_disk_is_tried_again(path: Path, count: int) -> None:
    marker = path.with_name("marker")

    def objective(configs: list[Config], budget: float) -> list[float]:
        if budget == 3 and not marker.exists():
            marker.touch()
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return all_by_x(configs, budget)

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=count)
        assert marker.exists()
        assert canonical(study) == undisturbed()


@pytest.mark.parametrize(
    ("number", "count"),
    [
        (errno.ENOSPC, 1),
        (errno.EDQUOT, 2),
        pytest.param(errno.EDQUOT, 1, marks=heavy),
        pytest.param(errno.ENOSPC, 2, marks=heavy),
    ],
)
def test_a_disk_that_stays_full_stops_the_run_and_fails_nothing(
    path: Path, number: int, count: int
) -> None:
    healthy = path.with_name("healthy")

    def objective(configs: list[Config], budget: float) -> list[float]:
        if budget == 3 and not healthy.exists():
            raise OSError(number, os.strerror(number))
        return all_by_x(configs, budget)

    with open_study(path) as study:
        with pytest.raises(StorageError, match="because of the machine") as caught:
            study.optimize(objective, batch=True, workers=count)
        assert os.strerror(number) in str(caught.value)
        assert all(each.loss is not None for each in study.evaluations)
        healthy.touch()
        study.optimize(objective, batch=True, workers=count)
        assert canonical(study) == undisturbed()


# Results before the end


@pytest.mark.parametrize("count", [1, 2])
def test_what_is_finished_is_recorded_though_the_batch_raises(
    path: Path, ledger: Ledger, count: int
) -> None:
    """Half of each batch is finished, and is not in the smaller batches that follow."""

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        if len(configs) == 1:
            ledger.note(configs, budget)
            return all_by_x(configs, budget)
        half = (len(configs) + 1) // 2
        ledger.note(configs[:half], budget)
        for config, context in zip(configs[:half], contexts, strict=False):
            context.finish({"loss": by_x(config, budget), "early": True})
        raise RuntimeError("the others are too many")

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=count)
        assert canonical(study) == undisturbed()
        early = [each for each in study.evaluations if "early" in each.metrics]
        assert len(early) >= 8
    assert len(ledger.evaluated) == len(set(ledger.evaluated)) == 22


def test_a_finished_result_is_recorded_before_the_batch_ends(path: Path) -> None:
    """Another process sees it, and the next decision may use it."""
    seen: list[int] = []

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        for config, context in zip(configs, contexts, strict=True):
            context.finish(by_x(config, budget))
            seen.append(len(recorded(path)))
        return [None] * len(configs)

    with open_study(path) as study:
        study.optimize(objective, batch=True)
        assert canonical(study) == undisturbed()
    assert seen == list(range(1, 23))


def recorded(path: Path) -> set[tuple[float, float]]:
    """The configs and budgets that have a result, in the study or in a file beside it."""
    evaluations = deepband.open_study(path).evaluations
    found = {(each.config["x"], float(each.budget)) for each in evaluations}
    for attempts in Outbox(Path(f"{path}.files")).waiting():
        found |= {(each.job.config["x"], float(each.job.budget)) for each in attempts}
    return found


def test_a_decision_uses_what_a_running_batch_has_finished(path: Path) -> None:
    """Three configs start, in batches of two and one. The first batch ends only after one of the
    three is promoted."""
    promoted = path.with_name("promoted")

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        if budget == 3:
            promoted.touch()
        for config, context in zip(configs, contexts, strict=True):
            context.finish(by_x(config, budget))
        deadline = time.monotonic() + 60
        while len(configs) == 2 and not promoted.exists():
            assert time.monotonic() < deadline
            time.sleep(0.01)
        return [0.0] * len(configs)

    with open_study(path, max_budget=3, brackets=1) as study:
        study.optimize(objective, batch=True, workers=2)
        assert canonical(study) == undisturbed(max_budget=3, brackets=1)


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=heavy)])
def test_what_is_returned_for_a_finished_config_is_ignored(path: Path, count: int) -> None:
    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        anything = [None, "text", ValueError("ignored"), math.nan, -1.0, object()]
        returned: list[Any] = all_by_x(configs, budget)
        for position, context in enumerate(contexts):
            if position % 3:
                context.finish({"loss": returned[position], "early": position})
                returned[position] = anything[position % len(anything)]
        return returned

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=count)
        assert canonical(study) == undisturbed()


def test_the_failure_of_a_config_can_be_finished() -> None:
    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        for config, context in zip(configs, contexts, strict=True):
            if config["x"] < 0.2:
                context.finish(ValueError("diverged"))
            elif config["x"] > 0.8:
                context.finish(math.nan)
        return all_by_x(configs, budget)

    study = open_study(max_budget=27)
    with pytest.warns(FailedEvaluationsWarning):
        study.optimize(objective, batch=True)
    for each in study.evaluations:
        assert (each.loss is None) == (not 0.2 <= each.config["x"] <= 0.8)
    assert {str(each.error)[:8] for each in study.evaluations} >= {"ValueErr", "None"}


def test_a_config_is_finished_once() -> None:
    checked: list[float] = []

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        contexts[0].finish(by_x(configs[0], budget))
        check_ended(contexts[0])
        checked.append(budget)
        return [-1.0, *all_by_x(configs[1:], budget)]

    study = open_study()
    study.optimize(objective, batch=True)
    assert canonical(study) == undisturbed()
    assert checked == [1, 3, 9]


@pytest.mark.parametrize("fails", [False, True])
def test_a_context_is_not_used_after_its_batch(fails: bool) -> None:
    kept: Contexts = []

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        for context in kept:
            check_ended(context)
        kept.extend(contexts)
        if fails and len(configs) > 1:
            raise OutOfMemoryError
        return all_by_x(configs, budget)

    study = open_study()
    study.optimize(objective, batch=True)
    assert len(kept) >= 22
    for context in kept:
        check_ended(context)
    assert canonical(study) == undisturbed()


def check_ended(context: BatchContext) -> None:
    with pytest.raises(InputError):
        context.finish(-1.0)
    with pytest.raises(InputError):
        context.report(1, -1.0)
    with pytest.raises(InputError):
        context.save(step=1)


@pytest.mark.parametrize("bad", ["0.5", None, (1, 2), {"accuracy": 1}])
def test_an_invalid_result_cannot_be_finished(bad: Any) -> None:
    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        for context in contexts:
            with pytest.raises(DeepbandError):
                context.finish(bad)
        return all_by_x(configs, budget)

    study = open_study()
    study.optimize(objective, batch=True)
    assert canonical(study) == undisturbed()


def test_threads_of_an_objective_may_finish_configs() -> None:
    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        def evaluate(position: int) -> None:
            together.wait(60)
            contexts[position].finish(by_x(configs[position], budget))

        together = threading.Barrier(len(configs))
        with ThreadPoolExecutor(len(configs)) as pool:
            for each in [pool.submit(evaluate, position) for position in range(len(configs))]:
                each.result()
        return [None] * len(configs)

    study = open_study()
    study.optimize(objective, batch=True)
    assert canonical(study) == undisturbed()


def test_only_one_of_two_threads_finishes_a_config() -> None:
    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        def finish(context: BatchContext, loss: float) -> bool:
            together.wait(60)
            try:
                context.finish(loss)
            except InputError:
                return False
            return True

        together = threading.Barrier(2)
        for config, context in zip(configs, contexts, strict=True):
            with ThreadPoolExecutor(2) as pool:
                ends = [pool.submit(finish, context, by_x(config, budget)) for _ in range(2)]
                assert sorted(each.result() for each in ends) == [False, True]
        return [None] * len(configs)

    study = open_study(max_budget=3)
    study.optimize(objective, batch=True)
    assert canonical(study) == undisturbed(max_budget=3)


# Kills and interrupts

SCRIPT = """
import os, signal, sys, time
import deepband

def train_batch(configs, budget, contexts):
    for number, (config, context) in enumerate(zip(configs, contexts)):
        (context.path / "weights").write_text(str(budget))
        with open("begun", "a") as file:
            file.write(f"{config['x']!r} {budget}\\n")
        if number >= 3:
            END
        context.finish({"loss": config["x"] / budget, "early": True})
    return [None] * len(configs)
"""
ENDS = {
    "killed": "os.kill(os.getpid(), signal.SIGKILL)",
    "stuck": "open(f'stuck-{os.getpid()}', 'w').close(); time.sleep(600)",
}
RUN = """
with deepband.open_study("a.study", space={"x": (0.0, 1.0)}, max_budget=9) as study:
    study.optimize(train_batch, batch=True, workers=int(sys.argv[1]), **eval(sys.argv[2]))
"""


def write_script(folder: Path, end: str, run: str = RUN) -> Path:
    script = folder / "train.py"
    script.write_text(SCRIPT.replace("END", ENDS[end]) + run)
    return script


def begun(folder: Path) -> list[tuple[float, float]]:
    """The configs and budgets whose evaluation began, in the order of the file."""
    lines = (folder / "begun").read_text().splitlines()
    return [(float(x), float(budget)) for x, budget in map(str.split, lines)]


def check_continued(folder: Path, lost: set[tuple[float, float]]) -> None:
    """Finish the study, and check that only what was lost is evaluated again."""
    again: list[tuple[float, float]] = []

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        again.extend((config["x"], budget) for config in configs)
        for context in contexts:
            (context.path / "weights").write_text(str(budget))
        return all_by_x(configs, budget)

    before = set(begun(folder))
    with deepband.open_study(folder / "a.study") as study:
        study.optimize(objective, batch=True)
        assert canonical(study) == undisturbed()
        early = {(e.config["x"], e.budget) for e in study.evaluations if "early" in e.metrics}
        assert early == before - lost
        assert all(each.checkpoint is not None for each in study.evaluations if each.rung == 2)
        assert study.runs[0].trained == study.runs[0].cost_resumed
    assert len(again) == len(set(again))
    assert set(again) & before == lost
    files = folder / "a.study.files"
    assert not [*files.glob("outbox/*"), *files.glob("jobs/*")]


def test_a_kill_loses_only_what_is_not_finished(tmp_path: Path) -> None:
    script = write_script(tmp_path, "killed")
    assert Process([script, 1, "{}"], cwd=tmp_path).wait() == -signal.SIGKILL
    first = begun(tmp_path)
    assert len(first) == 4
    with deepband.open_study(tmp_path / "a.study") as study:
        study.optimize(train_all, batch=True, max_cost=0)
        assert {(each.config["x"], each.budget) for each in study.evaluations} == set(first[:3])
    check_continued(tmp_path, {first[3]})


def test_a_batch_continues_what_a_killed_one_has_saved(tmp_path: Path) -> None:
    run = RUN.replace("train_batch,", "saving,")
    script = tmp_path / "train.py"
    script.write_text(
        SCRIPT
        + "def saving(configs, budget, contexts):\n"
        + "    for context in contexts:\n"
        + "        context.report(0.5, context.seed)\n"
        + "        context.save(step=0.5, seed=context.seed)\n"
        + "    os.kill(os.getpid(), signal.SIGKILL)\n"
        + run
    )
    assert Process([script, 1, "{}"], cwd=tmp_path).wait() == -signal.SIGKILL

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        for context in contexts:
            found = context.restore(step=0)
            if budget == 1:
                assert found == {"step": 0.5, "seed": context.seed}
            context.report(budget, 0.0)
        return all_by_x(configs, budget)

    with deepband.open_study(tmp_path / "a.study") as study:
        study.optimize(objective, batch=True, max_cost=2)
        study.optimize(objective, batch=True)
        assert canonical(study) == undisturbed()
        assert {len(e.curve) for e in study.evaluations if e.budget == 1} == {2}


@pytest.mark.parametrize("count", [pytest.param(1, marks=heavy), 2])
def test_a_worker_that_dies_loses_only_what_is_not_finished(path: Path, count: int) -> None:
    """Every worker dies at the fourth config of a batch, so each batch finishes three more."""
    trained = Ledger(path.with_name("trained"))

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        for position, (config, context) in enumerate(zip(configs, contexts, strict=True)):
            if position == 3:
                dies()
            trained.note([config], budget)
            context.save(step=int(budget))
            context.finish(by_x(config, budget))
        return [None] * len(configs)

    with open_study(path) as study:
        study.optimize(objective, batch=True, workers=count, timeout=600, retries=0)
        assert canonical(study) == undisturbed()
        assert study.runs[0].trained == study.runs[0].cost_resumed
    assert len(trained.evaluated) == len(set(trained.evaluated)) == 22


def test_a_timeout_loses_only_what_is_not_finished(path: Path) -> None:
    trained = Ledger(path.with_name("trained"))

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        for position, (config, context) in enumerate(zip(configs, contexts, strict=True)):
            if position == 2:
                hangs()
            trained.note([config], budget)
            context.finish(by_x(config, budget))
        return [None] * len(configs)

    with open_study(path, max_budget=3) as study:
        study.optimize(objective, batch=True, timeout=2.0, retries=0)
        assert canonical(study) == undisturbed(max_budget=3)
    assert len(trained.evaluated) == len(set(trained.evaluated)) == 6


def start_stuck(folder: Path, count: int) -> tuple[Process, Callable[[], str]]:
    """A driver all of whose batches are stuck, each after three configs; and what it said."""
    script = write_script(folder, "stuck")
    with (folder / "said").open("w") as said:
        process = Process([script, count, "{}"], cwd=folder, stdout=said, stderr=said)
    wait_until(lambda: len(list(folder.glob("stuck-*"))) == count or process.poll() is not None)
    assert process.poll() is None, (folder / "said").read_text()
    return process, (folder / "said").read_text


@pytest.mark.parametrize("count", [1, pytest.param(2, marks=heavy)])
def test_a_second_interrupt_keeps_what_is_finished(tmp_path: Path, count: int) -> None:
    process, said = start_stuck(tmp_path, count)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "Stopping after" in said())
    assert process.poll() is None
    process.send_signal(signal.SIGINT)
    process.wait(timeout=60)
    lost = lost_in(tmp_path)
    assert len(lost) == count
    found = deepband.open_study(tmp_path / "a.study").evaluations
    assert len(found) == 3 * count
    check_continued(tmp_path, lost)


def lost_in(folder: Path) -> set[tuple[float, float]]:
    """What began and has no result."""
    return set(begun(folder)) - recorded(folder / "a.study")


def test_the_workers_of_a_killed_driver_keep_what_is_finished(tmp_path: Path) -> None:
    """They are given up by the next driver, which must not lose what they have finished."""
    process, _ = start_stuck(tmp_path, 2)
    process.kill()
    process.wait()
    assert len(Outbox(tmp_path / "a.study.files").running()) == 2
    lost = lost_in(tmp_path)
    assert len(lost) == 2
    with deepband.open_study(tmp_path / "a.study") as study:
        study.optimize(train_all, batch=True, max_cost=0, wait=False)
        assert len(study.evaluations) == len(begun(tmp_path)) - 2 == 6
    check_continued(tmp_path, lost)


def test_the_next_driver_waits_for_a_batch_and_evaluates_none_of_it_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its workers end when the driver waits for them."""
    script = tmp_path / "train.py"
    script.write_text(
        "import os, time, deepband\n"
        "def train_batch(configs, budget, contexts):\n"
        "    contexts[0].finish(configs[0]['x'] / budget)\n"
        "    open(f'begun-{os.getpid()}', 'w').close()\n"
        "    while not os.path.exists('go'):\n"
        "        time.sleep(0.01)\n"
        "    return [config['x'] / budget for config in configs]\n"
        "with deepband.open_study('a.study', space={'x': (0.0, 1.0)}, max_budget=9) as study:\n"
        "    study.optimize(train_batch, batch=True, workers=2)\n"
    )
    process = Process([script], cwd=tmp_path)
    wait_until(lambda: len(list(tmp_path.glob("begun-*"))) == 2)
    process.kill()
    process.wait()
    again: list[float] = []

    def objective(configs: list[Config], budget: float) -> list[float]:
        again.append(budget)
        return all_by_x(configs, budget)

    def waited(self: InlineExecutor, seconds: float) -> Sequence[Ended]:
        (tmp_path / "go").touch()
        return wait(self, seconds)

    wait = InlineExecutor.wait
    monkeypatch.setattr(InlineExecutor, "wait", waited)
    with deepband.open_study(tmp_path / "a.study") as study:
        study.optimize(objective, batch=True)
        assert canonical(study) == undisturbed()
    assert set(again) == {3, 9}


def test_once_interrupted_a_batch_ends_and_is_recorded(tmp_path: Path) -> None:
    script = tmp_path / "train.py"
    script.write_text(
        "import os, time, deepband\n"
        "def train_batch(configs, budget):\n"
        "    open('begun', 'w').close()\n"
        "    while not os.path.exists('go'):\n"
        "        time.sleep(0.01)\n"
        "    return [config['x'] / budget for config in configs]\n"
        "with deepband.open_study('a.study', space={'x': (0.0, 1.0)}, max_budget=9) as study:\n"
        "    study.optimize(train_batch, batch=True)\n"
    )
    with (tmp_path / "said").open("w") as said:
        process = Process([script], cwd=tmp_path, stderr=said)
    wait_until((tmp_path / "begun").exists)
    process.send_signal(signal.SIGINT)
    wait_until(lambda: "Stopping after 9 running evaluations" in (tmp_path / "said").read_text())
    (tmp_path / "go").touch()
    assert process.wait(timeout=60) != 0
    with deepband.open_study(tmp_path / "a.study") as study:
        assert Counter(each.budget for each in study.evaluations) == {1: 9}
        study.optimize(all_by_x, batch=True)
        assert canonical(study) == undisturbed()


def test_an_interrupt_in_the_objective_goes_through(path: Path) -> None:
    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[float]:
        if budget == 3:
            contexts[2].finish(by_x(configs[2], budget))
            raise KeyboardInterrupt
        return all_by_x(configs, budget)

    with open_study(path) as study:
        with pytest.raises(KeyboardInterrupt):
            study.optimize(objective, batch=True)
        assert Counter(each.budget for each in study.evaluations) == {1: 9, 3: 1}
        study.optimize(all_by_x, batch=True)
        assert canonical(study) == undisturbed()


# Executors of other libraries


@contextmanager
def ray_name(count: int) -> Iterator[str]:
    with clusters.ray_connection(count):
        yield "ray"


POOLS: dict[str, Callable[[], Any]] = {
    "threads": lambda: ThreadPoolExecutor(2),
    "processes": lambda: ProcessPoolExecutor(2, get_context("forkserver")),
    "dask": lambda: clusters.dask_client(2),
    "ray": lambda: ray_name(2),
}


@pytest.fixture(
    params=[
        pytest.param(kind, marks=clusters.MARKS if kind in ("dask", "ray") else [])
        for kind in POOLS
    ]
)
def pool(request: pytest.FixtureRequest) -> Iterator[Any]:
    with ExitStack() as stack:
        yield stack.enter_context(POOLS[request.param]())


def test_a_pool_evaluates_batches(path: Path, ledger: Ledger, pool: Any) -> None:
    """Too large ones, those that resume, and those with results before the end."""

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        ledger.note(configs, budget)
        if budget == 1 and len(configs) > 3:
            raise MemoryError
        return train_and_finish(configs, budget, contexts)

    with open_study(path) as study, open_study() as alone:
        study.optimize(objective, batch=True, executor=pool)
        alone.optimize(train)
        assert without_times(study) == without_times(alone)
    assert max(size for budget, size in ledger.sizes if budget > 1) >= 4
    assert not list(Path(f"{path}.files").glob("outbox/*"))


def test_a_config_that_ends_every_call_on_a_pool_is_the_only_one_that_fails(
    path: Path, pool: Any
) -> None:
    def objective(configs: list[Config], budget: float) -> list[float]:
        return poisoned(configs, budget, raises)

    with open_study(path, seed=2) as study:
        with pytest.warns(FailedEvaluationsWarning):
            study.optimize(objective, batch=True, executor=pool)
        check_poisoned(study, "ValueError")


@pytest.mark.parametrize(
    "kind", [pytest.param(kind, marks=clusters.MARKS) for kind in ("dask", "ray")]
)
def test_a_cluster_keeps_what_a_worker_that_dies_has_finished(path: Path, kind: str) -> None:
    trained = Ledger(path.with_name("trained"))

    def objective(configs: list[Config], budget: float, contexts: Contexts) -> list[Any]:
        for position, (config, context) in enumerate(zip(configs, contexts, strict=True)):
            if position == 3:
                dies()
            trained.note([config], budget)
            context.finish(by_x(config, budget))
        return [None] * len(configs)

    with open_study(path) as study, POOLS[kind]() as cluster:
        study.optimize(objective, batch=True, executor=cluster, retries=5)
        assert canonical(study) == undisturbed()
    assert len(trained.evaluated) == len(set(trained.evaluated)) == 22


def test_a_forecast_and_a_simulation_take_batches() -> None:
    study = open_study()
    simulated = SimulatedExecutor(1, lambda job: job.budget)
    study.optimize(all_by_x, batch=True, executor=simulated)
    assert simulated.clock == 1 + 3 + 9


# The command line

TRAIN = """
space = {"x": (0.0, 1.0)}

def train_batch(configs, budget, contexts):
    with open("calls", "a") as file:
        file.write(f"{budget} {len(configs)}\\n")
    return [config["x"] / budget for config in configs]

def train(config, budget):
    return config["x"] / budget
"""


def run_cli(folder: Path, *options: object, code: int = 0) -> str:
    (folder / "train.py").write_text(TRAIN)
    given = ["-m", "deepband", "run", "a.study", *options]
    done = preloaded.run(given, folder)
    assert done.returncode == code, done
    assert "Traceback" not in done.stderr
    return done.stdout if code == 0 else done.stderr


def calls_of(folder: Path) -> list[tuple[int, int]]:
    lines = (folder / "calls").read_text().splitlines()
    return [(int(budget), int(size)) for budget, size in map(str.split, lines)]


def test_the_command_line_runs_batches(tmp_path: Path) -> None:
    """Also when the objective is taken from the study."""
    objective = "train.py:train_batch"
    run_cli(tmp_path, objective, "--max-budget", 9, "--batch")
    assert calls_of(tmp_path) == list(ALL.items())
    with deepband.open_study(tmp_path / "a.study") as study:
        assert canonical(study) == undisturbed()
    run_cli(tmp_path, "--deepen-to", 27, "--batch", 100)
    assert len({budget for budget, _ in calls_of(tmp_path)[3:]}) == len(calls_of(tmp_path)) - 3


def test_the_command_line_limits_batches(tmp_path: Path) -> None:
    run_cli(tmp_path, "train.py:train_batch", "--max-budget", 9, "--batch", 4)
    sizes = Counter(calls_of(tmp_path))
    assert sizes == {(1, 4): 2, (1, 1): 1, (3, 4): 2, (9, 4): 1, (9, 1): 1}


@pytest.mark.parametrize("batch", ["0", "2.5", "many"])
def test_the_command_line_refuses_bad_sizes(tmp_path: Path, batch: str) -> None:
    (tmp_path / "train.py").write_text(TRAIN)
    command = ["run", str(tmp_path / "a.study"), f"{tmp_path}/train.py:train_batch"]
    done = CliRunner().invoke(main, [*command, "--max-budget", "9", "--batch", batch])
    assert done.exit_code != 0
    assert "batch" in done.output
    assert not (tmp_path / "calls").exists()
    assert not (tmp_path / "a.study").exists()


def test_the_command_line_says_that_the_option_is_missing(tmp_path: Path) -> None:
    said = run_cli(tmp_path, "train.py:train_batch", "--max-budget", 9, code=2)
    assert "batch" in said
    said = run_cli(tmp_path, "train.py:train", "--max-budget", 9, "--batch", code=2)
    assert "batch" in said
    assert not (tmp_path / "calls").exists()
