"""Batches with JAX: an epoch of one config, which `jax.vmap` applies to all configs of a rung.

`train_epoch` is written for one config, as if there were no batches. `jax.vmap` adds a leading axis
of configs to its state and to the numbers of its config. `jax.jit` compiles it for each size of a
batch. That takes seconds, so batches are padded to a power of two.

A budget is a number of epochs. Each config resumes from its checkpoint: while configs that start
from scratch catch up, the states of the others do not change. Each config has its own seed, for its
first weights, the order of its data and its dropout. So its result does not depend on the other
configs of the batch, except for rounding.

    pip install 'deepband[demo]' jax
    python examples/batch_jax.py
"""

from __future__ import annotations

from functools import partial
from typing import Any

import jax
import jax.numpy as jnp
import numpy as np
from sklearn.datasets import load_digits

import deepband

BATCH, STEPS = 128, 10  # digits per step, and steps per epoch (of 1,297 digits)
HIDDEN = 64

space: dict[str, Any] = {
    "learning_rate": (1e-3, 0.3, "log"),
    "momentum": (0.0, 0.9),
    "weight_decay": (1e-6, 1e-1, "log"),
    "dropout": (0.0, 0.6),
}


def data() -> tuple[Any, Any]:
    """1,297 digits to train on and 500 to choose by, as (images, labels)."""
    images, labels = load_digits(return_X_y=True)
    order = np.random.default_rng(0).permutation(len(labels))
    inputs, targets = jnp.array(images[order] / 16, dtype=jnp.float32), jnp.array(labels[order])
    return (inputs[500:], targets[500:]), (inputs[:500], targets[:500])


def new_state(seed: int) -> dict[str, Any]:
    """What the training of one config needs to start, and later to resume."""
    first = np.random.default_rng(seed).normal(0, 1 / 8, (64, HIDDEN))
    weights = [first, np.zeros(HIDDEN), np.zeros((HIDDEN, 10)), np.zeros(10)]
    model = [each.astype(np.float32) for each in weights]
    return {"model": model, "velocity": [np.zeros_like(each) for each in model], "seed": seed}


def mean_loss(model: Any, inputs: Any, labels: Any, mask: Any = 1) -> Any:
    first, first_bias, last, last_bias = model
    hidden = jax.nn.relu(inputs @ first + first_bias) * mask
    scores = jax.nn.log_softmax(hidden @ last + last_bias)
    return -jnp.take_along_axis(scores, labels[:, None], axis=1).mean()


def train_epoch(state: Any, config: Any, start: Any, epoch: Any, digits: Any, choose: Any) -> Any:
    """One epoch of one config: (its new state, its loss). Before `start`, the state stays."""
    inputs, labels = digits
    keep = 1 - config["dropout"]
    key = jax.random.fold_in(jax.random.key(state["seed"]), epoch)
    noise = jax.random.uniform(key, (len(labels) + STEPS * BATCH * HIDDEN,))
    order = noise[: len(labels)].argsort()[: STEPS * BATCH].reshape(STEPS, BATCH)
    masks = (noise[len(labels) :].reshape(STEPS, BATCH, HIDDEN) < keep) / keep

    def step(trained: Any, given: Any) -> tuple[Any, None]:
        model, velocity = trained
        batch, mask = given
        slope = jax.grad(mean_loss)(model, inputs[batch], labels[batch], mask)
        slope = jax.tree.map(lambda s, w: s + config["weight_decay"] * w, slope, model)
        velocity = jax.tree.map(lambda v, s: config["momentum"] * v + s, velocity, slope)
        model = jax.tree.map(lambda w, v: w - config["learning_rate"] * v, model, velocity)
        return (model, velocity), None

    before = state["model"], state["velocity"]
    after, _ = jax.lax.scan(step, before, (order, masks))
    model, velocity = jax.tree.map(partial(jnp.where, epoch >= start), after, before)
    return {"model": model, "velocity": velocity, "seed": state["seed"]}, mean_loss(model, *choose)


train_epochs = jax.jit(jax.vmap(train_epoch, in_axes=(0, 0, 0, None, None, None)))


def train_batch(
    configs: list[dict[str, Any]], budget: int, contexts: list[deepband.BatchContext]
) -> list[float]:
    """Train each config from its checkpoint to `budget` epochs. Returns one loss per config."""
    digits, choose = data()
    old = [context.restore(**new_state(context.seed), step=0) for context in contexts]
    starts = stack([state.pop("step") for state in old])
    states, settings = stack(old), stack(configs)
    for epoch in range(min(starts), budget):
        states, losses = train_epochs(states, settings, starts, epoch, digits, choose)
        for context, start, loss in zip(contexts, starts, losses.tolist(), strict=False):
            if epoch >= start:
                context.report(epoch + 1, loss)
    trained = jax.device_get(states)  # as NumPy arrays
    for i, context in enumerate(contexts):
        context.save(**jax.tree.map(lambda each, i=i: each[i], trained), step=budget)
    losses = jax.vmap(mean_loss, in_axes=(0, None, None))(trained["model"], *choose)
    found: list[float] = losses[: len(configs)].tolist()
    return found


def stack(trees: list[Any]) -> Any:
    """Arrays with a leading axis of configs. The last one is repeated up to a power of two."""
    missing = (1 << (len(trees) - 1).bit_length()) - len(trees)
    return jax.tree.map(lambda *each: np.stack(each), *trees, *missing * [trees[-1]])


def main() -> None:
    with deepband.open_study("batch_jax.study", space=space, max_budget=27) as study:
        study.optimize(train_batch, batch=True)
        study.deepen("preserving", to=81)
        study.optimize(train_batch, batch=True)
        for run in study.runs:
            print(f"max_budget {run.max_budget}: {run.trained} epochs, {run.evaluations} results")
        best = study.best
        print(f"best after {best.budget} epochs: loss {best.loss:.4f}, {best.config}")


if __name__ == "__main__":
    main()
