"""Batches with PyTorch: all configs of a rung are trained at once, on the GPU if there is one.

One small network leaves most of a GPU idle. Here every parameter has a leading axis of configs, and
`torch.baddbmm` applies a layer of all networks in one operation. The sum of their losses has, for
each network, the gradient of its own loss. Learning rate, momentum, weight decay and dropout are
tensors with one value per config. (`torch.func.functional_call` under `torch.vmap` does the same
for any module; with this small network it is slower.)

A budget is a number of epochs. Each config resumes from its checkpoint; those that start from
scratch are trained first, until they have caught up with the others. Each config has its own seed,
for its first weights, the order of its data and its dropout. So its result does not depend on the
other configs of the batch, except for rounding.

    pip install 'deepband[demo]' torch==2.13.0
    python examples/batch_pytorch.py
"""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import torch
from sklearn.datasets import load_digits
from torch.nn.functional import cross_entropy

import deepband

DEVICE = "cuda" if torch.cuda.is_available() else "cpu"
BATCH, STEPS = 128, 10  # digits per step, and steps per epoch (of 1,297 digits)
HIDDEN = 128

space: dict[str, Any] = {
    "learning_rate": (1e-3, 0.3, "log"),
    "momentum": (0.0, 0.9),
    "weight_decay": (1e-6, 1e-1, "log"),
    "dropout": (0.0, 0.6),
}


def data() -> tuple[Any, Any]:
    """1,297 digits to train on and 500 to choose by, as (images, labels)."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    inputs = torch.tensor(images, dtype=torch.float32)[order].to(DEVICE) / 16
    targets = torch.tensor(labels)[order].to(DEVICE)
    return (inputs[500:], targets[500:]), (inputs[:500], targets[:500])


def new_state(seed: int) -> dict[str, Any]:
    """What the training of one config needs to start, and later to resume."""
    first = torch.randn(64, HIDDEN, generator=torch.Generator().manual_seed(seed)) / 8
    weights = [first, torch.zeros(1, HIDDEN), torch.zeros(HIDDEN, 10), torch.zeros(1, 10)]
    velocity = [torch.zeros_like(weight) for weight in weights]
    return {"weights": weights, "velocity": velocity, "seed": seed, "step": 0}


def train_batch(
    configs: list[dict[str, Any]], budget: int, contexts: list[deepband.BatchContext]
) -> list[float]:
    """Train each config from its checkpoint to `budget` epochs. Returns one loss per config."""
    digits, choose = data()
    states = [context.restore(**new_state(context.seed)) for context in contexts]
    jobs = list(zip(configs, contexts, states, strict=True))
    starts = sorted({state["step"] for state in states})
    for start, end in pairwise([*starts, budget]):
        group = [job for job in jobs if job[2]["step"] == start]
        train_group(group, range(start, end), digits, choose)
    for context, state in zip(contexts, states, strict=True):
        context.save(**state)
    return evaluate(stack([state["weights"] for state in states]), *choose)


def train_group(jobs: list[Any], epochs: range, digits: Any, choose: Any) -> None:
    """Train configs that have had equally many epochs, and change their states."""
    configs, contexts, states = zip(*jobs, strict=True)
    weights = [each.requires_grad_() for each in stack([state["weights"] for state in states])]
    velocity = stack([state["velocity"] for state in states])
    settings = [torch.tensor([[[each[name]]] for each in configs], device=DEVICE) for name in space]
    for epoch in epochs:
        seeds = [state["seed"] + epoch for state in states]  # the seed of its first rung
        train_epoch(weights, velocity, settings, seeds, *digits)
        for context, loss in zip(contexts, evaluate(weights, *choose), strict=True):
            context.report(epoch + 1, loss)
    for i, state in enumerate(states):
        # Copies, because PyTorch saves a view together with everything it is a view of.
        state["weights"] = [each[i].detach().cpu().clone() for each in weights]
        state["velocity"] = [each[i].cpu().clone() for each in velocity]
        state["step"] = epochs.stop


def stack(states: list[Any]) -> list[Any]:
    """Tensors with a leading axis of configs, on the device."""
    return [torch.stack(each).to(DEVICE) for each in zip(*states, strict=True)]


def train_epoch(
    weights: Any, velocity: Any, settings: Any, seeds: list[int], inputs: Any, labels: Any
) -> None:
    rate, momentum, decay, dropout = settings
    orders, noise = zip(*(draw(seed, len(labels)) for seed in seeds), strict=True)
    for batch, random in zip(torch.stack(orders, 1), torch.stack(noise, 1), strict=True):
        scores = forward(weights, inputs[batch], (random >= dropout) / (1 - dropout))
        losses = cross_entropy(scores.flatten(0, 1), labels[batch].flatten(), reduction="sum")
        gradients = torch.autograd.grad(losses / BATCH, weights)
        with torch.no_grad():
            for weight, speed, gradient in zip(weights, velocity, gradients, strict=True):
                speed.mul_(momentum).add_(gradient + decay * weight)
                weight.sub_(rate * speed)


def draw(seed: int, digits: int) -> tuple[Any, Any]:
    """For one epoch of one config: the order of its data, and random numbers for its dropout."""
    generator = torch.Generator(DEVICE).manual_seed(seed)
    order = torch.randperm(digits, generator=generator, device=DEVICE)[: STEPS * BATCH]
    noise = torch.rand(STEPS, BATCH, HIDDEN, generator=generator, device=DEVICE)
    return order.view(STEPS, BATCH), noise


def forward(weights: Any, inputs: Any, mask: Any = 1) -> Any:
    """The scores of all networks, in the shape (configs, digits, classes)."""
    first, first_bias, last, last_bias = weights
    hidden = torch.baddbmm(first_bias, inputs, first).relu() * mask
    return torch.baddbmm(last_bias, hidden, last)


def evaluate(weights: Any, inputs: Any, labels: Any) -> list[float]:
    configs = len(weights[0])
    with torch.no_grad():
        scores = forward(weights, inputs.expand(configs, -1, -1)).transpose(1, 2)
        losses = cross_entropy(scores, labels.expand(configs, -1), reduction="none")
    found: list[float] = losses.mean(1).tolist()
    return found


def main() -> None:
    torch.set_num_threads(1)
    with deepband.open_study("batch_pytorch.study", space=space, max_budget=27) as study:
        study.optimize(train_batch, batch=True)
        study.deepen("preserving", to=81)
        study.optimize(train_batch, batch=True)
        for run in study.runs:
            print(f"max_budget {run.max_budget}: {run.trained} epochs, {run.evaluations} results")
        best = study.best
        print(f"best after {best.budget} epochs: loss {best.loss:.4f}, {best.config}")


if __name__ == "__main__":
    main()
