"""PyTorch Lightning: an objective that trains a LightningModule for as many epochs as the budget.

The checkpoint is Lightning's own: weights, optimizers, schedules, callbacks and loops. On the next
rung, Lightning continues from it.
"""

from __future__ import annotations

import logging
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from deepband.errors import DeepbandError, InputError, shown
from deepband.execution.context import Context, restore_curve
from deepband.integrations.training_result import (
    Monitor,
    main_metric,
    read_monitor,
    training_result,
)

if TYPE_CHECKING:
    from lightning import Trainer

__all__ = ["LightningObjective"]

FILE = "last.ckpt"
QUIET = {
    "logger": False,
    "enable_checkpointing": False,
    "enable_progress_bar": False,
    "enable_model_summary": False,
}


class LightningObjective:
    """An objective for `study.optimize`: a budget of n trains a model up to epoch n.

    - `build(config)` returns a LightningModule, or a pair of it and a LightningDataModule.
    - `monitor` is the metric to optimise, which the model logs on validation. For several
      objectives, give the list of their names; the learning curve is that of the first.
    - `save_every`: also save after this many epochs, so that interrupted training continues.
    - `weights_only`: read checkpoints without running code from them. If your hyperparameters
      contain objects other than numbers, strings and tensors, pass False.
    - Other arguments are passed to `lightning.Trainer`. It uses one device, without a logger or
      progress bar, unless you ask for them.

    Each evaluation continues from the checkpoint of the rung below, reports a learning curve with
    one point per validation, and returns the logged metrics. It stops when `context.should_stop()`
    says so. Each epoch is seeded, so that training that continues gives the same result as training
    without a break. The checkpoint is the file `last.ckpt`, for `load_from_checkpoint` of your
    model.
    """

    def __init__(
        self,
        build: Callable[[dict[str, Any]], Any],
        *,
        monitor: Monitor = "val_loss",
        save_every: int | None = None,
        weights_only: bool = True,
        **trainer: Any,
    ) -> None:
        if find_spec("lightning") is None:
            raise DeepbandError("LightningObjective needs Lightning: pip install lightning")
        if not callable(build):
            raise InputError(f"build is {shown(build)}: give a function of a config.")
        if "max_epochs" in trainer or "max_steps" in trainer:
            raise InputError("the budget is the number of epochs: remove max_epochs and max_steps.")
        self.build, self.monitor, self.save_every = build, read_monitor(monitor), save_every
        self.weights_only, self.trainer = weights_only, trainer

    def __call__(self, config: dict[str, Any], budget: int, context: Context) -> dict[str, float]:
        with _quiet():
            _seed(context.seed)
            built = self.build(config)
            model, data = built if isinstance(built, tuple) else (built, None)
            trainer, settings = self._trainer(budget, context), {"weights_only": self.weights_only}
            _run(trainer, model, datamodule=data, ckpt_path=_newest(context), **settings)
            trainer.save_checkpoint(context.path / FILE, weights_only=False)  # optimizers too
        return training_result(trainer.callback_metrics, self.monitor)

    def _trainer(self, budget: int, context: Context) -> Trainer:
        from lightning import Trainer

        own = _callback(context, main_metric(self.monitor), self.save_every)
        given = dict(self.trainer)
        callbacks = given.pop("callbacks", None) or []
        callbacks = [*(callbacks if isinstance(callbacks, list | tuple) else [callbacks]), own]
        settings = {"devices": 1, "default_root_dir": context.path, **QUIET, **given}
        return Trainer(max_epochs=budget, callbacks=callbacks, **settings)


def _newest(context: Context) -> Path | None:
    """The checkpoint of an interrupted attempt at this job, or else of the rung below."""
    folders = [folder for folder in (context.partial, context.previous) if folder is not None]
    return next((folder / FILE for folder in folders if (folder / FILE).exists()), None)


def _run(trainer: Trainer, model: Any, **settings: Any) -> None:
    """Train. Lightning turns Ctrl-C into the end of the program, and ignores it from then on; here
    it stays an interrupt, because deepband has to end the run."""
    before = signal.getsignal(signal.SIGINT)
    try:
        trainer.fit(model, **settings)
    except SystemExit:
        if not trainer.interrupted:
            raise
        signal.signal(signal.SIGINT, before)
        raise KeyboardInterrupt from None


def _callback(context: Context, monitor: str, save_every: int | None) -> Any:
    """A callback that reports the learning curve, saves during training, and seeds each epoch by
    its number, so that training that continues shuffles like training without a break. The order
    of rows is drawn before an epoch starts, so its seed is set at the end of the one before."""
    from lightning import Callback

    class Reporter(Callback):  # type: ignore[misc,unused-ignore] # Lightning may not be installed
        state_key = "deepband"
        seed, epochs = context.seed, 0

        def state_dict(self) -> dict[str, Any]:
            return {"seed": self.seed, "epochs": self.epochs, "curve": list(context.reported)}

        def load_state_dict(self, state: dict[str, Any]) -> None:
            self.seed, self.epochs = state["seed"], state["epochs"]
            before = len([step for step, _ in state["curve"] if step <= context.previous_budget])
            restore_curve(context, state["curve"][before:])  # of an interrupted attempt

        def on_fit_start(self, trainer: Any, pl_module: Any) -> None:
            if self.epochs:
                _seed(self.seed + self.epochs)

        def on_validation_end(self, trainer: Any, pl_module: Any) -> None:
            if not trainer.sanity_checking and monitor in trainer.callback_metrics:
                context.report(trainer.current_epoch + 1, trainer.callback_metrics[monitor])
                trainer.should_stop |= context.should_stop()

        def on_train_epoch_end(self, trainer: Any, pl_module: Any) -> None:
            self.epochs = trainer.current_epoch + 1
            _seed(self.seed + self.epochs)
            if save_every is not None and self.epochs % save_every == 0:
                partial = context.path / f"{FILE}.part"
                trainer.save_checkpoint(partial, weights_only=False)
                partial.replace(context.path / FILE)

    return Reporter()


def _seed(seed: int) -> None:
    from lightning import seed_everything

    seed_everything(seed % 2**32, workers=True, verbose=False)


@contextmanager
def _quiet() -> Iterator[None]:
    """Without Lightning's lines about each Trainer, unless the user has changed its log level."""
    logger = logging.getLogger("lightning.pytorch")
    before = logger.level
    if before == logging.INFO:
        logger.setLevel(logging.WARNING)
    try:
        yield
    finally:
        logger.setLevel(before)
