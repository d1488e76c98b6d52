"""Optuna: export a study to its dashboard and plots, and continue an Optuna study in deepband.

Needs the extra `optuna`.
"""

from __future__ import annotations

import os
import re
import warnings
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from deepband.core.criteria import Criteria
from deepband.core.exact_numbers import Budget
from deepband.core.schedule import Schedule
from deepband.errors import (
    DeepbandError,
    InputError,
    StorageError,
    UnknownNameError,
    WaitingWarning,
)
from deepband.integrations.optuna import findings, study_criteria, study_import, trial_export
from deepband.integrations.optuna.findings import BudgetOf, Exported, Finding, LeftOut
from deepband.space.search_space import Space
from deepband.space.space_change import combined
from deepband.study.settings import open_study
from deepband.study.study import Study
from deepband.system.installation import install_command

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import ModuleType

    import optuna
    from ConfigSpace import ConfigurationSpace


__all__ = ["Imported", "export", "import_study"]


def export(
    study: Study, storage: str | optuna.storages.BaseStorage, name: str | None = None
) -> optuna.Study:
    """Export a study to an Optuna storage such as "sqlite:///optuna.db", for optuna-dashboard and
    Optuna's plots. Each config is a trial, and its losses by rung are the intermediate values.

    Trials on the top rung are complete, those below it are pruned, and those whose last evaluation
    failed are failed. Optuna's `best_trial` is the best complete trial: the best on the top rung
    (`study.best_at`), not on any budget (`study.best`).

    Several objectives become those of a multi-objective Optuna study, whose `best_trials` are the
    front on the top rung. Optuna has no intermediate values in such a study; the losses by rung are
    in the user attribute `evaluations` of each trial. Constraints are stored as Optuna's own.

    Exporting again replaces the Optuna study, because finished trials cannot be changed: its id in
    the storage changes, its name does not. A study of that name that is not an export of this one
    is never changed.
    """
    library = _optuna()
    name = name or (
        study.session.name
        if study.session.persistent
        else f"deepband {study.session.state.created.study}"
    )
    opened = _storage(library, storage)
    _remove_old(library, opened, study, name)
    state = study.session.state
    space = Space.described(combined(state)) if state.changes else study.session.space
    trials = trial_export.trials(state, space)
    exported = _created(library, opened, name, state.criteria)
    for key, value in trial_export.study_attributes(study.session.state).items():
        exported.set_user_attr(key, value)
    exported.add_trials(trials)
    return exported


def _created(library: ModuleType, storage: Any, name: str, criteria: Criteria) -> optuna.Study:
    """A new Optuna study with these objectives."""
    single = "maximize" if criteria.maximize else "minimize"
    directions = [direction for _, direction in criteria.objectives] or [single]
    made: optuna.Study = library.create_study(
        storage=storage, study_name=name, directions=directions
    )
    if criteria.objectives:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore", library.exceptions.ExperimentalWarning)
            made.set_metric_names(list(criteria.names))
    return made


@dataclass(frozen=True, slots=True)
class Imported:
    """A study that was imported from Optuna."""

    study: Study
    imported: int
    """How many evaluations this call imported."""
    left_out: list[LeftOut]
    """(trial, step, reason) of everything that was not imported."""


def import_study(
    optuna_study: optuna.Study,
    storage: str | os.PathLike[str] | None = None,
    *,
    max_budget: Budget | None = None,
    min_budget: Budget | None = None,
    eta: int | None = None,
    seed: int | None = None,
    width: int | None = None,
    brackets: int | None = None,
    space: Space | ConfigurationSpace | Mapping[str, Any] | None = None,
    trials: str = "complete and pruned",
    budget_of: BudgetOf | None = None,
    objectives: Sequence[str] | None = None,
) -> Imported:
    """Continue an Optuna study: create a study in `storage`, as `open_study` does, with its search
    space and its results. No imported result is evaluated again.

    Intermediate values are imported if their step is the budget of a rung; `budget_of` converts
    steps that are not budgets. A complete trial without intermediate values counts as evaluated
    with `max_budget`. If there are more trials than slots, trials on higher rungs come first, then
    those with better values. Everything else is listed as left out. A larger `width` has more
    slots.

    Several objectives get the names that `set_metric_names` gave them in Optuna, else objective_0,
    objective_1 and so on; `objectives` is a list of other names. Their trials have no intermediate
    values, so that complete ones count as evaluated with `max_budget`. Constraints of trials become
    metrics constraint_0, constraint_1 and so on (or with their names), which must not be positive;
    trials without them are left out if others have them.

    The search space is that of the trials unless `space` is given. Importing again into the same
    storage adds what is new. A study that `export` wrote is restored as it was, without any
    settings; every other study needs `max_budget`.
    """
    _optuna()
    _check(trials)
    exported = Exported.of(optuna_study)
    restored = exported if max_budget is None else None
    given = {"max_budget": max_budget, "min_budget": min_budget, "eta": eta, "seed": seed}
    given |= {"width": width, "brackets": brackets}
    schedule = _schedule(max_budget, min_budget, eta) if not restored else restored.schedule
    if budget_of is None:
        budget_of = exported.budget_of if exported else lambda step: step
    criteria = _criteria(exported, optuna_study, objectives)
    found, left_out = findings.findings(optuna_study, schedule, budget_of, trials, bool(exported))
    if not found and not restored:
        raise findings.no_match(optuna_study, schedule)
    study = open_study(
        storage,
        space=_space(space, exported, found),
        **criteria,
        **_settings(restored, given),
    )
    before = _count(study)
    with warnings.catch_warnings():  # what waits for an extension is in the study, as it was
        warnings.simplefilter("ignore", WaitingWarning)
        left_out += _add(study, restored, found)
    left_out.sort(key=lambda each: (each.trial, -1 if each.step is None else each.step))
    return Imported(study, _count(study) - before, left_out)


