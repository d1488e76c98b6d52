"""Executors: where jobs run, in this process or in others."""
