"""Optuna: show a study in its dashboard and plots, and go on with a study that was begun there.

Needs the extra `optuna`.
"""

from __future__ import annotations

import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepband.core.schedule import Budget, Schedule
from deepband.errors import DeepbandError, InputError, StorageError, UnknownNameError
from deepband.integrations.optuna import findings, study_import, trial_export
from deepband.integrations.optuna.findings import BudgetOf, Exported, Finding, LeftOut
from deepband.space.search_space import Space
from deepband.study.settings import open_study
from deepband.study.study import Study

if TYPE_CHECKING:
    from collections.abc import Mapping
    from types import ModuleType

    import optuna
    from ConfigSpace import ConfigurationSpace


__all__ = ["Imported", "export", "import_study"]


def export(
    study: Study, storage: str | optuna.storages.BaseStorage, name: str | None = None
) -> optuna.Study:
    """Write a study into an Optuna storage, such as "sqlite:///optuna.db", for optuna-dashboard and
    Optuna's plots: one trial a config, with its rungs as intermediate values.

    Trials that reached the top rung are complete, those that stopped below (so far) are pruned,
    and those whose last evaluation failed have failed. Exporting again writes the Optuna study
    anew, because finished trials cannot be changed: its number in the storage changes, its name
    does not. Another study of that name is never touched.
    """
    library = _optuna()
    name = name or (
        study.session.name
        if study.session.persistent
        else f"deepband {study.session.state.created.study}"
    )
    opened = _storage(library, storage)
    _remove_old(library, opened, study, name)
    trials = trial_export.trials(study.session.state, study.session.space)
    direction = "maximize" if study.session.maximize else "minimize"
    made: optuna.Study = library.create_study(storage=opened, study_name=name, direction=direction)
    for key, value in trial_export.study_attributes(study.session.state).items():
        made.set_user_attr(key, value)
    made.add_trials(trials)
    return made


@dataclass(frozen=True, slots=True)
class Imported:
    """A study that was made of an Optuna study."""

    study: Study
    taken_over: int
    """How many evaluations were taken over now."""
    left_out: list[LeftOut]
    """(trial, step, reason) of everything else."""


def import_study(
    optuna_study: optuna.Study,
    storage: str | os.PathLike[str] | None = None,
    *,
    max_budget: Budget | None = None,
    min_budget: Budget | None = None,
    eta: int | None = None,
    seed: int | None = None,
    space: Space | ConfigurationSpace | Mapping[str, Any] | None = None,
    trials: str = "complete and pruned",
    budget_of: BudgetOf | None = None,
) -> Imported:
    """Make a study, in `storage` as `open_study` has it, of the space and the results of an Optuna
    study, and go on with it: nothing that is taken over is evaluated again.

    Intermediate values at steps that are budgets of rungs are taken over; `budget_of` says what
    budget a step stands for, if it is another number. A complete trial without intermediate values
    counts as evaluated with `max_budget`. Where there are fewer places than trials, those that
    went furthest come first, and of them the best. All the rest is listed as left out.

    The space is that of the trials, unless `space` is given. Doing it again with the same storage
    takes over what is new. A study that `export` wrote comes back as it was, without settings;
    `max_budget` is needed for any other.
    """
    _optuna()
    _check(optuna_study, trials)
    exported = Exported.of(optuna_study)
    comes_back = exported if max_budget is None else None
    given = {"max_budget": max_budget, "min_budget": min_budget, "eta": eta, "seed": seed}
    schedule = _schedule(max_budget, min_budget, eta) if not comes_back else comes_back.schedule
    if budget_of is None:
        budget_of = exported.budget_of if exported else lambda step: step
    found, left_out = findings.findings(optuna_study, schedule, budget_of, trials, bool(exported))
    if not found and not comes_back:
        raise findings.no_match(optuna_study, schedule)
    study = open_study(
        storage,
        space=_space(space, exported, found),
        maximize=optuna_study.direction.name == "MAXIMIZE",
        **_settings(comes_back, given),
    )
    before = _count(study)
    left_out += _take(study, comes_back, found)
    left_out.sort(key=lambda each: (each.trial, -1 if each.step is None else each.step))
    return Imported(study, _count(study) - before, left_out)


def _take(study: Study, comes_back: Exported | None, found: list[Finding]) -> list[LeftOut]:
    placed, left_out = study_import.configs(study.session.space, found)
    if comes_back:
        return left_out + study_import.replay(study, comes_back, study_import.by_place(placed))
    return left_out + study_import.take_over(
        study, study_import.furthest_first(placed, study.session.maximize)
    )


def _space(given: Any, exported: Exported | None, found: list[Finding]) -> Any:
    """What the user says, else what deepband noted, else what the trials have."""
    if given is not None:
        return given
    return exported.space if exported and exported.space else findings.space_of(found)


def _count(study: Study) -> int:
    state = study.session.state
    return sum(map(len, state.results.values())) + len(state.ahead.results)


def _schedule(max_budget: Budget | None, min_budget: Budget | None, eta: int | None) -> Schedule:
    if max_budget is None:
        raise InputError("give max_budget, the budget of a complete trial, in the unit of steps.")
    return Schedule.of(
        3 if eta is None else eta, 1 if min_budget is None else min_budget, max_budget
    )


def _settings(exported: Exported | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """What the user gave; a study that comes back brings the rest, and any difference shows when
    it is opened."""
    if exported is None:
        return dict(given)
    noted: dict[str, Any] = {
        "max_budget": exported.max_budgets[0],
        "min_budget": exported.min_budget,
        "eta": exported.eta,
        "seed": exported.seed,
        "integer_budgets": exported.integer_budgets,
    }
    return noted | {key: value for key, value in given.items() if value is not None}


def _check(given: optuna.Study, trials: str) -> None:
    if trials not in findings.TRIALS:
        raise UnknownNameError("choice of trials", trials, findings.TRIALS)
    if len(given.directions) != 1:
        raise InputError(
            f"Optuna's study {given.study_name!r} has {len(given.directions)} objectives, and "
            "deepband minimises or maximises one: make a study of it with one of them first."
        )


def _optuna() -> ModuleType:
    try:
        import optuna
    except ImportError as error:
        raise DeepbandError("this needs Optuna: pip install 'deepband[optuna]'") from error
    return optuna


def _storage(library: ModuleType, given: str | optuna.storages.BaseStorage) -> Any:
    """An Optuna storage, opened once; what it cannot read is an error that says what to do."""
    if not isinstance(given, str):
        return given
    place = re.sub(r"//[^/]*@", "//", given)  # without a password
    try:
        return library.storages.RDBStorage(given)
    except RuntimeError as error:  # so it says that its tables are of another version
        raise StorageError(
            place,
            f"{error} Then export again; or export into another storage, such as a new file.",
        ) from error
    except Exception as error:
        raise StorageError(
            place, f'Optuna cannot open it ({error}). Give a URL such as "sqlite:///optuna.db".'
        ) from error


def _remove_old(library: ModuleType, storage: Any, study: Study, name: str) -> None:
    """Remove what was exported before; refuse to touch anything else."""
    if name not in library.get_all_study_names(storage):
        return
    noted = library.load_study(study_name=name, storage=storage).user_attrs
    if noted.get("deepband") != study.session.state.created.study:
        raise InputError(
            f"the storage has a study {name!r} that is not an export of this one: give another "
            "name=, or delete it with optuna.delete_study if nobody needs it."
        )
    library.delete_study(study_name=name, storage=storage)
