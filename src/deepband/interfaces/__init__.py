"""User interfaces: the command line, the live dashboard and the HTML report.

May import every other package; no other package imports an interface.
"""
