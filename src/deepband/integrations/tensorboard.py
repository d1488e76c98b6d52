"""TensorBoard: one folder per config, with its losses by rung, its curves and its parameters.

Each evaluation is an event file of its own, named by its rung. It is written completely and then
renamed, so that a killed process leaves no partial file. Existing files are not written again.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Mapping, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from deepband.analysis.metrics import number
from deepband.analysis.text import printable
from deepband.core.facts import Config, Fact
from deepband.core.records import Evaluation
from deepband.errors import DeepbandError
from deepband.integrations.tracker import Tracker, measures
from deepband.system.installation import install_command

if TYPE_CHECKING:
    Event: TypeAlias = tuple[int, Any]
    """A step and its summary."""

__all__ = ["TensorBoardObserver"]

MARK = "study.txt"
"""The file with the id of the study."""
LARGEST_STEP = 2**63 - 1


class TensorBoardObserver:
    """Writes event files for TensorBoard: `study.observe(TensorBoardObserver("logs/mlp"))`.

    Each study needs a folder of its own. Show it with `tensorboard --logdir logs`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if find_spec("tensorboardX") is None:
            raise DeepbandError(
                f"TensorBoardObserver needs tensorboardX: {install_command('tensorboard')}"
            )
        self._folder = Path(folder)
        self._tracker = Tracker()

    def observe(self, facts: Sequence[Fact]) -> None:
        """Write new evaluations, and those that could not be written before."""
        self._tracker.follow(facts)
        self._claim(self._tracker.state.created.study)
        self._tracker.log_pending(self._log)

    def _log(self, evaluations: Sequence[Evaluation]) -> None:
        first = evaluations[0]
        folder = self._folder / f"{first.bracket:d}-{first.index:d}"
        _write(folder, 0, _parameters(first.config))
        for each in evaluations:
            numbers = measures(each, self._tracker.constrained)
            if numbers:
                _write(folder, each.rung + 1, _events(each, numbers))

    def _claim(self, study: str) -> None:
        """Mark the folder as belonging to this study. Raises if it belongs to another one."""
        mark = self._folder / MARK
        if not mark.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            mark.write_text(f"{study}\n")
        elif mark.read_text().strip() != study:
            raise DeepbandError(f"{self._folder} contains another study: give each its own folder.")


def _write(folder: Path, number: int, events: Iterator[Event]) -> None:
    """Write an event file unless it exists. TensorBoard reads the files of a folder by name."""
    from tensorboardX.proto import event_pb2
    from tensorboardX.record_writer import RecordWriter

    path = folder / f"events.out.tfevents.{number:010d}"
    if path.exists():
        return
    folder.mkdir(exist_ok=True)
    partial, now = folder / f"{number}.part", time.time()
    writer = RecordWriter(str(partial))
    writer.write(event_pb2.Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    for step, summary in events:
        event = event_pb2.Event(wall_time=now, step=step, summary=summary)
        writer.write(event.SerializeToString())
    writer.flush()
    writer.close()
    partial.rename(path)


def _parameters(config: Config) -> Iterator[Event]:
    """A config for TensorBoard's page of hyperparameters. TensorBoard collects the names of all
    hyperparameters and metrics from the folders itself."""
    from tensorboardX import summary

    values = {printable(name): _parameter(value) for name, value in config.items()}
    _, session, _ = summary.hparams(values, {})
    yield 0, session


def _parameter(value: object) -> bool | float | str:
    if isinstance(value, bool):
        return value
    plain = number(value)
    return printable(str(value)) if plain is None else plain


def _events(evaluation: Evaluation, numbers: Mapping[str, float]) -> Iterator[Event]:
    """The numbers of an evaluation with its rung as step, and its learning curve."""
    from tensorboardX import summary

    for name, value in numbers.items():
        yield evaluation.rung, summary.scalar(printable(name), value)
    for step, loss in evaluation.curve:
        if 0 <= step <= LARGEST_STEP:
            yield int(step), summary.scalar(f"curve/{evaluation.rung}", loss)
