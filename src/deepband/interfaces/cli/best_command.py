"""The command that shows the best evaluation, and how to load its checkpoint."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from deepband.analysis.export import fields_of
from deepband.core.evaluations import best_evaluation, best_evaluation_at
from deepband.core.records import Evaluation, with_checkpoint
from deepband.core.state import State
from deepband.errors import InputError, StorageError
from deepband.interfaces.cli.best_text import ANY_BUDGET, describe, highest_budget
from deepband.interfaces.cli.group import json_option, main, open_existing, study_argument
from deepband.interfaces.cli.output import show
from deepband.storage.object_formats import PICKLE
from deepband.storage.saved_index import read_index
from deepband.study.study import Study

if TYPE_CHECKING:
    _Rung = click.ParamType[int]
else:  # ParamType is not generic before click 8.4
    _Rung = click.ParamType

ESTIMATOR = ": estimator "
"""Part of what a search of scikit-learn records as its objective."""
TOP = -1
"""The highest rung that has a finite result."""


class RungType(_Rung):
    """The number of a rung, or `top`."""

    name = "number|top"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        if value == "top" or value is TOP:
            return TOP
        if not str(value).isdecimal():
            self.fail(f"{value!r} is neither the number of a rung nor 'top'.", param, ctx)
        return int(value)


@main.command()
@study_argument
@click.option(
    "--rung",
    type=RungType(),
    help="The best on this rung; top: the highest with a result.  [default: on any budget]",
)
@click.option("--path", "only_path", is_flag=True, help="Print only the path of its checkpoint.")
@json_option
def best(study: Path, rung: int | None, only_path: bool, as_json: bool) -> None:
    """Show the best evaluation, on any budget or on one rung, and its checkpoint.

    The best evaluation on any budget may have been trained with less than the highest budget. The
    last line then names the best one there, which --rung top shows.
    """
    if only_path and as_json:
        raise InputError("--path prints a path and --json everything: give one of them.")
    opened = open_existing(study)
    state = opened.session.state
    if only_path or state.criteria.several:  # which raises, and says what to do instead
        only = opened.best if rung is None else opened.best_at(None if rung == TOP else rung)
        click.echo(os.fsencode(_checkpoint(opened, only)))  # as it is, for scripts
        return
    found, label = _asked_for(state, rung)
    if found is None:
        show(None, as_json, describe(state, None, label))
        return
    found = with_checkpoint(found, opened.session.find_checkpoint)
    lines = [describe(state, found, label), *_checkpoint_lines(opened, found)]
    lines += highest_budget(state, study) if rung is None else []
    fields = {**fields_of(state, found), "checkpoint": found.checkpoint}
    show(fields, as_json, "\n".join(lines))


def _asked_for(state: State, rung: int | None) -> tuple[Evaluation | None, str]:
    """The evaluation that the option names, and what it is called."""
    if rung is None:
        return best_evaluation(state), ANY_BUDGET
    found = best_evaluation_at(state, None if rung == TOP else rung)
    return found, f"best on rung {found.rung if found and rung == TOP else rung}"


def _checkpoint_lines(study: Study, found: Evaluation) -> list[str]:
    """Where the checkpoint is and the line of Python that loads it, or why there is none."""
    folder = found.checkpoint
    if folder is None:
        return [f"checkpoint: none, because {_absence(study, found)}"]
    saved = read_index(folder)
    line = f"checkpoint: {folder}"
    if saved is None:
        return [line]  # files that the objective wrote itself
    given = [f"{name}={name}" for name, each in saved.objects.items() if each.is_state]
    if any(each.file.endswith(PICKLE) for each in saved.objects.values()):
        given.append("unpickle=True")
    arguments = ", ".join([repr(str(folder)), *given])
    more = " (leave out what you do not need)" if len(given) > 1 else ""
    return [line, f"load it in Python{more}: deepband.load_checkpoint({arguments})"]


def _checkpoint(study: Study, best: Evaluation) -> Path:
    """The checkpoint of an evaluation, or an error that says why there is none."""
    folder: Path | None = best.checkpoint
    if folder is not None:
        return folder
    session, key = study.session, (best.bracket, best.index, best.rung)
    which = f"the evaluation of bracket {key[0]}, index {key[1]}, rung {key[2]}"
    raise StorageError(session.storage.path, f"{which} has no checkpoint: {_absence(study, best)}")


def _absence(study: Study, best: Evaluation) -> str:
    """Why an evaluation has no checkpoint, as the rest of a sentence."""
    key, checkpoints = (best.bracket, best.index, best.rung), study.session.checkpoints
    kept = set(checkpoints.kept())
    if key in kept:
        return f"the files in {checkpoints.path(key)} have changed since they were saved."
    if best.origin is not None:
        return f"its result was imported ({best.origin})."
    if not kept and ESTIMATOR in (study.session.state.objective or ""):
        return "a search of scikit-learn keeps only its best model, as best_estimator_."
    if not kept:
        return (
            "the study has none at all. Save your model with context.save(model=model), or in the "
            "folder context.path, and do not run it with --keep none."
        )
    return (
        "it was not saved, or was removed. For the best on another rung, give --rung. To train it "
        "again, pass its config to your objective."
    )
