"""The context of an evaluation: its seed, its checkpoints, its device and its learning curve."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from deepband.execution.training_watch import TrainingWatch
from deepband.storage import saved_objects
from deepband.storage.checkpoints import watch_file

MOST_POINTS = 10_000
"""How many points of a learning curve are kept per evaluation."""


@dataclass(frozen=True, slots=True)
class Context:
    """What an objective can use in addition to its config and budget."""

    seed: int
    """A function of the study's seed, the bracket, the index and the rung, and in `Study.confirm`
    also of the repetition. Seed your training with it to make it reproducible."""
    path: Path
    """An empty folder for checkpoints. It is kept when the result is recorded."""
    previous: Path | None = None
    """The folder that this config saved on the nearest lower rung, or None. Do not write to it."""
    previous_budget: int | float = 0
    """The budget of `previous`, or 0 if there is none."""
    previous_rung: int | None = None
    partial: Path | None = None
    """The folder that an interrupted attempt at the same job saved, or None."""
    slot: int = 0
    """The number of the worker, from 0."""
    device: str | None = None
    """"cuda:0", or "cpu" for that device; None if `optimize` was called without `devices`, and
    without a GPU among its `resources`. A worker sees only its own GPU, so its name is always
    "cuda:0". Use it as `torch.device(context.device)`; JAX and TensorFlow find the GPU by
    themselves. CUDA_VISIBLE_DEVICES says which one it is."""
    reported: list[tuple[float, float]] = field(default_factory=list)
    watch: TrainingWatch | None = field(default_factory=TrainingWatch, repr=False)
    """Internal: decides what `should_stop` returns; None if that is always False."""

    def report(self, step: float, loss: float) -> None:
        """Add a point to the learning curve, which is recorded with the result: the loss or, with
        `maximize`, the value.

        If there are more than 10,000 points, every second one is dropped, repeatedly if necessary.
        """
        self.reported.append((float(step), float(loss)))
        if len(self.reported) > MOST_POINTS:
            del self.reported[1::2]  # the first point and the newest one stay
        watch = self.watch
        notable = watch is not None and watch.report(float(step), float(loss), self.reported)
        if watch is not None and notable and watch.persistent:
            watch.save(watch_file(self.path))

    def should_stop(self) -> bool:
        """Whether it is pointless to train further, from what `report` was called with:

        - a reported loss is infinite or NaN, or
        - with `optimize(stop_training=)`, the config is unlikely to become the best.

        Return from the objective if so. Whatever it returns is ignored: the evaluation is final and
        recorded as stopped. It ranks behind all that were not, and costs the budget until the
        report that said so. Therefore, count steps from 1, in the unit of the budget. Always False
        with several objectives, with constraints, and in `Study.confirm`.

        >>> context = deepband.Context(seed=0, path=Path())
        >>> context.report(1, float("nan"))
        >>> context.should_stop()
        True
        """
        return self.watch is not None and self.watch.should_stop()

    def save(self, /, **objects: Any) -> None:
        """Save objects in `path`, each under its name, in place of those saved before.

        Of a model, an optimizer or anything else with `state_dict` and `load_state_dict`, the state
        is saved. Numbers, strings, lists, tuples, dicts, NumPy arrays and PyTorch tensors are saved
        as they are, and any other object as a pickle.

        If a number is saved as `step`, an interrupted attempt at the same job can be continued:
        save from time to time, and start your loop at the step that `restore` returns. If the
        process is killed while it saves, what was saved before stays.

        >>> context = deepband.Context(seed=0, path=Path())
        >>> context.save(weights=[0.5, 0.25], step=3)
        """
        saved_objects.save(self.path, objects, self.reported)

    def restore(self, /, *, unpickle: bool | None = None, **objects: Any) -> dict[str, Any]:
        """Load what this config saved before: the states into the objects that you pass.

        Returns a dict with the objects that you pass and all other saved values. If nothing was
        saved before, it contains what you pass, so pass the values to begin with.

        >>> context = deepband.Context(seed=0, path=Path())
        >>> context.restore(weights=[0.0, 0.0], step=0)
        {'weights': [0.0, 0.0], 'step': 0}

        It loads from `previous`, or from `partial` if a number was saved as `step` and is larger
        there. In that case, the learning curve reported so far is restored, too.

        Loading a pickle can run code that it contains, so it needs `unpickle=True`: pass it only if
        you trust the author of the study.
        """
        saved = saved_objects.restorable(self.previous, self.partial)
        if saved is None:
            return objects
        found = saved_objects.load(saved, objects, unpickle, complete=True)
        if saved.folder == self.partial:
            restore_curve(self, saved.curve)
        return found


def restore_curve(context: Context, curve: Sequence[tuple[float, float]]) -> None:
    """Let the learning curve begin with what an interrupted attempt at the job had reported."""
    context.reported[:0] = curve
    if context.watch is not None:
        context.watch.resume(curve)


def training_seed(seed: int, *key: int) -> int:
    """The seed of a job (bracket, index, rung) or of one of its repetitions, which has a fourth
    number. It is below 2**32, as most libraries require."""
    import numpy as np

    sequence = np.random.SeedSequence(seed, spawn_key=key)
    return int(sequence.generate_state(1)[0])
