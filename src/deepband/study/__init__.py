"""`open_study` and `Study`: the one place where facts are recorded and applied, with observers,
automatic deepening and forecasts.

Imports everything above interfaces, integrations and research.
"""
