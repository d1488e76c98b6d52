"""Hyperband as pure decisions: schedules, strategies, facts and the state they add up to, which
jobs are ready, where imported results belong, costs, and the paper's theorems.

Nothing here reads a file, starts a process or samples at random. Imports `deepband.errors` only.
"""
