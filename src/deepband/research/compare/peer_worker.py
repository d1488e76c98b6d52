"""The program that runs other tuners in the environment where they are installed.

It does not need deepband. The first line of its input is the task, as JSON. Then it writes one line
per evaluation: what is trained, a config and its budget. For each it reads one line: the number of
the evaluation, counted from 0, and its loss, or the list of its losses if the task names several
objectives. Each tuner is used as its documentation recommends, with default settings.
"""

from __future__ import annotations

import json
import logging
import os
import sys
from collections.abc import Callable
from typing import Any, NoReturn, TextIO

Task = dict[str, Any]


class Evaluations:
    """The evaluations that the process on the other side makes."""

    def __init__(self, questions: TextIO) -> None:
        self._questions = questions

    def start(self, training: Any, config: Any, budget: float) -> None:
        """Ask for an evaluation. `training` identifies what is continued with a larger budget."""
        line = json.dumps([training, values_of(config), float(budget)])
        try:
            print(line, file=self._questions, flush=True)
        except OSError:
            _end_with_the_driver()

    def result(self) -> tuple[int, Any]:
        """Return the number and the loss, or losses, of the next evaluation that ends."""
        answer = sys.stdin.readline()
        if not answer:
            _end_with_the_driver()
        number, loss = json.loads(answer)
        return number, loss

    def loss(self, training: Any, config: Any, budget: float) -> Any:
        """Return the loss, or the losses, of an evaluation when it has ended."""
        self.start(training, config, budget)
        return self.result()[1]


def _end_with_the_driver() -> NoReturn:
    """End because the other side is gone. Tuners would catch an exception and continue."""
    os._exit(1)


def smac(task: Task, space: Any, evaluations: Evaluations) -> None:
    """The multi-fidelity facade, with ParEGO if there are several objectives."""
    from smac import MultiFidelityFacade, Scenario
    from smac.multi_objective import ParEGO

    names = task.get("objectives")

    def train(config: Any, seed: int, budget: float) -> Any:
        recognised = json.dumps(values_of(config), sort_keys=True)
        found = evaluations.loss(recognised, config, budget)
        return dict(zip(names, found, strict=True)) if names else found

    scenario = Scenario(
        space,
        objectives=names or "cost",
        deterministic=True,
        n_trials=task["n_trials"],
        min_budget=1,
        max_budget=task["max_budget"],
        seed=task["seed"],
    )
    # By default, SMAC 2.4.1 fails an assertion with several objectives (SMAC3, issue 1050).
    selection = {"incumbent_selection": "highest_budget"} if names else {}
    intensifier = MultiFidelityFacade.get_intensifier(scenario, eta=task["eta"], **selection)
    MultiFidelityFacade(
        scenario,
        train,
        intensifier=intensifier,
        multi_objective_algorithm=ParEGO(scenario) if names else None,
        logging_level=False,
    ).optimize()


def bohb(task: Task, space: Any, evaluations: Evaluations) -> None:
    """BOHB of HpBandSter with one worker, in threads that communicate over the loopback device."""
    import numpy as np
    from hpbandster.core.nameserver import NameServer
    from hpbandster.core.worker import Worker
    from hpbandster.optimizers import BOHB

    class Trainer(Worker):  # type: ignore[misc] # HpBandSter has no types
        def compute(self, config_id: Any, config: Any, budget: float, **_: Any) -> Any:
            return {"loss": evaluations.loss(list(config_id), config, budget), "info": None}

    class Tuner(BOHB):  # type: ignore[misc] # HpBandSter has no types
        def _submit_job(self, config_id: Any, config: Any, budget: float) -> None:
            super()._submit_job(config_id, values_of(config), budget)  # Pyro knows no NumPy

    space.seed(task["seed"])  # BOHB samples from the space and with NumPy's global generator
    np.random.seed(task["seed"])
    server = NameServer(run_id="compare", host="127.0.0.1", port=0)
    host, port = server.start()
    where = {"run_id": "compare", "nameserver": host, "nameserver_port": port}
    Trainer(**where, host=host, logger=logging.getLogger("worker")).run(background=True)
    budgets = {"min_budget": 1, "max_budget": task["max_budget"], "eta": task["eta"]}
    tuner = Tuner(space, **budgets, **where, host=host)
    tuner.run(n_iterations=task["n_trials"])
    tuner.shutdown(shutdown_workers=True)
    server.shutdown()


def dehb(task: Task, space: Any, evaluations: Evaluations) -> None:
    """DEHB, by its ask and tell, until it is ended from outside."""
    from dehb import DEHB

    tuner = DEHB(
        cs=space,
        min_fidelity=1,
        max_fidelity=task["max_budget"],
        eta=task["eta"],
        seed=task["seed"],
        n_workers=1,
        save_freq="end",  # not at each new incumbent: no file is needed
    )
    jobs: list[Any] = []

    def start() -> None:
        jobs.append(job := tuner.ask())
        evaluations.start(int(job["config_id"]), job["config"], job["fidelity"])

    for _ in range(task["parallel"]):
        start()
    while True:
        number, loss = evaluations.result()
        job = jobs[number]
        tuner.tell(job, {"fitness": loss, "cost": job["fidelity"]})
        start()


TUNERS: dict[str, Callable[[Task, Any, Evaluations], None]] = {
    "smac": smac,
    "bohb": bohb,
    "dehb": dehb,
}


def main() -> None:
    """Run the tuner of the task, with losses from the process that started this program."""
    questions, sys.stdout = sys.stdout, sys.stderr  # tuners may print
    from ConfigSpace import ConfigurationSpace

    task: Task = json.loads(sys.stdin.readline())
    space = ConfigurationSpace.from_serialized_dict(task["space"])
    TUNERS[task["tuner"]](task, space, Evaluations(questions))


def values_of(config: Any) -> dict[str, Any]:
    """Return the values of a config without NumPy's types."""
    return {
        name: value.item() if hasattr(value, "item") else value
        for name, value in dict(config).items()
    }


if __name__ == "__main__":
    main()
