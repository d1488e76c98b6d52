"""Pure functions of a state: status, runs, quotes, explanations, advice, rank agreement, gains,
parameter importance, learning curves, chart data, exports and data frames.

Imports `core` and `space`.
"""
