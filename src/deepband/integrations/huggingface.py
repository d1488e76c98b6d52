"""Hugging Face Transformers: an objective that runs a `Trainer` for as many steps as the budget.

The checkpoint is the Trainer's own: weights, optimizer, schedule, random state and progress. On the
next rung, the Trainer continues from it.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepband.errors import DeepbandError, InputError, shown
from deepband.execution.context import Context
from deepband.integrations.training_result import (
    Monitor,
    main_metric,
    read_monitor,
    training_result,
)

if TYPE_CHECKING:
    from transformers import Trainer

__all__ = ["TrainerObjective"]

UNITS = {"steps": "max_steps", "epochs": "num_train_epochs"}
"""What the budget counts, and the argument of the Trainer that limits it."""
LASTING = {"constant", "constant_with_warmup", "inverse_sqrt", "reduce_lr_on_plateau"}
"""Learning-rate schedules that do not depend on the length of training."""
OTHERS = ("epoch", "_runtime", "_per_second", "_time")
"""The endings of names that are not metrics of the model."""


class TrainerObjective:
    """An objective for `study.optimize`: a budget of n trains a model up to step n.

    - `build(config, arguments)` returns a `transformers.Trainer`. Pass `**arguments` to its
      TrainingArguments: it sets the folder and the number of steps, and saves only at the end.
    - `monitor` is the metric to optimise, as `Trainer.evaluate` names it. For several objectives,
      give the list of their names; the learning curve is that of the first.
    - `unit` is what the budget counts: "steps" or "epochs".

    Each evaluation continues from the checkpoint of the rung below, reports a learning curve with
    one point per evaluation of the Trainer, and returns its metrics. It stops when
    `context.should_stop()` says so. The checkpoint is a folder `checkpoint-STEP`, for
    `from_pretrained` of your model.
    """

    def __init__(
        self,
        build: Callable[[dict[str, Any], dict[str, Any]], Any],
        *,
        monitor: Monitor = "eval_loss",
        unit: str = "steps",
    ) -> None:
        if find_spec("transformers") is None or find_spec("accelerate") is None:
            raise DeepbandError(
                "TrainerObjective needs Transformers: pip install 'transformers[torch]'"
            )
        if not callable(build):
            raise InputError(f"build is {shown(build)}: give a function (config, arguments).")
        if unit not in UNITS:
            raise InputError(f"unit is {shown(unit)}: give 'steps' or 'epochs'.")
        self.build, self.monitor, self.unit = build, read_monitor(monitor), unit

    def __call__(self, config: dict[str, Any], budget: float, context: Context) -> dict[str, float]:
        from transformers import PrinterCallback, set_seed

        set_seed(context.seed)
        trainer = self.build(config, self._arguments(budget, context))
        _check(trainer, self.unit, budget)
        trainer.remove_callback(PrinterCallback)
        reporter = _callback(context, main_metric(self.monitor), self.unit)
        trainer.add_callback(reporter)
        with _quiet():
            trainer.train(resume_from_checkpoint=_newest(context))
            if reporter.step != trainer.state.global_step:
                trainer.evaluate()
        metrics = {name: n for name, n in reporter.metrics.items() if not name.endswith(OTHERS)}
        return training_result(metrics, self.monitor)

    def _arguments(self, budget: float, context: Context) -> dict[str, Any]:
        return {
            "output_dir": str(context.path),
            UNITS[self.unit]: budget,
            "save_strategy": "no",  # the callback saves at the end
            "report_to": "none",
            "disable_tqdm": True,
        }


def _check(trainer: Trainer, unit: str, budget: float) -> None:
    """Raise if the Trainer does not have the budget; warn if its learning rate ends with it."""
    if getattr(trainer.args, UNITS[unit]) != budget:
        raise InputError(
            f"{UNITS[unit]} is {getattr(trainer.args, UNITS[unit])}, but the budget is {budget}: "
            "pass **arguments to TrainingArguments."
        )
    schedule = str(getattr(trainer.args.lr_scheduler_type, "value", trainer.args.lr_scheduler_type))
    if schedule not in LASTING and trainer.lr_scheduler is None:
        warnings.warn(
            f"lr_scheduler_type is {schedule!r}, which ends with the budget of each rung, so that "
            "rungs cannot be compared: choose 'constant_with_warmup' or 'inverse_sqrt'.",
            stacklevel=3,
        )


def _newest(context: Context) -> str | None:
    """The checkpoint of an interrupted attempt at this job, or else of the rung below."""
    folders = [folder for folder in (context.partial, context.previous) if folder is not None]
    return next((found for folder in folders if (found := _last(folder)) is not None), None)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without progress bars for small files, if the user has not already switched them off."""
    from transformers.utils import logging

    enabled = logging.is_progress_bar_enabled()
    logging.disable_progress_bar()
    try:
        yield
    finally:
        if enabled:
            logging.enable_progress_bar()


def _last(folder: Path) -> str | None:
    """The last complete checkpoint in a folder. The Trainer writes its own state last."""
    steps = [path.parent for path in folder.glob("checkpoint-*/trainer_state.json")]
    return str(max(steps, key=lambda path: int(path.name.partition("-")[2]))) if steps else None


def _callback(context: Context, monitor: str, unit: str) -> Any:
    """A callback that reports the learning curve, keeps the last metrics, and saves at the end."""
    from transformers import TrainerCallback

    class Reporter(TrainerCallback):  # type: ignore[misc,unused-ignore] # may not be installed
        def __init__(self) -> None:
            self.step = -1
            self.metrics: dict[str, Any] = {}

        def on_step_end(self, args: Any, state: Any, control: Any, **others: Any) -> None:
            if state.global_step >= state.max_steps:
                control.should_save = True

        def on_evaluate(
            self, args: Any, state: Any, control: Any, metrics: Any, **others: Any
        ) -> None:
            self.step, self.metrics = state.global_step, metrics
            if monitor in metrics:
                where = state.global_step if unit == "steps" else state.epoch
                context.report(where, metrics[monitor])
                control.should_training_stop |= context.should_stop()

    return Reporter()
