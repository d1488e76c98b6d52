"""What other libraries leave to the garbage collector."""

from __future__ import annotations

import gc
import warnings


def collect_silently() -> None:
    """Collect garbage now. Optuna never closes its connections to SQLite, and Python 3.13
    would warn of them in whatever test runs when they are collected."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ResourceWarning)
        gc.collect()