def _criteria(
    exported: Exported | None, given: optuna.Study, names: Sequence[str] | None
) -> dict[str, Any]:
    if exported is None:
        return study_criteria.criteria_of(given, names)
    return study_criteria.restored_criteria(exported.objectives, exported.constraints, given, names)


def _add(study: Study, restored: Exported | None, found: list[Finding]) -> list[LeftOut]:
    placed, left_out = study_import.configs(study.session.space, found)
    if restored:
        return left_out + study_import.replay(study, restored, study_import.by_place(placed))
    best_first = study_import.best_first(study.session.state, placed)
    return left_out + study_import.add_results(study, best_first)


def _space(given: Any, exported: Exported | None, found: list[Finding]) -> Any:
    """The space from the user, else from deepband's export, else from the trials."""
    if given is not None:
        return given
    return exported.space if exported and exported.space else findings.space_of(found)


def _count(study: Study) -> int:
    state = study.session.state
    return sum(map(len, state.results.values())) + len(state.ahead.results)


def _schedule(max_budget: Budget | None, min_budget: Budget | None, eta: int | None) -> Schedule:
    if max_budget is None:
        raise InputError("give max_budget: the budget of a complete trial, in the unit of steps.")
    return Schedule.of(
        3 if eta is None else eta, 1 if min_budget is None else min_budget, max_budget
    )


def _settings(exported: Exported | None, given: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of the user, completed by those of an exported study. `open_study` raises if
    they contradict each other."""
    if exported is None:
        return dict(given)
    settings: dict[str, Any] = {
        "max_budget": exported.runs[0].max_budget,
        "width": exported.runs[0].width,
        "brackets": exported.runs[0].brackets,
        "min_budget": exported.min_budget,
        "eta": exported.eta,
        "seed": exported.seed,
        "integer_budgets": exported.integer_budgets,
    }
    return settings | {key: value for key, value in given.items() if value is not None}


def _check(trials: str) -> None:
    if trials not in findings.TRIALS:
        raise UnknownNameError("choice of trials", trials, findings.TRIALS)


def _optuna() -> ModuleType:
    try:
        import optuna
    except ImportError as error:
        raise DeepbandError(
            f"export and import_study need Optuna: {install_command('optuna')}"
        ) from error
    return optuna


def _storage(library: ModuleType, given: str | optuna.storages.BaseStorage) -> Any:
    """The Optuna storage at a URL."""
    if not isinstance(given, str):
        return given
    url = re.sub(r"//[^/]*@", "//", given)  # without a password
    try:
        return library.storages.RDBStorage(given)
    except RuntimeError as error:  # the tables are of another version of Optuna
        raise StorageError(
            url,
            f"{error} Then export again; or export into another storage, such as a new file.",
        ) from error
    except Exception as error:
        raise StorageError(
            url, f'Optuna cannot open it ({error}). Give a URL such as "sqlite:///optuna.db".'
        ) from error


def _remove_old(library: ModuleType, storage: Any, study: Study, name: str) -> None:
    """Delete an earlier export of the study. Raises if another study has the name."""
    if name not in library.get_all_study_names(storage):
        return
    attributes = library.load_study(study_name=name, storage=storage).user_attrs
    if attributes.get("deepband") != study.session.state.created.study:
        raise InputError(
            f"the storage has a study {name!r} that is not an export of this one: give another "
            "name=, or delete it with optuna.delete_study if it is not needed."
        )
    library.delete_study(study_name=name, storage=storage)
