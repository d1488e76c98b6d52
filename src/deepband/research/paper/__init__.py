"""The empirical study of "Iterative Deepening Hyperband", run by the core that users run.

replication   the experiment: settings, units of work, results
courses       the studies themselves: a method along a course of max_budgets
savings       savings and differences in accuracy, with tests
summaries     absolute budgets and accuracies, by benchmark and by data set
tables        the answers in words and tables
figures       the data of each figure
figure_files  the figures, drawn
"""
