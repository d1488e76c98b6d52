"""Other tools: random search, Optuna, and tuners in a virtual environment of their own.

Each is used as its documentation recommends, with default settings and with the same eta, smallest
and largest budget as our methods.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepband.core.facts import Config
from deepband.errors import DeepbandError
from deepband.research.compare import peer_worker
from deepband.research.compare.ledger import ETA, Ledger
from deepband.samplers.uniform import Uniform
from deepband.space.search_space import Space, choices

if TYPE_CHECKING:
    import optuna

PEERS_PYTHON = Path(".venv-peers/bin/python")
"""Where `make test-all` installs the tuners of `peer_worker`."""
HOSTED = tuple(peer_worker.TUNERS)
"""The tuners that run there."""
ENVIRONMENT = {"OMP_NUM_THREADS": "1", "PYTHONHASHSEED": "0"}
"""SMAC's choices depend on the order of sets, and so on the seed of Python's hashes."""


def random_search(ledger: Ledger, seed: int) -> None:
    """Evaluate random configs, each at the largest budget."""
    task, uniform = ledger.task, Uniform()
    for index in count():
        (config,) = uniform.draw(task.space, (), 0, [index], seed)
        ledger(index, config, task.max_budget)


def optuna_random(ledger: Ledger, seed: int) -> None:
    from optuna.samplers import RandomSampler

    _optuna(ledger, RandomSampler(seed=seed), seed)


def optuna_tpe(ledger: Ledger, seed: int) -> None:
    from optuna.samplers import TPESampler

    _optuna(ledger, TPESampler(seed=seed), seed)


def _optuna(ledger: Ledger, sampler: optuna.samplers.BaseSampler, seed: int) -> None:
    """Hyperband as a pruner. The study has a fixed name, because Optuna assigns brackets by it."""
    import optuna

    optuna.logging.set_verbosity(optuna.logging.ERROR)
    pruner = optuna.pruners.HyperbandPruner(1, ledger.task.max_budget, ETA)
    name = f"compare {seed}"
    study = optuna.create_study(
        sampler=sampler, pruner=pruner, study_name=name, direction="maximize"
    )
    while True:
        _trial(ledger, study.ask(), study)


def _trial(ledger: Ledger, trial: optuna.Trial, study: optuna.Study) -> None:
    """Train a config from rung to rung until it is pruned."""
    import optuna

    config = suggested(trial, ledger.task.space)
    schedule = ledger.task.schedule()
    accuracy = 0.0
    for budget in schedule.job_budgets(whole=True):
        accuracy = ledger(trial.number, config, budget)
        trial.report(accuracy, int(budget))
        if trial.should_prune():
            study.tell(trial, state=optuna.trial.TrialState.PRUNED)
            return
    study.tell(trial, accuracy)


def suggested(trial: optuna.Trial, space: Space) -> Config:
    """Return a config of values that Optuna suggests for the active parameters."""
    config: Config = {}
    for name, parameter in space.configspace.items():
        conditions = space.configspace.parent_conditions_of[name]
        if all(each.satisfied_by_value(config) for each in conditions):
            config[name] = _suggest(trial, parameter)
    return config


def _suggest(trial: optuna.Trial, parameter: Any) -> Any:
    from ConfigSpace.hyperparameters import IntegerHyperparameter

    if listed := choices(parameter):
        return trial.suggest_categorical(parameter.name, listed)
    is_whole = isinstance(parameter, IntegerHyperparameter)
    ask: Callable[..., float] = trial.suggest_int if is_whole else trial.suggest_float
    return ask(parameter.name, parameter.lower, parameter.upper, log=parameter.log)


def in_own_environment(tuner: str, python: Path) -> Callable[[Ledger, int], None]:
    """Return a tuner of `peer_worker`, run by a Python interpreter that has it."""

    def search(ledger: Ledger, seed: int) -> None:
        with (
            tempfile.TemporaryDirectory(prefix="deepband-") as folder,
            tempfile.TemporaryFile("w+") as errors,
        ):
            process = subprocess.Popen(
                [str(python), "-W", "ignore", peer_worker.__file__],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=errors,
                text=True,
                cwd=folder,
                env=os.environ | ENVIRONMENT,
            )
            try:
                _converse(process, ledger, tuner, seed)
                if process.wait() != 0:
                    errors.seek(0)
                    raise DeepbandError(f"The tuner {tuner} failed: {errors.read()[-2000:]}")
            finally:
                process.kill()
                process.communicate()

    return search


def _converse(process: subprocess.Popen[str], ledger: Ledger, tuner: str, seed: int) -> None:
    """Send the task, then evaluate configs until the tuner stops."""
    assert process.stdin is not None
    assert process.stdout is not None
    task = {
        "tuner": tuner,
        "space": ledger.task.space.description,
        "max_budget": ledger.task.max_budget,
        "n_trials": ledger.task.schedule(ledger.width).evaluations,
        "seed": seed,
        "parallel": 1,
    }
    print(json.dumps(task), file=process.stdin, flush=True)
    for number, line in enumerate(process.stdout):
        training, config, budget = json.loads(line)
        accuracy = ledger(str(training), config, budget)
        print(json.dumps([number, -accuracy]), file=process.stdin, flush=True)
