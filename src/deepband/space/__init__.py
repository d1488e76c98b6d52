"""Search spaces: parameters and their choices, distributions of other libraries, and the unit cube
that model-based samplers work in.

Imports `core` and below.
"""
