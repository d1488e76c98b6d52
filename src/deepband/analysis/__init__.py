"""What a state says, as pure functions: summaries, quotes, explanations, advice, rank agreement,
gains, parameter importance, the data of charts, exports and data frames.

Imports `core` and `space`.
"""
