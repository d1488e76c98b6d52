"""The search in HpBandSter."""

import ConfigSpace as CS
from hpbandster.core.nameserver import NameServer
from hpbandster.core.result import json_result_logger, logged_results_to_HBS_result
from hpbandster.core.worker import Worker
from hpbandster.optimizers import BOHB

space = CS.ConfigurationSpace()
space.add(CS.Float("lr", (1e-4, 1e-1), log=True))
space.add(CS.Integer("layers", (1, 8)))


class Trainer(Worker):
    def compute(self, config, budget, **_):
        loss = (config["lr"] - 0.01) ** 2 + 1 / (budget * config["layers"])
        return {"loss": loss, "info": None}


def search(n_iterations, max_budget, log, previous=None):
    server = NameServer(run_id="mlp", host="127.0.0.1", port=0)
    host, port = server.start()
    where = {"run_id": "mlp", "nameserver": host, "nameserver_port": port}
    Trainer(**where).run(background=True)
    budgets = {"min_budget": 1, "max_budget": max_budget, "eta": 3}
    logger = json_result_logger(log, overwrite=True)
    bohb = BOHB(space, **budgets, **where, result_logger=logger, previous_result=previous)
    result = bohb.run(n_iterations=n_iterations)
    bohb.shutdown(shutdown_workers=True)
    server.shutdown()
    return result


first = search(3, 9, "log-9")
print("9:", first.get_id2config_mapping()[first.get_incumbent_id()]["config"])

previous = logged_results_to_HBS_result("log-9")
second = search(4, 27, "log-27", previous)  # and now 27, please
print("27:", second.get_id2config_mapping()[second.get_incumbent_id()]["config"])
old = [run for run in second.get_all_runs() if run.config_id[0] < 0]
print("old results:", len(old), "old configs at 27:", sum(run.budget == 27 for run in old))
