"""The empirical study of "Iterative Deepening Hyperband", run by the core that users run.

courses    the studies themselves: a method along a course of max_budgets
settings   which courses on which data sets: the paper's, and beyond the paper
results    one row per run, in parts that survive an interruption, then in one Parquet file
comparing  savings and differences in accuracy, with tests
summaries  absolute budgets and accuracies, by benchmark and by data set
tables     the answers in words and tables
figures    the data of each figure, apart from how it is drawn (`drawing`)
"""
