"""A network of PyTorch: everything that training needs to go on is saved, and nothing depends on
the largest budget.

A budget is a number of epochs. Model, optimizer and schedule are saved as state dicts. The learning
rate warms up and then falls with the square root of the step, whatever the budget is. Every epoch
begins with a seed of its own. So a model that was trained in pieces equals one that was trained at
once, bit by bit, and what a first run has trained is still true when the study is deepened.

    pip install 'deepband[demo]' torch==2.13.0
    python examples/pytorch_model.py
"""

from __future__ import annotations

from typing import Any

import torch
from sklearn.datasets import load_digits
from torch import nn

import deepband

WARM_UP = 25  # steps
BATCH = 128

space: dict[str, Any] = {
    "channels": (4, 12, "log"),
    "learning_rate": (1e-4, 1e-1, "log"),
    "weight_decay": (1e-5, 1e-1, "log"),
    "dropout": (0.0, 0.6),
}


def data() -> tuple[Any, Any]:
    """1,297 digits to train on and 500 to choose by, as (images, labels)."""
    images, labels = load_digits(return_X_y=True)
    order = torch.randperm(len(labels), generator=torch.Generator().manual_seed(0))
    inputs = torch.tensor(images, dtype=torch.float32)[order].reshape(-1, 1, 8, 8) / 16
    targets = torch.tensor(labels)[order]
    return (inputs[500:], targets[500:]), (inputs[:500], targets[:500])


def new_model(config: dict[str, Any]) -> Any:
    channels = config["channels"]
    return nn.Sequential(
        nn.Conv2d(1, channels, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(channels, 2 * channels, 3, padding=1),
        nn.ReLU(),
        nn.Flatten(),
        nn.Dropout(config["dropout"]),
        nn.Linear(2 * channels * 16, 10),
    )


def factor(step: int) -> float:
    """Of the learning rate: a warm-up, then the inverse square root. No last step is needed."""
    return float(min((step + 1) / WARM_UP, (WARM_UP / (step + 1)) ** 0.5))


def train(config: dict[str, Any], budget: int, context: deepband.Context) -> dict[str, float]:
    torch.set_num_threads(1)
    torch.manual_seed(context.seed)
    digits, choose = data()
    model = new_model(config)
    optimizer = torch.optim.AdamW(
        model.parameters(), lr=config["learning_rate"], weight_decay=config["weight_decay"]
    )
    schedule = torch.optim.lr_scheduler.LambdaLR(optimizer, factor)
    parts = {"model": model, "optimizer": optimizer, "schedule": schedule}
    state = context.restore(**parts, seed=context.seed, step=0)
    for epoch in range(state["step"], budget):
        torch.manual_seed(state["seed"] + epoch)  # order and dropout, whatever was drawn before
        train_epoch(digits, **parts)
        context.report(epoch + 1, evaluate(model, *choose)["loss"])
        context.save(**parts, seed=state["seed"], step=epoch + 1)  # the seed of the first rung
    return evaluate(model, *choose)


def train_epoch(digits: Any, model: Any, optimizer: Any, schedule: Any) -> None:
    inputs, labels = digits
    model.train()
    for batch in torch.randperm(len(labels)).split(BATCH):
        optimizer.zero_grad()
        nn.functional.cross_entropy(model(inputs[batch]), labels[batch]).backward()
        optimizer.step()
        schedule.step()


def evaluate(model: Any, inputs: Any, labels: Any) -> dict[str, float]:
    model.eval()
    with torch.no_grad():
        scores = model(inputs)
    return {
        "loss": float(nn.functional.cross_entropy(scores, labels)),
        "accuracy": float((scores.argmax(1) == labels).float().mean()),
    }


def main() -> None:
    with deepband.open_study(
        "pytorch_model.study", space=space, min_budget=3, max_budget=9
    ) as study:
        study.optimize(train)
        if study.max_budget == 9:
            print(study.quote("efficient", to=27))
        study.deepen("efficient", to=27)
        study.optimize(train)
        tell_what_was_found(study)


def tell_what_was_found(study: deepband.Study) -> None:
    for run in study.runs:
        print(
            f"max_budget {run.max_budget}: {run.evaluations} evaluations, "
            f"{run.trained} epochs trained"
        )
    best = study.best
    accuracy = best.metrics["accuracy"]
    print(f"best after {best.budget} epochs: loss {best.loss:.4f}, accuracy {accuracy:.3f}")
    model = new_model(best.config)
    deepband.load_checkpoint(best.checkpoint, model=model)
    print(f"its model, loaded again: accuracy {evaluate(model, *data()[1])['accuracy']:.3f}")
    print(best.config)


if __name__ == "__main__":
    main()
