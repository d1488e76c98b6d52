"""Hyperband as pure decisions: schedules, strategies, facts, the state they add up to, which jobs
are ready, where imported results belong, costs, and the paper's theorems.

Nothing here reads a file, starts a process or draws a random number. Imports
`deepband.errors` only.
"""
