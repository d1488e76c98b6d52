"""Pure functions of a state: summaries, cells, quotes, explanations, advice, rank agreement, gains,
parameter importance, predicted losses, chart data, exports and data frames.

Imports `core` and `space`.
"""
