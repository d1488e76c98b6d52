"""A command as the objective: whatever program trains your model, in whatever language.

The program takes its settings as options, saves its state where it is told and prints its loss as
JSON on the last line. Another exit code than 0 is a failure. Here this file itself is the program:

    python examples/shell_command.py train --lr 0.5 --momentum 0.9 --epochs 30 --save state.json

The study runs two at a time. One that takes longer than the timeout is ended with all that it
started, and counts as failed when it does so twice.

    pip install deepband
    python examples/shell_command.py
"""

from __future__ import annotations

import argparse
import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np

import deepband

PROGRAM = [sys.executable, str(Path(__file__).resolve()), "train"]

space: dict[str, Any] = {"lr": (1e-2, 1e3, "log"), "momentum": (0.0, 0.99)}


def train(config: dict[str, Any], budget: int, context: deepband.Context) -> dict[str, Any]:
    """Run the program. What it wrote to stderr says why it failed."""
    command = [*PROGRAM, f"--lr={config['lr']}", f"--momentum={config['momentum']}"]
    command += [f"--epochs={budget}", f"--save={context.path / 'state.json'}"]
    if context.previous:
        command += [f"--resume={context.previous / 'state.json'}"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        raise RuntimeError(f"exit code {done.returncode}: {done.stderr.strip()[-200:]}")
    result: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return result


def main() -> None:
    with deepband.open_study(
        "shell_command.study", space=space, min_budget=10, max_budget=30
    ) as study:
        study.optimize(train, workers=2, timeout=seconds)
        if study.max_budget == 30:
            print(study.quote("discarding", to=90))
        study.deepen("discarding", to=90)
        study.optimize(train, workers=2, timeout=seconds)
        failed = [(each.config, each.error) for each in study.evaluations if each.error]
        print(f"{len(study.evaluations)} evaluations, {len(failed)} failed")
        for config, error in failed[:1]:
            print(f"  {config}: {error.splitlines()[0]}")
        best = study.best
        print(f"best: {best.loss:.4f} after {best.budget} epochs with {best.config}")


def seconds(budget: float) -> float:
    """What an evaluation may take."""
    return 60 + budget


# The program


def program(arguments: list[str]) -> None:
    """Fit a logistic regression by gradient descent with momentum, from a state if there is one."""
    given = options(arguments)
    state: dict[str, Any] = {"epochs": 0, "weights": [0.0] * 20, "velocity": [0.0] * 20}
    if given.resume:
        state = json.loads(given.resume.read_text())
    print(f"training from epoch {state['epochs']} to {given.epochs}")
    weights, velocity = np.array(state["weights"]), np.array(state["velocity"])
    for _ in range(state["epochs"], given.epochs):
        velocity = given.momentum * velocity - given.lr * loss_and_gradient(weights)[1]
        weights = weights + velocity
    loss = loss_and_gradient(weights)[0]
    if not loss < 10:
        sys.exit(f"diverged: the loss is {loss:.3g}")
    state = {"epochs": given.epochs, "weights": list(weights), "velocity": list(velocity)}
    given.save.write_text(json.dumps(state))
    print(json.dumps({"loss": loss, "largest_weight": float(abs(weights).max())}))


def options(arguments: list[str]) -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("--lr", type=float, required=True)
    parser.add_argument("--momentum", type=float, required=True)
    parser.add_argument("--epochs", type=int, required=True)
    parser.add_argument("--save", type=Path, required=True)
    parser.add_argument("--resume", type=Path)
    return parser.parse_args(arguments)


def loss_and_gradient(weights: Any) -> tuple[float, Any]:
    """Of the logistic loss, on data that are the same each time."""
    random = np.random.default_rng(0)
    inputs = random.normal(size=(400, 20)) * np.linspace(0.1, 2, 20)
    signs = np.sign(inputs @ random.normal(size=20) + random.normal(size=400))
    margins = signs * (inputs @ weights)
    slopes = -signs / (1 + np.exp(np.clip(margins, -500, 500)))
    return float(np.logaddexp(0, -margins).mean()), inputs.T @ slopes / len(signs)


if __name__ == "__main__":
    if sys.argv[1:2] == ["train"]:
        program(sys.argv[2:])
    else:
        main()
