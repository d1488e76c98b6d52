"""A comparison of samplers, ways of deepening and other tools on the same benchmarks.

method_comparison   the experiment: settings, units of work, results
ledger              what a method spends and when, and the config that it would return
tuner               the interface of methods, and the loop of simulated workers
own_methods         methods of deepband: a sampler, a first guess of max_budget, a way of deepening
equal_cost          the advice against other ways to spend the same
extension_rules     rules that decide after a run whether to deepen, to widen or to stop
peers               random search and Optuna
peer_process        SMAC, BOHB and DEHB, in a process of their own (`peer_worker`)
methods             all methods by name
references          the scale of regret on a data set
curves              regret against budget spent, or against simulated time
regrets             regrets of methods, and tests between them
regret_tables       the report in words and tables
anytime_plot        the figure
"""
