"""Search spaces: parameters and their choices, distributions of other libraries, and the unit cube
that model-based samplers use.

Imports `core` and below.
"""
