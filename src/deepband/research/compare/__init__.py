"""Our samplers and ways of deepening beside other tools, on the same surrogates.

instances   which data sets parameters may be chosen on, and which are for reporting only
ledger      every call of a surrogate, what it costs, and the config that would be returned
ours        studies of ours: a sampler, a first guess of max_budget, a way of going deeper
deciding    rules that look at a finished run and say whether to go deeper
peers       Optuna, SMAC and random search
methods     all of them by name
settings    what was asked for, and the pieces of work that it is made of
references  the scale of a data set: the best that is known, and the median of configs by chance
results     one row a change of the incumbent, in parts that survive an interruption
curves      regret against budget spent
tables      regrets after one and four full runs, with tests, in words
"""
