"""Experiments about deepband: the paper's study, the comparison with other tools, and the
benchmarks that both run on.

Imports `study` and below.
"""
