"""Benchmarks of deepband: the paper's study, and a comparison with other tools.

benchmark          the interface of a benchmark
synthetic          learning curves by formula, with known optima
yahpo              YAHPO Gym's surrogates (`yahpo_columns`, `yahpo_instances`, `config_space_json`)
suites             what `--data` selects
experiment         units of work that can be interrupted (`worker_pool`, `result_files`)
statistics         paired differences, intervals and tests
markdown_tables    tables in Markdown
paper              the paper's study
compare            the comparison
"""
