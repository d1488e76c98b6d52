"""How people look at studies and control them: the command line, the live dashboard and the HTML
report.

Imports everything else. Nothing imports an interface.
"""
