"""The part of the comparison that runs where SMAC is installed, independently of deepband.

The first line of its input is the task. Then it writes one line per evaluation, a config and its
budget, and reads the loss.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any


def main() -> None:
    """Optimise with losses from the process that started this program."""
    questions, sys.stdout = sys.stdout, sys.stderr  # SMAC may print to stdout
    from ConfigSpace import Configuration, ConfigurationSpace
    from smac import MultiFidelityFacade, Scenario

    task: dict[str, Any] = json.loads(sys.stdin.readline())

    def train(config: Configuration, seed: int, budget: float) -> float:
        print(json.dumps([plain(config), budget]), file=questions, flush=True)
        answer = sys.stdin.readline()
        if (
            not answer
        ):  # the other process is gone, and SMAC would treat an exception as a failed trial
            os._exit(1)
        return float(answer)

    scenario = Scenario(
        ConfigurationSpace.from_serialized_dict(task["space"]),
        deterministic=True,
        n_trials=task["n_trials"],
        min_budget=1,
        max_budget=task["max_budget"],
        seed=task["seed"],
    )
    MultiFidelityFacade(scenario, train, logging_level=False).optimize()


def plain(config: Any) -> dict[str, Any]:
    """Return a config without NumPy's types."""
    return {
        name: value.item() if hasattr(value, "item") else value
        for name, value in dict(config).items()
    }


if __name__ == "__main__":
    main()
