"""Weights & Biases: one run per config, whose steps are rungs, in one group per study.

A run is opened to log new evaluations and closed again, so none is lost if the process is killed
later. A file next to the runs lists what is logged, because offline runs cannot be read back.
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Literal

from deepband.analysis.text import printable, shortened
from deepband.core.facts import Fact
from deepband.core.records import Evaluation
from deepband.errors import DeepbandError
from deepband.integrations.tracker import Tracker, measures
from deepband.system.installation import install_command

__all__ = ["WandbObserver"]

MOST_ERROR = 500
_LINE = re.compile(r"\d+-\d+-\d+ (ok|failed)")


class WandbObserver:
    """Logs a study to Weights & Biases: `study.observe(WandbObserver("mlp"))`.

    `project` is created if it does not exist. `group` names the study; by default it is the id of
    the study. With mode="offline", nothing is sent: `wandb sync` uploads the runs later. `folder`
    is where Weights & Biases keeps its files, by default the current directory.

    Logging an evaluation takes about half a second, in which the driver starts no job.
    """

    def __init__(
        self,
        project: str,
        *,
        group: str | None = None,
        mode: Literal["online", "offline"] = "online",
        folder: str | os.PathLike[str] = ".",
    ) -> None:
        if find_spec("wandb") is None:
            raise DeepbandError(f"this needs wandb: {install_command('wandb')}")
        self._project = project
        self._group = group
        self._mode = mode
        self._folder = Path(folder)
        self._tracker = Tracker()
        self._study = ""
        """The id of the study whose list was read."""
        self._logged: set[str] = set()
        """The lines of the list."""

    def observe(self, facts: Sequence[Fact]) -> None:
        """Log new evaluations, and those that could not be logged before."""
        self._tracker.follow(facts)
        study = self._tracker.state.created.study
        if study != self._study:
            self._logged = self._read_list(study)
            self._study = study
        self._tracker.log_pending(self._log)

    def _list(self, study: str) -> Path:
        return self._folder / "wandb" / f"deepband-{study}.txt"

    def _read_list(self, study: str) -> set[str]:
        """The evaluations that an earlier process has logged."""
        path = self._list(study)
        lines = path.read_text().splitlines() if path.exists() else []
        return {line for line in lines if _LINE.fullmatch(line)}

    def _log(self, evaluations: Sequence[Evaluation]) -> None:
        """Log the evaluations of a config that are not logged yet."""
        new = [each for each in evaluations if _line(each) not in self._logged]
        if not new:
            return
        run = self._open(new[0])
        try:
            for each in new:
                if found := measures(each):
                    run.log({printable(name): n for name, n in found.items()}, step=each.rung)
            error = new[-1].error
            run.summary["error"] = None if error is None else shortened(error, MOST_ERROR)
        finally:
            run.finish(exit_code=0 if new[-1].error is None else 1)
        with self._list(self._study).open("a") as file:
            file.writelines(f"{_line(each)}\n" for each in new)
        self._logged.update(map(_line, new))

    def _open(self, first: Evaluation) -> Any:
        """The run of a config. It continues the run with the same id, if there is one."""
        import wandb

        self._folder.mkdir(parents=True, exist_ok=True)
        return wandb.init(
            project=self._project,
            group=self._group or self._study,
            id=f"{self._study}-{first.bracket}-{first.index}",
            name=f"{first.bracket}-{first.index}",
            config={printable(name): _value(each) for name, each in first.config.items()},
            mode=self._mode,
            dir=str(self._folder),
            resume="allow",
            reinit="create_new",
            settings=wandb.Settings(
                silent=True,
                console="off",
                disable_git=True,
                disable_code=True,
                x_disable_stats=True,
            ),
        )


def _value(value: object) -> object:
    """A value of a parameter as Weights & Biases can store it."""
    return (
        value if value is None or isinstance(value, bool | int | float) else printable(str(value))
    )


def _line(evaluation: Evaluation) -> str:
    """The line of an evaluation in the list. One that failed may be repeated, and succeed."""
    end = "ok" if evaluation.error is None else "failed"
    return f"{evaluation.bracket}-{evaluation.index}-{evaluation.rung} {end}"
