"""TensorBoard: a folder a config, with its losses by rung, its curves and its parameters.

Each evaluation is an event file of its own, named by its rung, written whole and then renamed: what
is there is not written again, and a driver that is killed leaves no half file.
"""

from __future__ import annotations

import os
import time
from collections.abc import Iterator, Sequence
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from deepband.analysis.formatting import printable
from deepband.core.facts import Config, Fact
from deepband.core.records import Evaluation
from deepband.errors import DeepbandError
from deepband.integrations.tracker import Tracker, measures, number

if TYPE_CHECKING:
    Dated: TypeAlias = tuple[int, Any]
    """A step and a summary of it."""

__all__ = ["TensorBoardObserver"]

MARK = "study.txt"
"""Says whose folder it is."""
LARGEST_STEP = 2**63 - 1


class TensorBoardObserver:
    """Writes event files for TensorBoard: `study.observe(TensorBoardObserver("logs/mlp"))`.

    A folder holds one study. Show it by `tensorboard --logdir logs`.
    """

    def __init__(self, folder: str | os.PathLike[str]) -> None:
        if find_spec("tensorboardX") is None:
            raise DeepbandError("this needs tensorboardX: pip install 'deepband[tensorboard]'")
        self._folder = Path(folder)
        self._following = Tracker()

    def observe(self, facts: Sequence[Fact]) -> None:
        """Write the evaluations among facts, and those that could not be written before."""
        self._following.follow(facts)
        self._claim(self._following.state.created.study)
        self._following.hand_on(self._log)

    def _log(self, evaluations: Sequence[Evaluation]) -> None:
        first = evaluations[0]
        folder = self._folder / f"{first.bracket:d}-{first.index:d}"
        _write(folder, 0, _parameters(first.config))
        for each in evaluations:
            if each.loss is not None:
                _write(folder, each.rung + 1, _events(each))

    def _claim(self, study: str) -> None:
        """Make the folder this study's own, or raise if it is another's."""
        mark = self._folder / MARK
        if not mark.exists():
            self._folder.mkdir(parents=True, exist_ok=True)
            mark.write_text(f"{study}\n")
        elif mark.read_text().strip() != study:
            raise DeepbandError(f"{self._folder} holds another study: give each its own folder.")


def _write(folder: Path, place: int, events: Iterator[Dated]) -> None:
    """Write an event file, unless it is there. TensorBoard reads the files of a folder by name."""
    from tensorboardX.proto.event_pb2 import Event
    from tensorboardX.record_writer import RecordWriter

    whole = folder / f"events.out.tfevents.{place:010d}"
    if whole.exists():
        return
    folder.mkdir(exist_ok=True)
    part, now = folder / f"{place}.part", time.time()
    writer = RecordWriter(str(part))
    writer.write(Event(wall_time=now, file_version="brain.Event:2").SerializeToString())
    for step, summary in events:
        event = Event(wall_time=now, step=step, summary=summary)
        writer.write(event.SerializeToString())
    writer.flush()
    writer.close()
    part.rename(whole)


def _parameters(config: Config) -> Iterator[Dated]:
    """A config for the page of hyperparameters. Which there are in all, and which metrics,
    TensorBoard gathers from all folders by itself when none of them claims to know."""
    from tensorboardX import summary

    values = {printable(name): _parameter(value) for name, value in config.items()}
    _, session, _ = summary.hparams(values, {})
    yield 0, session


def _parameter(value: object) -> bool | float | str:
    if isinstance(value, bool):
        return value
    plain = number(value)
    return printable(str(value)) if plain is None else plain


def _events(evaluation: Evaluation) -> Iterator[Dated]:
    """The numbers of an evaluation by its rung, and its learning curve by the steps reported."""
    from tensorboardX import summary

    for name, value in measures(evaluation).items():
        yield evaluation.rung, summary.scalar(printable(name), value)
    for step, loss in evaluation.curve:
        if 0 <= step <= LARGEST_STEP:
            yield int(step), summary.scalar(f"curve/{evaluation.rung}", loss)
