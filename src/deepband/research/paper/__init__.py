"""The empirical study of "Iterative Deepening Hyperband", run by the core that users run.

courses    the studies themselves: a method, taken along a course of max_budgets
settings   which courses on which data sets: the paper's, and beyond the paper
results    one row a run, in parts that survive an interruption, then in one Parquet file
tables     savings and differences in accuracy, with tests, in numbers and in words
figures    the data of each figure, apart from how it is drawn (`drawing`)
"""
