"""`deepband demo`: tune a neural network, deepen the study, and compare with starting over.

An MLP learns the handwritten digits that ship with scikit-learn. The budget is a number of epochs;
training continues from the checkpoint of the rung below.
"""

from __future__ import annotations

import pickle
from fractions import Fraction
from functools import cache
from pathlib import Path
from typing import Any

import click

import deepband
from deepband.analysis.text import table
from deepband.core.exact_numbers import as_number
from deepband.errors import counted
from deepband.interfaces.cli.group import PATH, main
from deepband.interfaces.cli.output import command, say
from deepband.interfaces.file_output import write_file
from deepband.interfaces.incumbent_chart import as_svg, as_text, incumbent_chart
from deepband.system.installation import install_command

MAX_BUDGETS = 9, 27

space: dict[str, Any] = {
    "layers": (1, 3),
    "units": (16, 256, "log"),
    "activation": ["relu", "tanh", "logistic"],
    "learning_rate": (1e-4, 1e-1, "log"),
    "alpha": (1e-6, 1e-1, "log"),
    "batch_size": (16, 256, "log"),
    "beta_1": (0.5, 0.99),
}


@main.command()
@click.argument("study", type=PATH, default=Path("demo.study"))
def demo(study: Path) -> None:
    """Tune a neural network, deepen the study, and compare.

    Run it again to resume. It needs scikit-learn.
    """
    data()
    with deepband.open_study(
        study, space=space, max_budget=MAX_BUDGETS[0], eta=3, seed=0
    ) as opened:
        opened.session.name_objective("deepband.interfaces.cli.demo:train")
        if opened.evaluations:
            count = counted(len(opened.evaluations), "evaluation")
            say(f"Resuming {study}, which has {count}.")
        say(f"Tuning an MLP on handwritten digits: {len(space)} hyperparameters, budget = epochs.")
        for number, max_budget in enumerate(MAX_BUDGETS):
            opened.deepen("preserving", to=max_budget)
            if len(opened.runs) == number + 1:
                say(f"\n{opened.plan()}")
                opened.optimize(train, progress=True)
            if len(opened.runs) == 1:
                say(f"\nIs a larger budget worth it? The price:\n\n{opened.quote()}")
                say("Training continues from checkpoints, so cost resumed is what will be trained.")
        say(f"\n{comparison(opened)}")
        draw(opened, study)
        say(f"\nThe results are in {study}. Next steps:")
        steps = next_steps(study)
        width = max(len(typed) for typed, _ in steps)
        for typed, what in steps:
            say(f"  {typed:{width}}  {what}")


def draw(study: deepband.Study, path: Path) -> None:
    """Show how the best error improved, as text and as a picture beside the study."""
    chart = incumbent_chart(study.session.state, "epochs trained", "best validation error so far")
    picture = path.with_name(f"{path.stem}-best.svg")
    write_file(picture, as_svg(chart, "Best validation error so far").encode())
    say(f"\n{as_text(chart)}\n\nThe same curve as a picture: {picture}")


def next_steps(study: Path) -> list[tuple[str, str]]:
    """Commands to type next, and what they do."""
    return [
        (command("serve", study), "the live page"),
        (command("best", study), "the best config"),
        (command("advice", study), "deeper, wider or done?"),
    ]


@cache
def data() -> dict[str, Any]:
    """The digits in three parts: for training, for validation, and held out."""
    try:
        from sklearn.datasets import load_digits
        from sklearn.model_selection import train_test_split
    except ImportError as error:
        raise deepband.InputError(
            f"the demo needs scikit-learn: {install_command('demo')}"
        ) from error
    inputs, labels = load_digits(return_X_y=True)
    rest, held_out, rest_labels, held_out_labels = train_test_split(
        inputs / 16.0, labels, test_size=400, random_state=0, stratify=labels
    )
    train, validation, train_labels, validation_labels = train_test_split(
        rest, rest_labels, test_size=400, random_state=0, stratify=rest_labels
    )
    return {
        "train": (train, train_labels),
        "validation": (validation, validation_labels),
        "held out": (held_out, held_out_labels),
    }


def train(config: dict[str, Any], budget: int, context: deepband.Context) -> dict[str, float]:
    """Train for `budget` epochs in total and return the validation error."""
    parts = data()
    if context.previous is None:
        model = new_model(config, context.seed)
    else:
        model = pickle.loads((context.previous / "model.pickle").read_bytes())
    for epoch in range(int(context.previous_budget), budget):
        model.partial_fit(*parts["train"], classes=range(10))
        context.report(epoch + 1, 1 - model.score(*parts["validation"]))
    (context.path / "model.pickle").write_bytes(pickle.dumps(model))
    return {
        "loss": 1 - model.score(*parts["validation"]),
        "held_out_accuracy": model.score(*parts["held out"]),
    }


def new_model(config: dict[str, Any], seed: int) -> Any:
    from sklearn.neural_network import MLPClassifier

    return MLPClassifier(
        hidden_layer_sizes=(config["units"],) * config["layers"],
        activation=config["activation"],
        learning_rate_init=config["learning_rate"],
        alpha=config["alpha"],
        batch_size=config["batch_size"],
        beta_1=config["beta_1"],
        random_state=seed,
    )


def comparison(study: deepband.Study) -> str:
    """A table of the runs, and what they cost compared with two runs from scratch."""
    rows = [["", "reused", "new", "epochs trained", "best error", "held-out accuracy"]]
    reused, trained = 0, Fraction(0)
    for run in study.runs:
        best = best_after(study, run.run)
        rows.append(
            [
                f"max_budget {run.max_budget}",
                str(reused),
                str(run.evaluations),
                str(run.trained),
                f"{best.loss:.4f}",
                f"{best.metrics['held_out_accuracy']:.4f}",
            ]
        )
        reused += run.evaluations
        trained += run.trained
    schedules = [run.schedule for run in study.session.state.runs]
    whole = sum((schedule.cost for schedule in schedules), Fraction(0))
    resumed = sum((schedule.cost_resumed for schedule in schedules), Fraction(0))
    return (
        f"{table(rows)}\nThe best error is that on the highest budget of the run.\n\n"
        f"{as_number(trained)} epochs trained in total.\nBoth runs from scratch: "
        f"{as_number(resumed)} with checkpoints ({_percent(trained, resumed)}), "
        f"{as_number(whole)} without ({_percent(trained, whole)})."
    )


def _percent(part: Fraction, whole: Fraction) -> str:
    return f"{100 * float(part / whole):.0f} %"


def best_after(study: deepband.Study, run: int) -> deepband.Evaluation:
    """The best on the highest rung (as `best_at`) when a run ended."""
    known = [each for each in study.evaluations if each.run <= run and each.loss is not None]
    return min(known, key=lambda each: (-each.rung, each.loss, each.bracket, each.index))
