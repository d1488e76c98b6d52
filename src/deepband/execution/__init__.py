"""Running an objective: the loop that hands out jobs and records results, the context an objective
receives, what workers leave on disk, and the executors.

Knows a study only through a small protocol. Imports `core`, `system`, `space`, `storage` and
`analysis`.
"""
