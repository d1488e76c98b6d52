"""What deepband needs from the operating system: signals, process trees, POSIX locks, and files
that are opened without following links.

Nothing here knows about studies. Imports `deepband.errors` only.
"""
