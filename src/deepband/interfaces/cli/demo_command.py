"""What `deepband demo` shows."""

from __future__ import annotations

from pathlib import Path

import deepband
from deepband.interfaces.cli.demo import comparison, data, space, train
from deepband.interfaces.cli.output import say
from deepband.interfaces.cli.progress import Progress

FIRST, LATER = 9, 27


def show(path: Path) -> None:
    """Tune up to 9 epochs, quote and deepen to 27, and compare. Run again, it goes on."""
    data()
    with deepband.open_study(path, space=space, max_budget=FIRST, eta=3, seed=0) as study:
        study.name_objective("deepband.interfaces.cli.demo:train")
        if study.evaluations:
            say(f"{path} has {len(study.evaluations)} evaluations; going on with it.")
        say(f"Tuning an MLP on handwritten digits: {len(space)} hyperparameters, budget = epochs.")
        for number, max_budget in enumerate((FIRST, LATER)):
            study.deepen("preserving", to=max_budget)
            if len(study.runs) == number + 1:
                say(f"\n{study.plan()}")
                with Progress(study) as progress:
                    study.optimize(train)
            if len(study.runs) == 1:
                say(f"\nIs a larger budget worth it? Going on would be:\n\n{study.quote()}")
        say(f"\n{comparison(study)}")
        say(f"\nAll of it is in {path}. Look with: deepband status {path}")
