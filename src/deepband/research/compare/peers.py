"""Other tools that can be installed with deepband: random search and Optuna.

Each is used as its documentation recommends, with default settings and with the same eta, smallest
and largest budget as our methods.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import count
from typing import TYPE_CHECKING, Any

from deepband.core.facts import Config
from deepband.research.compare.ledger import ETA, Evaluation, Ledger, Task
from deepband.research.compare.tuner import search
from deepband.samplers.uniform import Uniform
from deepband.space.choices import choices
from deepband.space.search_space import Space

if TYPE_CHECKING:
    import optuna


def random_search(ledger: Ledger, seed: int) -> None:
    """Evaluate random configs, each at the largest budget."""
    search(_RandomSearch(ledger.task, seed), ledger)


class _RandomSearch:
    def __init__(self, task: Task, seed: int) -> None:
        self._task, self._seed = task, seed
        self._indices = count()

    def ask(self) -> Evaluation:
        index = next(self._indices)
        (config,) = Uniform().draw(self._task.space, (), 0, [index], self._seed)
        return Evaluation(index, config, self._task.max_budget)

    def tell(self, evaluation: Evaluation, accuracy: float) -> None:
        """It does not learn."""


def optuna_random(ledger: Ledger, seed: int) -> None:
    from optuna.samplers import RandomSampler

    _optuna(ledger, RandomSampler(seed=seed), seed)


def optuna_tpe(ledger: Ledger, seed: int) -> None:
    from optuna.samplers import TPESampler

    _optuna(ledger, TPESampler(seed=seed), seed)


def _optuna(ledger: Ledger, sampler: optuna.samplers.BaseSampler, seed: int) -> None:
    search(_Optuna(ledger.task, sampler, seed), ledger)


class _Optuna:
    """Hyperband as a pruner: a trial is trained from rung to rung until it is pruned."""

    def __init__(self, task: Task, sampler: optuna.samplers.BaseSampler, seed: int) -> None:
        import optuna

        optuna.logging.set_verbosity(optuna.logging.ERROR)
        self._space = task.space
        self._budgets = list(task.schedule().job_budgets(whole=True))
        self._continued: list[Evaluation] = []
        """Of trials that were not pruned: the worker that is free goes on with them."""
        self._study = optuna.create_study(
            sampler=sampler,
            pruner=optuna.pruners.HyperbandPruner(1, task.max_budget, ETA),
            study_name=f"compare {seed}",  # fixed, because Optuna assigns brackets by it
            direction="maximize",
        )

    def ask(self) -> Evaluation:
        if self._continued:
            return self._continued.pop()
        trial = self._study.ask()
        config = suggested(trial, self._space)
        return Evaluation(trial.number, config, self._budgets[0], trial)

    def tell(self, evaluation: Evaluation, accuracy: float) -> None:
        import optuna

        trial, budget = evaluation.handle, evaluation.budget
        trial.report(accuracy, int(budget))
        if trial.should_prune():
            self._study.tell(trial, state=optuna.trial.TrialState.PRUNED)
        elif budget == self._budgets[-1]:
            self._study.tell(trial, accuracy)
        else:
            following = self._budgets[self._budgets.index(budget) + 1]
            self._continued.append(evaluation._replace(budget=following))


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
