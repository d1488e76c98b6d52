"""The operating system: signals, process trees, POSIX locks, and files opened without following
links. Nothing here knows about studies; it imports `deepband.errors` only.
"""
