"""The command line: one command a method of a study."""

from deepband.cli import compare, paper, reading, running, showing
from deepband.cli.group import main

__all__ = ["compare", "main", "paper", "reading", "running", "showing"]
